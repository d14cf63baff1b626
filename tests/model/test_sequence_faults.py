"""Paths and sequence functions that fail, against counts worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_networks import VECTOR, two_switches
from plain_recovery import LatentErrorDetection
from pydantic import ValidationError

from tsnrepro.model import layout, recovery
from tsnrepro.model.compiled import words_of
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    ConstantRate,
    Duplication,
    LatentErrors,
    Network,
    Poisson,
    RandomLoss,
    Recovery,
    SequenceFaults,
    Span,
)

SEND = ConstantRate(rate_mbps=5.12)  # 64 bytes, 10,000 a second


def frer(members, **options):
    network = two_switches(SEND, 64, members, recovery=options.pop("recovery", VECTOR))
    stream = network.streams[0]
    route = stream.route.model_copy(update=options)
    streams = [stream.model_copy(update={"route": route})]
    return Network.model_validate(network.model_copy(update={"streams": streams}).model_dump())


def test_silently_dead_path_loses_its_share_in_its_span_only():
    dead = RandomLoss(probability=1.0, from_ns=200_000_000, until_ns=500_000_000)
    result = simulate(frer([[{"loss": dead}], [{}]]), duration_s=1.0)
    assert result.streams["s0"].frames.lost_random == {"first:path-0-0": 3000}
    assert result.streams["s0"].lost == 0
    plain = two_switches(SEND, 64, [[{"loss": dead}]])
    assert simulate(plain, duration_s=1.0).streams["s0"].lost == 3000
    # One member path and no reset: what comes after the gap is out of the history, for good.
    alone = simulate(frer([[{"loss": dead}]]), duration_s=1.0)
    assert (alone.streams["s0"].lost, alone.recovery("s0")["rogue"]) == (8000, 5000)


def test_loss_outside_the_span_draws_the_same_chances():
    def lost(**span):
        loss = RandomLoss(probability=0.3, **span)
        result = simulate(frer([[{"loss": loss}]]), duration_s=0.2, seed=9, record=True)
        return set(range(2000)) - set(result.deliveries["datagram"].tolist())

    always = lost()
    assert lost(from_ns=50_000_000, until_ns=100_000_000) == {n for n in always if 500 <= n < 1000}


def test_duplicated_frames_are_eliminated_and_counted():
    twice = {"duplication": Duplication(probability=0.25)}
    result = simulate(frer([[twice], [{}]]), duration_s=2.0, seed=3)
    stream, counters = result.streams["s0"], result.recovery("s0")
    repeats = stream.frames.duplicated["first:path-0-0"]
    assert abs(repeats - 5000) < 4 * (20_000 * 0.25 * 0.75) ** 0.5
    assert (stream.lost, stream.duplicates) == (0, 0)
    assert counters["discarded"] == counters["passed"] + repeats
    (flow,) = result.ports["first:path-0-0"].streams
    assert flow.duplicated == repeats


def test_duplicates_behind_the_elimination_reach_the_listener():
    network = frer([[{}], [{}]])
    links = [
        link.model_copy(update={"duplication": Duplication(probability=1.0)})
        if link.name == "out"
        else link
        for link in network.links
    ]
    stream = simulate(network.model_copy(update={"links": links}), duration_s=0.1).streams["s0"]
    assert (stream.unique, stream.duplicates) == (1000, 1000)


def test_stuck_generator_starves_the_stream():
    """One frame passes with the number at which it sticks; all others are its repeats."""
    faults = SequenceFaults(stuck=[Span(from_ns=100_000_000, until_ns=200_000_000)])
    result = simulate(frer([[{}], [{}]], faults=faults), duration_s=0.3, record=True)
    assert result.streams["s0"].lost == 1000  # 1001 frames, but for the first, have the number
    gone = set(range(3000)) - set(result.deliveries["datagram"].tolist())
    assert gone == set(range(1001, 2001)) or gone == set(range(1000, 2000))


@pytest.mark.parametrize("timeout_ms", [None, 50.0])
def test_restarted_generator_is_rogue_until_the_recovery_resets(timeout_ms):
    """Number 0 is 9999 behind: all are rogue, until none has been accepted for the timeout.

    Without one, the numbers come back to the history, where they are repeats: nothing passes.
    """
    faults = SequenceFaults(generator_restarts_ns=[1_000_000_000])
    recovered = Recovery(history_length=64, reset_ms=timeout_ms)
    network = frer([[{}], [{}]], faults=faults, recovery=recovered)
    result = simulate(network, duration_s=2.0)
    stream, counters = result.streams["s0"], result.recovery("s0")
    if timeout_ms is None:
        assert stream.lost == 10_000
        assert counters["rogue"] == 2 * (10_000 - 64)
        assert counters["resets"] == 0
    else:
        assert stream.lost == pytest.approx(500, abs=2)
        assert counters["rogue"] == pytest.approx(2 * stream.lost, abs=1)
        assert counters["resets"] == 1


def test_restart_of_both_switches_at_once_costs_nothing():
    at = [1_000_000_000]
    faults = SequenceFaults(generator_restarts_ns=at, recovery_restarts_ns=at)
    result = simulate(frer([[{}], [{}]], faults=faults), duration_s=2.0)
    assert result.streams["s0"].lost == 0
    assert result.recovery("s0")["resets"] == 1  # the restart itself; the timer had no cause


def test_recovery_that_forgets_passes_the_slow_copies_again():
    """2 ms behind at 10,000 a second: 20 copies that were passed before come after the restart."""
    faults = SequenceFaults(recovery_restarts_ns=[500_000_000])
    members = [[{}], [{"delay_ns": 2_000_000.0}]]
    whole = simulate(frer(members), duration_s=1.0).streams["s0"]
    stream = simulate(frer(members, faults=faults), duration_s=1.0).streams["s0"]
    assert (whole.lost, whole.duplicates, stream.lost) == (0, 0, 0)
    assert 1 <= stream.duplicates <= 21


def test_latent_error_is_found_in_the_period_after_the_path_died():
    """10,000 a second: 5000 copies are missing at the first test, 25,000 at the second."""
    dead = RandomLoss(probability=1.0, from_ns=3_500_000_000)
    network = frer([[{"loss": dead}], [{}]], latent_errors=LatentErrors(difference=10))
    result = simulate(network, duration_s=7.0)
    found = result.latent_errors["s0"]
    assert found.tests == 3
    assert [alarm.time_ps for alarm in found.alarms] == [4 * 10**12, 6 * 10**12]
    assert [alarm.moved for alarm in found.alarms] == pytest.approx([5_000, 25_000], abs=1)
    assert result.streams["s0"].lost == 0  # latent: nobody else would have noticed


def test_latent_error_reset_takes_the_difference_as_normal():
    """Copies missing until 1 s alarm until the base is taken anew at 4 s, with the test there."""
    dead = RandomLoss(probability=1.0, until_ns=1_000_000_000)
    errors = LatentErrors(difference=10, period_ms=1000.0, reset_ms=4000.0)
    result = simulate(frer([[{"loss": dead}], [{}]], latent_errors=errors), duration_s=8.0)
    times = [alarm.time_ps // 10**12 for alarm in result.latent_errors["s0"].alarms]
    assert times == [1, 2, 3, 4]


def test_repeating_path_alarms_below_zero_and_good_paths_never():
    errors = LatentErrors(difference=10, period_ms=100.0)
    twice = {"duplication": Duplication(probability=0.1)}
    bad = simulate(frer([[twice], [{}]], latent_errors=errors), duration_s=1.0)
    assert all(alarm.moved < 0 for alarm in bad.latent_errors["s0"].alarms)
    assert bad.latent_errors["s0"].signalled == bad.latent_errors["s0"].tests == 10
    good = simulate(frer([[{}], [{"delay_ns": 500_000.0}]], latent_errors=errors), duration_s=1.0)
    assert good.latent_errors["s0"].signalled == 0


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(1, 40),
    st.integers(1, 60),
)
@settings(max_examples=100, deadline=None)
def test_compiled_detection_equals_the_text(steps, paths, difference, period, reset_period):
    """``steps`` are (time since the last frame, whether it is passed)."""
    stop = sum(gap for gap, _ in steps) + 50
    function = recovery.new_registers(4)
    base, rows = len(function), len(function) + words_of(layout.LATENT)
    memory = np.concatenate(
        [
            function,
            np.zeros(words_of(layout.LATENT) + recovery.MAX_ALARMS * layout.ALARM_WORDS, np.int64),
        ]
    )
    detection, function = layout.latent(memory, base), layout.recovery(memory, 0)
    fields = recovery.latent_fields(paths, difference, period, reset_period, stop)
    for name, value in (fields | {"rows": rows}).items():
        detection[name] = value
    plain, counters = LatentErrorDetection(paths, difference), {"passed": 0, "discarded": 0}
    calls = [(time, plain.test) for time in range(period, stop + 1, period)]
    calls += [(time, None) for time in range(reset_period, stop + 1, reset_period)]
    calls.sort(key=lambda call: (call[0], call[1] is None))

    def make_calls(now):
        while calls and calls[0][0] <= now:
            time, test = calls.pop(0)
            if test is None:
                plain.reset(counters)
            else:
                test(counters, time)

    now = 0
    for gap, passed in steps:
        now += gap
        make_calls(now)
        recovery.detect_latent_errors(memory, base, function, now)
        counters["passed" if passed else "discarded"] += 1
        function["passed" if passed else "discarded"] += 1
    make_calls(stop)
    recovery.detect_latent_errors(memory, base, function, stop)
    tests, signalled, alarms = recovery.read_alarms(memory, base)
    assert (tests, signalled) == (stop // period, len(plain.alarms))
    assert alarms == plain.alarms


def test_streams_number_and_recover_on_their_own():
    """Two FRER streams and best effort on the same paths: one fails, the others do not."""
    network = frer([[{}], [{"delay_ns": 100_000.0}]])
    first = network.streams[0]
    stuck = SequenceFaults(stuck=[Span(from_ns=0)])
    broken = first.model_copy(
        update={"name": "broken", "route": first.route.model_copy(update={"faults": stuck})}
    )
    noise = first.model_copy(
        update={
            "name": "noise",
            "payload_bytes": 1472,
            "send": Poisson(rate_mbps=400.0),
            "route": {"kind": "single", "links": ["in", "path-0-0", "out"]},
        }
    )
    document = network.model_copy(update={"streams": [first, broken]}).model_dump()
    document["streams"].append(noise.model_dump(warnings=False))
    result = simulate(
        Network.model_validate(document), duration_s=0.5, departures=["first:path-0-0"]
    )
    assert result.streams["s0"].lost == result.streams["noise"].lost == 0
    assert result.streams["broken"].unique == 1
    assert result.recovery("s0")["discarded"] == result.recovery("s0")["passed"] == 5000
    assert result.recovery("broken")["passed"] == 1
    rows = result.logs.departures
    numbers = {stream: rows["sequence"][rows["stream"] == stream] for stream in (0, 1)}
    assert numbers[0].tolist() == list(range(5000))
    assert set(numbers[1].tolist()) == {0}
    assert not rows["tagged"][rows["stream"] == 2].any()
    assert np.all(np.diff(rows["start_ps"]) > 0)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"stuck": [{"from_ns": 5, "until_ns": 5}]}, "not after"),
        ({"stuck": [{"from_ns": 0}, {"from_ns": 9}]}, "overlap"),
        ({"generator_restarts_ns": [2, 1]}, "must not go back"),
    ],
)
def test_faults_out_of_order_are_refused(part, says):
    with pytest.raises(ValidationError, match=says):
        SequenceFaults.model_validate(part)
