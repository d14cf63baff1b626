"""The engine against the plain reference, datagram by datagram, on random small networks."""

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_networks import DURATION_NS, networks
from simpy_reference import DRAIN_PS, run_reference

from tsnrepro.model.engine import simulate

DURATION_S = DURATION_NS / 1e9


def delivered(result, names):
    return sorted(
        (names[row["stream"]], *(int(row[field]) for field in row.dtype.names[1:]))
        for row in result.deliveries
    )


def places(result, field):
    return {
        (stream.name, port): count
        for stream in result.streams.values()
        for port, count in getattr(stream.frames, field).items()
    }


def by_stream(result, value):
    return {s.name: value(s) for s in result.streams.values() if value(s)}


def run_engine(network, seed, general_ports):
    """Run until nothing moves any more; what is left then waits for a gate that never serves it."""

    def run(drain_s):
        return simulate(
            network,
            duration_s=DURATION_S,
            seed=seed,
            drain_s=drain_s,
            record=True,
            general_ports=general_ports,
        )

    def left(result):
        return [stream.frames.left for stream in result.streams.values()]

    result = run(DRAIN_PS / 1e12)
    if any(left(result)):
        result = run(3 * DRAIN_PS / 1e12)
        assume(left(run(DRAIN_PS / 2e12)) == left(result))
    return result


def compare(network, seed, *, general_ports):
    result = run_engine(network, seed, general_ports)
    counts, recoveries = run_reference(network, DURATION_S, seed)
    names = [stream.name for stream in network.streams]
    assert delivered(result, names) == sorted(counts.deliveries)
    assert places(result, "queue_drops") == counts.drops
    assert places(result, "lost_random") == counts.lost
    assert places(result, "lost_down") == counts.down
    assert by_stream(result, lambda s: s.frames.eliminated) == counts.eliminated
    assert by_stream(result, lambda s: s.frames.nic_drops) == counts.nic
    assert by_stream(result, lambda s: s.receiver_socket_drops) == counts.socket
    assert by_stream(result, lambda s: s.sender_socket_drops) == counts.refused
    assert by_stream(result, lambda s: s.duplicates) == counts.repeats
    assert by_stream(result, lambda s: s.written) == counts.written
    waits = {}
    for port in result.ports.values():
        for flow in port.streams:
            if flow.wait_sum_ps:
                key = (flow.stream, port.name)
                waits[key] = waits.get(key, 0) + flow.wait_sum_ps
    assert waits == {key: wait for key, wait in counts.waits.items() if wait}
    for (stream, member), function in recoveries.items():
        assert result.recovery(stream, member) == function.counters
    return result


@given(networks(), st.integers(0, 2**32))
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_engine_equals_reference(network, seed):
    compare(network, seed, general_ports=False)


@given(networks(), st.integers(0, 2**32))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_event_driven_ports_equal_reference(network, seed):
    compare(network, seed, general_ports=True)
