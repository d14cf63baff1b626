"""Papers' primary comparisons are judged together, and have one verdict; others have none."""

import re
from functools import cache
from itertools import combinations

import pytest
from synthetic_results import entry, write_run

from tsnrepro.common.repository import root
from tsnrepro.config.papers import Sources, manuscripts, sources_of
from tsnrepro.explore.load import Measured
from tsnrepro.papers.assertions import assertions
from tsnrepro.papers.manuscript import scan
from tsnrepro.published.claims import Verdict, judge, load_claims
from tsnrepro.published.documents import catalog
from tsnrepro.published.families import judged_together, primary_of_papers
from tsnrepro.published.measured_runs import load_measured_runs
from tsnrepro.records.values import VALUES_FILE, Result, load_values
from tsnrepro.report.questions import QUESTIONS, answered
from tsnrepro.report.site import _Site
from tsnrepro.results.runs import AnalysedRun

KEYS = ("tcp.a", "tcp.b", "loss.c")
CLAIMS = load_claims(root() / "data/published/claims.yaml")
PAPER_OF = {sources_of(name).document: name for name in manuscripts()}
_COMPARISON = re.compile(r"\.(?:verdict|ratio|difference\..*)$")
# A threshold's verdict stands by its limits, without a test.
WITHOUT_A_TEST = {"loss.threshold", "loss.limit.end_to_end", "loss.bottleneck.network"}


def values(*p_values, verdict="higher", keys=KEYS):
    items = {}
    for key, p_value in zip(keys, p_values, strict=False):
        for name, value in (
            ("exploratory.p", 0.5),
            ("unadjusted.p", p_value),
            ("unadjusted.verdict", verdict if p_value <= 0.05 else "cannot tell"),
        ):
            items[f"{key}.{name}"] = Result(**entry(f"{key}.{name}", value))
    return items


def verdicts(found):
    return [found[f"{key}.verdict"].value for key in KEYS if f"{key}.verdict" in found]


def measured_in(expression):
    """Return the keys of the results that an expression reads."""
    return set(re.findall(r'measured\(\s*"([^"]+)"\)', expression or ""))


@cache
def text_and_keys(name):
    """Return a manuscript's source, and the keys of the results that it prints or rests on."""
    source = root() / "paper" / name
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.tex")))
    return text, {*scan(source).measured} | measured_in(text)


def test_holm_over_the_primary_ones_of_all_experiments():
    found = judged_together(values(0.01, 0.03, 0.04), [KEYS])
    assert verdicts(found) == ["higher", "cannot tell", "cannot tell"]
    assert [found[f"{key}.p"].value for key in KEYS] == pytest.approx([0.03, 0.06, 0.06])
    assert "the paper's 3 primary comparisons" in found["tcp.a.verdict"].method


def test_a_primary_comparison_bears_no_burden_of_the_exploratory_ones():
    found = judged_together(values(0.03, 0.9, 0.9, verdict="lower"), [KEYS[:1]])
    assert verdicts(found) == ["lower", "exploratory", "exploratory"]


def test_a_comparison_of_two_papers_is_decided_where_both_decide_it():
    found = judged_together(values(0.04, 0.9, 0.001), [KEYS[:1], KEYS[:2], KEYS[2:]])
    assert verdicts(found) == ["cannot tell", "cannot tell", "higher"]


def test_another_testbeds_column_is_a_family_of_its_own():
    keys = ("tcp.a", "simulated.tcp.a", "simulated.tcp.b")
    found = judged_together(values(0.04, 0.04, 0.9, keys=keys), [KEYS], ["simulated"])
    assert found["tcp.a.verdict"].value == "higher"
    assert found["simulated.tcp.a.verdict"].value == "cannot tell"


def test_what_was_not_measured_takes_no_part():
    found = judged_together(values(0.03), [KEYS])
    assert found["tcp.a.p"].value == pytest.approx(0.03)


def test_a_primary_comparison_without_a_p_value_keeps_its_verdict():
    items = values(0.03, 0.9)
    for name, value in (("unadjusted.p", None), ("unadjusted.verdict", "cannot tell")):
        items[f"tcp.a.{name}"] = Result(**entry(f"tcp.a.{name}", value))
    assert judged_together(items, [KEYS])["tcp.a.verdict"].value == "cannot tell"


def test_an_exploratory_comparison_has_the_p_value_of_its_table():
    found = judged_together(values(0.03), [])
    assert (found["tcp.a.p"].value, found["tcp.a.verdict"].value) == (0.5, "exploratory")
    assert not [key for key in found if "exploratory" in key]
    alone = {key: item for key, item in values(0.03).items() if "exploratory" not in key}
    assert "tcp.a.p" not in judged_together(alone, [])


def own_verdict(key):
    return {key: Result(**entry(key, "higher"))}


def test_a_verdict_without_a_test_stays():
    items = own_verdict("loss.threshold.verdict")
    assert judged_together(items, [["loss.threshold"]]) == items


@pytest.mark.parametrize("papers", [[KEYS], []])
def test_an_older_run_that_has_verdicts_of_its_own_is_judged_too(papers):
    items = values(0.9)
    older = own_verdict("tcp.a.verdict") | items
    assert judged_together(older, papers) == judged_together(items, papers)


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


def test_papers_that_share_a_comparison_judge_it_in_the_same_family():
    # Else the one that measures fewer experiments could decide what the other leaves open.
    families = [{*keys} - WITHOUT_A_TEST for keys in primary_of_papers()]
    for one, other in combinations(families, 2):
        assert not one & other or one == other


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.measured], ids=lambda c: c.id)
def test_a_claim_rests_on_comparisons_of_its_paper(claim):
    name = PAPER_OF[claim.document]
    text, printed = text_and_keys(name)
    for key in measured_in(claim.measured):
        stem = _COMPARISON.sub("", key)
        if stem != key and f"\\verdict{{{claim.id}}}" in text:
            assert any(f"{one}.".startswith(f"{stem}.") for one in printed), key
        if key.endswith(".verdict"):
            assert stem in sources_of(name).primary
            assert key in printed


def test_a_question_of_the_report_rests_on_a_primary_comparison():
    primary = {key for keys in primary_of_papers() for key in keys}
    resting = {question.rests_on for question in QUESTIONS if question.answers}
    assert {key.removesuffix(".verdict") for key in resting} <= primary


@pytest.mark.parametrize("p_value", [0.001, 0.03, 0.5])
@pytest.mark.parametrize("words", [("equivalent", "higher"), ("different", "lower")])
def test_claim_and_sentence_and_report_agree(p_value, words, tmp_path):
    keys = sorted({key for keys in primary_of_papers() for key in keys} - WITHOUT_A_TEST)
    made = {}
    for key in keys:
        word = words[0 if key.endswith((".equivalence", ".alike")) else 1]
        made |= values(p_value, verdict=word, keys=[key])
    for name in {key.partition(".")[0] for key in keys}:
        own = [item.model_dump() for key, item in made.items() if key.startswith(f"{name}.")]
        write_run(tmp_path / "emulated/test" / name, own)
    folders = {path.name: path for path in (tmp_path / "emulated/test").iterdir()}
    resting = [c for c in CLAIMS if any(k.endswith(".verdict") for k in measured_in(c.measured))]
    assert resting
    judged = judge(resting, "emulated/test", catalog(), load_measured_runs(folders))
    # What the report prints of the same runs, and what a person reads of them.
    site = _Site(tmp_path, [AnalysedRun.load(folder) for folder in folders.values()], (), "en")
    loaded = Measured(folders)
    deposited = judged_together(load_values(folder / VALUES_FILE for folder in folders.values()))
    answers = answered(deposited, {key: key for key in deposited}, {})
    assert [one["answer"] for one in site.questions] == [one["answer"] for one in answers]
    for judgement in judged:
        name = PAPER_OF[judgement.claim.document]
        printed = judged_together(made, [sources_of(name).primary, *primary_of_papers()])
        evidence = {one.label: one.value for one in judgement.evidence}
        for key in (k for k in measured_in(judgement.claim.measured) if k.endswith(".verdict")):
            assert printed[key].value == site.values[key].value
            assert printed[key].value == loaded.values.loc[key, "value"]
            assert printed[key].value == loaded.limits(key).loc[key, "printed"].split(" (")[0]
            assert key not in load_values(folder / VALUES_FILE for folder in folders.values())
            assert evidence.get(key, printed[key].value) == printed[key].value
            if printed[key].value == Verdict.CANNOT_TELL:
                assert judgement.verdict is Verdict.CANNOT_TELL
        for assertion in assertions(root() / "paper" / name, printed):
            if assertion.condition == judgement.claim.measured:
                assert assertion.carried is (judgement.verdict is Verdict.SUPPORTED)
