"""Frame loss, back-to-back, system recovery and latency, against closed forms."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rfc2544_networks import KnownNetwork, series

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.rfc2544 import (
    back_to_back,
    frame_loss,
    latency,
    system_recovery,
)
from tsnrepro.experiments.rfc2544.plan import Factors
from tsnrepro.experiments.rfc2544.settings import (
    BackToBackSettings,
    FrameLossSettings,
    RfcLatencySettings,
    SystemRecoverySettings,
)
from tsnrepro.native.streams.log import LISTENER_DTYPE
from tsnrepro.runner.load import LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure

LINE = 1e9 / (8 * 1538)


def test_loss_downward_stops_after_two_clean_loads():
    result = frame_loss.downward(series(KnownNetwork(0.65 * LINE)), FrameLossSettings())
    assert [round(point.asked_percent) for point in result.points] == [100, 90, 80, 70, 60, 50]
    assert [point.lost > 0 for point in result.points] == [True] * 4 + [False] * 2
    # Whatever is offered above the capacity is lost: 1 - 0.65 / load.
    for point in result.points[:4]:
        expected = 100 * (1 - 65 / point.asked_percent)
        assert point.loss_percent == pytest.approx(expected, abs=1e-3)
    assert result.complete
    assert result.compliant


def test_a_clean_load_between_lossy_ones_does_not_stop_it():
    network = KnownNetwork(0.65 * LINE)

    def lucky(load):
        if round(load.rate_pps / LINE, 3) == 0.9:
            return LoadOutcome(1000, 1000, 1000, 1000 / load.rate_pps)
        return network(load)

    result = frame_loss.downward(series(lucky), FrameLossSettings())
    assert [round(point.asked_percent) for point in result.points] == [100, 90, 80, 70, 60, 50]


def test_loss_at_every_load_is_not_complete():
    result = frame_loss.downward(series(KnownNetwork(1.0)), FrameLossSettings(duration_s=10))
    assert len(result.points) == 10
    assert not result.complete
    assert [reason.split(" (")[0] for reason in result.reasons] == [
        "trials of 10 s, not 60 s",
        "no two loads in a row were free of loss",
    ]


def test_loads_above_the_line_are_named_as_what_was_offered():
    network = KnownNetwork(0.8 * LINE, generator_pps=LINE)
    result = frame_loss.at_loads(series(network), FrameLossSettings())
    assert [round(p.asked_percent) for p in result.points] == [
        *(50, 60, 70, 80, 90, 95, 98, 100, 102, 105, 110)
    ]
    last = result.points[-1]
    assert last.offered_percent == pytest.approx(100, abs=0.01)
    assert last.asked_payload_mbps == pytest.approx(1.1 * 957.087, abs=0.01)
    assert last.offered_payload_mbps == pytest.approx(957.087, abs=0.01)
    assert last.offered_wire_mbps == pytest.approx(1000, abs=0.01)
    assert not last.generator_limited
    assert last.loss_percent == pytest.approx(20, abs=0.01)
    assert not result.compliant


def test_a_talker_below_the_line_is_told_from_the_line():
    network = KnownNetwork(0.8 * LINE, generator_pps=0.7 * LINE)
    result = frame_loss.downward(series(network), FrameLossSettings())
    assert [point.generator_limited for point in result.points] == [True, True]
    assert result.points[0].offered_percent == pytest.approx(70, abs=0.01)
    assert result.points[0].loss_percent == 0
    assert not result.compliant


def test_a_load_that_a_moment_kept_from_being_offered_is_tried_again():
    found = series(KnownNetwork(0.9 * LINE, halved=(3, 4)))
    result = frame_loss.at_loads(found, FrameLossSettings(loads_percent=[50, 60, 70, 80]))
    assert [round(point.offered_percent) for point in result.points] == [50, 60, 70, 80]
    assert not any(point.generator_limited for point in result.points)
    assert len(found.trials) == 6


def test_loads_beyond_the_first_that_a_talker_cannot_send_are_tried_once():
    found = series(KnownNetwork(LINE, generator_pps=0.55 * LINE))
    result = frame_loss.at_loads(found, FrameLossSettings(loads_percent=[50, 60, 70, 80]))
    assert [point.generator_limited for point in result.points] == [False, True, True, True]
    assert len(found.trials) == 1 + 3 + 1 + 1


@settings(max_examples=40, deadline=None)
@given(st.integers(20, 5000), st.floats(0.1, 0.9))
def test_the_corrected_buffer_time_gives_the_buffer_back(buffer, share):
    """A burst of N fills N (1 - throughput / line); the search's bracket is what it can be off."""
    capacity = share * LINE
    found = series(KnownNetwork(capacity, buffer=buffer))
    once = BackToBackSettings(searches=2, resolution_percent=0.1)
    result = back_to_back.search(found, once, capacity)
    longest = math.floor((buffer + 1e-6) / (1 - share))
    assert result.unbounded == 0
    assert longest * (1 - 0.002) - 1 <= result.mean <= longest + 1
    expected = result.mean * (1 - share)
    assert result.buffer.datagrams == pytest.approx(expected)
    assert result.buffer.corrected_s == pytest.approx(expected / LINE)
    assert result.buffer.datagrams == pytest.approx(buffer, rel=0.01, abs=1.5)


def test_buffer_time_of_an_average_burst_by_rfc9004():
    """26,000 frames of 64 bytes at 10 Gb/s are 1.747 ms; at 97 % throughput, 52 us of buffer."""
    line = 10e9 / (8 * 84)
    found = back_to_back.buffer_time(26_000, line, 0.97 * line)
    assert found.implied_s == pytest.approx(1.7472e-3)
    assert found.corrected_s == pytest.approx(52.416e-6)
    assert found.datagrams == pytest.approx(780)
    with pytest.raises(ValueError, match="between 0 and the maximum"):
        back_to_back.buffer_time(26_000, line, 1.01 * line)


def test_a_burst_that_always_passes_says_at_least():
    found = series(KnownNetwork(0.5 * LINE, buffer=1e9))
    result = back_to_back.search(found, BackToBackSettings(searches=3), None)
    assert result.unbounded == 3
    assert result.mean == math.ceil(2 * LINE)
    assert result.buffer is None
    assert any("no throughput" in reason for reason in result.reasons)


def test_slow_bursts_are_not_back_to_back():
    found = series(KnownNetwork(0.3 * LINE, buffer=100, generator_pps=0.6 * LINE))
    result = back_to_back.search(found, BackToBackSettings(resolution_percent=0.5), 0.3 * LINE)
    assert result.achieved_pps == pytest.approx(0.6 * LINE)
    # What is buffered follows from the rate at which the burst really came.
    assert result.buffer.datagrams == pytest.approx(100, abs=2)
    assert not result.compliant


def test_fifty_searches_of_two_seconds_are_compliant():
    found = series(KnownNetwork(0.5 * LINE, buffer=300))
    assert back_to_back.search(found, BackToBackSettings(), 0.5 * LINE).compliant


def arrivals_of(numbers, sent_s):
    records = np.zeros(len(numbers), LISTENER_DTYPE)
    records["sequence"], records["sent_ns"] = numbers, np.round(np.asarray(sent_s) * 1e9)
    return records


def stepping(stepped_s, lost_s):
    """Return a network whose talker reaches the fall of the rate when said, and what it loses."""

    def measure(load):
        first, then = load.before_step, load.then
        sent_s = np.concatenate(
            [
                np.arange(first) * (stepped_s / first),
                stepped_s + np.arange(then.datagrams) / then.rate_pps,
            ]
        )
        lost = np.searchsorted(sent_s, lost_s)
        arrivals = arrivals_of(np.delete(np.arange(load.datagrams), lost), np.delete(sent_s, lost))
        arrived = len(arrivals)
        return LoadOutcome(load.datagrams, arrived, arrived, sent_s[-1], arrivals=arrivals)

    return measure


def test_recovery_is_from_the_fall_of_the_rate_to_the_last_loss():
    found = series(stepping(60.2, [60.95]))
    result = system_recovery.measure(found, SystemRecoverySettings(), 0.5 * LINE)
    assert result.stepped_s == pytest.approx(60.2, abs=1e-3)
    assert result.recovery_s == pytest.approx(0.75, abs=1e-3)
    assert result.overload_pps == pytest.approx(0.55 * LINE)
    assert result.recovery_pps == pytest.approx(0.275 * LINE)
    assert result.compliant


def test_recovery_at_once_is_zero_and_overload_is_capped_by_the_line():
    found = series(KnownNetwork(0.95 * LINE))
    result = system_recovery.measure(found, SystemRecoverySettings(), 0.95 * LINE)
    assert result.overload_pps == pytest.approx(LINE)
    assert result.recovery_s == 0.0
    assert result.lost > 0


def test_an_overload_without_loss_has_nothing_to_recover_from():
    found = series(KnownNetwork(2 * LINE))
    result = system_recovery.measure(found, SystemRecoverySettings(overload_s=5), 0.5 * LINE)
    assert result.recovery_s is None
    assert len(result.reasons) == 2


def test_a_generator_below_the_overload_is_noticed():
    """It falls behind in the overload, and may catch up at half the rate: the total is right."""
    found = series(stepping(66.0, [66.5]))
    result = system_recovery.measure(found, SystemRecoverySettings(), 0.5 * LINE)
    assert result.reasons == ("the generator did not reach the overload",)
    assert found.trials[0].short


@pytest.mark.parametrize(("after_s", "unfinished"), [(29.9, True), (20.0, False), (-1.0, False)])
def test_a_loss_at_the_end_of_the_window_is_no_recovery(after_s, unfinished):
    settings = SystemRecoverySettings(recovery_s=30.0)
    found = series(stepping(60.0, [59.0, 60.0 + after_s]))
    result = system_recovery.measure(found, settings, 0.5 * LINE)
    assert (result.at_least, not result.compliant) == (unfinished, unfinished)
    assert any("still lost 30 s" in reason for reason in result.reasons) == unfinished


def test_a_burst_is_credited_with_what_was_sent_of_it():
    """A talker that is ended after 0.4 s has sent 120,000 of the 540,000 that were asked for."""

    def cut(load):
        sent = min(load.burst, 120_000)
        return LoadOutcome(sent, sent, sent, sent / 300_000)

    result = back_to_back.search(series(cut), BackToBackSettings(searches=2), None)
    assert result.bursts == (120_000, 120_000)
    assert result.unbounded == 2
    assert any("a part only of 2 bursts" in reason for reason in result.reasons)


def test_a_cut_burst_that_lost_bounds_the_search_by_what_was_sent():
    def cut(load):
        sent = min(load.burst, 50_000)
        received = min(sent, 1000)
        return LoadOutcome(sent, received, received, sent / 300_000)

    settings = BackToBackSettings(searches=1, resolution_percent=0.1)
    result = back_to_back.search(series(cut), settings, None)
    assert 998 <= result.mean <= 1000
    assert result.unbounded == 0


def test_trials_without_the_waits_of_section_23_are_not_compliant():
    def reasons(**options):
        made = [
            frame_loss.downward(series(KnownNetwork(0.5 * LINE), **options), FrameLossSettings()),
            back_to_back.search(
                series(KnownNetwork(0.5 * LINE, buffer=300), **options),
                BackToBackSettings(),
                0.5 * LINE,
            ),
            system_recovery.measure(
                series(KnownNetwork(0.95 * LINE), **options), SystemRecoverySettings(), 0.95 * LINE
            ),
        ]
        return [result.reasons for result in made]

    assert reasons() == [(), (), ()]
    for found in reasons(full_waits=False):
        assert len(found) == 1
        assert "RFC 2544, 23" in found[0]


def test_recovery_without_times_is_refused():
    found = series(lambda load: LoadOutcome(1000, 900, 900, 90.0))
    with pytest.raises(ToolError, match="unknown when the rate fell"):
        system_recovery.measure(found, SystemRecoverySettings(), 0.5 * LINE)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 200), st.data())
def test_sending_times_of_lost_are_those_of_a_steady_talker(offered, data):
    kept = data.draw(st.sets(st.integers(0, offered - 1), min_size=2))
    order = data.draw(st.permutations(sorted(kept)))
    arrivals = arrivals_of(order, [5 + 0.001 * n for n in order])
    found = LoadOutcome(
        offered, len(kept), len(kept), 1.0, arrivals=arrivals
    ).sending_times_of_lost()
    missing = sorted(set(range(offered)) - kept)
    np.testing.assert_allclose(found, [5 + 0.001 * number for number in missing])


def test_sending_times_need_two_datagrams():
    with pytest.raises(ValueError, match="1 datagrams arrived"):
        LoadOutcome(5, 2, 1, 1.0, arrivals=arrivals_of([3, 3], [0.1, 0.1])).sending_times_of_lost()
    with pytest.raises(ValueError, match="of 5 sent"):
        LoadOutcome(5, 2, 2, 1.0, arrivals=arrivals_of([3, 7], [0.1, 0.2])).sending_times_of_lost()


def test_the_whole_round_trip_is_twice_the_half():
    half = np.arange(1, 1001, dtype=float)
    found = latency.round_trips(half)
    assert found["half_round_trip"].p50_us == 500
    assert found["half_round_trip"].p99_9_us == 999
    assert found["round_trip"].p50_us == 1000
    assert found["round_trip"].max_us == 2000
    assert found["round_trip"].quantity == "round_trip"
    order = [getattr(found["round_trip"], f"{name}_us") for name in ("min", "p50", "p90", "p99")]
    assert order == sorted(order)


def test_one_way_latencies_are_positive():
    found = latency.one_way([10.0, 30.0])["one_way"]
    assert found.quantity == "one_way"
    assert found.mean_us == pytest.approx(20)
    with pytest.raises(ValueError, match="must be positive"):
        latency.one_way([10.0, -30.0])


@pytest.mark.parametrize(
    "clock", [ClockSync(1.0, "exact"), ClockSyncFailure("machines apart")], ids=["agree", "do not"]
)
def test_one_way_latencies_are_stated_only_where_the_clocks_agree(clock):
    arrivals = np.zeros(2, LISTENER_DTYPE)
    arrivals["sequence"], arrivals["sent_ns"] = [0, 1], [1000, 2000]
    arrivals["stamped_ns"] = arrivals["sent_ns"] + 20_000
    outcome = LoadOutcome(2, 2, 2, 1.0, arrivals=arrivals, clocks=(clock, clock))
    requests = SimpleNamespace(constant_rate=lambda loads, arrivals: [outcome])
    factors = {"benchmark": "latency", "method": "one-way-idle", "settings": {"duration_s": 1.0}}
    factors |= {"configuration": "control", "payload_bytes": 64, "duration_s": 1.0}
    measured = Measurement()
    latency.measure(requests, Factors.read(factors), None, measured, at_rest=True)
    found = measured.values["latencies"]["one_way"]
    if isinstance(clock, ClockSync):
        assert (found["samples"], found["mean_us"]) == (2, pytest.approx(20))
    else:
        assert found is None
        assert any("machines apart" in reason for reason in measured.values["reasons"])


def test_samples_are_part_of_the_throughput_rate():
    of = RfcLatencySettings()
    busy = latency.case(of, "one-way", "throughput", 1472, throughput_pps=40_000, sample_pps=1000)
    assert busy.background_pps == 39_000
    assert latency.case(of, "one-way", "idle", 1472).background_pps == 0
    with pytest.raises(ValueError, match="needs that rate"):
        latency.case(of, "one-way", "throughput", 1472)
    with pytest.raises(ValueError, match="above the throughput"):
        latency.case(of, "one-way", "throughput", 1472, throughput_pps=10, sample_pps=20)
    assert latency.departures(of, "one-way") == ()
    assert len(latency.departures(RfcLatencySettings(duration_s=5), "one-way")) == 1


@pytest.mark.parametrize(
    ("method", "full_waits", "compliant"),
    [
        ("one-way-idle", True, True),
        ("one-way-idle", False, False),
        ("round-trip-idle", True, False),
    ],
)
def test_a_latency_trial_on_hosts_has_the_waits_of_section_23_or_says_so(
    method, full_waits, compliant
):
    asked = []

    def constant_rate(loads, arrivals):
        asked.extend(loads)
        found = np.zeros(2, LISTENER_DTYPE)
        found["sent_ns"], found["stamped_ns"] = [1000, 2000], [21_000, 22_000]
        return [LoadOutcome(2, 2, 2, 1.0, arrivals=found)]

    samples = SimpleNamespace(half_us=np.array([10.0, 11.0]))
    requests = SimpleNamespace(constant_rate=constant_rate, round_trips=lambda *_, **__: samples)
    factors = {"benchmark": "latency", "method": method, "settings": {"duration_s": 120.0}}
    factors |= {"configuration": "control", "payload_bytes": 64, "duration_s": 120.0}
    measured = Measurement()
    factors = Factors.read(factors | {"full_waits": full_waits})
    latency.measure(requests, factors, None, measured, at_rest=False)
    assert [load.full_waits for load in asked] == [full_waits] * method.startswith("one-way")
    assert measured.values["compliant"] is compliant
    lacks = any("(RFC 2544, 23)" in reason for reason in measured.values["reasons"])
    assert lacks is not compliant
