"""A paper's primary comparisons are judged together; the others are exploratory."""

import pytest
from synthetic_results import entry

from tsnrepro.common.repository import root
from tsnrepro.config.papers import Sources, manuscripts, sources_of
from tsnrepro.papers.families import exploratory_sentences, judged_together
from tsnrepro.records.values import Result

KEYS = ("tcp.a", "tcp.b", "loss.c")


def values(*p_values, verdict="higher"):
    items = {}
    for key, p_value in zip(KEYS, p_values, strict=False):
        for name, value in (
            ("verdict", verdict),
            ("p", 0.5),
            ("unadjusted.p", p_value),
            ("unadjusted.verdict", verdict if p_value <= 0.05 else "cannot tell"),
        ):
            items[f"{key}.{name}"] = entry(f"{key}.{name}", value)
    return items


def verdicts(found):
    return [found[f"{key}.verdict"].value for key in KEYS if f"{key}.verdict" in found]


def as_results(items):
    return {k: v if isinstance(v, Result) else Result(**v) for k, v in items.items()}


def test_holm_over_the_primary_ones_of_all_experiments():
    found = judged_together(as_results(values(0.01, 0.03, 0.04)), KEYS)
    assert verdicts(found) == ["higher", "cannot tell", "cannot tell"]
    assert [found[f"{key}.p"].value for key in KEYS] == pytest.approx([0.03, 0.06, 0.06])
    assert "the paper's 3 primary comparisons" in found["tcp.a.verdict"].method


def test_a_primary_comparison_bears_no_burden_of_the_exploratory_ones():
    items = as_results(values(0.03, 0.9, 0.9) | {"tcp.a.verdict": entry("tcp.a.verdict", "x")})
    found = judged_together(items, KEYS[:1])
    assert found["tcp.a.verdict"].value == "higher"
    assert found["tcp.b.verdict"].method.startswith("exploratory: ")
    assert found["tcp.b.verdict"].value == "higher"


def test_what_was_not_measured_takes_no_part():
    found = judged_together(as_results(values(0.03)), KEYS)
    assert found["tcp.a.p"].value == pytest.approx(0.03)


def test_an_older_record_keeps_its_verdicts():
    items = as_results({k: v for k, v in values(0.01, 0.9, 0.9).items() if "unadjusted" not in k})
    assert judged_together(items, KEYS[:1]) == items


def test_a_sentence_on_an_exploratory_verdict_is_listed(tmp_path):
    (tmp_path / "sections").mkdir()
    (tmp_path / "sections/a.tex").write_text(
        "Text.\n% \\caseval{loss.c.verdict}{}\n\\caseval{tcp.a.verdict}{{higher}{A.}}\n"
        "\\ifval{tcp.b.verdict}{higher}{B.}{}\n"
        '\\asserted{measured("loss.c.verdict") == "higher"}{C.}\n\\val{loss.c.verdict}\n'
    )
    found = list(exploratory_sentences(tmp_path, as_results(values(0.01, 0.9, 0.9)), KEYS[:1]))
    assert [text.split(" is ")[0] for text in found] == [
        "sections/a.tex:4: tcp.b",
        "sections/a.tex:5: loss.c",
    ]


def test_a_primary_comparison_that_no_experiment_gives_is_refused():
    good = {"experiments": ["tcp"], "columns": {"selected": "selected", "simulated": "model"}}
    Sources.model_validate(good | {"primary": ["tcp.equivalence", "simulated.tcp.equivalence"]})
    with pytest.raises(ValueError, match="no experiment gives"):
        Sources.model_validate(good | {"primary": ["tcp.goodput"]})


@pytest.mark.parametrize("name", manuscripts())
def test_every_paper_declares_what_its_conclusions_rest_on(name):
    texts = (root() / "paper" / name).rglob("*.tex")
    concludes = any("\\asserted{" in path.read_text(encoding="utf-8") for path in texts)
    assert bool(sources_of(name).primary) == concludes
