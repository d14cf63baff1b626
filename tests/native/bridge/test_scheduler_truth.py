"""The bridge's scheduler against closed forms of IEEE Std 802.1Q, and errors in settings."""

import dataclasses
import itertools
import random
import struct

import pytest
from gate_lists import two_windows
from hypothesis import given, settings
from hypothesis import strategies as st
from replayed import replay, rows_of, run, sent

from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.native.bridge.settings_file import PTP_QUEUE, BridgeSettings, PortSettings, Shaper

BYTE = 8_000  # ps at 1 Gb/s
FULL = 1522
WIRE = (FULL + 20) * BYTE
OTHERS = [0, 1, 2, 3, 4, 6, 7]


def gated(open_ns, closed_ns, **options):
    gates = two_windows(open_ns, closed_ns, scheduled=5, others=OTHERS)
    return PortSettings(gates=gates, **options)


def backlog(queue, frames, size=FULL, time=0):
    return [(time, queue, size)] * frames


# Gates


@pytest.mark.parametrize("open_ns", [12_240, 20_000, 50_000, 100_000])
def test_a_window_carries_as_many_frames_as_fit_whole(tmp_path, open_ns):
    """The last bit leaves in the window; the gap behind it may lie beyond."""
    rows = sent(replay(tmp_path, gated(open_ns, 200_000), backlog(5, 60)))
    cycle = (open_ns + 200_000) * 1000
    fit = (open_ns * 1000 - (FULL + 8) * BYTE) // WIRE + 1
    expected = [turn * cycle + place * WIRE for turn in range(60) for place in range(fit)]
    assert [row.start_ps for row in rows] == expected[:60]


def test_a_frame_longer_than_its_window_waits_for_ever(tmp_path):
    rows = replay(tmp_path, gated(12_239, 200_000), backlog(5, 2) + backlog(0, 1))
    assert [row.outcome for row in rows] == ["waiting", "waiting", "sent"]


@pytest.mark.parametrize(
    ("guard", "starts"),
    [
        # 100 bytes take 0.864 us to the last bit: the sixth frame ends 0.1 us after its window.
        ("frame", [0, 960_000, 1_920_000, 2_880_000, 3_840_000]),
        ("none", [0, 960_000, 1_920_000, 2_880_000, 3_840_000, 4_800_000]),
        # A given guard band of 2 us, of a window of 5.6 us; and that of the longest, 12.24 us.
        (2_000, [0, 960_000, 1_920_000, 2_880_000]),
        ("longest", []),
    ],
)
def test_guard_bands(tmp_path, guard, starts):
    rows = replay(tmp_path, gated(5_600, 94_400, guard=guard), backlog(5, 9, size=100))
    assert [row.start_ps for row in sent(rows) if row.start_ps < 5_600_000] == starts
    assert bool(sent(rows)) == bool(starts)


def test_the_base_time_moves_the_windows(tmp_path):
    gates = two_windows(20_000, 80_000, scheduled=5, others=OTHERS).model_copy(
        update={"base_time_ns": 1_234_567_030_000}
    )
    rows = sent(replay(tmp_path, PortSettings(gates=gates), backlog(5, 2)))
    # 1,234,567,030,000 ns are 30,000 beyond a whole number of cycles; a window takes one frame.
    assert [row.start_ps for row in rows] == [30_000_000, 130_000_000]


# Credit


@pytest.mark.parametrize("idle", [50, 250, 750])
def test_a_backlog_gets_exactly_its_idle_slope(tmp_path, idle):
    """Alone, a frame starts each (frame and gap) x line rate / idle slope."""
    rows = sent(replay(tmp_path, PortSettings(shapers={5: Shaper(idle)}), backlog(5, 100)))
    period = WIRE * 1000 // idle
    assert {b.start_ps - a.start_ps for a, b in itertools.pairwise(rows)} == {period}


def test_hi_credit_of_a_class_is_what_it_gains_behind_the_longest_frame(tmp_path):
    """Annex L: credit gained in a frame of another class lets a burst through, and no more."""
    arrivals = [(0, 0, FULL), *backlog(5, 6, size=200, time=1)]
    rows = sent(replay(tmp_path, PortSettings(shapers={5: Shaper(500)}), arrivals))
    stream = [row.start_ps for row in rows if row.queue == 5]
    frame, gained = 220 * BYTE, WIRE - 1
    # Each frame costs half its time: as many back to back as the credit gained pays before.
    assert stream[0] == WIRE
    back_to_back = [b - a == frame for a, b in itertools.pairwise(stream)]
    assert back_to_back == [place * frame <= gained for place in range(1, 6)]


def test_a_given_hi_credit_ends_the_burst_sooner(tmp_path):
    arrivals = [(0, 0, FULL), *backlog(5, 6, size=200, time=1)]
    # A frame of 220 bytes costs 880 bits at half the rate: 900 bits pay one, and 20 of another.
    shaper = Shaper(500, hi_bits=900)
    rows = sent(replay(tmp_path, PortSettings(shapers={5: shaper}), arrivals))
    stream = [row.start_ps for row in rows if row.queue == 5]
    frame = 220 * BYTE
    # The second frame leaves 860 bits of debt, paid back in 1.72 us, with the line's own 1.76.
    assert [b - a for a, b in itertools.pairwise(stream)] == [
        frame,
        frame + 1_720_000,
        *[2 * frame] * 3,
    ]


def test_a_given_lo_credit_forgives_debt(tmp_path):
    rows = sent(
        replay(tmp_path, PortSettings(shapers={5: Shaper(100, lo_bits=-1000)}), backlog(5, 3))
    )
    starts = [row.start_ps for row in rows]
    # 1000 bits at 100 Mb/s are 10 us, instead of the 9 x 12.336 us that the frame cost.
    assert [b - a for a, b in itertools.pairwise(starts)] == [WIRE + 10_000_000] * 2


def test_credit_is_lost_when_nothing_waits(tmp_path):
    """Two frames after a rest of a second are as far apart as any others."""
    shaped = PortSettings(shapers={5: Shaper(100)})
    rows = sent(replay(tmp_path, shaped, [(0, 5, FULL), *backlog(5, 2, time=10**12)]))
    assert rows[2].start_ps - rows[1].start_ps == WIRE * 10


def test_credit_stands_still_behind_a_closed_gate(tmp_path):
    gates = two_windows(50_000, 50_000, scheduled=5, others=OTHERS)
    port = PortSettings(gates=gates, shapers={5: Shaper(500)})
    rows = sent(replay(tmp_path, port, backlog(5, 200, size=480)))
    # 4 us on the line, 4 us of waiting: six starts in a window of 50 us, the seventh at 48 us too
    # late to end; what is left of the wait is paid in the next window.
    in_first = [row.start_ps for row in rows if row.start_ps < 50_000_000]
    assert in_first == [8_000_000 * place for place in range(6)]
    per_cycle = len(rows) / (rows[-1].start_ps / 100_000_000)
    assert per_cycle == pytest.approx(50 / 8, rel=0.03)


# Selection


# A frame that occupies the line for 10 us, and at an idle slope of half of it every 20 us.
TEN_US = 1230


def start_of_another_class(tmp_path, asked_us, **options):
    """Return when a frame of class 6 starts, in us, that comes at 17 us.

    One of class 5 gets its credit back at 20 us; at ``asked_us``, something else comes, so that the
    scheduler is asked.
    """
    port = PortSettings(shapers={5: Shaper(500)}, **options)
    times = [(0, 5), (0, 5), (asked_us, 5), (17, 6)]
    arrivals = [(time * 10**6, number, TEN_US) for time, number in times]
    rows = replay(tmp_path, port, arrivals, "--until-ps", 10**12)
    assert [row.outcome for row in rows] == ["sent"] * 4
    return rows[3].start_ps // 10**6


def test_a_frame_may_be_handed_over_shortly_before_its_credit_is_back(tmp_path):
    """By 5 us, or what the port allows: so long another class may wait for it, and no longer."""
    assert start_of_another_class(tmp_path, 16, ahead_us=50) == 30
    assert start_of_another_class(tmp_path, 14, ahead_us=50) == 17
    assert start_of_another_class(tmp_path, 16, ahead_us=3) == 17
    assert start_of_another_class(tmp_path, 16) == 17


def test_it_is_not_handed_over_before_its_gate_opens(tmp_path):
    gates = GateControlList(
        entries=[
            GateWindow(open_classes=[5, 6], interval_ns=18_000),
            GateWindow(open_classes=[6], interval_ns=1_000),
            GateWindow(open_classes=[5, 6], interval_ns=981_000),
        ]
    )
    assert start_of_another_class(tmp_path, 16, ahead_us=50, gates=gates) == 17


def test_handing_over_ahead_of_credit_changes_no_departure_of_a_class_alone(tmp_path):
    """Bursts of all lengths and sizes, some of which find credit left and some of which wait."""
    rng = random.Random(7)
    arrivals, time = [], 0
    for _ in range(60):
        time += rng.randint(0, 200_000_000)
        arrivals += [(time, 5, rng.randint(64, FULL)) for _ in range(rng.randint(1, 8))]
    port = gated(300_000, 200_000, shapers={5: Shaper(300)})
    ahead = dataclasses.replace(port, ahead_us=50)
    assert replay(tmp_path, ahead, arrivals) == replay(tmp_path, port, arrivals)


def test_ptp_goes_first_whatever_the_gates_say(tmp_path):
    arrivals = [(30_000_000, 0, 64), (30_000_001, 7, 64), (30_000_001, PTP_QUEUE, 90)]
    rows = sent(replay(tmp_path, gated(20_000, 80_000), arrivals))
    assert [row.queue for row in rows] == [0, PTP_QUEUE, 7]
    closed = two_windows(20_000, 80_000, scheduled=5, others=[])
    rows = sent(replay(tmp_path, PortSettings(gates=closed), [(30_000_000, PTP_QUEUE, 90)]))
    assert [row.start_ps for row in rows] == [30_000_000]


@pytest.mark.parametrize(("selection", "first"), [("standard", 7), ("by-kind", 2)])
def test_selection_decides_what_kind_means(tmp_path, selection, first):
    """Of an unshaped class 7, a shaped 4 and a scheduled 2, all of which may send."""
    port = PortSettings(selection=selection, scheduled=(2,), shapers={4: Shaper(100)})
    arrivals = [(0, 0, 64), (1, 7, 64), (1, 4, 64), (1, 2, 64)]
    queues = [row.queue for row in sent(replay(tmp_path, port, arrivals))]
    assert queues == [0, *{7: [7, 4, 2], 2: [2, 4, 7]}[first]]


def test_of_shaped_classes_the_one_with_more_credit_goes_first(tmp_path):
    """Behind a long frame, class 3 gains three times what class 4 does; of equals, the higher."""
    arrivals = [(0, 0, FULL), (1, 3, 64), (1, 4, 64)]
    richer = PortSettings(selection="by-kind", shapers={3: Shaper(300), 4: Shaper(100)})
    equal = PortSettings(selection="by-kind", shapers={3: Shaper(100), 4: Shaper(100)})
    standard = PortSettings(shapers={3: Shaper(300), 4: Shaper(100)})
    for port, order in ((richer, [0, 3, 4]), (equal, [0, 4, 3]), (standard, [0, 4, 3])):
        assert [row.queue for row in sent(replay(tmp_path, port, arrivals))] == order


# Queues


def test_a_queue_holds_its_bytes_until_the_last_bit_is_sent(tmp_path):
    port = PortSettings(queue_bytes=2 * FULL)
    last_bit = (FULL + 8) * BYTE
    arrivals = [*backlog(0, 3), (last_bit - 1, 0, FULL), (last_bit, 0, FULL), (last_bit, 3, FULL)]
    rows = replay(tmp_path, port, arrivals)
    assert [row.outcome for row in rows] == ["sent", "sent", "dropped", "dropped", "sent", "sent"]


@settings(max_examples=50, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 8), st.integers(64, FULL)), max_size=150
    ),
    selection=st.sampled_from(["standard", "by-kind"]),
    ahead_us=st.sampled_from([0, 30]),
)
def test_whatever_comes_the_line_carries_one_frame_at_a_time(
    tmp_path_factory, arrivals, selection, ahead_us
):
    port = gated(
        60_000,
        40_000,
        selection=selection,
        scheduled=(5,),
        shapers={3: Shaper(100), 4: Shaper(200)},
        ahead_us=ahead_us,
        queue_bytes=20_000,
    )
    rows = replay(tmp_path_factory.mktemp("any"), port, sorted(arrivals))
    assert len(rows) == len(arrivals)
    assert all(row.outcome in ("sent", "dropped") for row in rows)
    line = sent(rows)
    for earlier, later in itertools.pairwise(line):
        assert later.start_ps >= earlier.start_ps + (earlier.bytes + 20) * BYTE
    for row in line:
        phase = row.start_ps % 100_000_000
        if row.queue == 5:
            assert phase + (row.bytes + 8) * BYTE <= 60_000_000
        elif row.queue != PTP_QUEUE:
            assert phase >= 60_000_000
    for queue in range(9):
        own = [row.frame for row in line if row.queue == queue]
        assert own == sorted(own)


def test_nothing_changes_when_time_begins_anew(tmp_path):
    """As in a bridge that runs for months: the epoch moves, and gates, credit and line go on."""
    port = gated(60_000, 41_000, shapers={3: Shaper(100), 4: Shaper(200)}, queue_bytes=20_000)
    arrivals = [(time * 7_654_321, time % 9, 64 + time % FULL // 2) for time in range(3_000)]
    once = replay(tmp_path, port, arrivals)
    assert replay(tmp_path, port, arrivals, "--move-epoch-ps", 33_333_333) == once
    assert {row.outcome for row in once} == {"sent", "dropped"}


# Captures

NANOSECOND_PCAP = 0xA1B23C4D


def frame(pcp, *, vlan=10, ethertype=0x0800, size=100):
    head = bytes.fromhex("020000000002 020000000001 8100")
    return (head + struct.pack("!HH", pcp << 13 | vlan, ethertype)).ljust(size, b"\0")


def write_capture(path, frames):
    content = struct.pack("<IHHiIII", NANOSECOND_PCAP, 2, 4, 0, 0, 65535, 1)
    for time_ns, data in frames:
        seconds, nanoseconds = divmod(time_ns, 10**9)
        content += struct.pack("<IIII", seconds, nanoseconds, len(data), len(data)) + data
    path.write_bytes(content)


def read_capture(path):
    content, place, frames = path.read_bytes(), 24, []
    assert struct.unpack("<I", content[:4]) == (NANOSECOND_PCAP,)
    while place < len(content):
        seconds, nanoseconds, kept, size = struct.unpack("<IIII", content[place : place + 16])
        assert kept == size
        frames.append((seconds * 10**9 + nanoseconds, content[place + 16 : place + 16 + kept]))
        place += 16 + kept
    return frames


def test_a_capture_goes_in_and_what_left_comes_out(tmp_path):
    """Gates go by the capture's own clock; PTP passes them, and a rule gives a VLAN its class."""
    begin = 1_700_000_000 * 10**9
    ptp = frame(0, ethertype=0x88F7)
    best_effort, stream, ruled = frame(0), frame(5), frame(0, vlan=20)
    write_capture(
        tmp_path / "in.pcap",
        [
            (begin + 1_000, best_effort),
            (begin + 1_001, ptp),
            (begin + 30_000, stream),
            (begin + 30_001, ruled),
        ],
    )
    # The window of class 5 opens 20 us after whole 100 us of the clock.
    gates = two_windows(20_000, 80_000, scheduled=5, others=OTHERS).model_copy(
        update={"base_time_ns": 1_600_000_000 * 10**9 + 20_000}
    )
    text = BridgeSettings(PortSettings(gates=gates), classes=[(20, 0, 5)]).text()
    paths = ("--pcap", tmp_path / "in.pcap", "--out-pcap", tmp_path / "out.pcap")
    rows = rows_of(run(tmp_path, text, *paths))
    assert [row.queue for row in rows] == [0, PTP_QUEUE, 5, 5]
    wire_ns = (100 + 24) * 8
    assert read_capture(tmp_path / "out.pcap") == [
        (begin + 1_000, best_effort),
        (begin + 1_000 + wire_ns, ptp),
        (begin + 30_000, stream),
        (begin + 30_000 + wire_ns, ruled),
    ]


@pytest.mark.parametrize("kept", [13, 17])
def test_a_capture_of_a_frame_cut_in_its_headers_is_refused(tmp_path, kept):
    write_capture(tmp_path / "cut.pcap", [(10**18, frame(5)[:kept])])
    done = run(tmp_path, "", "--pcap", tmp_path / "cut.pcap")
    assert (done.returncode, "a frame ends within its headers" in done.stderr) == (1, True)


# Errors in settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate_mbps fast", "line 1: rate_mbps fast: expected a number"),
        ("\n\nspeed 3", "line 3: unknown setting speed"),
        ("gate 0x20 100", "line 1: a line `gates BASE CYCLE` comes before the first gate"),
        ("gates 0 100\ngate 0x100 10", "line 2: gate 0x100: expected a whole number from 0 to 255"),
        ("queue_bytes 10", "line 1: queue_bytes 10: expected a whole number from 64"),
        ("shape 5 1000", "a send slope is below 0"),
        ("shape 5 600\nshape 4 600", "the idle slopes together exceed the port's rate"),
        ("port p0\nrate_mbps 100\nshape 5 200", "port p0: a send slope is below 0"),
        ("port p0\nport p0", "line 2: port p0 occurs twice"),
        ("sleep_us 0\nrealtime yes", "realtime needs a sleep_us above 0"),
        ("class 4095 1 1", "line 1: class 4095: expected a whole number from 0 to 4094"),
        ("address 02:00:00:00:00 1 p0", "line 1: 02:00:00:00:00 is not a MAC address"),
        ("scheduled 8", "line 1: scheduled 8: expected a whole number from 0 to 7"),
    ],
)
def test_errors_in_settings_are_reported(tmp_path, text, message):
    (tmp_path / "none.csv").write_text("time_ps,queue,bytes\n")
    done = run(tmp_path, text + "\n", "--csv", tmp_path / "none.csv")
    assert done.returncode == 1
    assert message in done.stderr


def test_a_ports_own_settings_replace_those_of_every_port(tmp_path):
    fast = gated(20_000, 80_000, shapers={5: Shaper(10)})
    text = BridgeSettings(fast, {"p1": PortSettings(rate_mbps=100.0)}).text()
    (tmp_path / "two.csv").write_text("time_ps,queue,bytes\n0,5,1480\n0,5,1480\n")
    plain = rows_of(run(tmp_path, text, "--csv", tmp_path / "two.csv", "--port", "p1"))
    assert [row.start_ps for row in plain] == [0, 120_000_000]
    shaped = rows_of(run(tmp_path, text, "--csv", tmp_path / "two.csv", "--port", "p0"))
    assert shaped[1].start_ps > 1_000_000_000


@pytest.mark.parametrize("line", ["1,2", "x,0,64", "5,9,64", "-1,0,64", "1,0,64,7"])
def test_a_line_that_is_no_arrival_is_refused(tmp_path, line):
    (tmp_path / "bad.csv").write_text(f"time_ps,queue,bytes\n{line}\n")
    done = run(tmp_path, "", "--csv", tmp_path / "bad.csv")
    assert (done.returncode, "a line is not time_ps,queue,bytes" in done.stderr) == (1, True)


def test_times_that_go_back_are_refused(tmp_path):
    (tmp_path / "back.csv").write_text("time_ps,queue,bytes\n5,0,64\n4,0,64\n")
    done = run(tmp_path, "", "--csv", tmp_path / "back.csv")
    assert (done.returncode, "times decrease" in done.stderr) == (1, True)
