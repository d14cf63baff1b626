"""FRER over whole networks: loss, delay, failover, skew, counters."""

import numpy as np
import pytest
from model_networks import HOST, VECTOR, one_hop, two_switches

from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    BurstLoss,
    ConstantRate,
    DuplexLink,
    Listed,
    RandomLoss,
    Recovery,
    Span,
)

SEND = ConstantRate(rate_mbps=100.0)


def lossy(probability, **options):
    return [{"loss": RandomLoss(probability=probability), **options}]


@pytest.mark.parametrize(("p1", "p2"), [(0.1, 0.1), (0.3, 0.05), (0.02, 0.5)])
def test_loss_is_the_product_of_independent_losses(p1, p2):
    network = two_switches(SEND, 64, [lossy(p1), lossy(p2)], recovery=VECTOR)
    stream = simulate(network, duration_s=5.0, seed=5).streams["s0"]
    expected = p1 * p2
    error = (expected * (1 - expected) / stream.entered) ** 0.5
    assert stream.entered > 900_000
    assert abs(stream.loss_ratio - expected) < 4 * error


def test_burst_loss_has_the_share_and_run_length_of_its_chain():
    loss = BurstLoss(good_to_bad=0.01, bad_to_good=0.2)
    network = two_switches(SEND, 64, [[{"loss": loss}]])
    result = simulate(network, duration_s=5.0, seed=6, record=True)
    stream = result.streams["s0"]
    assert stream.loss_ratio == pytest.approx(0.01 / 0.21, rel=0.03)
    gaps = np.diff(result.deliveries["datagram"]) - 1
    assert gaps[gaps > 0].mean() == pytest.approx(5.0, rel=0.03)


def test_paths_together_deliver_the_union_and_the_earlier_copy():
    """Each path keeps its chances when the other is added: the union holds frame by frame."""
    fast, slow = lossy(0.2, delay_ns=1_000.0), lossy(0.1, delay_ns=7_000.0)
    # Datagrams further apart than the paths, so that none waits for another behind the meeting.
    apart = ConstantRate(rate_mbps=100.0)

    def deliveries(members):
        network = two_switches(apart, 256, members, recovery=VECTOR)
        result = simulate(network, duration_s=0.2, seed=7, record=True)
        rows = result.deliveries
        return dict(zip(rows["datagram"].tolist(), rows["arrived_ps"].tolist(), strict=True))

    both = deliveries([fast, slow])
    first = deliveries([fast])
    # Alone on the first path's link, so that it meets the second path's chances: make it second.
    second = deliveries([lossy(1.0), slow])
    assert set(both) == set(first) | set(second)
    assert set(first) & set(second) not in (set(first), set(second))
    for number, arrived in both.items():
        assert arrived == min(path[number] for path in (first, second) if number in path)


@pytest.mark.parametrize("paths", [2, 3, 5])
def test_each_path_carries_the_whole_stream(paths):
    network = two_switches(SEND, 1472, [[{}]] * paths, recovery=VECTOR)
    result = simulate(network, duration_s=0.5)
    stream = result.streams["s0"]
    assert (stream.lost, stream.duplicates) == (0, 0)
    assert stream.frames.eliminated == (paths - 1) * stream.entered
    for number in range(paths):
        (flow,) = result.ports[f"first:path-{number}-0"].streams
        assert flow.sent == stream.entered
    counters = result.recovery("s0")
    assert counters["discarded"] == (paths - 1) * counters["passed"]


def test_numbers_wrap_without_loss():
    network = two_switches(ConstantRate(rate_mbps=400.0), 64, [[{}], [{}]], recovery=VECTOR)
    result = simulate(network, duration_s=0.5)
    stream, counters = result.streams["s0"], result.recovery("s0")
    assert stream.entered > 5 * 65_536
    assert stream.lost == counters["rogue"] == counters["out_of_order"] == 0
    assert counters["lost"] == 63  # the numbers before the first one: a start, not a loss


def test_failure_costs_one_path_everything_and_two_paths_nothing():
    down = {"failures": [Span(from_ns=100_000_000, until_ns=150_000_000)]}
    single = simulate(two_switches(SEND, 1472, [[down]]), duration_s=0.3).streams["s0"]
    # A frame is lost from the one still on the line to the last that starts before the repair.
    per_second = 100e6 / (1472 * 8)
    assert single.lost == pytest.approx(0.05 * per_second, abs=1.5)
    assert single.lost == single.frames.lost_down["first:path-0-0"]
    double = two_switches(SEND, 1472, [[down], [{"delay_ns": 5_000.0}]], recovery=VECTOR)
    result = simulate(double, duration_s=0.3)
    stream = result.streams["s0"]
    assert stream.lost == 0
    assert stream.frames.lost_down["first:path-0-0"] == pytest.approx(single.lost, abs=1)
    assert stream.latency.max_ps - stream.latency.min_ps == 5_000_000


@pytest.mark.parametrize(
    ("down_ns", "up_ns", "survives"),
    [(12_208, 20_000, True), (12_207, 20_000, False), (0, 1, False), (20_000, None, True)],
)
@pytest.mark.parametrize("general_ports", [False, True])
def test_failure_takes_what_is_on_the_link_to_the_nanosecond(
    down_ns, up_ns, survives, general_ports
):
    """A full frame is on the link from 0 to 12,208 ns."""
    link = DuplexLink(
        name="wire", a="talker", b="listener", failures=[Span(from_ns=down_ns, until_ns=up_ns)]
    )
    network = one_hop([(Listed(times_ns=[0]), 1472, 0)], link=link)
    stream = simulate(network, duration_s=1e-3, general_ports=general_ports).streams["s0"]
    assert (stream.unique == 1) is survives


def test_frame_that_starts_when_the_link_is_up_again_arrives():
    failure = Span(from_ns=5_000, until_ns=20_000)
    link = DuplexLink(name="wire", a="talker", b="listener", failures=[failure])
    network = one_hop([(Listed(times_ns=[19_999, 40_000, 60_000]), 1472, 0)], link=link)
    result = simulate(network, duration_s=1e-3, record=True)
    assert result.deliveries["datagram"].tolist() == [1, 2]
    exact = one_hop([(Listed(times_ns=[20_000]), 1472, 0)], link=link)
    assert simulate(exact, duration_s=1e-3).streams["s0"].unique == 1


def test_history_must_cover_rate_times_skew():
    """64 numbers at 100,000 a second are 640 us: a path 500 us behind is eliminated in full, one
    700 us behind is rogue, but for its last 64 frames, which come after the other's end."""
    send = ConstantRate(rate_mbps=51.2)  # 100,000 a second
    counters = {}
    for skew_us in (500, 700):
        network = two_switches(send, 64, [[{}], [{"delay_ns": skew_us * 1000.0}]], recovery=VECTOR)
        result = simulate(network, duration_s=0.1)
        counters[skew_us] = result.recovery("s0")
        assert result.streams["s0"].lost == 0
        assert result.streams["s0"].duplicates == 0
    assert counters[500]["rogue"] == 0
    assert counters[500]["discarded"] == counters[500]["passed"]
    assert counters[700]["discarded"] == 64
    assert counters[700]["rogue"] == counters[700]["passed"] - 64


def test_reset_before_the_slow_path_has_caught_up_repeats_frames():
    """The fast path dies with the slow one 200 numbers (2 ms) behind.

    Without a reset its old numbers are rogue, then repeats, and the new ones pass: nothing is lost
    or repeated. A reset after 1 ms takes any number, so the 100 that follow are passed again.
    """
    failure = {"failures": [Span(from_ns=20_000_000)]}
    members = [[failure], [{"delay_ns": 2_000_000.0}]]
    send = ConstantRate(rate_mbps=51.2)

    def run(timeout_ms):
        recovery = Recovery(history_length=64, reset_ms=timeout_ms)
        result = simulate(two_switches(send, 64, members, recovery=recovery), duration_s=0.1)
        stream = result.streams["s0"]
        return stream.lost, stream.duplicates, result.recovery("s0")["resets"]

    assert run(None) == (0, 0, 0)
    lost, duplicates, resets = run(1.0)
    assert (lost, resets) == (0, 1)
    assert duplicates == pytest.approx(100, abs=2)


def test_match_recovery_passes_repeats_of_a_late_path():
    """Match recovery drops only the repeat of the last number: any skew doubles the stream."""
    match = Recovery(algorithm="match")
    together = two_switches(SEND, 1472, [[{}], [{}]], recovery=match)
    stream = simulate(together, duration_s=0.05).streams["s0"]
    assert (stream.lost, stream.duplicates) == (0, 0)
    apart = two_switches(SEND, 1472, [[{}], [{"delay_ns": 200_000.0}]], recovery=match)
    stream = simulate(apart, duration_s=0.05).streams["s0"]
    assert stream.lost == 0
    assert stream.duplicates == pytest.approx(stream.entered, abs=3)


def test_elimination_at_the_listener():
    network = two_switches(SEND, 1472, [[{}], [{}]], recovery=VECTOR)
    document = network.model_dump()
    for number in (0, 1):
        document["links"].append(
            {"name": f"last-{number}", "a": "second", "b": "listener", "rate_mbps": 1000.0}
        )
    route = document["streams"][0]["route"]
    route["members"] = [["path-0-0", "last-0"], ["path-1-0", "last-1"]]
    route["after"] = []
    document["streams"][0]["route"] = route
    result = simulate(type(network).model_validate(document), duration_s=0.1)
    stream = result.streams["s0"]
    assert (stream.lost, stream.duplicates) == (0, 0)
    assert stream.frames.eliminated == stream.entered
    # The tagged frame crosses every link after the first switch: 6 bytes on two of three.
    assert stream.transit.min_ps == (1526 + 2 * 1532) * 8_000


def test_replication_does_not_raise_what_a_slow_listener_can_take():
    """The listener's processor is the limit with one path and with two."""
    slow = HOST.model_copy(
        update={
            "receive_buffer_bytes": 212_992,
            "receive_time": HOST.receive_time.model_copy(update={"mean_ns": 25_000.0}),
        }
    )
    send = ConstantRate(rate_mbps=600.0)
    rates = [
        simulate(
            two_switches(send, 1472, [[{}]] * paths, recovery=recovery, listener=slow),
            duration_s=1.0,
        )
        .streams["s0"]
        .goodput_mbps(1.0)
        for paths, recovery in ((1, None), (2, VECTOR))
    ]
    assert rates[0] == pytest.approx(1472 * 8 / 25, rel=0.003)
    assert rates[1] == pytest.approx(rates[0], rel=1e-4)
