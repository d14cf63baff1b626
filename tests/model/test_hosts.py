"""Sending and receiving processes, sockets and their memory, reassembly."""

import math

import numpy as np
import pytest
from model_networks import HOST, ROOMY, exponential, one_hop

from tsnrepro.common.ethernet import skb_truesize, udp_truesizes
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    Bursts,
    ConstantRate,
    DuplexLink,
    Duration,
    EndStation,
    Listed,
    Poisson,
    RandomLoss,
    Saturating,
    Stalls,
)

LINUX = EndStation(port=ROOMY)
INSTANT = DuplexLink(name="wire", a="talker", b="listener", rate_mbps=1_000_000.0)
WRITE_NS = 1_000.0


def sent_times(result):
    return np.sort(result.deliveries["sent_ps"])


@pytest.mark.parametrize(
    ("payload", "charges"),
    [(18, (768,)), (64, (768,)), (256, (1280,)), (1472, (2304,)), (1518, (2304, 768))],
)
def test_truesize_is_what_linux_charges(payload, charges):
    assert udp_truesizes(payload) == charges


def test_truesize_of_what_no_mtu_of_1500_makes_is_refused():
    with pytest.raises(ValueError, match="9000"):
        skb_truesize(9000)


@pytest.mark.parametrize("rate_mbps", [10.0, 100.0, 392.0, 530.0])
def test_bursts_reach_the_rate_on_every_tick(rate_mbps):
    """After tick k, the datagrams that a rate allows in k ms are out, rounded up (iperf3)."""
    network = one_hop([(Bursts(rate_mbps=rate_mbps), 1472, 0)], link=INSTANT)
    result = simulate(network, duration_s=1.0, record=True)
    times = sent_times(result)
    allowed = rate_mbps * 1e6 / (1472 * 8)
    ticks = np.arange(0, 1000)
    out = np.searchsorted(times, ticks * 10**9, side="right")
    assert out[0] == 1
    expected = [math.ceil(round(allowed * tick / 1000, 9)) for tick in ticks[1:]]
    assert out[1:].tolist() == expected
    assert set((times % 10**9).tolist()) == {0}


def test_a_burst_longer_than_its_timer_goes_on():
    """With 20 us a write, 530 Mb/s (45,000 a second) keep the process busy nine tenths of a tick;
    the rate is kept, and no tick is waited for while it is behind."""
    host = HOST.model_copy(update={"send_cost": Duration(mean_ns=20_000.0)})
    network = one_hop([(Bursts(rate_mbps=530.0), 1472, 0)], host=host, link=INSTANT)
    stream = simulate(network, duration_s=2.0).streams["s0"]
    assert stream.offered_mbps(2.0) == pytest.approx(530.0, rel=1e-3)
    slower = host.model_copy(update={"send_cost": Duration(mean_ns=25_000.0)})
    network = one_hop([(Bursts(rate_mbps=530.0), 1472, 0)], host=slower, link=INSTANT)
    stream = simulate(network, duration_s=2.0).streams["s0"]
    assert stream.offered_mbps(2.0) == pytest.approx(1472 * 8 / 25, rel=1e-3)


@pytest.mark.parametrize("rate_mbps", [1.0, 33.3, 999.999])
def test_constant_rate_does_not_drift(rate_mbps):
    network = one_hop([(ConstantRate(rate_mbps=rate_mbps), 100, 0)], link=INSTANT)
    result = simulate(network, duration_s=0.5, record=True)
    times = sent_times(result)
    exact = [number * 800 * 10**12 // round(rate_mbps * 1e6) for number in range(len(times))]
    assert times.tolist() == exact
    assert exact[-1] < 0.5e12 <= exact[-1] + 800e12 / (rate_mbps * 1e6) + 1


def test_poisson_gaps_are_exponential():
    network = one_hop([(Poisson(rate_mbps=100.0), 1000, 0)], link=INSTANT)
    gaps = np.diff(sent_times(simulate(network, duration_s=10.0, seed=8, record=True))) / 80e6
    assert gaps.mean() == pytest.approx(1.0, rel=0.01)
    assert gaps.std() == pytest.approx(1.0, rel=0.015)
    assert (gaps > 3.0).mean() == pytest.approx(math.exp(-3), rel=0.03)


def test_erlang_times_have_their_mean_and_variation():
    duration = Duration(mean_ns=10_000.0, distribution="erlang", shape=9)
    network = one_hop(
        [(ConstantRate(rate_mbps=1.0), 100, 0)],
        link=INSTANT,
        listener=HOST.model_copy(update={"receive_time": duration}),
    )
    result = simulate(network, duration_s=30.0, seed=9, record=True)
    rows = result.deliveries
    times = (rows["delivered_ps"] - rows["arrived_ps"]) / 1000
    assert times.mean() == pytest.approx(10_000, rel=0.01)
    assert times.std() / times.mean() == pytest.approx(1 / 3, rel=0.02)


def test_full_send_buffer_makes_the_talker_wait():
    """The socket holds ceil(212992 / 2304) = 93 datagrams: that long the last one waits."""
    network = one_hop([(Saturating(), 1472, 0)], host=LINUX)
    result = simulate(network, duration_s=0.05, record=True)
    waits = (result.deliveries["arrived_ps"] - result.deliveries["sent_ps"])[200:-200]
    # Its call begins when the one before it has entered, 93 frames after which that one is sent;
    # one frame later it is sent itself.
    assert set(waits.tolist()) == {94 * 12_304_000}


def test_socket_that_drops_accounts_for_every_write():
    host = LINUX.model_copy(update={"when_full": "drop"})
    network = one_hop([(ConstantRate(rate_mbps=2_000.0), 1472, 0)], host=host)
    stream = simulate(network, duration_s=0.1).streams["s0"]
    assert stream.sender_socket_drops > 0
    assert stream.written == stream.sender_socket_drops + stream.entered
    assert stream.written == math.ceil(0.1 * 2e9 / (1472 * 8))
    assert stream.lost == 0


@pytest.mark.parametrize(("payload", "holds"), [(64, 278), (1472, 93)])
def test_receive_buffer_takes_one_datagram_beyond_its_size(payload, holds):
    """Linux checks what is charged before it adds: floor(212992 / truesize) + 1 datagrams."""
    listener = LINUX.model_copy(update={"receive_time": Duration(mean_ns=1e9)})
    network = one_hop([(Listed(times_ns=[0] * 400), payload, 0)], link=INSTANT, listener=listener)
    stream = simulate(network, duration_s=0.001).streams["s0"]
    assert stream.unique == holds
    assert stream.receiver_socket_drops == 400 - holds


def test_buffers_of_exactly_four_datagrams():
    """A reader's takes a fifth (it looks whether it is over), a writer's does not (below)."""
    buffers = {"send_buffer_bytes": 4 * 2304, "receive_buffer_bytes": 4 * 2304}
    slow = HOST.model_copy(update=buffers | {"receive_time": Duration(mean_ns=1e9)})
    network = one_hop([(Listed(times_ns=[0] * 20), 1472, 0)], listener=slow)
    stream = simulate(network, duration_s=0.001).streams["s0"]
    assert (stream.unique, stream.receiver_socket_drops) == (5, 15)
    dropping = slow.model_copy(update={"when_full": "drop"})
    for general_ports in (False, True):
        network = one_hop([(Listed(times_ns=[0] * 20), 1472, 0)], host=dropping)
        stream = simulate(network, duration_s=0.001, general_ports=general_ports).streams["s0"]
        assert (stream.entered, stream.sender_socket_drops) == (4, 16)


def test_loss_of_an_overloaded_listener_is_its_excess():
    listener = LINUX.model_copy(update={"receive_time": Duration(mean_ns=25_000.0)})
    network = one_hop([(ConstantRate(rate_mbps=500.0), 1000, 0)], listener=listener)
    stream = simulate(network, duration_s=10.0).streams["s0"]
    # 62,500 come each second, 40,000 are read.
    assert stream.loss_ratio == pytest.approx(1 - 40_000 / 62_500, rel=1e-3)
    assert stream.lost == stream.receiver_socket_drops


def test_card_holds_so_many_frames_while_the_stack_is_busy():
    listener = HOST.model_copy(update={"stack_time": Duration(mean_ns=1e6), "nic_ring_frames": 16})
    network = one_hop([(Listed(times_ns=[0] * 50), 64, 0)], listener=listener)
    stream = simulate(network, duration_s=0.001).streams["s0"]
    assert (stream.unique, stream.frames.nic_drops) == (16, 34)


def test_stall_of_a_reader_fills_its_buffer():
    """A process that stands still for d loses what its buffer does not hold: d x rate - buffer."""
    stalls = Stalls(interval=Duration(mean_ns=50e6), length=Duration(mean_ns=10e6))
    listener = LINUX.model_copy(update={"stalls": stalls})
    rate = 40_000.0
    network = one_hop([(ConstantRate(rate_mbps=rate * 512 / 1e6), 64, 0)], listener=listener)
    stream = simulate(network, duration_s=0.6).streams["s0"]
    # Ten stalls of 10 ms; each has room for 278 datagrams of the 400 that come, plus the one that
    # is being read when the stall begins, if there is one.
    assert stream.receiver_socket_drops == pytest.approx(10 * (400 - 278), abs=10)
    held = stream.latency.max_ps / 1e9
    assert held == pytest.approx(10.0, abs=0.1)


def test_stall_interrupts_work_and_lets_it_go_on():
    stalls = Stalls(interval=Duration(mean_ns=7_000.0), length=Duration(mean_ns=3_000.0))
    listener = HOST.model_copy(
        update={"receive_time": Duration(mean_ns=10_000.0), "stalls": stalls}
    )
    network = one_hop([(Listed(times_ns=[0]), 64, 0)], link=INSTANT, listener=listener)
    stream = simulate(network, duration_s=0.001).streams["s0"]
    # Stalled from 7 to 10 us: the work begun at 1 ns ends 3 us late.
    assert stream.latency.max_ps == 13_000_000 + stream.transit.max_ps


def test_stalls_take_their_share_of_a_writer():
    stalls = Stalls(interval=exponential(90_000.0), length=exponential(10_000.0))
    host = HOST.model_copy(update={"send_cost": Duration(mean_ns=WRITE_NS), "stalls": stalls})
    network = one_hop([(Saturating(), 64, 0)], host=host, link=INSTANT)
    stream = simulate(network, duration_s=3.0, seed=10).streams["s0"]
    assert stream.entered == pytest.approx(0.9 * 3.0e9 / WRITE_NS, rel=0.01)


@pytest.mark.parametrize("payload", [1473, 1518, 4000, 65_507])
def test_lost_fragment_loses_its_datagram(payload):
    loss = 0.02
    link = DuplexLink(name="wire", a="talker", b="listener", loss=RandomLoss(probability=loss))
    send = ConstantRate(rate_mbps=900.0)
    stream = simulate(one_hop([(send, payload, 0)], link=link), duration_s=10.0, seed=11).streams[
        "s0"
    ]
    expected = 1 - (1 - loss) ** stream.fragments
    error = math.sqrt(expected * (1 - expected) / stream.entered)
    assert abs(stream.loss_ratio - expected) < 4 * error + 1e-9
    nothing_came = loss**stream.fragments * stream.entered
    assert stream.lost - stream.incomplete == pytest.approx(
        nothing_came, abs=4 * math.sqrt(nothing_came) + 1
    )
