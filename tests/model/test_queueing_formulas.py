"""Queues against closed forms of queueing theory.

Sources: L. Kleinrock, Queueing Systems, vol. 1 (1975): M/D/1 and M/G/1 (5.6), M/M/1/K (3.6);
vol. 2 (1976): non-preemptive priorities (3.6). Runs are long enough that the standard error is a
third of the tolerance or less, and seeds are fixed.
"""

import numpy as np
import pytest
from model_networks import HOST, ROOMY, exponential, one_hop, two_switches
from scipy import stats

from tsnrepro.common.ethernet import udp_frames, wire_bytes
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate, DuplexLink, Duration, EgressPort, Listed, Poisson

INSTANT = DuplexLink(name="wire", a="talker", b="listener", rate_mbps=1_000_000.0)


def poisson(payload, load, rate_mbps=1000.0):
    """A Poisson stream that keeps a line busy for ``load`` of the time."""
    wire = sum(wire_bytes(size) for size in udp_frames(payload))
    return Poisson(rate_mbps=rate_mbps * load * payload / wire)


def wait_ns(result, stream="s0"):
    (flow,) = [f for f in result.ports["talker:wire"].streams if f.stream == stream]
    return flow.wait_sum_ps / flow.sent / 1000


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_mean_wait_of_m_d_1(load):
    service = 12_304.0
    result = simulate(one_hop([(poisson(1472, load), 1472, 0)]), duration_s=30.0, seed=1)
    expected = load * service / (2 * (1 - load))
    assert wait_ns(result) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("load", "places"), [(0.7, 5), (1.0, 8), (1.5, 8)])
def test_blocking_and_response_of_m_m_1_k(load, places):
    service = 10_000.0
    network = one_hop(
        [(Poisson(rate_mbps=64 * 8 * load / service * 1000), 64, 0)],
        link=INSTANT,
        listener=HOST.model_copy(
            update={
                "truesize_bytes": 1000,
                "receive_buffer_bytes": 1000 * places - 1,
                "receive_time": exponential(service),
            }
        ),
    )
    stream = simulate(network, duration_s=10.0, seed=2).streams["s0"]
    weights = [load**n for n in range(places + 1)]
    shares = [weight / sum(weights) for weight in weights]
    blocking = stream.receiver_socket_drops / stream.entered
    assert blocking == pytest.approx(shares[places], rel=0.02)
    inside = sum(n * share for n, share in enumerate(shares))
    response = inside / (load / service * (1 - shares[places]))
    assert stream.latency.mean_ns == pytest.approx(response, rel=0.02)


@pytest.mark.parametrize("shape", [1, 4])
def test_mean_response_of_m_g_1(shape):
    """Pollaczek-Khinchine with Erlang service."""
    service, load = 10_000.0, 0.6
    network = one_hop(
        [(Poisson(rate_mbps=64 * 8 * load / service * 1000), 64, 0)],
        link=INSTANT,
        listener=HOST.model_copy(
            update={"receive_time": Duration(mean_ns=service, distribution="erlang", shape=shape)}
        ),
    )
    stream = simulate(network, duration_s=20.0, seed=3).streams["s0"]
    expected = service + load * service * (1 + 1 / shape) / (2 * (1 - load))
    assert stream.latency.mean_ns == pytest.approx(expected, rel=0.02)


def test_mean_waits_of_non_preemptive_priorities():
    """Three Poisson classes with three frame sizes on one line."""
    classes = [(1472, 0.30, 0), (512, 0.25, 3), (64, 0.20, 7)]
    network = one_hop(
        [(poisson(payload, load), payload, priority) for payload, load, priority in classes],
        port=EgressPort(queue_bytes=4_000_000, scheduler="strict_priority"),
    )
    result = simulate(network, duration_s=30.0, seed=4)
    services = [sum(wire_bytes(s) for s in udp_frames(p)) * 8.0 for p, _, _ in classes]
    residual = sum(
        load * service / 2 for (_, load, _), service in zip(classes, services, strict=True)
    )
    above = 0.0
    for number in (2, 1, 0):
        load = classes[number][1]
        expected = residual / ((1 - above) * (1 - above - load))
        assert wait_ns(result, f"s{number}") == pytest.approx(expected, rel=0.02)
        above += load


def test_tandem_of_deterministic_queues_never_waits_below_capacity():
    """Constant rate through five queues: each adds its frame time and its delays, and no more."""
    hops = [{"delay_ns": 500.0}, {"delay_ns": 1_500.0}, {}]
    network = two_switches(ConstantRate(rate_mbps=900.0), 1472, [hops], processing_ns=2_000.0)
    latency = simulate(network, duration_s=0.2).streams["s0"].latency
    frame = (1518 + 8) * 8_000
    expected = 5 * frame + 2_000_000 + 4 * 2_000_000
    assert (latency.min_ps, latency.max_ps) == (expected, expected)


def transits_us(jitter_us, rate_mbps, count):
    """Return what a link with jitter adds to the times from talker to listener."""
    link = {"jitter_ns": jitter_us * 1000}
    network = two_switches(ConstantRate(rate_mbps=rate_mbps), 64, [[link]])
    times = simulate(
        network, duration_s=count * 64 * 8 / rate_mbps / 1e6, seed=3, record=True
    ).deliveries
    assert (np.diff(times["datagram"]) == 1).all()  # frames keep their order
    transit = (times["delivered_ps"] - times["sent_ps"]) / 1e6
    still = simulate(two_switches(ConstantRate(rate_mbps=rate_mbps), 64, [[{}]]), duration_s=1e-4)
    return transit - still.streams["s0"].latency.min_ps / 1e6


def test_jitter_is_uniform_where_frames_are_apart():
    """One frame in 512 us, each up to 300 us later: Kolmogorov-Smirnov, and both ends."""
    longer = transits_us(300.0, 1.0, 4000)
    assert stats.kstest(longer, stats.uniform(0, 300).cdf).pvalue > 0.01
    assert 0 <= longer.min() < 1
    assert 299 < longer.max() <= 300


def test_jitter_delays_a_frame_until_the_one_before_has_left():
    """Frames in 51.2 us: each leaves with the largest of its own time and those before it.

    Frame k back is due by u - 51.2 k, so P(longer <= x) is the product of min(1, (x + 51.2 k)/300).
    """
    longer = transits_us(300.0, 10.0, 40_000)
    at = np.arange(10.0, 300.0, 10.0)
    expected = np.prod([np.minimum(1, (at + 51.2 * k) / 300) for k in range(7)], axis=0)
    found = (longer[:, None] <= at).mean(axis=0)
    assert np.abs(found - expected).max() < 0.02


def test_burst_through_a_tandem_waits_at_the_bottleneck_only():
    """Datagram k of a burst leaves k bottleneck frame times after the first."""
    count, slow = 40, 1538 * 80_000
    network = two_switches(Listed(times_ns=[0] * count), 1472, [[{}, {"rate_mbps": 100.0}, {}]])
    result = simulate(network, duration_s=0.001, record=True)
    times = result.deliveries["delivered_ps"]
    assert list(times - times[0]) == [number * slow for number in range(count)]
    waits = {name: sum(f.wait_sum_ps for f in port.streams) for name, port in result.ports.items()}
    fast = 1538 * 8_000
    triangle = count * (count - 1) // 2
    assert waits == {
        "talker:in": triangle * fast,
        "first:path-0-0": 0,
        "mid-0-1:path-0-1": triangle * (slow - fast),
        "mid-0-2:path-0-2": 0,
        "second:out": 0,
    }


def test_full_queue_drops_the_tail():
    """A queue of ten frames keeps the first ten of a burst that comes ten times too fast."""
    network = two_switches(
        Listed(times_ns=[0] * 30),
        1472,
        [[{"rate_mbps": 1.0}]],
        switch_port=ROOMY.model_copy(update={"queue_bytes": 15_180}),
    )
    result = simulate(network, duration_s=0.001, record=True, drain_s=1.0)
    assert list(result.deliveries["datagram"]) == list(range(10))
    assert result.streams["s0"].frames.queue_drops == {"first:path-0-0": 20}
    assert max(result.ports["first:path-0-0"].peak_queue_bytes) == 15_180
