"""The manuscript: no typed result, clean LaTeX, and pages for whatever was measured."""

import json
import re
import subprocess

import pytest
from manuscript_checks import REPOSITORY, Manuscript, PageChecks, SourceChecks, latex
from sparse_sets import run_notebooks, sparse
from synthetic_results import (
    RACK,
    data_sources_of,
    entry,
    facts_of_testbed,
    runs_of,
    widen,
    write_results,
    write_run,
    write_values,
)

from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.papers.manuscript import scan

CONSTANTS = {
    **{"level": r"95\,\%", "familylevel": r"5\,\%", "payload": "1472", "longestframe": "1518"},
    **{"headers": "46", "ethernetload": "1500", "onwire": "20", "segment": "1448"},
    **{"segmentheaders": "70", "tagbytes": "6", "gigabit": "1000", "trialseconds": "60"},
}
# Numbers of the text that no measurement can change.
NAMES = re.compile(
    r"802\.1(?:CB|Q)|RFC~\d{4}|0xF1C1|R-TAG|V2X"
    r"|(?:Table|Section)[ ~](?:\d\.\d|A\.\d)(?= of|\)|, | add| \(our)"
    r"|\((?:1|2|3)\)~|SHA-256|iperf3|lan966x|sw[12]|\bP\d\d(?:\.9)?\b"
    # the first column of the table by frame size, and its note
    r"|^ *(?:\\llap\{\\note\{b\}\})?(?:64|128|256|512|1024|1518) (?=& )"
    r"|\((?:64 bytes|128|256|512|1024|1518)\)"
    r"|(?<=for )(?:64|512) bytes|(?<=size of )64 bytes|(?<=rows up to )1024 bytes",
    re.MULTILINE,
)
PAPER = Manuscript("frer-udp", NAMES)


class TestSources(SourceChecks):
    paper, constants = PAPER, CONSTANTS
    typed = [
        f"Text before {typed} and after."
        for typed in (
            *(
                "at 398\\,\\units{}",
                "a loss of 0.053\\,\\%",
                "612 datagrams",
                "1.33 times",
                "33\\,\\%",
            ),
            *("& 941.42 &", "941", "a gain of 30", "95 trials", "in 60 trials", "1518 trials"),
            *("\\calc{1}{100*0.34}", "\\calc{1}{398/\\rawval{a.b}}", "P99 of 181.5", "64 lost"),
            *("\\ifcalc{\\rawval{a.b} < 1.33}{then}{else}", "1000 datagrams", "for 64 datagrams"),
        )
    ]


# --- pages -----------------------------------------------------------------------------------


def prepared(folder, wide=False, **options):
    """Write results and the inputs of the manuscript, and return their folder."""
    results = write_results(folder, **options)
    if wide:
        widen(results)
    write_paper_inputs(PAPER.folder, results / "paper", data_sources_of(results))
    return results


def with_buffers(folder, frer_ms):
    """Return synthetic results, with simulated times until buffers are full with FRER."""
    results, run = write_results(folder), folder / "model" / "occupancy"
    keys = {key.removeprefix("simulated.") for key in scan(PAPER.folder).measured}
    of_frer = "frer.per_port.filled.ms"
    items = [
        entry(key, frer_ms if key.endswith(of_frer) else 100.0, digits=1, run="occupancy")
        for key in sorted(keys)
        if key.startswith("occupancy.")
    ]
    write_run(run, items, testbed="model")
    sources = [*data_sources_of(results).sources, DataSource("simulated", {"occupancy": run})]
    write_paper_inputs(PAPER.folder, results / "paper", DataSources(sources, results / "study"))
    return results


def with_traffic_and_delays(folder, **given):
    """Return synthetic results, with streams of a car and paths of different delay.

    Every value is 1.5 except those ``given`` by the end of their key, with ``__`` for a dot.
    """
    results = write_results(folder)
    ends = {f".{end.replace('__', '.')}": value for end, value in given.items()}
    runs = {run.name: run for run in runs_of(results)}
    for name in ("traffic", "failure"):
        keys = sorted(key for key in scan(PAPER.folder).measured if key.startswith(f"{name}."))
        of = [next((v for end, v in ends.items() if key.endswith(end)), 1.5) for key in keys]
        runs[name] = results / name
        write_run(
            runs[name], [entry(k, v, digits=1, run=name) for k, v in zip(keys, of, strict=True)]
        )
    sources = DataSources([DataSource("measured", runs)], results / "study")
    write_paper_inputs(PAPER.folder, results / "paper", sources)
    return results


def with_paths(folder, verdict):
    """Return synthetic results, with measured and simulated FRER over two and three paths."""
    results, simulated = write_results(folder), write_results(folder / "model") / "loss"
    keys = [key for key in scan(PAPER.folder).measured if key.startswith("loss.paths.")]
    items = [entry(key, 12.5, digits=1, run="loss") for key in sorted(keys)]
    values = [item | ({"value": verdict} if ".verdict" in item["key"] else {}) for item in items]
    path = results / "loss" / "values.json"
    write_values(path, json.loads(path.read_text(encoding="utf-8")) + values)
    write_values(simulated / "values.json", [item | {"value": 23.5} for item in items])
    sources = [*data_sources_of(results).sources, DataSource("simulated", {"loss": simulated})]
    write_paper_inputs(PAPER.folder, results / "paper", DataSources(sources, results / "study"))
    return results


class TestPages(PageChecks):
    pytestmark = latex
    paper = PAPER
    prepared = staticmethod(prepared)
    environment = {"SOURCE_DATE_EPOCH": "1700000000"}

    def test_values_and_verdicts_stand_on_the_pages(self, built):
        text = PAPER.text(built)
        assert "emulated testbed (network namespaces on one machine, eBPF switches)" in text
        assert "939.2 [938.4, 940.0]" in text
        assert "0.94 [0.81, 1.09]" in text
        assert "Every datagram of every trial is accounted for." in text
        assert "which the hosts can fill, TCP goodput is equivalent" in text
        assert "Of the drops, 3 did not come to the trace." in text
        assert "국문 초록" in text
        assert "??" not in text

    def test_what_follows_by_calculation_is_right(self, built):
        text = PAPER.text(built)
        # 1472 bytes of 1538 on the wire, and of 1544 with the tag; 535 Mb/s over 30 s; P99.9.
        for number in ("957.1 to 953.4", "0.104", "+7.02", "225 034", "0.00133", "941.47"):
            assert number.replace(" ", "") in text.replace("\u2009", "").replace(" ", ""), number

    def test_the_source_folder_stays_clean(self, built):
        listed = subprocess.run(
            ["git", "status", "--porcelain", "--ignored", "--", str(PAPER.folder)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert not re.search(r"\.(aux|log|pdf|fls|bbl|out)\b", listed)
        assert PAPER.pdf(built).is_file()

    def test_building_again_elsewhere_gives_the_same_bytes(self, built, tmp_path):
        results = PAPER.built(prepared(tmp_path / "another" / "place"), **self.environment)
        assert PAPER.pdf(results).read_bytes() == PAPER.pdf(built).read_bytes()

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
        results = PAPER.typeset(prepared(tmp_path, **options))
        text = PAPER.text(results).replace("\u2009", " ")
        for sentence in says:
            assert sentence in text

    def test_an_abstract_prints_limits_of_what_is_not_decided(self, tmp_path):
        results = PAPER.typeset(prepared(tmp_path, equivalent="cannot tell", wide=True))
        # The widened intervals and their margins.
        limits = ["[−1233.69,1235.59]", "[−1234.98,+1234.22]%"]
        english = [*limits, "anintervalonbothsidesofone.", "belowandabovethemarginof2%."]
        korean = [*limits, "높은값과낮은값이모두", "동등의한계2%의안팎에걸친다."]
        PAPER.assert_abstracts_print_limits(results, [english, korean])

    @pytest.mark.parametrize(
        ("frer_ms", "says"),
        [
            (99.0, "a second buffer fills with a second copy"),
            (200.0, "buffers take longer to fill"),
        ],
    )
    def test_what_is_said_of_buffers_follows_the_model(self, tmp_path, frer_ms, says):
        text = PAPER.text(PAPER.typeset(with_buffers(tmp_path, frer_ms)))
        assert says in text
        assert f"{frer_ms}" in text

    def test_a_copy_of_the_model_stands_beside_nothing_and_names_no_kernel(self, tmp_path):
        facts = facts_of_testbed(kind="model", label="model testbed", verb="Simulated on")
        text = PAPER.text(PAPER.typeset(prepared(tmp_path, facts=facts)))
        for said in ("drops a frame counts it", "path A (both configurations)"):
            assert said in text, said
        for word in ("own report of each frame", "the kernel drops", "easured and simulated"):
            assert word not in text, word

    @pytest.mark.parametrize(
        ("lost", "reordered", "says"),
        [
            (
                0.0,
                0.0,
                ["Neither configuration lost a V2X message", "At none of the delays did FRER"],
            ),
            (7.0, 3.0, ["Of the shortest V2X messages", "which a single path cannot do"]),
        ],
    )
    def test_what_a_car_sends_and_longer_paths_are_told(self, tmp_path, lost, reordered, says):
        values = {"lost": lost, "lost__percent": lost, "reordered": reordered}
        sizes = {"v2x_64__payload_bytes": 18, "camera__smallest_train__count": 55}
        results = with_traffic_and_delays(tmp_path, **values, **sizes)
        text = PAPER.text(PAPER.typeset(results))
        for sentence in (*says, "in frames of 64,", "each P picture one of 55"):
            assert sentence in text, sentence

    @pytest.mark.parametrize(
        ("verdict", "says"),
        [
            ("equivalent", "every path has to carry the whole stream"),
            ("higher", "it brings datagrams that both others lost"),
            ("lower", "with it fewer datagrams arrive"),
            ("none", "no repetition delivered more or less with it"),
            ("cannot tell", "which does not tell whether it adds"),
        ],
    )
    def test_what_a_third_path_adds_is_told(self, tmp_path, verdict, says):
        text = PAPER.text(PAPER.typeset(with_paths(tmp_path, verdict)))
        assert "Loss and Delivered Rate by the Number of Member Paths" in text
        # Of each of three two losses and a rate; behind the references all are listed again.
        assert text.partition("References")[0].count("23.5") == 3 * 3
        assert says in text

    @pytest.mark.parametrize("drivers", ["lan966x", "ebpf", "kernel", "ebpf and lan966x"])
    def test_a_rack_is_described_as_it_is(self, tmp_path, drivers):
        facts = facts_of_testbed(**RACK | {"drivers": drivers})
        text = PAPER.text(PAPER.typeset(prepared(tmp_path, facts=facts)))
        assert "rack testbed" in text
        assert "which has the paths that it is cabled with" in text
        assert ("LAN966x board" in text) == ("lan966x" in drivers)
        for word in ("namespace", "token bucket", "emulated", "takes processor time"):
            assert word not in text, word
        assert "네임스페이스" not in PAPER.squeezed(tmp_path)

    @pytest.mark.parametrize("only", [("control", "frer"), ("frer",)], ids=["both", "one"])
    def test_a_copy_of_others_data_says_only_what_they_tell(self, tmp_path, only):
        """They know no link rate, order, tool or place of loss, and send 1000 bytes."""
        run_notebooks(sparse(tmp_path, ("loss", "tcp", "latency"), only), tmp_path)
        column = DataSource(
            "measured", {name: tmp_path / name for name in ("loss", "tcp", "latency")}
        )
        write_paper_inputs(PAPER.folder, tmp_path / "paper", DataSources([column]))
        text = PAPER.text(PAPER.typeset(tmp_path))
        for said in ("payload 1000 B", "one-way latencies", "No trial was accounted for"):
            assert said in text, said
        assert ("no TCP goodput of both configurations" in text) == (len(only) == 1)
        body, _, _ = text.partition("References")
        for word in ("iperf3", "sockperf", "random order", "is accounted for:", "half round trips",
                     "payload 1472", "line allows"):  # fmt: skip
            assert word not in body, word
        assert "손실된데이터그램은없었다" not in PAPER.squeezed(tmp_path)

    def test_a_missing_value_stops_the_build_and_is_named(self, tmp_path):
        results = prepared(tmp_path)
        values = results / "paper" / "values.tex"
        lines = values.read_text(encoding="utf-8").splitlines(keepends=True)
        key = "{tcp.goodput.frer.mbps}"
        values.write_text("".join(line for line in lines if key not in line), encoding="utf-8")
        done = PAPER.latexmk(results)
        assert done.returncode != 0
        assert "There is no value `tcp.goodput.frer.mbps'" in done.stdout.replace("\n", "")

    def test_an_unexpected_verdict_stops_the_build(self, tmp_path):
        results = prepared(tmp_path, lower="perhaps")
        done = PAPER.latexmk(results)
        assert done.returncode != 0
        assert "No case for `perhaps'" in done.stdout

    def test_without_results_one_line_says_what_to_do(self, tmp_path):
        done = PAPER.latexmk(tmp_path)
        assert done.returncode != 0
        assert "values.tex" in done.stdout + done.stderr
        assert "snakemake" in done.stdout + done.stderr
