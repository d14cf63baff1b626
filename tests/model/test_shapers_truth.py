"""GateControlList and credit against window arithmetic and the bounds of the standard."""

import numpy as np
import pytest
from model_networks import HOST, one_hop

from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate, EgressPort, Listed, Saturating

QUEUE = 4_000_000
FRAME, GAP = 1526 * 8_000, 12 * 8_000  # a full frame with preamble at 1 Gb/s, and the gap, in ps


def gated(open_ns, closed_ns, *, traffic_class=5, **options):
    return GateControlList(
        entries=[
            GateWindow(open_classes=[traffic_class], interval_ns=open_ns),
            GateWindow(open_classes=[0], interval_ns=closed_ns),
        ],
        cycle_time_ns=open_ns + closed_ns,
        **options,
    )


def port(**options):
    return EgressPort(queue_bytes=QUEUE, scheduler="strict_priority", **options)


def starts(result, frame_ps=FRAME):
    """When each delivered frame began, on a wire without delay."""
    return np.sort(result.deliveries["arrived_ps"] - frame_ps)


# GateControlList


def test_neighbouring_windows_are_joined_also_through_the_end_of_the_cycle():
    entries = [
        GateWindow(open_classes=[1, 2], interval_ns=10),
        GateWindow(open_classes=[1], interval_ns=20),
        GateWindow(open_classes=[], interval_ns=30),
        GateWindow(open_classes=[2], interval_ns=40),
    ]
    gates = GateControlList(entries=entries, cycle_time_ns=110)
    assert gates.windows_ns(1) == [(0, 30)]
    assert gates.windows_ns(2) == [(60, 120)]  # the last entry is held to 110
    assert gates.windows_ns(3) == []
    assert GateControlList(entries=entries, cycle_time_ns=25).always_open(1)


@pytest.mark.parametrize(("offset_ns", "base_ns"), [(0, 0), (700, 0), (-700, 123_456)])
@pytest.mark.parametrize("open_ns", [20_000, 50_000, 100_000])
def test_frames_fill_their_windows_and_never_leave_them(open_ns, offset_ns, base_ns):
    gates = gated(open_ns, 200_000, base_time_ns=base_ns)
    gated_port = port(gates=gates, clock_offset_ns=float(offset_ns))
    network = one_hop([(Saturating(), 1472, 5)], port=gated_port)
    result = simulate(network, duration_s=0.02, record=True)
    cycle = (open_ns + 200_000) * 1000
    phase = (starts(result) + (offset_ns - base_ns) * 1000) % cycle
    assert phase.max() + FRAME <= open_ns * 1000
    fits = (open_ns * 1000 - FRAME) // (FRAME + GAP) + 1
    first_whole = int(phase.argmin())  # the port may have been switched on within a window
    expected = [number * (FRAME + GAP) for number in range(fits)]
    assert phase[first_whole : first_whole + 10 * fits].tolist() == expected * 10


def test_frame_longer_than_its_window_waits_for_ever():
    """A 5 us window carries 625 bytes at 1 Gb/s: no 1500-byte frame fits."""
    network = one_hop(
        [(ConstantRate(rate_mbps=10.0), 1472, 5), (ConstantRate(rate_mbps=1.0), 500, 5)],
        port=port(gates=gated(5_000, 95_000)),
    )
    result = simulate(network, duration_s=0.01, drain_s=0.1)
    assert result.streams["s0"].unique == 0
    assert result.streams["s0"].frames.left == result.streams["s0"].entered > 0
    # The smaller frames stand behind it in the same queue.
    assert result.streams["s1"].unique == 0


def test_window_of_just_the_frame_time_carries_it_and_a_picosecond_less_does_not():
    exact_ns = FRAME // 1000
    for open_ns, arrives in ((exact_ns, True), (exact_ns - 1, False)):
        network = one_hop(
            [(Listed(times_ns=[0]), 1472, 5)], port=port(gates=gated(open_ns, 50_000))
        )
        result = simulate(network, duration_s=0.001, drain_s=0.01)
        assert (result.streams["s0"].unique == 1) is arrives


def test_without_guard_band_a_frame_may_run_over_but_not_start_late():
    gates = gated(20_000, 180_000, guard_band=False)
    network = one_hop([(Saturating(), 1472, 5)], port=port(gates=gates))
    phase = starts(simulate(network, duration_s=0.01, record=True)) % 200_000_000
    assert phase.max() < 20_000_000 < phase.max() + FRAME


def test_closed_gate_lets_lower_classes_through_in_their_own_window_only():
    network = one_hop(
        [(Saturating(), 1472, 5), (Saturating(), 1472, 0)],
        port=port(gates=gated(50_000, 150_000)),
        host=HOST.model_copy(update={"send_buffer_bytes": 1_000_000}),
    )
    result = simulate(network, duration_s=0.02, record=True)
    for number, (start, end) in enumerate([(0, 50_000), (50_000, 200_000)]):
        rows = result.deliveries[result.deliveries["stream"] == number]
        phase = (rows["arrived_ps"] - FRAME) % 200_000_000
        assert start * 1000 <= phase.min()
        assert phase.max() + FRAME <= end * 1000


def test_wait_for_a_closed_gate_is_the_rest_of_the_cycle():
    times = [0, 10_000, 60_000, 199_000, 399_999]
    network = one_hop([(Listed(times_ns=times), 64, 5)], port=port(gates=gated(20_000, 180_000)))
    result = simulate(network, duration_s=0.001, record=True)
    began = starts(result, frame_ps=(110 + 8) * 8_000) // 1000
    assert began.tolist() == [0, 10_000, 200_000, 200_000 + 1_040, 400_000]


def test_disabled_gates_are_open():
    """Enabled to 300 us, disabled to 600 us: then no frame waits, and what waited goes."""
    times = [0, 60_000, 250_000, 320_000, 599_000, 601_000, 650_000]
    toggled = port(gates=gated(20_000, 180_000), gate_toggle_ns=300_000)
    network = one_hop([(Listed(times_ns=times), 64, 5)], port=toggled)
    result = simulate(network, duration_s=0.001, record=True)
    began = starts(result, frame_ps=(110 + 8) * 8_000) // 1000
    expected = [0, 200_000, 300_000, 320_000, 599_000, 601_000, 800_000]
    assert began.tolist() == expected


def test_gates_stay_enabled_until_they_are_toggled_first():
    """Toggling begins at 250 us: enabled to 350 us, disabled to 450 us."""
    times = [10_000, 230_000, 340_000, 353_000, 440_000, 455_000]
    toggled = port(
        gates=gated(20_000, 180_000), gate_toggle_ns=100_000, gate_toggle_from_ns=250_000
    )
    network = one_hop([(Listed(times_ns=times), 64, 5)], port=toggled)
    result = simulate(network, duration_s=0.001, record=True)
    began = starts(result, frame_ps=(110 + 8) * 8_000) // 1000
    assert began.tolist() == [10_000, 350_000, 351_040, 353_000, 440_000, 550_000]


# Credit


def test_long_run_rate_is_the_idle_slope():
    """Against saturating best effort, both classes get their slopes on the wire, to the frame."""
    slopes = {5: 250.0, 4: 100.0}
    network = one_hop(
        [(Saturating(), 1472, 5), (Saturating(), 500, 4), (Saturating(), 1000, 0)],
        port=port(idle_slopes_mbps=slopes),
        host=HOST.model_copy(update={"send_buffer_bytes": 500_000}),
    )
    seconds = 1.0
    result = simulate(network, duration_s=seconds, record=True)
    rows = result.deliveries[result.deliveries["arrived_ps"] < seconds * 1e12]
    for number, traffic_class, wire in ((0, 5, 1538), (1, 4, 566)):
        rate = (rows["stream"] == number).sum() * wire * 8 / seconds / 1e6
        assert rate == pytest.approx(slopes[traffic_class], rel=2e-4)


def test_credit_stays_between_its_bounds():
    """IEEE Std 802.1Q-2022, annex L: hiCredit and loCredit of the highest class."""
    slope, rate = 300.0, 1000.0
    network = one_hop(
        [(Saturating(), 700, 5), (Saturating(), 1472, 0)],
        port=port(idle_slopes_mbps={5: slope}),
        host=HOST.model_copy(update={"send_buffer_bytes": 300_000}),
    )
    result = simulate(network, duration_s=0.1)
    low, high = result.ports["talker:wire"].credit_range_bits[5]
    assert low == pytest.approx((slope - rate) / rate * (700 + 66) * 8)
    assert 0 < high <= slope / rate * 1538 * 8


@pytest.mark.parametrize("phase_ns", [0, 1, 5_000, 12_303])
def test_worst_wait_of_the_highest_class(phase_ns):
    """A frame with credit waits for one best-effort frame at most: M0 / R."""
    network = one_hop(
        [
            (Listed(times_ns=[phase_ns + 100_000 * n for n in range(20)]), 64, 5),
            (Listed(times_ns=[100_000 * n for n in range(20)]), 1472, 0),
        ],
        port=port(idle_slopes_mbps={5: 100.0}),
    )
    result = simulate(network, duration_s=0.003)
    flows = {flow.stream: flow for flow in result.ports["talker:wire"].streams}
    # The urgent frame wins when both come at once; else it waits for the rest of the other.
    assert flows["s0"].wait_max_ps == (0 if phase_ns == 0 else 12_304_000 - phase_ns * 1000)


def test_worst_wait_of_the_second_class_is_reached_and_not_passed():
    """M0 / (R - idle slope of A) + MA / R.

    Source: J. A. R. De Azua, M. Boyer, Complete modelling of AVB in network calculus framework,
    RTNS 2014, theorem 3: the longest time from a frame of class B to its start, B having credit.
    A best-effort frame blocks both; A gains credit, spends it in a burst, and ends with one more
    frame that it starts with hardly any credit left.
    """
    rate, slope_a = 1000.0, 500.0
    most = 1538 * 8 / rate * 1000  # ns, for a full frame of best effort
    size_a = 130 * 8 / rate * 1000
    bound = most / (1 - slope_a / rate) + size_a
    start = 1_000_000
    network = one_hop(
        [
            (Listed(times_ns=[start + 1] * 200), 64, 6),
            (Listed(times_ns=[start + 1]), 64, 5),
            (Listed(times_ns=[start]), 1472, 0),
        ],
        port=port(idle_slopes_mbps={6: slope_a, 5: 100.0}),
    )
    result = simulate(network, duration_s=0.01)
    flows = {flow.stream: flow for flow in result.ports["talker:wire"].streams}
    wait = flows["s1"].wait_max_ps / 1000
    assert bound - 2 * size_a < wait <= bound


def test_idle_class_loses_credit_and_pays_back_debt():
    """Two frames at once: the second waits until the debt of the first is paid, from zero."""
    slope = 50.0
    network = one_hop(
        [(Listed(times_ns=[0, 0, 10_000_000, 10_000_000]), 1472, 5)],
        port=port(idle_slopes_mbps={5: slope}),
    )
    result = simulate(network, duration_s=0.02, record=True)
    began = starts(result)
    period = 1538 * 8_000 * 1000 // 50
    assert began.tolist() == [0, period, 10_000_000_000, 10_000_000_000 + period]
