"""Logs against what is known: gates by their windows, datagrams by their way, rows by count."""

import numpy as np
import pytest
from model_networks import HOST, VECTOR, one_hop, two_switches

from tsnrepro.model.engine import simulate
from tsnrepro.model.logs import (
    DEPARTURE,
    delivery_log,
    departure_log,
    gate_phase_ps,
    in_window,
    round_trips_ns,
)
from tsnrepro.model.network import ConstantRate, GateEntry, Gates, Poisson, Port, Saturating


def gates_of(cycle_ns, open_ns, **options):
    """Class 5 in the first part of the cycle, best effort in the rest."""
    entries = [
        GateEntry(open_classes=[5], interval_ns=open_ns),
        GateEntry(open_classes=[0], interval_ns=cycle_ns - open_ns),
    ]
    return Gates(entries=entries, cycle_ns=cycle_ns, **options)


@pytest.mark.parametrize("offset_ns", [0.0, 333.0])
@pytest.mark.parametrize(
    ("cycle_ns", "open_ns", "payload", "other"),
    [(2_000, 1_000, 18, 50), (10_000, 2_000, 100, 800), (30_000, 13_000, 1472, 1472)],
)
def test_departures_keep_to_their_windows(cycle_ns, open_ns, payload, other, offset_ns):
    """Short cycles at 1 Gb/s, the line saturated by best effort: every frame is in its window."""
    gates = gates_of(cycle_ns, open_ns, clock_offset_ns=offset_ns, base_time_ns=700)
    port = Port(queue_bytes=4_000_000, scheduler="strict_priority", gates=gates)
    network = one_hop(
        [(ConstantRate(rate_mbps=80.0), payload, 5), (Saturating(), other, 0)],
        port=port,
        host=HOST.model_copy(update={"send_buffer_bytes": 500_000}),
    )
    result = simulate(network, duration_s=0.01, departures=["talker:wire"])
    rows = departure_log(result, "talker:wire")
    assert rows.dtype == DEPARTURE
    for stream, traffic_class in ((0, 5), (1, 0)):
        mine = rows[rows["stream"] == stream]
        assert len(mine) > 50
        assert in_window(gates, traffic_class, mine).all()
        assert not in_window(gates, 5 - traffic_class, mine).any()
    phase = gate_phase_ps(gates, rows["start_ps"][rows["stream"] == 0])
    assert phase.max() + (payload + 54) * 8_000 <= open_ns * 1000


def test_frame_that_runs_over_its_window_is_found():
    """Without a guard band frames run over: a check that asks for one sees it."""
    loose = gates_of(30_000, 13_000, guard_band=False)
    port = Port(queue_bytes=4_000_000, scheduler="strict_priority", gates=loose)
    network = one_hop([(Saturating(), 1472, 5)], port=port)
    rows = simulate(network, duration_s=0.01, departures=["talker:wire"]).logs.departures
    assert in_window(loose, 5, rows).all()
    strict = loose.model_copy(update={"guard_band": True})
    assert 0.3 < in_window(strict, 5, rows).mean() < 0.7


def test_delivery_log_joins_the_departure_of_each_datagram():
    network = two_switches(Poisson(rate_mbps=600.0), 3000, [[{}], [{}]], recovery=VECTOR)
    result = simulate(network, duration_s=0.01, record=["s0"], departures=["talker:in"])
    log = delivery_log(result, "s0")
    assert log["sequence"].tolist() == list(range(result.streams["s0"].entered))
    assert (log["written_ps"] <= log["departed_ps"]).all()
    assert (log["departed_ps"] < log["arrived_ps"]).all()
    assert np.array_equal(log["transit_ps"], log["arrived_ps"] - log["written_ps"])
    assert log["transit_ps"].max() == result.streams["s0"].transit.max_ps
    first = result.logs.departures[result.logs.departures["fragment"] == 0]
    assert np.array_equal(log["departed_ps"], first["start_ps"])
    without = simulate(network, duration_s=0.01, record=["s0"])
    assert "departed_ps" not in delivery_log(without, "s0").dtype.names


def test_tagged_departures_carry_their_numbers():
    network = two_switches(ConstantRate(rate_mbps=10.0), 64, [[{}], [{}]], recovery=VECTOR)
    ports = ["first:path-0-0", "first:path-1-0", "second:out"]
    result = simulate(network, duration_s=0.005, departures=ports)
    for member, port in enumerate(ports[:2]):
        rows = departure_log(result, port)
        assert rows["sequence"].tolist() == rows["datagram"].tolist()
        assert set(rows["member"]) == {member}
        assert set(rows["frame_bytes"]) == {116}
    after = departure_log(result, "second:out")
    assert not after["tagged"].any()
    assert set(after["frame_bytes"]) == {110}


def test_rows_beyond_the_most_are_counted_and_streamed():
    blocks = []
    network = one_hop([(ConstantRate(rate_mbps=50.0), 64, 0)])
    result = simulate(
        network, duration_s=0.01, record=True, most_rows=100, on_delivery=blocks.append
    )
    total = result.streams["s0"].unique
    assert len(result.deliveries) == 100
    assert result.logs.left_out == {"deliveries": total - 100}
    assert sum(map(len, blocks)) == total


def test_logs_that_were_not_asked_for_say_so():
    network = one_hop([(ConstantRate(rate_mbps=50.0), 64, 0)])
    result = simulate(network, duration_s=0.001)
    for read in (lambda: result.deliveries, lambda: departure_log(result, "talker:wire")):
        with pytest.raises(ValueError, match="not logged"):
            read()
    with pytest.raises(ValueError, match="not logged"):
        round_trips_ns(result, "s0")
    with pytest.raises(ValueError, match="no stream s9"):
        simulate(network, duration_s=0.001, record=["s9"])
    with pytest.raises(ValueError, match="no port talker:wires"):
        simulate(network, duration_s=0.001, departures=["talker:wires"])
