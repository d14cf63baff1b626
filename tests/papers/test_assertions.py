"""Sentences that draw a conclusion are printed, or struck where the record lacks them."""

import subprocess

import pytest
from small_paper import small_paper
from synthetic_results import COMMIT, entry, write_run
from test_expansion import expanded
from test_tsnrepro_style import compiled

from tsnrepro.cli import main
from tsnrepro.common.errors import PublishError
from tsnrepro.papers.assertions import (
    Assertion,
    as_json,
    exploratory_sentences,
    read_assertions,
)
from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.papers.pdf_text import pages
from tsnrepro.papers.submission import write_submission
from tsnrepro.records.values import Result

HIGHER = 'measured("tcp.x.verdict") == "higher"'
TEXT = r"""First line.
\asserted{measured("tcp.x.verdict") == "higher"}{CBS is the
  slower one, by \val{tcp.x.us}.}
% \asserted{measured("tcp.none") > 1}{A comment.}
\asserted{measured("tcp.x.us") > 40 and
  measured("tcp.x.us") < 45}{It lies near 42.}
\asserted{measured("tcp.lost.count").value == 0}{Nothing was lost.}
"""


def written(folder, text, *items):
    """Return the folder of a manuscript's inputs, made of one run."""
    write_run(folder / "tcp", list(items), [entry("testbed.commit", COMMIT)])
    manuscript = folder / "frer-udp"
    manuscript.mkdir()
    (manuscript / "main.tex").write_text(text)
    sources = DataSources([DataSource("measured", {"tcp": folder / "tcp"})])
    write_paper_inputs(manuscript, folder / "out", sources)
    return folder / "out"


ITEMS = (
    entry("tcp.x.verdict", "higher"),
    entry("tcp.x.us", 42.0, 38.0, 46.0, unit="us"),
    entry("tcp.lost.count", 3),
)


def test_each_is_judged_with_its_place_and_its_numbers(tmp_path, capsys):
    judged = read_assertions(written(tmp_path, TEXT, *ITEMS))
    assert [one.place for one in judged] == ["main.tex:2", "main.tex:5", "main.tex:7"]
    assert [one.carried for one in judged] == [True, False, False]
    assert judged[0].condition == HIGHER
    assert "42 [38, 46]" in judged[1].found
    assert "not =" in judged[2].found
    listed = capsys.readouterr().err
    assert "frer-udp/main.tex:7: not carried: Nothing was lost." in listed
    assert "main.tex:2" not in listed


def test_values_have_the_state_that_latex_reads(tmp_path):
    text = (written(tmp_path, TEXT, *ITEMS) / "values.tex").read_text()
    assert f"\\tsnset{{asserted.{HIGHER}}}{{raw}}{{true}}" in text
    assert text.count("{raw}{false}") == 2


def test_what_was_not_measured_carries_nothing(tmp_path):
    empty = entry("tcp.x.us", None)
    judged = read_assertions(
        written(tmp_path, r'\asserted{measured("tcp.x.us") > 1}{More.}', empty)
    )
    assert [one.carried for one in judged] == [False]
    assert "tcp.x.us has no value" in judged[0].found


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ('measured("tcp.x.ms") > 1', "tcp.x.us"),
        ('measured("tcp.x.us") >', "main.tex:1"),
        ('claimed("tcp.x.us") > 1', "no function 'claimed'"),
    ],
)
def test_a_wrong_condition_stops_the_build(tmp_path, condition, says):
    with pytest.raises(PublishError, match=says):
        written(tmp_path, f"\\asserted{{{condition}}}{{Text.}}", *ITEMS)


def test_no_submission_is_packed_while_one_is_not_carried(tmp_path):
    manuscript, results = small_paper(tmp_path)
    one = Assertion("main.tex:7", HIGHER, "It is higher.", carried=False, found="it is lower")
    (results / "assertions.json").write_text(as_json([one]))
    with pytest.raises(PublishError, match=r"(?s)1 sentence.*main.tex:7.*it is lower"):
        write_submission(manuscript, results, "arxiv", tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_the_command_prints_all_and_fails_for_one(tmp_path, capsys, monkeypatch):
    results = written(tmp_path, TEXT, *ITEMS)
    monkeypatch.setattr("sys.argv", ["tsnrepro", "paper", "check", str(results)])
    with pytest.raises(SystemExit, match="1"):
        main()
    found = capsys.readouterr()
    assert "main.tex:2: carried: CBS is the slower one" in found.out
    assert "does not carry 2 of 3 sentences" in found.err


FIELDS = rf"""
\tsnset{{asserted.{HIGHER}}}{{raw}}{{%s}}
\tsnset{{asserted.{HIGHER}}}{{print}}{{it is lower}}
"""
SENTENCE = '\\asserted{measured("tcp.x.verdict")\n == "higher"}{CBS is slower.}'


@pytest.mark.latex
@pytest.mark.parametrize(
    ("state", "printed"), [("true", "CBS is slower."), ("false", "CBS is slower. [it is lower]")]
)
def test_latex_prints_the_sentence_or_strikes_it(tmp_path, state, printed):
    done = compiled(tmp_path, FIELDS % state + SENTENCE)
    assert done.returncode == 0, done.stdout[-2000:]
    assert one_page(tmp_path) == printed
    drawn = image(tmp_path)
    # The same words without a line through them.
    plain = printed.replace("[it is lower]", r"{\footnotesize[it is lower]}")
    assert compiled(tmp_path, plain).returncode == 0
    assert (drawn == image(tmp_path)) is (state == "true")


def image(folder):
    command = ["pdftoppm", "-r", "60", "-gray", folder / "one.pdf"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def one_page(folder):
    return " ".join(" ".join(pages(folder / "one.pdf")).split())


@pytest.mark.latex
def test_a_text_with_values_written_in_has_the_sentence_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("test_expansion.VALUES", FIELDS % "true")
    assert expanded(tmp_path, f"a {SENTENCE} b").endswith("a CBS is slower. b")


def test_a_sentence_on_an_exploratory_verdict_is_listed(tmp_path):
    (tmp_path / "sections").mkdir()
    (tmp_path / "sections/a.tex").write_text(
        "Text.\n% \\caseval{loss.c.verdict}{}\n\\caseval{tcp.a.verdict}{{higher}{A.}}\n"
        "\\ifval{tcp.b.verdict}{higher}{B.}{}\n"
        '\\asserted{measured("loss.c.verdict") == "higher"}{C.}\n\\val{loss.c.verdict}\n'
    )
    keys = [f"{key}.unadjusted.p" for key in ("tcp.a", "tcp.b", "loss.c")]
    values = {key: Result(**entry(key, 0.5)) for key in keys}
    found = list(exploratory_sentences(tmp_path, values, ["tcp.a"]))
    assert [text.split(" is ")[0] for text in found] == [
        "sections/a.tex:4: tcp.b",
        "sections/a.tex:5: loss.c",
    ]
