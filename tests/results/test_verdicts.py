"""Beside a verdict stand what the comparison says alone and what would have been found."""

import pandas as pd
import pytest

from tsnrepro.config.registry import experiment, experiments
from tsnrepro.results.results import Results
from tsnrepro.results.verdicts import CANNOT_TELL, add_power, add_test, power_beside, with_power
from tsnrepro.stats.power import Scatter

KEY = "tcp.equivalence"
NONE = pd.DataFrame({"trial": [], "sha256": []})


PAIRS = Scatter(0.02, 6, 5, distances=(0.001, 0.002, 0.005, 0.012, 0.02, 0.03), promises=True)


def results(verdict=CANNOT_TELL, scatter=None, **options):
    found = Results("tcp", NONE)
    found.value(f"{KEY}.verdict", verdict, [])
    add_power(found, KEY, scatter, [], percent=2.0, **options)
    return {key: found.of(key) for key in found.keys}


def test_cannot_tell_is_printed_with_what_would_have_been_found():
    values = results(scatter=PAIRS)
    needed = values[f"{KEY}.power.repetitions.count"].value
    text = with_power(values[f"{KEY}.verdict"], values)
    found = values[f"{KEY}.power.detectable.percent"].value
    assert text.startswith(f"cannot tell (80 % of such campaigns find {found:.1f} %; {needed} rep")
    assert "to find a change of 2 % in 80 % of campaigns" in text
    assert values[f"{KEY}.power.observed.count"].value == 6


def test_power_stands_beside_a_comparison_alone_too():
    values = results(scatter=PAIRS)
    verdict = values[f"{KEY}.verdict"]
    alone = verdict.model_copy(update={"key": f"{KEY}.unadjusted.verdict"})
    assert with_power(alone, values) == with_power(verdict, values)


def test_pairs_too_few_to_show_a_tail_promise_no_change():
    values = results(scatter=Scatter(0.02, 3, 2))
    text = with_power(values[f"{KEY}.verdict"], values)
    assert values[f"{KEY}.power.detectable.percent"].value is None
    assert text.startswith("cannot tell (80 % of such campaigns find more than ")
    assert " %, or not with 3 repetitions; " in text


def test_equivalence_counts_the_repetitions_that_show_it():
    values = results(scatter=Scatter(0.02, 6, 5), equivalence=True)
    assert "to show equal ones equivalent within 2 %" in power_beside(
        values[f"{KEY}.verdict"], values
    )


@pytest.mark.parametrize("verdict", ["equivalent", "different"])
def test_a_decision_is_printed_alone(verdict):
    values = results(verdict, Scatter(0.02, 6, 5))
    assert with_power(values[f"{KEY}.verdict"], values) == verdict


def test_an_unknown_power_says_why():
    values = results()
    text = with_power(values[f"{KEY}.verdict"], values)
    assert text == "cannot tell (power unknown: neither limits nor loads tried show it)"


def test_values_of_an_older_record_print_as_they_did():
    item = results()[f"{KEY}.verdict"]
    assert with_power(item, {item.key: item}) == CANNOT_TELL


@pytest.mark.parametrize(
    ("p_value", "verdict", "expected"),
    [
        (0.04, "higher", "higher"),
        (0.06, "higher", CANNOT_TELL),
        (float("nan"), "higher", CANNOT_TELL),
        (None, None, None),
    ],
)
def test_a_comparison_alone_is_judged_at_its_own_significance(p_value, verdict, expected):
    found = Results("tcp", NONE)
    add_test(found, KEY, p_value, verdict, [])
    assert found.of(f"{KEY}.unadjusted.verdict").value == expected


def test_what_stands_beside_a_verdict_is_declared_with_it():
    assert experiment("tcp").declares_key("tcp.equivalence.power.detectable.percent")
    assert experiment("latency").declares_key("latency.p50.unadjusted.p")
    assert not any(each.declares_key("tcp.goodput.power.scatter.percent") for each in
                   experiments().values())  # fmt: skip
