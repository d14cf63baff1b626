"""The ledger as a page and in print: complete, escaped, without references to elsewhere."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import result, write_run

from tsnrepro.published.audit import run_audit
from tsnrepro.published.ledger import (
    escape_latex,
    html_ledger,
    latex_ledger,
    latex_macros,
    write_ledger,
)

PAPER = r"""
\documentclass{article}
\usepackage[%s,margin=2cm]{geometry}
\usepackage{fontspec,longtable,booktabs,array}
\input{verdicts}
\begin{document}
\verdict{udp-threshold-third}, \recordverdict{ffo-failover}: \verdictnumbers{ffo-failover};
\auditfindings, \auditclaims, \auditcount{supported}.
%s
\input{ledger}
\end{document}
"""


@pytest.fixture(scope="module")
def record():
    return run_audit({})


class Page(HTMLParser):
    """Collect what a page holds; VOID elements need no end."""

    VOID = {"meta", "br", "link", "img", "hr", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.ids, self.links, self.text = [], [], set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.seen.append((tag, attributes))
        if attributes.get("id"):
            assert attributes["id"] not in self.ids, f"id {attributes['id']} twice"
            self.ids.add(attributes["id"])
        self.links += [attributes[k] for k in ("href", "src") if k in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_stands_alone(record):
    page = Page(html_ledger(record))
    assert page.open == []
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert "@import" not in html_ledger(record)
    assert "url(" not in html_ledger(record)


def test_the_page_can_be_read_without_seeing_it(record):
    page = Page(html_ledger(record))
    attributes = [a for tag, a in page.seen if tag == "html"]
    assert attributes == [{"lang": "en"}]
    tables = sum(tag == "table" for tag, _ in page.seen)
    headers = [a for tag, a in page.seen if tag == "th"]
    assert tables
    assert all(a.get("scope") in {"col", "row"} for a in headers)
    assert sum(tag == "h1" for tag, _ in page.seen) == 1
    assert any(a.get("class") == "skip" for tag, a in page.seen if tag == "a")


def test_the_page_shows_every_finding_and_every_claim(record):
    page = Page(html_ledger(record))
    text = " ".join(" ".join(page.text).split())
    for finding in record.findings:
        assert finding.place in text
        assert " ".join(finding.explanation.split()) in text
    for judgement in record.judgements:
        assert judgement.claim.text in text
        assert f"claim-{judgement.claim.id}" in page.ids


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Audit a rate of the model and one of a machine's namespaces."""
    root = tmp_path_factory.mktemp("results")
    ratio = [result("loss.limit.end_to_end.ratio", 0.98, 0.95, 0.99)]
    tcp = [result("tcp.retransmits.control.count", 3), result("tcp.retransmits.frer.count", 0)]
    return run_audit(
        {
            "loss": write_run(root, "loss", ratio),
            "tcp": write_run(root, "tcp", tcp, testbed="emulated", processors=2),
        }
    )


def test_the_page_says_whose_its_numbers_are_and_what_they_rest_on(measured):
    text = " ".join(" ".join(Page(html_ledger(measured)).text).split())
    assert "simulated on model/quick, measured on emulated/quick" in text
    assert "interval: loss.limit.end_to_end.ratio (0.98 [0.95, 0.99]), not > 1.02" in text
    assert "arithmetic: tcp.retransmits.control.count (3), not = 0" in text
    assert "one machine with 2 processors" in text
    assert "not what Microchip LAN9668 (Kontron D10) does" in text
    assert "had no rows to compare" in text


def test_a_simulated_ledger_says_so(measured):
    only = type(measured)(**{**vars(measured), "runs": measured.runs[:1]})
    page = Page(html_ledger(only))
    assert "Simulated" in [word.strip() for word in page.text]
    assert "Measured" not in [word.strip() for word in page.text]


def test_the_page_leads_back_to_the_report_where_there_is_one(record):
    assert "../index.html" in Page(html_ledger(record, "../index.html")).links
    assert "index.html" not in html_ledger(record)


def test_markup_in_a_number_is_no_markup_on_the_page(record):
    finding = record.findings[0]
    marked = type(finding)(**{**vars(finding), "explanation": "<script>alert(1)</script>"})
    changed = type(record)(**{**vars(record), "findings": (marked,)})
    assert "<script>" not in html_ledger(changed)
    assert "&lt;script&gt;" in html_ledger(changed)


def test_the_printed_ledger_shows_some_rows_of_a_check_and_counts_the_rest(record):
    few, all_rows = latex_ledger(record, 1), latex_ledger(record, 1000)
    assert "and 6 more of this kind" in few
    assert "more of this kind" not in all_rows
    assert len(all_rows) > len(few)


def test_macros_give_every_verdict(record):
    macros = latex_macros(record)
    for judgement in record.judgements:
        line = rf"\@namedef{{tsnrepro@verdict@{judgement.claim.id}}}{{{judgement.verdict}}}"
        assert line in macros


def test_the_three_files_are_written_where_they_are_wanted(record, tmp_path):
    paths = [tmp_path / "a" / name for name in ("ledger.html", "ledger.tex", "verdicts.tex")]
    write_ledger(record, tmp_path / "a")
    assert [path.read_text(encoding="utf-8")[:2] for path in paths] == ["<!", "% ", "% "]


# --- escaping ----------------------------------------------------------------------------------


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"])))
def test_no_character_of_a_text_stays_a_command(text):
    escaped = escape_latex(text)
    without = re.sub(
        r"\\(?:textbackslash|textasciicircum|textasciitilde|textquotedbl|textmu)\{\}|"
        r"\\ensuremath\{(?:[<>|*-]|\\times|\\pm|\\le|\\ge|\\infty|\\rightarrow)\}|"
        r"\\allowbreak(?:\{\})?|\\hangul\{[^{}]*\}|\\[{}$&#%_]|(?<=\d)~",
        "",
        escaped,
    )
    without = without.replace("~", "") if "\u00a0" in text else without
    assert not set("\\{}$&#%^~_") & set(without), escaped


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("50 % of 530 Mb/s", r"50~\% of 530~Mb/s"),
        ("loss_percent < 3", r"loss\_\allowbreak{}percent \ensuremath{<} 3"),
        ("frer-udp/table-4-1", r"frer-udp/\allowbreak{}table-4-1"),
        ("Max (μs)", r"Max (\textmu{}s)"),
        ("결과 (Mbps)", r"\hangul{결과} (Mbps)"),
        ("a~b^c\\d", r"a\textasciitilde{}b\textasciicircum{}c\textbackslash{}d"),
        ("3.16\u00a0µs", r"3.16~\textmu{}s"),
    ],
)
def test_texts_are_escaped_for_print(text, latex):
    assert escape_latex(text) == latex


# --- print -------------------------------------------------------------------------------------


def _latex(folder, paper, body=""):
    (folder / "paper.tex").write_text(PAPER % (paper, body), encoding="utf-8")
    return subprocess.run(
        ["lualatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("lualatex") is None, reason="needs LuaLaTeX")
@pytest.mark.parametrize("paper", ["a4paper", "letterpaper"])
def test_the_printed_ledger_fits_the_page(record, tmp_path, paper):
    write_ledger(record, tmp_path)
    made = _latex(tmp_path, paper)
    assert made.returncode == 0, made.stdout[-2000:]
    assert (tmp_path / "paper.pdf").is_file()
    log = (tmp_path / "paper.log").read_text(encoding="utf-8", errors="replace")
    assert "Overfull \\hbox" not in log


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("lualatex") is None, reason="needs LuaLaTeX")
def test_a_verdict_that_is_missing_stops_the_build(record, tmp_path):
    write_ledger(record, tmp_path)
    made = _latex(tmp_path, "a4paper", r"\verdict{no-such-claim}")
    assert made.returncode != 0
    assert "The audit has no claim `no-such-claim'" in made.stdout
