"""The engine against the plain reference, datagram by datagram, on random small networks."""

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_networks import DURATION_NS, ENDS, networks
from simpy_reference import DRAIN_PS, run_reference

from tsnrepro.model.engine import simulate

DURATION_S = DURATION_NS / 1e9
PORTS = {f"{end}:{link}" for link, ends in ENDS.items() for end in ends}


def delivered(result, names):
    return sorted(
        (names[row["stream"]], *(int(row[field]) for field in row.dtype.names[1:]))
        for row in result.deliveries
    )


def places(result, field):
    return {
        (name, port): count
        for name, ledger in ledgers(result).items()
        for port, count in getattr(ledger, field).items()
    }


def by_stream(result, value):
    return {s.name: value(s) for s in result.streams.values() if value(s)}


def by_pinging(result, value):
    found = {s.name: value(s.ping_pong) for s in result.streams.values() if s.ping_pong}
    return {name: count for name, count in found.items() if count}


def ledgers(result):
    """The ledgers of all streams, and of the answers to them."""
    found = {stream.name: stream.frames for stream in result.streams.values()}
    for stream in result.streams.values():
        if stream.ping_pong:
            found[f"{stream.name}.answer"] = stream.ping_pong.answer_frames
    return found


def answered(result, names):
    return sorted(
        (names[row["stream"]], *(int(row[field]) for field in row.dtype.names[1:]))
        for row in result.logs.answers
    )


def departed(result, names):
    """What the log of departures says, as the reference writes it down."""
    ports = list(result.ports)
    return sorted(
        (
            ports[row["port"]],
            names[row["stream"]] + (".answer" if row["returns"] else ""),
            int(row["member"]),
            int(row["sequence"]) if row["tagged"] else -1,
            *(int(row[field]) for field in ("fragment", "frame_bytes", "datagram")),
            *(int(row[field]) for field in ("sent_ps", "queued_ps", "start_ps", "end_ps")),
        )
        for row in result.logs.departures
    )


def run_engine(network, seed, general_ports):
    """Run until nothing moves any more; what is left then waits for a gate that never serves it."""

    def run(drain_s):
        return simulate(
            network,
            duration_s=DURATION_S,
            seed=seed,
            drain_s=drain_s,
            record=True,
            departures=PORTS,
            general_ports=general_ports,
        )

    def left(result):
        return [ledger.left for ledger in ledgers(result).values()]

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
    assert places(result, "duplicated") == counts.twice
    for field, expected in (("eliminated", counts.eliminated), ("nic_drops", counts.nic)):
        found = {name: getattr(ledger, field) for name, ledger in ledgers(result).items()}
        assert {name: count for name, count in found.items() if count} == expected
    socket = {name: n for name, n in counts.socket.items() if not name.endswith(".answer")}
    assert by_stream(result, lambda s: s.receiver_socket_drops) == socket
    assert answered(result, names) == sorted(counts.answers)
    assert by_pinging(result, lambda p: p.timeouts) == counts.timeouts
    assert by_pinging(result, lambda p: p.disregarded) == counts.disregarded
    assert departed(result, names) == sorted(counts.departures)
    for name, detection in result.latent_errors.items():
        alarms = [(alarm.time_ps, alarm.moved) for alarm in detection.alarms]
        assert alarms == counts.alarms[name]
    assert set(result.latent_errors) == set(counts.alarms)
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
