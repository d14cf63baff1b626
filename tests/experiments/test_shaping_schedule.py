"""Schedules against line arithmetic: what fits, what does not, and which window would."""

import pytest
from gate_lists import two_windows
from hypothesis import given, settings
from hypothesis import strategies as st

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.ethernet import payload_limit_mbps as line_limit_mbps
from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.experiments.shaping.schedule import (
    Flow,
    arithmetic,
    carried_bytes,
    check_schedule,
    payload_limit_mbps,
    smallest_window_ns,
)

GIGABIT = 1000.0


def stream(payload_bytes, *, traffic_class=5, **options):
    return Flow("the stream", traffic_class, payload_bytes, **options)


def test_five_microseconds_carry_625_bytes_at_one_gigabit():
    assert carried_bytes(5_000, GIGABIT) == 625
    assert carried_bytes(1_000, GIGABIT) == 125


@pytest.mark.parametrize(("open_ns", "closed_ns"), [(1_000, 1_000), (5_000, 5_000)])
def test_no_full_frame_fits_the_published_windows(open_ns, closed_ns):
    """Cycles of 2 and 10 us, half of each open: a 1500-byte packet needs 12.304 us."""
    gates = two_windows(open_ns, closed_ns, scheduled=5, others=[0])
    with pytest.raises(ConfigurationError) as refused:
        check_schedule(gates, [stream(1472)], GIGABIT)
    assert "1538 bytes of the wire" in refused.value.what
    assert f"{open_ns // 8} at 1000 Mb/s" in refused.value.what
    assert refused.value.remedy == "The smallest window that fits is 12,304 ns"


@pytest.mark.parametrize(
    ("options", "wire"),
    [
        ({}, 1538),
        ({"vlan": True}, 1542),
        ({"r_tag": True}, 1544),
        ({"vlan": True, "r_tag": True}, 1548),
    ],
)
def test_every_tag_counts(options, wire):
    flow = stream(1472, **options)
    assert flow.wire_bytes == (wire,)
    assert smallest_window_ns(flow, GIGABIT) == wire * 8


def test_the_named_window_fits_and_a_nanosecond_less_does_not():
    flow = stream(1472)
    needed = smallest_window_ns(flow, GIGABIT)
    check_schedule(two_windows(needed, 50_000, scheduled=5, others=[0]), [flow], GIGABIT)
    with pytest.raises(ConfigurationError, match="no frame of the stream fits"):
        check_schedule(two_windows(needed - 1, 50_000, scheduled=5, others=[0]), [flow], GIGABIT)


def test_a_load_that_never_fits_is_refused_too():
    gates = two_windows(5_000, 5_000, scheduled=5, others=[0])
    load = Flow("the load", 0, 1472, scheduled=False)
    with pytest.raises(ConfigurationError, match="no frame of the load fits"):
        check_schedule(gates, [stream(64), load], GIGABIT)


def test_a_slower_line_needs_a_longer_window():
    assert smallest_window_ns(stream(1472), 100.0) == 123_040


def test_intervals_must_sum_to_the_cycle():
    gates = GateControlList(
        entries=[GateWindow(open_classes=[5], interval_ns=400)], cycle_time_ns=1_000
    )
    with pytest.raises(ConfigurationError, match=r"sum to 400 ns and fall short .* by 600 ns"):
        check_schedule(gates, [], GIGABIT)
    longer = gates.model_copy(update={"cycle_time_ns": 300})
    with pytest.raises(ConfigurationError, match="exceed the cycle of 300 ns by 100 ns"):
        check_schedule(longer, [], GIGABIT)


def test_a_class_that_is_never_open_is_named_with_the_window_it_needs():
    gates = two_windows(20_000, 80_000, scheduled=5, others=[0])
    with pytest.raises(ConfigurationError, match="class 3 of the stream is never open") as refused:
        check_schedule(gates, [stream(1472, traffic_class=3)], GIGABIT)
    assert "12,304 ns" in refused.value.remedy


def test_a_stream_that_its_windows_cannot_carry_is_refused():
    gates = two_windows(20_000, 80_000, scheduled=5, others=[0])  # one full frame in 100 us
    check_schedule(gates, [stream(1472, rate_mbps=117.76)], GIGABIT)
    with pytest.raises(ConfigurationError, match=r"carry 117\.76 Mb/s"):
        check_schedule(gates, [stream(1472, rate_mbps=118.0)], GIGABIT)


def test_masks_are_those_of_taprio():
    assert GateWindow(open_classes=[0], interval_ns=1).mask == 0x01
    assert GateWindow(open_classes=[7, 5, 5], interval_ns=1).mask == 0xA0
    assert GateWindow(open_classes=[], interval_ns=1).mask == 0


def test_a_gate_that_never_closes_carries_the_line():
    gates = GateControlList(entries=[GateWindow(open_classes=[0, 5], interval_ns=10_000)])
    assert gates.always_open(5)
    assert payload_limit_mbps(gates, stream(1472), GIGABIT) == pytest.approx(line_limit_mbps(1472))


def test_arithmetic_shows_every_window():
    gates = two_windows(20_000, 80_000, scheduled=5, others=[0, 1])
    table = arithmetic(gates, [stream(1472), Flow("load", 0, 1472)], GIGABIT)
    first, second = table.to_dict("records")
    assert first["carries_bytes"] == 2_500
    assert first["frames_per_window"] == 1
    assert first["guard_band_ns"] == first["needs_ns"] == 12_304
    assert first["line_share_mbps"] == pytest.approx(200)
    assert second["opens_ns"] == 20_000
    assert second["frames_per_window"] == 6
    assert second["payload_limit_mbps"] == pytest.approx(6 * 1472 * 8 / 100)


windows = st.lists(
    st.tuples(st.lists(st.integers(0, 7), max_size=4), st.integers(1, 50_000)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(windows, st.integers(0, 7), st.none() | st.integers(1, 100_000))
def test_windows_are_when_the_entry_in_force_opens_the_gate(entries, traffic_class, cycle_ns):
    gates = GateControlList(
        entries=[GateWindow(open_classes=c, interval_ns=i) for c, i in entries],
        cycle_time_ns=cycle_ns,
    )
    begins = [sum(interval for _, interval in entries[:n]) for n in range(len(entries))]
    times = [t for begin in begins for t in (begin - 1, begin, begin + 1)] + [gates.cycle - 1]
    windows = gates.windows_ns(traffic_class)
    for time in times:
        if not 0 <= time < gates.cycle:
            continue
        # The last entry that has begun: it is held to the end of the cycle.
        in_force = entries[sum(begin <= time for begin in begins) - 1]
        found = any(a <= t < b for a, b in windows for t in (time, time + gates.cycle))
        assert found == (traffic_class in in_force[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(18, 1472), st.integers(1_000, 200_000), st.integers(1, 200_000))
def test_payload_limit_never_exceeds_the_windows_share_of_the_line(payload, open_ns, closed_ns):
    gates = two_windows(open_ns, closed_ns, scheduled=5, others=[0])
    share = open_ns / gates.cycle * (1 + 1e-12)  # a window that frames fill to its end
    assert payload_limit_mbps(gates, stream(payload), GIGABIT) <= share * line_limit_mbps(payload)
