"""The course of a queue from its departures, against arithmetic and a course told step by step."""

from itertools import pairwise

import numpy as np
import pytest
from model_networks import one_hop

from tsnrepro.model.engine import simulate
from tsnrepro.model.logs import DEPARTURE, Depth, first_drop_ps, queue_depth
from tsnrepro.model.network import Bursts, ConstantRate, DuplexLink, EgressPort

PORT = "talker:wire"
# 982 bytes of payload are 1024 of frame and 1044 on the wire: on 100 Mb/s a frame is sent for
# 83.52 us.
PAYLOAD, FRAME, WIRE = 978, 1024, 1044


def run(send, *, queue_bytes=100_000, duration_s=0.2):
    """A talker of any rate on a link of 100 Mb/s, its queue the only place that can lose."""
    network = one_hop(
        [(send, PAYLOAD, 0)],
        port=EgressPort(queue_bytes=queue_bytes),
        link=DuplexLink(name="wire", a="talker", b="listener", rate_mbps=100.0),
    )
    return simulate(network, duration_s=duration_s, departures=[PORT])


def departures(rows):
    """Departures of (datagram, queued, end, bytes)."""
    found = np.zeros(len(rows), DEPARTURE)
    for name, column in zip(
        ("datagram", "queued_ps", "end_ps", "frame_bytes"), np.array(rows).T, strict=True
    ):
        found[name] = column
    return found


@pytest.mark.parametrize("send", [ConstantRate(rate_mbps=150.0), Bursts(rate_mbps=80.0)])
@pytest.mark.parametrize("queue_bytes", [20_000, 100_000])
def test_a_course_peaks_where_the_port_counted_its_peak(send, queue_bytes):
    result = run(send, queue_bytes=queue_bytes)
    course = queue_depth(result.logs.departures)
    assert course.held_bytes.max() == result.ports[PORT].peak_queue_bytes[0]
    assert course.held_bytes.min() == course.held_bytes[-1] == 0
    assert (np.diff(course.times_ps) >= 0).all()


def test_an_overloaded_queue_grows_by_what_comes_less_what_goes():
    rate = 150.0
    result = run(ConstantRate(rate_mbps=rate))
    course = queue_depth(result.logs.departures)
    came = rate / 8 * FRAME / PAYLOAD  # bytes a microsecond
    went = 100.0 / 8 * FRAME / WIRE
    for held in (20_000, 50_000, 90_000):
        expected_us = held / (came - went)
        assert course.reached_ps(held) / 1e6 == pytest.approx(
            expected_us, abs=2 * FRAME / (came - went)
        )
    assert course.reached_ps(100_001) is None


def test_a_course_is_what_one_tells_by_hand():
    # At 30 the first frame has gone before the third comes.
    course = queue_depth(departures([(0, 10, 30, 100), (1, 20, 50, 60), (2, 30, 70, 40)]))
    assert course.times_ps.tolist() == [10, 20, 30, 30, 50, 70]
    assert course.held_bytes.tolist() == [100, 160, 60, 100, 40, 0]


def test_the_highest_depth_of_spans_against_every_instant():
    rng = np.random.default_rng(5)
    times = np.sort(rng.integers(0, 200, 80))
    course = Depth(times, rng.integers(0, 50, 80))
    edges = np.array([0, 7, 50, 51, 120, 240])

    def within(begin, end):
        """What is held at the beginning, and after each change until the end."""
        earlier = course.held_bytes[times <= begin]
        inside = course.held_bytes[(begin < times) & (times < end)]
        return max([earlier[-1] if len(earlier) else 0, *inside])

    expected = [within(a, b) for a, b in pairwise(edges)]
    assert course.highest(edges).tolist() == expected


def test_the_first_datagram_that_found_no_room():
    rows = departures([(0, 100, 1, 1), (1, 200, 1, 1), (4, 500, 1, 1), (6, 700, 1, 1)])
    assert first_drop_ps(rows) == 300
    assert first_drop_ps(rows[:2]) is None


def test_what_is_missing_is_what_the_port_dropped():
    result = run(ConstantRate(rate_mbps=150.0), queue_bytes=20_000)
    rows = result.logs.departures
    course = queue_depth(rows)
    dropped = sum(result.streams["s0"].frames.queue_drops.values())
    assert dropped == result.streams["s0"].entered - len(np.unique(rows["datagram"])) > 0
    full = course.reached_ps(20_000 - FRAME + 1)
    gap_ps = PAYLOAD * 8 / 150.0 * 1e6
    assert 0 < first_drop_ps(rows) - full <= 2 * gap_ps


def test_a_run_that_is_not_asked_keeps_no_departures():
    network = one_hop([(ConstantRate(rate_mbps=10.0), PAYLOAD, 0)])
    assert simulate(network, duration_s=0.01).logs.departures is None
