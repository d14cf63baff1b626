"""Requests and answers: round trips by arithmetic, one at a time, time-outs, FRER both ways."""

import numpy as np
import pytest
from model_networks import HOST, VECTOR, exponential, one_hop, two_switches
from pydantic import ValidationError

from tsnrepro.model.engine import simulate
from tsnrepro.model.logs import ANSWER
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    Duration,
    Network,
    PingPong,
    Poisson,
    RandomLoss,
    Replicated,
    SinglePath,
    Span,
)

BACK = PingPong(answer_route=SinglePath(links=["wire"]))
FRAME_64 = (110 + 8) * 8  # ns at 1 Gb/s of a payload of 64 bytes, preamble to last bit


def costly(**times):
    return HOST.model_copy(update={name: Duration(mean_ns=ns) for name, ns in times.items()})


def over_frer(members, timeout_ms=10.0, **options):
    network = two_switches(ConstantRate(rate_mbps=1.0), 64, members, recovery=VECTOR, **options)
    route = Replicated(
        before=["out"],
        members=[[f"path-{number}-0"] for number in range(len(members))],
        after=["in"],
        recovery=VECTOR,
    )
    send = PingPong(answer_route=route, timeout_ms=timeout_ms)
    stream = network.streams[0].model_copy(update={"send": send})
    return Network.model_validate(network.model_copy(update={"streams": [stream]}).model_dump())


def round_trips_ns(result):
    """The round trip of every request that was answered in time."""
    answers = result.logs.answers
    return (answers["answered_ps"] - answers["sent_ps"]) / 1000


def test_round_trip_is_the_sum_of_its_parts():
    """Twice write, line, stack, read: the processes' times of both hosts, and nothing else."""
    client = costly(send_cost=1_000.0, receive_time=2_000.0, stack_time=300.0)
    server = costly(send_cost=5_000.0, receive_time=7_000.0, stack_time=400.0)
    link = DuplexLink(name="wire", a="talker", b="listener", delay_ns=50.0, reverse_delay_ns=90.0)
    network = one_hop([(BACK, 64, 0)], host=client, listener=server, link=link)
    result = simulate(network, duration_s=0.01, record=True)
    parts = 1_000 + FRAME_64 + 50 + 400 + 7_000 + 5_000 + FRAME_64 + 90 + 300 + 2_000
    trips = round_trips_ns(result)
    assert set(trips) == {parts}
    # sockperf's check: round trips fill the test, none overlaps another.
    assert len(trips) == -(-10_000_000 // parts) == result.streams["s0"].ping_pong.answered
    assert np.diff(result.logs.answers["sent_ps"]).min() == parts * 1000
    assert result.streams["s0"].ping_pong.round_trip.quantile_ns(0.5) == parts


def test_interval_sets_the_pace_and_answers_stream():
    send = BACK.model_copy(update={"interval_us": 100.0})
    blocks = []
    result = simulate(one_hop([(send, 64, 0)]), duration_s=0.01, on_answer=blocks.append)
    rows = np.concatenate(blocks)
    assert rows.dtype == ANSWER
    assert rows["sent_ps"].tolist() == [100_000_000 * number for number in range(100)]
    assert result.logs.answers is None


@pytest.mark.parametrize("members", [[[{}]], [[{}], [{"delay_ns": 3_000.0}]]])
def test_both_ways_over_member_paths(members):
    result = simulate(over_frer(members), duration_s=0.05, record=True)
    stream = result.streams["s0"]
    tagged = FRAME_64 + 48
    assert set(round_trips_ns(result)) == {2 * (2 * FRAME_64 + tagged)}
    for name in ("s0", "s0.answer"):
        counters = result.recovery(name)
        assert counters["passed"] == stream.written
        assert counters["discarded"] == (len(members) - 1) * stream.written
    assert stream.ping_pong.timeouts == stream.ping_pong.disregarded == 0


def test_lost_requests_and_answers_time_out():
    """Each way loses one in ten: a trip fails with 1 - 0.9 x 0.9, and costs the time-out."""
    lossy = [[{"loss": RandomLoss(probability=0.1)}]]
    result = simulate(over_frer(lossy, timeout_ms=0.05), duration_s=1.0, seed=4)
    found = result.streams["s0"].ping_pong
    tried = found.answered + found.timeouts
    expected = 1 - 0.9**2
    assert tried > 30_000
    assert abs(found.timeouts / tried - expected) < 4 * (expected * (1 - expected) / tried) ** 0.5
    assert found.disregarded == 0
    spent = found.round_trip.sum_ps + found.timeouts * 50_000_000
    assert spent == pytest.approx(1e12, rel=1e-4)


def test_failure_of_one_path_costs_no_round_trip():
    down = {"failures": [Span(from_ns=5_000_000, until_ns=20_000_000)]}
    whole = simulate(over_frer([[down], [{"delay_ns": 2_000.0}]]), duration_s=0.03)
    single = simulate(over_frer([[down]], timeout_ms=1.0), duration_s=0.03)
    assert whole.streams["s0"].ping_pong.timeouts == 0
    trip = whole.streams["s0"].ping_pong.round_trip
    assert trip.max_ps - trip.min_ps == 4_000_000
    assert single.streams["s0"].ping_pong.timeouts == 15


def test_late_answer_is_read_and_disregarded():
    slow = costly(receive_time=30_000.0)
    send = BACK.model_copy(update={"timeout_ms": 0.025})
    network = one_hop([(send, 64, 0)], listener=slow)
    network = network.model_copy(
        update={"streams": [network.streams[0].model_copy(update={"datagrams": 1})]}
    )
    result = simulate(network, duration_s=0.01, record=True)
    found = result.streams["s0"].ping_pong
    assert (found.answered, found.timeouts, found.disregarded) == (0, 1, 1)
    assert len(round_trips_ns(result)) == 0


def test_background_traffic_lengthens_the_tail():
    network = over_frer([[{}], [{}]], listener=costly(receive_time=1_000.0))
    noise = network.streams[0].model_copy(
        update={"name": "noise", "payload_bytes": 1472, "send": Poisson(rate_mbps=300.0)}
    )
    quiet = simulate(network, duration_s=0.1).streams["s0"].ping_pong
    loud = network.model_copy(update={"streams": [*network.streams, noise]})
    disturbed = simulate(loud, duration_s=0.1).streams["s0"].ping_pong
    assert quiet.round_trip.min_ps == quiet.round_trip.max_ps == disturbed.round_trip.min_ps
    assert disturbed.round_trip.max_ps > quiet.round_trip.max_ps + 12_000_000


def test_percentiles_of_the_list_and_of_the_histogram_agree():
    host = HOST.model_copy(update={"receive_time": exponential(10_000.0)})
    result = simulate(one_hop([(BACK, 64, 0)], listener=host), duration_s=0.5, record=["s0"])
    trips = np.sort(round_trips_ns(result))
    found = result.streams["s0"].ping_pong.round_trip
    for probability in (0.5, 0.9, 0.99, 0.999):
        exact = trips[int(np.ceil(probability * len(trips))) - 1]
        assert found.quantile_ns(probability) == pytest.approx(exact, rel=0.005)


def test_talker_that_drops_cannot_wait_for_answers():
    dropping = HOST.model_copy(update={"when_full": "drop"})
    with pytest.raises(ValidationError, match="when_full: wait"):
        one_hop([(BACK, 64, 0)], host=dropping)
