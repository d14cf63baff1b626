"""Throughput searches on networks whose capacity is known."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rfc2544_networks import KnownNetwork, series

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.rfc2544 import binary_search, mlr, systematic
from tsnrepro.experiments.rfc2544.settings import (
    RFC2544_GOAL,
    BinarySearchSettings,
    MlrGoal,
    MlrSettings,
    SystematicSettings,
)
from tsnrepro.experiments.rfc2544.throughput import record_of_search
from tsnrepro.runner.load import LoadOutcome

LINE = 1e9 / (8 * 1538)
TAGGED = 1e9 / (8 * 1544)
BINARY = BinarySearchSettings()
RFC_BINARY = BinarySearchSettings(duration_s=60, loss_percent=0, steps=9)
MLR = MlrSettings()
MLR_RFC = MlrSettings(goals=[RFC2544_GOAL])
LOSS = SystematicSettings()


def by_binary(found):
    return binary_search.search(found, BINARY)


def by_mlr(found):
    return mlr.search(found, MLR)[0]


def by_mlr_rfc(found):
    return mlr.search(found, MLR_RFC)[0]


def by_sweep(found):
    return systematic.search(found, LOSS)


METHODS = [by_binary, by_mlr, by_mlr_rfc, by_sweep]


@settings(max_examples=60, deadline=None)
@given(st.floats(0.002, 0.999))
def test_bisection_lands_within_its_resolution(share):
    found = series(KnownNetwork(share * LINE))
    result = binary_search.search(found, BinarySearchSettings(loss_percent=0))
    assert result.upper_pps is not None
    # A datagram of the longest trial is what rounding can hide.
    assert result.lower_pps <= share * LINE + 1 / 30
    assert result.upper_pps - result.lower_pps <= LINE / 2**10 * (1 + 1e-9)
    assert result.upper_pps >= share * LINE - 1 / 30


@settings(max_examples=25, deadline=None)
@given(st.floats(0.02, 0.98))
def test_mlrsearch_brackets_the_capacity_within_its_width(share):
    found = series(KnownNetwork(share * LINE))
    zero, half = mlr.search(found, MLR)
    for result, truth in ((zero, share * LINE), (half, share * LINE / 0.995)):
        assert result.lower_pps <= truth + 1
        assert result.upper_pps >= truth - 1
        assert result.lower_pps >= result.upper_pps * (1 - 0.005) - 1
    assert half.conditional_pps >= half.lower_pps * 0.995
    assert zero.conditional_pps == pytest.approx(zero.lower_pps)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.05, 0.95))
def test_the_sweep_brackets_the_capacity_within_its_last_step(share):
    found = series(KnownNetwork(share * LINE))
    result = systematic.search(found, LOSS)
    step = 0.006 * share * LINE
    assert result.lower_pps <= share * LINE + 1 < result.lower_pps + step + 2
    assert abs(result.threshold["value"] - share * LINE) <= step
    assert result.threshold["low"] <= share * LINE + 1
    assert result.threshold["high"] >= share * LINE - 1


@settings(max_examples=15, deadline=None)
@given(st.floats(0.05, 0.95), st.integers(0, 1000))
def test_a_sweep_is_one_repetition_however_often_it_tries_a_load(share, seed):
    network = KnownNetwork(share * LINE, stalls_per_s=0.02, seed=seed)
    found = systematic.search(series(network), LOSS).threshold
    assert found["method"].startswith("range")
    assert found["trials"] >= LOSS.loads * LOSS.last_repetitions
    ends = [end for end in (found["low"], found["high"]) if end is not None]
    # Stalls make trials fail and none pass.
    assert found["low"] is None or found["low"] <= share * LINE + 1
    assert ends == sorted(ends)


@pytest.mark.parametrize("search", METHODS)
def test_the_network_limits(search):
    result = search(series(KnownNetwork(0.5 * LINE)))
    assert result.limited_by == "network"
    assert result.lower_pps == pytest.approx(0.5 * LINE, rel=0.01)


@pytest.mark.parametrize("search", METHODS)
def test_a_generators_ceiling_is_not_the_networks(search):
    """A network without a limit, and a talker that sends 40 % of the line."""
    result = search(series(KnownNetwork(2 * LINE, generator_pps=0.4 * LINE)))
    assert result.limited_by == "generator"
    assert result.lower_pps == pytest.approx(0.4 * LINE, rel=0.003)
    assert result.lower_pps <= 0.4 * LINE * (1 + 1e-9)


@pytest.mark.parametrize("search", METHODS)
def test_unsent_datagrams_are_no_loss(search):
    """The network's limit is found although the talker cannot reach the line."""
    network = KnownNetwork(0.3 * LINE, generator_pps=0.4 * LINE)
    result = search(series(network))
    assert result.limited_by == "network"
    assert result.lower_pps == pytest.approx(0.3 * LINE, rel=0.01)


@pytest.mark.parametrize("search", METHODS)
@pytest.mark.parametrize(("configuration", "limit"), [("control", LINE), ("frer", TAGGED)])
def test_the_line_limits(search, configuration, limit):
    """With FRER the tagged member path is the line: 957.087 and 953.368 Mb/s of payload."""
    result = search(series(KnownNetwork(limit), configuration=configuration))
    assert result.limited_by == "line"
    assert result.lower_pps == pytest.approx(limit, rel=0.006)


@pytest.mark.parametrize("search", METHODS)
def test_nothing_passes(search):
    result = search(series(KnownNetwork(1.0, stalls_per_s=1e9)))
    assert result.lower_pps is None
    assert result.limited_by == "network"
    assert result.as_record()["offered"] is None


def test_a_talker_that_slows_down_during_the_search_gets_no_credit():
    network = KnownNetwork(2 * LINE, generator_pps=0.4 * LINE)
    found = series(network)
    assert found.ceiling.pps == pytest.approx(0.4 * LINE, rel=1e-3)
    network.generator_pps = 0.3 * LINE
    for search in (by_binary, by_mlr, by_sweep):
        result = search(series(network) if search is not by_binary else found)
        assert result.limited_by == "generator"
        assert result.lower_pps <= 0.3 * LINE * (1 + 1e-9)
        assert result.offered_pps == pytest.approx(result.lower_pps, rel=1e-6)


def test_a_talker_that_stands_still_for_a_moment_is_asked_again():
    found = series(KnownNetwork(2 * LINE, halved=(2, 4)))
    result = by_binary(found)
    assert result.limited_by == "line"
    assert result.lower_pps == pytest.approx(LINE, rel=0.006)
    assert [trial.purpose for trial in found.trials[:5]] == [
        *("ceiling", "search", "repeat", "search", "repeat")
    ]


DOCUMENTED = BinarySearchSettings(generator="iperf3", from_line_rate=True, resolution_mbps=1)


@pytest.mark.parametrize(
    ("capacity", "generator", "found_pps", "limited_by"),
    [
        (0.3, 2.0, 0.3, "network"),
        (0.3, 0.4, 0.3, "network"),
        (2.0, 0.4, 0.4, "generator"),
        (1.0, 2.0, 1.0, "line"),
        # It falls behind before the network loses anything, and a little above it does.
        (0.45, 0.4, 0.4, "generator"),
    ],
)
def test_a_search_from_the_line_rate_credits_what_was_sent(
    capacity, generator, found_pps, limited_by
):
    network = KnownNetwork(capacity * LINE, generator_pps=generator * LINE)
    found = series(network, from_line_rate=True)
    result = binary_search.search(found, DOCUMENTED)
    assert network.loads[0].rate_pps == LINE / 2, "no ceiling was tried before"
    assert {trial.purpose for trial in found.trials} == {"search"}
    width = 1e6 / 8 / 1472
    # 0.001 % of loss passes.
    assert found_pps * LINE - width <= result.lower_pps <= found_pps * LINE * (1 + 1.1e-5)
    assert result.limited_by == limited_by
    record = result.as_record()
    assert record["ceiling_pps"] == record["line_pps"] == LINE
    assert len(network.loads) <= 10


def test_the_ceiling_is_the_best_of_three():
    rates = iter([0.3 * LINE, 0.5 * LINE, 0.4 * LINE])

    def uneven(load):
        return LoadOutcome(10_000, 10_000, 10_000, 10_000 / next(rates))

    found = series(uneven)
    assert found.ceiling.pps == pytest.approx(0.5 * LINE)
    assert found.ceiling.limited_by == "generator"
    assert [trial.purpose for trial in found.trials] == ["ceiling"] * 3


def test_search_times_are_those_known_for_the_library():
    """RFC 2544's pauses counted: bisection in 60 s trials takes over twice MLRsearch's time."""

    def times(search):
        found = series(KnownNetwork(0.5123 * LINE, pause_s=9.0))
        search(found)
        return found.search_s, found.sending_s

    binary, _ = times(lambda found: binary_search.search(found, RFC_BINARY))
    compliant, _ = times(by_mlr_rfc)
    # CSIT's goal: 21 s of trials at a load.
    csit = MlrSettings(goals=[MlrGoal(name="csit", duration_sum_s=21, preceding_targets=2)])
    _, short = times(lambda found: mlr.search(found, csit))
    assert binary == pytest.approx(621 + 10, abs=1)  # and the generator's ceiling, 1 + 9 s
    assert 150 < compliant < 330
    assert compliant < binary / 2
    assert 25 < short < 60
    ours, _ = times(by_mlr)
    assert ours < 0.3 * binary


def test_stalls_make_bisection_fall_short_and_not_mlrsearch():
    ratios = {by_binary: [], by_mlr: []}
    for seed in range(12):
        for search, kept in ratios.items():
            network = KnownNetwork(0.5 * LINE, stalls_per_s=1 / 30, stall_loss=100, seed=seed)
            kept.append((search(series(network)).lower_pps or 0.0) / (0.5 * LINE))
    assert sum(abs(ratio - 1) <= 0.01 for ratio in ratios[by_mlr]) >= 11
    assert sum(abs(ratio - 1) <= 0.01 for ratio in ratios[by_binary]) <= 4
    assert all(ratio <= 1.001 for kept in ratios.values() for ratio in kept)


def test_ten_steps_of_thirty_seconds_as_documented():
    network = KnownNetwork(0.5 * LINE)
    found = series(network)
    result = by_binary(found)
    assert len(found.trials) == 11
    assert {load.duration_s for load in network.loads[1:]} == {30.0}
    assert not result.compliant
    assert [reason.split(" (")[0] for reason in result.reasons] == [
        "trials of 30 s, not 60 s",
        "passes with up to 0.001 % loss, not 0",
    ]


def test_what_is_compliant():
    assert binary_search.search(series(KnownNetwork(9e3)), RFC_BINARY).compliant
    assert mlr.search(series(KnownNetwork(9e3)), MLR_RFC)[0].compliant
    assert not mlr.search(series(KnownNetwork(9e3)), MLR)[0].compliant
    sweep = SystematicSettings(duration_s=60, repetitions=1, last_repetitions=1)
    assert systematic.search(series(KnownNetwork(9e3)), sweep).compliant


def test_the_sweep_goes_down_where_asked():
    network = KnownNetwork(0.6 * LINE)
    once = SystematicSettings(loads=4, repetitions=1, max_refinements=1, direction="down")
    systematic.search(series(network), once)
    shares = [round(load.rate_pps / LINE, 6) for load in network.loads[1:]]
    assert shares == [1.0, 0.75, 0.5, 0.25]


def test_grids_close_in_on_a_capacity_far_below_the_line():
    """A per-packet limit of 40,000/s at 64-byte frames is 2.7 % of the line."""
    network = KnownNetwork(40_000.0)
    result = systematic.search(series(network, payload=18), LOSS)
    assert result.lower_pps == pytest.approx(40_000, rel=0.005)
    assert max(load.rate_pps for load in network.loads) <= 1e9 / (8 * 84)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), min_size=2, max_size=30))
def test_the_parting_contradicts_the_fewest_trials(trials):
    loads, failed = [float(rate) for rate, _ in trials], [fails for _, fails in trials]
    found = systematic.parting(loads, failed)
    if all(failed) or not any(failed):
        assert found == (min(loads) if all(failed) else max(loads))
        return
    assume(len(set(loads)) > 1)

    def wrong(load):
        return sum(fails == (rate <= load) for rate, fails in trials)

    between = [load + 0.5 for load in range(min(map(int, loads)), max(map(int, loads)))]
    assert wrong(found) == min(map(wrong, between))


def test_the_record_names_every_layer_and_keeps_every_trial():
    network = KnownNetwork(0.5 * LINE)
    found = series(network, configuration="frer")
    record = record_of_search(mlr.search(found, MLR))
    assert list(record["results"]) == ["zero_loss", "half_percent"]
    assert record["load_trials"] == len(record["trials"]) == len(network.loads)
    zero = record["results"]["zero_loss"]
    assert zero["offered"]["payload_mbps"] == pytest.approx(zero["lower_pps"] * 1472 * 8e-6)
    assert zero["offered"]["frame_mbps"] == pytest.approx(zero["lower_pps"] * 1518 * 8e-6)
    assert zero["offered"]["wire_mbps"] == pytest.approx(zero["lower_pps"] * 1538 * 8e-6)
    assert zero["path_wire_mbps"] == pytest.approx(zero["lower_pps"] * 1544 * 8e-6)
    assert zero["delivered"]["datagrams_per_s"] == pytest.approx(zero["lower_pps"])
    purposes = [trial["purpose"] for trial in record["trials"]]
    assert purposes[:3] == ["ceiling", "warm-up", "search"]
    assert set(purposes[2:]) == {"search"}


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (LoadOutcome(0, 0, 0, 1.0), "0 datagrams were sent"),
        (LoadOutcome(10, 11, 11, 1.0), "11 datagrams received of 10"),
        (LoadOutcome(10, 9, 9, 0.0), "in 0.0 s"),
    ],
)
def test_outcomes_that_cannot_be_are_refused(outcome, words):
    with pytest.raises(ToolError, match=words):
        by_binary(series(lambda load: outcome))


def test_a_search_without_end_is_a_tool_error():
    # Shorter than a configuration may ask for, so that no machine is fast enough.
    impatient = MlrSettings().model_copy(update={"deadline_s": 1e-9})
    with pytest.raises(ToolError, match="MLRsearch gave up after"):
        mlr.search(series(KnownNetwork(0.5 * LINE)), impatient)


def test_goals_need_growing_durations():
    with pytest.raises(ValueError, match="must not fall"):
        MlrGoal(name="odd", initial_trial_s=5, final_trial_s=1)


@pytest.mark.parametrize("search", METHODS)
@pytest.mark.parametrize(("host", "network"), [(9, 1), (1, 9)])
def test_who_limits_is_where_the_datagrams_went(search, host, network):
    known = KnownNetwork(0.5 * LINE)

    def accounted(load):
        found = known(load)
        parts = {"host_lost": host * found.lost, "network_lost": network * found.lost}
        return replace(found, accounting=parts)

    assert search(series(accounted)).limited_by == ("host" if host > network else "network")
