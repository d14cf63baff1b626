"""Delivery against counting datagram by datagram, and examples worked by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tsnrepro.common.errors import ToolError
from tsnrepro.native.streams import log
from tsnrepro.native.streams.delivery import deliver, on_senders_clock, one_way

BASE_NS = 1_795_000_000_000_000_000


def records(rows: list[tuple[int, int, int, int]]) -> np.ndarray:
    """Return arrivals from rows of number, sent, received, stamped (0: no stamp)."""
    made = np.zeros(len(rows), log.LISTENER_DTYPE)
    made["stream"] = 5001
    for at, (number, sent, received, stamped) in enumerate(rows):
        made[at] = (5001, number, BASE_NS + sent, BASE_NS + received, stamped and BASE_NS + stamped)
    return made


@st.composite
def deliveries(draw):
    """Return how many were sent, and arrivals with losses, duplicates, reordering and no stamps."""
    sent = draw(st.integers(1, 25))
    numbers = draw(st.lists(st.integers(0, sent - 1), max_size=40))
    clock, rows = 0, []
    for number in numbers:
        clock += draw(st.integers(0, 1000))
        stamp = draw(st.sampled_from([0, clock + 1, clock + 5]))
        rows.append((number, number * 10, clock + 7, stamp))
    return sent, rows


def plainly(sent: int, rows: list[tuple[int, int, int, int]], receipt: str) -> dict:
    """Count one datagram after the other."""
    seen, firsts, reordered, largest = set(), [], 0, -1
    for row in rows:
        if row[0] in seen:
            continue
        seen.add(row[0])
        firsts.append(row)
        reordered += row[0] < largest
        largest = max(largest, row[0])
    runs = []
    for number in range(sent):
        if number in seen:
            continue
        if runs and sum(runs[-1]) == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    column = 2 if receipt == "application" else 3
    timed = [row for row in firsts if row[column]]
    gap = None
    for one, two in pairwise(timed):
        duration = two[column] - one[column]
        if gap is None or duration > gap[0]:
            lost = sum(n not in seen for n in range(one[0], two[0]))
            gap = (duration, one[0], two[0], lost)
    return {
        "unique": len(seen),
        "reordered": reordered,
        "runs": runs,
        "gap": gap,
        "latencies": [row[column] - row[1] for row in timed],
        "missing": len(firsts) - len(timed),
    }


@settings(max_examples=200, deadline=None)
@given(deliveries(), st.sampled_from(["application", "kernel"]))
def test_it_is_what_plain_counting_finds(given_delivery, receipt):
    sent, rows = given_delivery
    found, truth = deliver(sent, records(rows), receipt), plainly(sent, rows, receipt)
    assert (found.sent, found.received) == (sent, len(rows))
    assert found.unique == truth["unique"]
    assert found.lost == sent - truth["unique"] == sum(length for _, length in truth["runs"])
    assert found.duplicated == len(rows) - truth["unique"]
    assert found.reordered == truth["reordered"]
    assert found.loss_runs.tolist() == truth["runs"]
    assert found.longest_loss_run == max((length for _, length in truth["runs"]), default=0)
    gap = found.longest_gap
    assert truth["gap"] == (
        gap and (gap.duration_ns, gap.after_sequence, gap.before_sequence, gap.lost_datagrams)
    )
    latency = one_way(records(rows), receipt)
    assert latency.latency_ns.tolist() == truth["latencies"]
    assert latency.missing_stamps == truth["missing"]


def test_an_outage_is_its_gap_and_what_was_lost_in_it():
    """A datagram each 10 us; 100 to 299 lost: the gap is 201 intervals."""
    rows = [(n, n * 10_000, n * 10_000 + 5000, 0) for n in range(1000) if not 100 <= n < 300]
    found = deliver(1000, records(rows))
    gap = found.longest_gap
    assert (found.lost, found.loss_runs.tolist()) == (200, [[100, 200]])
    assert (gap.duration_ns, gap.after_sequence, gap.before_sequence) == (2_010_000, 99, 300)
    assert gap.lost_datagrams == 200


def test_nothing_arrived():
    found = deliver(7, records([]))
    assert (found.lost, found.reordered, found.longest_gap) == (7, 0, None)
    assert found.loss_runs.tolist() == [[0, 7]]
    assert one_way(records([])).latency_ns.size == 0


def test_a_million_datagrams_and_the_largest_times_are_exact():
    """Differences of times near 2^61 ns would lose 256 ns steps as floating point numbers."""
    made = np.zeros(1_000_000, log.LISTENER_DTYPE)
    made["sequence"] = np.arange(1_000_000)
    made["sent_ns"] = BASE_NS + np.arange(1_000_000) * 1000
    made["received_ns"] = made["sent_ns"] + (3 + np.arange(1_000_000) % 7).astype(np.uint64)
    assert sorted(set(one_way(made).latency_ns.tolist())) == [3, 4, 5, 6, 7, 8, 9]


def test_a_latency_below_zero_is_kept():
    assert one_way(records([(0, 500, 100, 0)])).latency_ns.tolist() == [-400]


def test_an_arrival_without_a_stamp_has_no_latency_by_stamps():
    found = one_way(records([(0, 5, 90, 50), (1, 6, 91, 51), (2, 7, 92, 0)]), "kernel")
    assert (found.latency_ns.tolist(), found.sequence.tolist()) == ([45, 45], [0, 1])
    assert found.missing_stamps == 1


def test_a_number_never_sent_is_no_delivery():
    with pytest.raises(ToolError, match="1 numbers arrived that were never sent, the largest 5"):
        deliver(5, records([(4, 0, 1, 0), (5, 0, 2, 0)]))


def test_several_streams_are_no_delivery():
    made = records([(0, 0, 1, 0), (1, 0, 2, 0)])
    made["stream"][1] = 5002
    with pytest.raises(ToolError, match=r"several streams: \[5001, 5002\]"):
        deliver(2, made)


@given(st.integers(-(10**12), 10**12), st.lists(st.integers(0, 10**7), min_size=1, max_size=20))
def test_a_listener_with_a_clock_of_its_own_is_read_on_the_senders(ahead, ways):
    """Whatever its clock shows, times are those of one clock but for what the quickest took."""
    sent = [1000 * number for number in range(len(ways))]
    true = [
        (n, at, at + way, at + way + 3) for n, (at, way) in enumerate(zip(sent, ways, strict=True))
    ]
    shown = [(n, at, end + ahead, stamped + ahead) for n, at, end, stamped in true]
    assume(all(stamped for *_, stamped in shown))  # 0 means none
    found, taken_off = on_senders_clock(records(shown))
    assert taken_off == ahead + min(ways)
    expected = [(n, at, end - min(ways), stamped - min(ways)) for n, at, end, stamped in true]
    assert found.tolist() == records(expected).tolist()


def test_what_never_came_or_has_no_stamp_is_left_as_it_is():
    nothing = records([])
    assert on_senders_clock(nothing)[1] == 0
    found, _ = on_senders_clock(records([(0, 10, 60, 0), (1, 20, 90, 95)]))
    assert found["stamped_ns"].tolist() == [0, BASE_NS + 45]
