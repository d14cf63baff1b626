"""A paper, its sentences, the claims' verdicts and the results of a campaign give one answer."""

import json

import pytest
from one_answer import disagreements
from synthetic_results import entry, write_run

from tsnrepro.papers.assertions import ASSERTIONS_FILE, Assertion, as_json

KEY = "tcp.limit.equivalence"
EQUIVALENT = f'measured("{KEY}.verdict") == "equivalent"'


@pytest.fixture
def papers(tmp_path):
    """Return the papers of a run whose arms are equivalent, of which one says so."""
    items = [
        entry(f"{KEY}.unadjusted.p", 0.001),
        entry(f"{KEY}.unadjusted.verdict", "equivalent"),
        entry("tcp.goodput.frer.mbps", 941.0, 940.0, 942.0),
    ]
    write_run(tmp_path / "results/emulated/test/tcp", items)
    paper = tmp_path / "results/papers/test/frer-udp"
    paper.mkdir(parents=True)
    printed = [
        {"key": f"{KEY}.verdict", "value": "equivalent"},
        {"key": "tcp.goodput.frer.mbps", "value": 941.0},
    ]
    (paper / "provenance.json").write_text(json.dumps({"measured": printed}))
    (paper / "verdicts.tex").write_text(r"\@namedef{tsnrepro@verdict@udp-tcp-same}{supported}")
    sentence = Assertion("main.tex:1", EQUIVALENT, "They are.", carried=True, found="they are")
    (paper / ASSERTIONS_FILE).write_text(as_json([sentence]))
    return paper.parent


def test_what_agrees_is_not_listed(papers):
    assert disagreements(papers, "test") == []


@pytest.mark.parametrize(
    ("file", "old", "new", "listed"),
    [
        ("provenance.json", "941.0", "941.5", "tcp.goodput.frer.mbps, printed and loaded"),
        ("provenance.json", '"equivalent"', '"different"', "udp-tcp-same, tcp.limit"),
        ("verdicts.tex", "supported", "cannot tell", "claim udp-tcp-same, judged and printed"),
        (ASSERTIONS_FILE, "true", "false", "claim udp-tcp-same and its sentence"),
    ],
)
def test_two_answers_are_listed(papers, file, old, new, listed):
    path = papers / "frer-udp" / file
    path.write_text(path.read_text().replace(old, new))
    assert any(listed in text for text in disagreements(papers, "test"))
