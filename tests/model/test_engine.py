"""What holds for every run: determinism, flat memory, accounts, errors that say what is wrong."""

import hashlib
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from model_networks import HOST, VECTOR, exponential, one_hop, two_switches
from numpy.random import SeedSequence
from pydantic import ValidationError

from tsnrepro.model import layout
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import EgressPort, Listed, Network, Poisson, RandomLoss, Stalls
from tsnrepro.model.plan import plan_network
from tsnrepro.model.result import ConservationError, LatencyHistogram, Tally, read_result
from tsnrepro.model.routes import route_network
from tsnrepro.model.variates import child_seeds

GOLDEN = "5851085c11be4a52f253bd4dcf2808818af1b786679cb0bcb4edcb22895e4ff4"

BUSY = HOST.model_copy(
    update={
        "receive_time": exponential(9_000.0),
        "stalls": Stalls(interval=exponential(3e6), length=exponential(200e3)),
        "receive_buffer_bytes": 60_000,
    }
)


def busy_network():
    lossy = {"loss": RandomLoss(probability=0.05)}
    return two_switches(
        Poisson(rate_mbps=600.0),
        1472,
        [[lossy], [lossy | {"delay_ns": 3_000.0}]],
        recovery=VECTOR,
        host=BUSY,
        listener=BUSY,
        switch_port=EgressPort(queue_bytes=20_000),
    )


def fingerprint(result):
    stream = result.streams["s0"]
    counters = [astuple(recovery) for recovery in result.recoveries]
    text = repr((astuple(stream.frames), stream.lost, stream.latency.sum_ps, counters))
    return hashlib.sha256(result.deliveries.tobytes() + text.encode()).hexdigest()


def test_same_seed_same_bytes_on_any_machine():
    """The digest was written down once; whatever machine runs this must arrive at it."""
    result = simulate(busy_network(), duration_s=0.5, seed=2026, record=True)
    assert result.streams["s0"].lost > 0
    assert fingerprint(result) == GOLDEN


def test_same_bytes_with_any_way_of_serving_ports_and_any_blocks():
    blocks = []
    reference = simulate(busy_network(), duration_s=0.5, seed=2026, record=True)
    general = simulate(
        busy_network(),
        duration_s=0.5,
        seed=2026,
        record=True,
        on_delivery=blocks.append,
        general_ports=True,
    )
    assert fingerprint(general) == fingerprint(reference)
    assert np.array_equal(np.concatenate(blocks), reference.deliveries)


def test_seeds_and_their_children_differ():
    seeds = [1, 2, *child_seeds(1, 2)]
    prints = {
        fingerprint(simulate(busy_network(), duration_s=0.02, seed=seed, record=True))
        for seed in seeds
    }
    assert len(prints) == len(seeds)
    again = child_seeds(SeedSequence(1), 2)
    assert [child.spawn_key for child in again] == [child.spawn_key for child in seeds[2:]]


def test_memory_does_not_depend_on_the_number_of_packets():
    sizes = {
        plan_network(busy_network(), seconds * 10**12, SeedSequence(0)).memory.nbytes
        for seconds in (1, 1000, 100_000)
    }
    assert len(sizes) == 1
    assert sizes.pop() < 10_000_000


def test_account_that_does_not_add_up_is_refused():
    plan = plan_network(busy_network(), 10**9, SeedSequence(0))
    tally = Tally(plan)
    read_result(plan, tally, 0.001, None)
    layout.sender(plan.memory, next(iter(plan.senders.values()))).entered += 1
    with pytest.raises(ConservationError, match="s0"):
        read_result(plan, tally, 0.001, None)


def test_run_cut_off_counts_what_is_left():
    network = one_hop([(Listed(times_ns=[0] * 2000), 1472, 0)])
    for general in (False, True):
        result = simulate(network, duration_s=1e-6, drain_s=0.0, general_ports=general)
        ledger = result.streams["s0"].frames
        assert ledger.left > 0
        assert ledger.unaccounted == 0


def test_quantiles_of_known_times():
    times = np.arange(1, 1001) * 1000
    bits = times.astype(np.float64).view(np.int64) >> (52 - layout.HISTOGRAM_SUB_BITS)
    places = bits - (1023 << layout.HISTOGRAM_SUB_BITS)
    bins = np.bincount(places, minlength=layout.HISTOGRAM_BINS)
    found = LatencyHistogram(1000, int(times.sum()), 1000, 1_000_000, bins)
    assert found.mean_ns == 500.5
    for probability in (0.0, 0.001, 0.5, 0.9, 0.99, 0.999, 1.0):
        exact = max(1, round(probability * 1000))
        assert found.quantile_ns(probability) == pytest.approx(exact, rel=0.005)
    with pytest.raises(ValueError, match=r"1\.5"):
        found.quantile_ns(1.5)


def test_latencies_agree_with_the_record():
    result = simulate(busy_network(), duration_s=0.1, seed=3, record=True)
    latency = result.streams["s0"].latency
    times = result.deliveries["delivered_ps"] - result.deliveries["sent_ps"]
    assert latency.count == len(times)
    assert latency.sum_ps == times.sum()
    assert (latency.min_ps, latency.max_ps) == (times.min(), times.max())
    for probability in (0.5, 0.99):
        exact = np.quantile(times, probability, method="inverted_cdf") / 1000
        assert latency.quantile_ns(probability) == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize("general_ports", [False, True])
@pytest.mark.parametrize("order", [["one", "two"], ["two", "one"]])
def test_frames_of_the_same_instant_are_taken_in_the_order_of_links(order, general_ports):
    """Two talkers send at once over equal links; the listener's link takes the first listed."""
    document = {
        "hosts": {name: {"port": {"queue_bytes": 10_000}} for name in ("one", "two", "far")},
        "switches": {"switch": {"port": {"queue_bytes": 10_000}}},
        "links": [{"name": name, "a": name, "b": "switch"} for name in order]
        + [{"name": "far", "a": "switch", "b": "far"}],
        "streams": [
            {
                "name": name,
                "talker": name,
                "listener": "far",
                "payload_bytes": 100,
                "send": {"kind": "listed", "times_ns": [0, 0, 0]},
                "route": {"kind": "single", "links": [name, "far"]},
            }
            for name in ("one", "two")
        ],
    }
    network = Network.model_validate(document)
    result = simulate(network, duration_s=1e-3, record=True, general_ports=general_ports)
    names = [("one", "two")[number] for number in result.deliveries["stream"]]
    assert names == order * 3


def test_of_equally_early_copies_the_one_of_the_first_link_passes():
    network = two_switches(Listed(times_ns=[0]), 100, [[{}], [{}]], recovery=VECTOR)
    for links, eliminated in (
        (network.links, {0: 0, 1: 1}),
        ([network.links[0], *network.links[2:0:-1], network.links[3]], {0: 1, 1: 0}),
    ):
        turned = network.model_copy(update={"links": links})
        flows = simulate(turned, duration_s=1e-3).ports["second:out"].streams
        assert {f.member: f.eliminated for f in flows if f.part == "member"} == eliminated


def test_circle_of_streams_is_cut_at_a_link():
    """Streams round a ring of switches feed each other: each leaves where the next comes in."""
    names = ["a", "b", "c"]
    document = {
        "hosts": {f"h{n}": {"port": {"queue_bytes": 100_000}} for n in names},
        "switches": {n: {"port": {"queue_bytes": 100_000}} for n in names},
        "links": [{"name": f"up-{n}", "a": f"h{n}", "b": n} for n in names]
        + [
            {"name": f"ring-{a}{b}", "a": a, "b": b}
            for a, b in (("a", "b"), ("b", "c"), ("c", "a"))
        ],
        "streams": [
            {
                "name": f"s-{n}",
                "talker": f"h{n}",
                "listener": f"h{far}",
                "payload_bytes": 1000,
                "send": {"kind": "poisson", "rate_mbps": 300.0},
                "route": {"kind": "single", "links": [f"up-{n}", *ring, f"up-{far}"]},
            }
            for n, far, ring in (
                ("a", "c", ["ring-ab", "ring-bc"]),
                ("b", "a", ["ring-bc", "ring-ca"]),
                ("c", "b", ["ring-ca", "ring-ab"]),
            )
        ],
    }
    network = Network.model_validate(document)
    assert route_network(network).window_ps == (1046 + 8) * 8_000
    fifo = simulate(network, duration_s=0.02, record=True)
    general = simulate(network, duration_s=0.02, record=True, general_ports=True)
    keys = ["stream", "datagram"]
    assert np.array_equal(
        np.sort(fifo.deliveries, order=keys), np.sort(general.deliveries, order=keys)
    )
    assert all(stream.lost == 0 for stream in fifo.streams.values())


@pytest.mark.slow
def test_kernels_stay_within_their_memory():
    """Compiled with bounds checks, a run of every kind of port ends without an IndexError."""
    script = Path(__file__).with_name("checked_run.py")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["checked", "ok"]


# Descriptions that cannot be


def document(**stream):
    return {
        "hosts": {
            "talker": {"port": {"queue_bytes": 100_000}},
            "listener": {"port": {"queue_bytes": 100_000}},
        },
        "links": [{"name": "wire", "a": "talker", "b": "listener"}],
        "streams": [
            {
                "name": "s0",
                "talker": "talker",
                "listener": "listener",
                "payload_bytes": 100,
                "send": {"kind": "constant", "rate_mbps": 1.0},
                "route": {"kind": "single", "links": ["wire"]},
            }
            | stream
        ],
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"speed": 3}, "speed"),
        ({"route": {"kind": "single", "links": ["wires"]}}, "no link wires"),
        ({"route": {"kind": "single", "links": ["wire", "wire"]}}, "passes"),
        ({"listener": "talker"}, "ends at listener, not at talker"),
        ({"talker": "somebody"}, "somebody is not a host"),
        ({"payload_bytes": 70_000}, "65507"),
        ({"payload_bytes": 0}, "payload_bytes above 0"),
        ({"send": {"kind": "listed", "times_ns": [2, 1]}}, "must not go back"),
        ({"send": {"kind": "saturating"}}, "queue of at least"),
        (
            {"route": {"kind": "frer", "before": ["wire"], "members": [["wire"]]}},
            "not a switch",
        ),
    ],
)
def test_description_that_cannot_be_is_refused_with_the_reason(change, says):
    Network.model_validate(document())
    with pytest.raises(ValidationError, match=says):
        Network.model_validate(document(**change))


def test_ring_too_large_is_refused_with_the_reason():
    network = one_hop(
        [(Listed(times_ns=[0]), 64, 0)], port=EgressPort(queue_bytes=10**13), host=HOST
    )
    with pytest.raises(ValueError, match="smaller queue"):
        simulate(network, duration_s=0.001)


@pytest.mark.parametrize("duration_s", [0.0, -1.0, 1e9])
def test_duration_without_meaning_is_refused(duration_s):
    with pytest.raises(ValueError, match="duration"):
        simulate(busy_network(), duration_s=duration_s)


def test_drain_without_meaning_is_refused():
    with pytest.raises(ValueError, match="drain"):
        simulate(busy_network(), duration_s=1.0, drain_s=-1.0)


def test_idle_slope_above_the_line_is_refused():
    port = EgressPort(queue_bytes=10_000, scheduler="strict_priority", idle_slopes_mbps={5: 1000.0})
    network = one_hop([(Listed(times_ns=[0]), 64, 5)], port=port)
    with pytest.raises(ValueError, match="idle slope"):
        simulate(network, duration_s=0.001)
