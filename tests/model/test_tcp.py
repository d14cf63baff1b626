"""TCP: its ceiling, its window limit, its reaction to loss."""

import math

import numpy as np
import pytest
from model_networks import HOST, ROOMY, VECTOR

from tsnrepro.common.ethernet import tcp_frame, tcp_limit_mbps
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    DuplexLink,
    EgressPort,
    Network,
    RandomLoss,
    Replicated,
    SinglePath,
    Span,
    Switch,
    TcpBulk,
    TrafficStream,
)

SEGMENT = 1448


def transfer(*, paths=({},), recovery=None, queue_bytes=2_000_000, segments=None, **tcp):
    """A TCP transfer over two switches; with ``recovery``, FRER protects both directions."""
    members = [[f"path-{number}"] for number in range(len(paths))]
    links = [
        DuplexLink(name="in", a="talker", b="first"),
        *[
            DuplexLink(name=name, a="first", b="second", **options)
            for (name,), options in zip(members, paths, strict=True)
        ],
        DuplexLink(name="out", a="second", b="listener"),
    ]
    if recovery is None:
        route, back = (
            SinglePath(links=["in", "path-0", "out"]),
            SinglePath(links=["out", "path-0", "in"]),
        )
    else:
        route = Replicated(before=["in"], members=members, after=["out"], recovery=recovery)
        back = Replicated(before=["out"], members=members, after=["in"], recovery=recovery)
    return Network(
        hosts={"talker": HOST, "listener": HOST},
        switches={
            "first": Switch(port=EgressPort(queue_bytes=queue_bytes)),
            "second": Switch(port=ROOMY),
        },
        links=links,
        streams=[
            TrafficStream(
                name="bulk",
                talker="talker",
                listener="listener",
                payload_bytes=SEGMENT,
                send=TcpBulk(ack_route=back, **tcp),
                route=route,
                datagrams=segments,
            )
        ],
    )


def steady_rate(result, after_s):
    """Rate in Mb/s at which new segments came, from ``after_s`` on."""
    times = result.deliveries["arrived_ps"]
    times = np.sort(times[times > after_s * 1e12])
    return (len(times) - 1) * SEGMENT * 8 / float(times[-1] - times[0]) * 1e6


@pytest.mark.parametrize("recovery", [None, VECTOR])
@pytest.mark.parametrize("congestion", ["reno", "cubic"])
def test_ceiling_is_the_line(recovery, congestion):
    """FRER's tag is on the line between the switches, whose limit the tag then sets."""
    network = transfer(
        recovery=recovery, congestion=congestion, window_bytes=500 * SEGMENT, paths=({}, {})
    )
    result = simulate(network, duration_s=0.3, record=True)
    limit = tcp_limit_mbps(tagged=recovery is not None)
    assert steady_rate(result, 0.1) == pytest.approx(limit, abs=5e-4)
    assert result.streams["bulk"].tcp.retransmitted == 0


def test_window_limits_the_rate_by_the_round_trip():
    """A window of 2 segments sends both and waits for the acknowledgement of the second."""
    delay = 500_000.0
    network = transfer(paths=({"delay_ns": delay},), window_bytes=2 * SEGMENT)
    result = simulate(network, duration_s=1.0)
    data, ack = (tcp_frame() + 8) * 8, (tcp_frame(0) + 8) * 8
    # Three hops each way; the second segment is one frame and gap behind the first.
    round_trip_ns = 3 * data + (tcp_frame() + 20) * 8 + 3 * ack + 2 * delay
    expected = 2 * SEGMENT * 8 / round_trip_ns * 1000
    stream = result.streams["bulk"]
    assert stream.goodput_mbps(1.0) == pytest.approx(expected, rel=2e-3)
    assert stream.tcp.smoothed_rtt_ns == pytest.approx(round_trip_ns, rel=1e-3)


@pytest.mark.parametrize("probability", [1e-4, 1e-3])
def test_reno_follows_the_square_root_of_loss(probability):
    """Rate = segment / RTT x 1.31 / sqrt(p).

    Source: M. Mathis, J. Semke, J. Mahdavi, T. Ott, The macroscopic behavior of the TCP congestion
    avoidance algorithm, CCR 27 (1997), table 1: random loss, a window that grows by one segment a
    round trip (as bytes are counted, delayed acknowledgements do not slow it).
    """
    delay = 10e6
    network = transfer(
        paths=({"delay_ns": delay, "loss": RandomLoss(probability=probability)},),
        congestion="reno",
        window_bytes=4000 * SEGMENT,
    )
    # Acknowledgements are lost as often, which hardly matters: the next one says more.
    result = simulate(network, duration_s=600.0, seed=1)
    stream = result.streams["bulk"]
    expected = SEGMENT * 8 / (2 * delay) * 1000 * 1.31 / math.sqrt(probability)
    assert stream.goodput_mbps(600.0) == pytest.approx(expected, rel=0.1)
    assert stream.tcp.recoveries > 100
    assert stream.tcp.timeouts < stream.tcp.recoveries / 20


def test_cubic_recovers_faster_than_reno_on_a_long_path():
    def rate(congestion):
        network = transfer(
            paths=({"delay_ns": 20e6, "loss": RandomLoss(probability=1e-5)},),
            congestion=congestion,
            window_bytes=6000 * SEGMENT,
        )
        return simulate(network, duration_s=60.0, seed=2).streams["bulk"].goodput_mbps(60.0)

    assert rate("cubic") > 1.2 * rate("reno")


def test_overflowing_switch_is_found_and_the_line_stays_busy():
    """A buffer of a quarter of the window: loss ends slow start, and no time-out follows."""
    network = transfer(
        paths=({"delay_ns": 200_000.0, "rate_mbps": 500.0},),
        queue_bytes=150_000,
        window_bytes=600 * SEGMENT,
    )
    result = simulate(network, duration_s=2.0, record=True)
    stream = result.streams["bulk"]
    drops = stream.frames.queue_drops
    assert set(drops) == {"first:path-0"}
    assert stream.tcp.retransmitted >= drops["first:path-0"] > 0
    assert stream.tcp.timeouts <= 1
    assert steady_rate(result, 0.5) == pytest.approx(tcp_limit_mbps(rate_mbps=500.0), rel=0.02)


def test_every_segment_arrives_through_heavy_loss():
    network = transfer(
        paths=({"delay_ns": 50_000.0, "loss": RandomLoss(probability=0.05)},),
        segments=3000,
        window_bytes=100 * SEGMENT,
    )
    result = simulate(network, duration_s=1.0, drain_s=600.0, seed=3)
    stream = result.streams["bulk"]
    assert stream.written == stream.unique == stream.delivered == 3000
    assert stream.lost == 0
    assert stream.entered == 3000 + stream.tcp.retransmitted
    losses = sum(stream.frames.lost_random.values())
    assert losses <= stream.tcp.retransmitted <= losses + stream.duplicates
    assert stream.frames.left == 0


def test_transfer_survives_an_outage_by_time_out_and_not_at_all_with_two_paths():
    down = {"failures": [Span(from_ns=300_000_000, until_ns=700_000_000)]}
    options = {"segments": 60_000, "window_bytes": 300 * SEGMENT}
    single = simulate(transfer(paths=(down,), **options), duration_s=2.0, drain_s=60.0)
    stream = single.streams["bulk"]
    assert stream.tcp.timeouts >= 1
    assert stream.delivered == 60_000
    double = simulate(
        transfer(paths=(down, {"delay_ns": 2_000.0}), recovery=VECTOR, **options),
        duration_s=2.0,
        drain_s=60.0,
    )
    stream = double.streams["bulk"]
    assert (stream.tcp.timeouts, stream.tcp.retransmitted) == (0, 0)
    assert stream.delivered == 60_000
    assert double.recovery("bulk")["passed"] == 60_000
    assert double.recovery("bulk.ack")["passed"] == stream.tcp.acknowledgements


@pytest.mark.parametrize("general_ports", [False, True])
def test_acknowledgements_are_one_for_two_segments(general_ports):
    network = transfer(segments=10_001, window_bytes=300 * SEGMENT)
    result = simulate(network, duration_s=1.0, general_ports=general_ports)
    stream = result.streams["bulk"]
    assert stream.delivered == 10_001
    # The last one is alone and acknowledged 40 ms later.
    assert stream.tcp.acknowledgements == 5001
    assert stream.ack_frames.taken == 5001


def test_window_too_large_for_its_segments_is_refused():
    with pytest.raises(ValueError, match=r"2 \.\.\. 16384"):
        simulate(transfer(window_bytes=32_000_000), duration_s=0.01)
