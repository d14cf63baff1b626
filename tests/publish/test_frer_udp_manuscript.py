"""The manuscript: no typed result, clean LaTeX, and pages for whatever was measured."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from invented_results import columns_of, widen, write_results

from tsnrepro.publish.macros import write_paper_inputs
from tsnrepro.publish.manuscript import (
    MEASURED_COMMANDS,
    PUBLISHED_COMMANDS,
    without_comments,
)

REPOSITORY = Path(__file__).resolve().parents[2]
PAPER = REPOSITORY / "paper" / "frer-udp"
SOURCES = sorted(PAPER.rglob("*.tex"))
BUILD_SECONDS = 180

CONSTANTS_FILE = "constants.tex"
CONSTANTS = {
    **{"level": r"95\,\%", "familylevel": r"5\,\%", "payload": "1472", "longestframe": "1518"},
    **{"headers": "46", "ethernetload": "1500", "onwire": "20", "segment": "1448"},
    **{"segmentheaders": "70", "tagbytes": "6", "gigabit": "1000", "trialseconds": "60"},
}
# What is no text: names of keys and files, lengths, column counts.
KEYED = "|".join((*MEASURED_COMMANDS, *PUBLISHED_COMMANDS, "input", "label", "ref", "cite"))
NO_TEXT = re.compile(
    r"\\ifval\{[^{}]*\}\{0\}"
    rf"|\\(?:{KEYED}|(?:record)?verdict|measuredfigure|tablerows|bibliography)(?:\[[^]]*\])?\{{[^{{}}]*\}}"
    r"|\\(?:valto|pubto)\{\d\}\{[^{}]*\}"
    r"|\\begin\{picture\}.*?\\end\{picture\}"
    r"|\\(?:cmidrule\([lr]+\)|multicolumn)\{[\d-]+\}"
    r"|\\fontsize\{[^{}]*\}\{[^{}]*\}|\\setlength\\\w+\{[^{}]*\}",
    re.DOTALL,
)
# Numbers of the text that no measurement can change.
NAMES = re.compile(
    r"802\.1(?:CB|Q)|RFC~\d{4}|0xF1C1|R-TAG"
    r"|(?:Table|Section)[ ~](?:\d\.\d|A\.\d)(?= of|\)|, | add)"
    r"|\((?:1|2|3)\)~|SHA-256|iperf3|sw[12]|\bP\d\d(?:\.9)?\b"
    # the first column of the table by frame size, and its note
    r"|^ *(?:\\llap\{\\note\{b\}\})?(?:64|128|256|512|1024|1518) (?=& )"
    r"|\((?:64 bytes|128|256|512|1024|1518)\)"
    r"|(?<=for )(?:64|512) bytes|(?<=size of )64 bytes|(?<=rows up to )1024 bytes",
    re.MULTILINE,
)
# Numbers of calculations: units, percent, means of three, and limits between two sentences.
ARITHMETIC = {"0", "1", "2", "3", "8", "50", "100", "1000", "1e6", "0.05", "0.9"}
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e\d+)?")


def argument(text, start):
    """Return the end of the braced argument that starts at ``start``."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    raise AssertionError(f"an argument does not end: {text[start : start + 60]}")


def calculations(text):
    """Split LaTeX source into the text without calculations, and these."""
    found = []
    while match := re.search(r"\\(?:calc\{\d\}|ifcalc)\s*(?=\{)", text):
        end = argument(text, match.end())
        found.append(text[match.end() : end])
        text = text[: match.start()] + text[end:]
    return text, found


def typed_numbers(source):
    """Return the numbers that are typed into LaTeX source, apart from what never changes."""
    before, _, body = without_comments(source).partition(r"\begin{document}")
    text, expressions = calculations(NO_TEXT.sub(" ", body or before))
    in_text = NUMBER.findall(NAMES.sub(" ", text))
    in_calculations = NUMBER.findall(" ".join(expressions))
    return in_text + [number for number in in_calculations if number not in ARITHMETIC]


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if path.name != CONSTANTS_FILE], ids=lambda path: path.name
)
def test_no_result_is_typed(path):
    assert typed_numbers(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "typed",
    [
        *("at 398\\,\\units{}", "a loss of 0.053\\,\\%", "612 datagrams", "1.33 times", "33\\,\\%"),
        *("& 941.42 &", "941", "a gain of 30", "95 trials", "in 60 trials", "1518 trials"),
        *("\\calc{1}{100*0.34}", "\\calc{1}{398/\\rawval{a.b}}", "P99 of 181.5", "64 lost"),
        *("\\ifcalc{\\rawval{a.b} < 1.33}{then}{else}", "1000 datagrams", "for 64 datagrams"),
    ],
)
def test_a_typed_result_would_be_found(typed):
    assert typed_numbers(f"Text before {typed} and after.")


def test_constants_are_those_of_standards():
    text = without_comments((PAPER / CONSTANTS_FILE).read_text(encoding="utf-8"))
    defined = dict(re.findall(r"\\newcommand\\(\w+)\{(.*)\}", text))
    assert defined == CONSTANTS


@pytest.mark.skipif(not shutil.which("chktex"), reason="chktex is not installed")
def test_chktex_has_nothing_to_say():
    names = [str(path.relative_to(PAPER)) for path in SOURCES]
    done = subprocess.run(
        ["chktex", "-q", "-I0", *names], cwd=PAPER, capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    assert done.returncode == 0


def test_every_reference_is_cited_and_every_citation_has_one():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    cited = {key for keys in re.findall(r"\\cite\{([^}]*)\}", text) for key in keys.split(",")}
    bibliography = (PAPER / "references.bib").read_text(encoding="utf-8")
    assert cited == set(re.findall(r"^@\w+\{([^,]+),", bibliography, re.MULTILINE))


# --- pages -----------------------------------------------------------------------------------

latex = [
    pytest.mark.latex,
    pytest.mark.skipif(
        not shutil.which("latexmk") and not os.environ.get("CI"),
        reason="latexmk is not installed",
    ),
]


def latexmk(results, **environment):
    """Print the paper of some results; return the finished command."""
    kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    return subprocess.run(
        ["latexmk"],
        cwd=PAPER,
        env=kept | {"TSNREPRO_PAPER": str(results / "paper")} | environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=BUILD_SECONDS,
        check=False,
    )


def prepared(folder, wide=False, **options):
    """Return invented results with the manuscript's inputs written."""
    results = write_results(folder, **options)
    if wide:
        widen(results)
    write_paper_inputs(PAPER, results / "paper", columns_of(results))
    return results


def pdf_of(results):
    return results / "paper" / "frer-udp.pdf"


def log_of(results):
    return pdf_of(results).with_suffix(".log").read_text(encoding="utf-8", errors="replace")


def text_of(results):
    done = subprocess.run(
        ["pdftotext", str(pdf_of(results)), "-"], capture_output=True, text=True, check=True
    )
    return " ".join(done.stdout.replace("-\n", "").split())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    results = prepared(tmp_path_factory.mktemp("built"))
    done = latexmk(results, SOURCE_DATE_EPOCH="1700000000")
    assert done.returncode == 0, done.stdout[-3000:]
    return results


class TestPages:
    pytestmark = latex

    def test_values_and_verdicts_stand_on_the_pages(self, built):
        text = text_of(built)
        assert "emulated testbed (network namespaces on one machine, eBPF switches)" in text
        assert "939.2 [938.4, 940.0]" in text
        assert "0.94 [0.81, 1.09]" in text
        assert "Every datagram of every trial is accounted for." in text
        assert "국문 초록" in text
        assert "??" not in text

    def test_what_follows_by_calculation_is_right(self, built):
        text = text_of(built)
        # 1472 bytes of 1538 on the wire, and of 1544 with the tag; 535 Mb/s over 30 s; P99.9.
        for number in ("957.1 to 953.4", "0.104", "+7.02", "225 034", "0.00133", "941.47"):
            assert number.replace(" ", "") in text.replace("\u2009", "").replace(" ", ""), number

    def test_nothing_is_missing_or_runs_off_the_page(self, built):
        log = log_of(built)
        assert not re.search(r"Missing character|has been referenced but does not exist", log)
        assert not re.search(r"LaTeX Warning: (?:Reference|Citation).*undefined", log)
        wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
        assert max(wide, default=0) < 3

    def test_the_source_folder_stays_clean(self, built):
        listed = subprocess.run(
            ["git", "status", "--porcelain", "--ignored", "--", str(PAPER)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert not re.search(r"\.(aux|log|pdf|fls|bbl|out)\b", listed)
        assert pdf_of(built).is_file()

    def test_building_again_elsewhere_gives_the_same_bytes(self, built, tmp_path):
        results = prepared(tmp_path / "another" / "place")
        done = latexmk(results, SOURCE_DATE_EPOCH="1700000000")
        assert done.returncode == 0, done.stdout[-3000:]
        assert pdf_of(results).read_bytes() == pdf_of(built).read_bytes()

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (
                {"higher": "frer higher", "equivalent": "different", "lower": "lower"},
                ["place FRER’s threshold above", "differ by more", "In the mean FRER is faster"],
            ),
            (
                {
                    **{"higher": "control higher", "equivalent": "cannot tell"},
                    **{"lower": "higher", "wide": True},
                },
                ["place FRER’s threshold below", "do not settle it", "In the mean FRER is slower"],
            ),
            (
                {"lost": 0, "known": False},
                ["≥ 700 Mb/s", "No trial of the sweep lost a datagram", "ratio is unknown"],
            ),
        ],
        ids=["frer-better", "control-better-wide-intervals", "nothing-lost-nothing-bounded"],
    )
    def test_sentences_follow_what_was_measured(self, tmp_path, options, says):
        results = prepared(tmp_path, **options)
        done = latexmk(results)
        assert done.returncode == 0, done.stdout[-3000:]
        text = text_of(results).replace("\u2009", " ")
        for sentence in says:
            assert sentence in text

    def test_a_missing_value_stops_the_build_and_is_named(self, tmp_path):
        results = prepared(tmp_path)
        values = results / "paper" / "values.tex"
        lines = values.read_text(encoding="utf-8").splitlines(keepends=True)
        key = "{tcp.goodput.frer.mbps}"
        values.write_text("".join(line for line in lines if key not in line), encoding="utf-8")
        done = latexmk(results)
        assert done.returncode != 0
        assert "There is no value `tcp.goodput.frer.mbps'" in done.stdout.replace("\n", "")

    def test_an_unexpected_verdict_stops_the_build(self, tmp_path):
        results = prepared(tmp_path, lower="perhaps")
        done = latexmk(results)
        assert done.returncode != 0
        assert "No case for `perhaps'" in done.stdout

    def test_without_results_one_line_says_what_to_do(self, tmp_path):
        done = latexmk(tmp_path)
        assert done.returncode != 0
        assert "values.tex" in done.stdout + done.stderr
        assert "snakemake" in done.stdout + done.stderr
