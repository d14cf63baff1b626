"""Shaping on the model against line arithmetic: windows, waits, interference."""

import numpy as np
import pytest
from gate_lists import two_windows
from shaping_parts import part, trials_of

from tsnrepro.config import ModelSettings
from tsnrepro.experiments.shaping import on_model
from tsnrepro.experiments.shaping.log import (
    DEPARTURES,
    LOG,
    decompress,
    latency_us,
    talker_wait_us,
)
from tsnrepro.experiments.shaping.phase import Gate, adherence
from tsnrepro.experiments.shaping.toggles import phases_of
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.model import ModelTestbed

SETTINGS = ModelSettings.model_validate(
    {
        "forwarding_delay_us": {"low": 1, "high": 5},
        "talker": {"send_us": 2},
        "listener": {"receive_us": 2, "stack_us": 1},
    }
)


@pytest.fixture(scope="module")
def testbed():
    return ModelTestbed(SETTINGS)


def measured(testbed, settings, mode=None, load=None):
    """Measure the first trial of a part, with one mode and load where given."""
    changes = {}
    if mode is not None:
        changes["modes"] = [mode]
    if load is not None:
        changes["loads_mbps"] = [load]
    trial = trials_of(settings.model_copy(update=changes), 1)[0]
    measurement = Measurement()
    on_model.measure(testbed, trial, measurement)
    return measurement


def held_by(measurement, settings, output=LOG):
    document = {"values": measurement.values, "trial": "t"}
    gate = Gate.of(document, settings.gates, settings.priority)
    return adherence(gate, decompress(measurement.outputs[output]))


@pytest.mark.parametrize("cycle_us", [2, 10])
def test_the_gate_holds_at_the_published_cycles_under_load(testbed, cycle_us):
    half = cycle_us * 500
    settings = part(
        gates=two_windows(half, half, scheduled=5, others=[0]),
        payload_bytes=32,
        interval_us=100.0,
        interval_spread_us=10.0,
        load_payload_bytes=half // 8 - 66,
    )
    measurement = measured(testbed, settings, "tas", 1000.0)
    found = held_by(measurement, settings)
    assert (found.frames, found.outside, found.without_stamp) == (500, 0, 0)
    assert measurement.values["result"]["load_delivered_mbps"] > 50


def test_gates_hold_while_they_are_enabled_only(testbed):
    settings = part(modes=["toggled"], toggles=4, packets=2000)
    measurement = measured(testbed, settings)
    log = decompress(measurement.outputs[LOG])
    gate = Gate.of({"values": measurement.values, "trial": "t"}, settings.gates, 5)
    phases = phases_of(measurement.values)
    assert [phase.enabled for phase in phases] == [True, False, True, False, True]
    assert phases[-1].until_ns - phases[0].from_ns == pytest.approx(2000 * 300_000, abs=10)
    assert sum(len(phase.of(log)) for phase in phases) == len(log) == 2000
    for phase in phases:
        found = adherence(gate, phase.of(log, settling=0.01))
        assert found.frames > 300
        share = found.outside / found.frames
        # As many begin beside the window as without a gate, see below.
        assert share == 0 if phase.enabled else share == pytest.approx(0.825, abs=0.07)


def test_without_a_gate_frames_begin_anywhere(testbed):
    settings = part()
    found = held_by(measured(testbed, settings, "fifo"), settings)
    # 322 bytes of the wire less the gap must end within 20 of 100 us: 17.5 us are left to begin in.
    expected = 1 - (20_000 - (322 - 12) * 8) / 100_000
    assert found.outside / found.frames == pytest.approx(expected, abs=0.06)


def test_the_longest_wait_for_the_gate_is_the_rest_of_the_cycle(testbed):
    settings = part(packets=4000)
    gated = decompress(measured(testbed, settings, "tas").outputs[LOG])
    free = decompress(measured(testbed, settings, "fifo").outputs[LOG])
    frame_us = (322 - 12) * 8 / 1000
    longest = latency_us(gated).max() - latency_us(free).min()
    # A frame that comes when it can just not end in its window waits for the next.
    assert 80 + frame_us - 1 < longest <= 80 + frame_us + 0.001


def test_priority_waits_for_one_frame_of_the_load_and_no_more(testbed):
    settings = part("bridge", packets=3000)
    idle = latency_us(decompress(measured(testbed, settings, "prio", 0.0).outputs[LOG]))
    loaded = measured(testbed, settings, "prio", 1000.0)
    waits = latency_us(decompress(loaded.outputs[LOG])) - idle.min()
    frame_us = (1460 + 70) * 8 / 1000
    assert frame_us - 1 < waits.max() <= frame_us + 0.001
    assert waits.mean() == pytest.approx(frame_us / 2, rel=0.1)


def test_best_effort_waits_behind_the_whole_queue(testbed):
    settings = part("bridge", queue_bytes=65_536)
    log = decompress(measured(testbed, settings, "fifo", 1000.0).outputs[LOG])
    # Frames with tag and FCS fill the queue; each takes its preamble and gap besides.
    queue_us = 65_536 / 1506 * 1526 * 8 / 1000
    assert np.median(latency_us(log)) == pytest.approx(queue_us, rel=0.1)


def test_credit_holds_a_burst_to_the_idle_slope(testbed):
    """Sent every 100 us, let through at 20 Mb/s: 326 bytes of the wire take 130.4 us."""
    settings = part(
        "bridge", modes=["cbs"], idle_slope_mbps=20.0, interval_us=100.0, interval_spread_us=0.0
    )
    log = decompress(measured(testbed, settings).outputs[LOG])
    gaps = np.diff(log["stamped_ns"].astype(np.int64))
    assert np.median(gaps) == pytest.approx(326 * 8000 / 20, abs=2)


def test_a_latency_begins_when_the_frame_enters_the_queue(testbed):
    """The send call's time is the talker's, and stands beside."""
    settings = part(packets=200)
    log = decompress(measured(testbed, settings, "fifo", 0.0).outputs[LOG])
    line_us = (322 - 12) * 8 / 1000
    assert latency_us(log) == pytest.approx(
        line_us + SETTINGS.propagation_delay_ns / 1000, abs=0.002
    )
    assert talker_wait_us(log) == pytest.approx(2, abs=0.001)


def test_launch_times_are_kept_where_nothing_is_in_the_way(testbed):
    settings = part(modes=["etf"], interval_spread_us=0.0)
    log = decompress(measured(testbed, settings).outputs[LOG])
    assert np.ptp(latency_us(log)) == 0


@pytest.mark.parametrize("mode", ["tas", "prio"])
def test_member_ports_hold_their_gates_under_frer(testbed, mode):
    settings = part("tas-frer", loads_mbps=[900.0])
    measurement = measured(testbed, settings, mode)
    departures = decompress(measurement.outputs[DEPARTURES])
    assert sorted(set(departures["stream"])) == [0, 1]
    assert len(departures) == 2 * settings.packets
    found = held_by(measurement, settings, DEPARTURES)
    assert (found.outside == 0) is (mode == "tas")
    recovery = measurement.values["recoveries"][0]["counters"]
    assert recovery["passed"] == recovery["discarded"] == settings.packets
    assert len(decompress(measurement.outputs[LOG])) == settings.packets


def test_the_same_trial_gives_the_same_record(testbed):
    settings = part(modes=["tas"], loads_mbps=[500.0])
    first, second = (measured(testbed, settings) for _ in range(2))
    assert first.outputs == second.outputs
    assert first.values == second.values
