"""Logs against what is known: gates by their windows, datagrams by their way, rows by count."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model_networks import HOST, VECTOR, one_hop, two_switches

from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.model.engine import simulate
from tsnrepro.model.logs import DEPARTURE
from tsnrepro.model.network import ConstantRate, EgressPort, Saturating


def departures_from(result, port):
    rows = result.logs.departures
    return rows[rows["port"] == list(result.ports).index(port)]


def phases_ps(gates, times_ps, offset_ns=0):
    """Where in the gate cycle times lie, by the clock of the port."""
    return (times_ps + int(offset_ns * 1000) - gates.base_time_ns * 1000) % (gates.cycle * 1000)


def in_window(gates, traffic_class, rows, offset_ns=0):
    """Which frames began, and with a guard band ended, within one window of their class."""
    phase = phases_ps(gates, rows["start_ps"], offset_ns)
    lasts = rows["end_ps"] - rows["start_ps"] if gates.guard_band else 1
    inside = np.zeros(len(rows), np.bool_)
    for opens, closes in gates.windows_ns(traffic_class):
        inside |= (opens * 1000 <= phase) & (phase + lasts <= closes * 1000)
    return inside


def gates_of(cycle_ns, open_ns, **options):
    """Class 5 in the first part of the cycle, best effort in the rest."""
    entries = [
        GateWindow(open_classes=[5], interval_ns=open_ns),
        GateWindow(open_classes=[0], interval_ns=cycle_ns - open_ns),
    ]
    return GateControlList(entries=entries, cycle_time_ns=cycle_ns, **options)


@pytest.mark.parametrize("offset_ns", [0.0, 333.0])
@pytest.mark.parametrize(
    ("cycle_ns", "open_ns", "payload", "other"),
    [(2_000, 1_000, 18, 50), (10_000, 2_000, 100, 800), (30_000, 13_000, 1472, 1472)],
)
def test_departures_keep_to_their_windows(cycle_ns, open_ns, payload, other, offset_ns):
    """Short cycles at 1 Gb/s, the line saturated by best effort: every frame is in its window."""
    gates = gates_of(cycle_ns, open_ns, base_time_ns=700)
    port = EgressPort(
        queue_bytes=4_000_000, scheduler="strict_priority", gates=gates, clock_offset_ns=offset_ns
    )
    network = one_hop(
        [(ConstantRate(rate_mbps=80.0), payload, 5), (Saturating(), other, 0)],
        port=port,
        host=HOST.model_copy(update={"send_buffer_bytes": 500_000}),
    )
    result = simulate(network, duration_s=0.01, departures=["talker:wire"])
    rows = departures_from(result, "talker:wire")
    assert rows.dtype == DEPARTURE
    for stream, traffic_class in ((0, 5), (1, 0)):
        mine = rows[rows["stream"] == stream]
        assert len(mine) > 50
        assert in_window(gates, traffic_class, mine, offset_ns).all()
        assert not in_window(gates, 5 - traffic_class, mine, offset_ns).any()
    phase = phases_ps(gates, rows["start_ps"][rows["stream"] == 0], offset_ns)
    assert phase.max() + (payload + 54) * 8_000 <= open_ns * 1000


def test_frame_that_runs_over_its_window_is_found():
    """Without a guard band frames run over: a check that asks for one sees it."""
    loose = gates_of(30_000, 13_000, guard_band=False)
    port = EgressPort(queue_bytes=4_000_000, scheduler="strict_priority", gates=loose)
    network = one_hop([(Saturating(), 1472, 5)], port=port)
    rows = simulate(network, duration_s=0.01, departures=["talker:wire"]).logs.departures
    assert in_window(loose, 5, rows).all()
    strict = loose.model_copy(update={"guard_band": True})
    assert 0.3 < in_window(strict, 5, rows).mean() < 0.7


def test_tagged_departures_carry_their_numbers():
    network = two_switches(ConstantRate(rate_mbps=10.0), 64, [[{}], [{}]], recovery=VECTOR)
    ports = ["first:path-0-0", "first:path-1-0", "second:out"]
    result = simulate(network, duration_s=0.005, departures=ports)
    for member, port in enumerate(ports[:2]):
        rows = departures_from(result, port)
        assert rows["sequence"].tolist() == rows["datagram"].tolist()
        assert set(rows["member"]) == {member}
        assert set(rows["frame_bytes"]) == {116}
    after = departures_from(result, "second:out")
    assert not after["tagged"].any()
    assert set(after["frame_bytes"]) == {110}


def test_rows_beyond_the_most_are_counted_and_streamed():
    blocks = []
    network = one_hop([(ConstantRate(rate_mbps=50.0), 64, 0)])
    result = simulate(
        network, duration_s=0.01, record=True, max_rows=100, on_delivery=blocks.append
    )
    total = result.streams["s0"].unique
    assert len(result.deliveries) == 100
    assert result.logs.left_out == {"deliveries": total - 100}
    assert sum(map(len, blocks)) == total


def test_logs_that_were_not_asked_for_say_so():
    network = one_hop([(ConstantRate(rate_mbps=50.0), 64, 0)])
    result = simulate(network, duration_s=0.001)
    with pytest.raises(ValueError, match="not logged"):
        _ = result.deliveries
    assert result.logs.departures is None
    assert result.logs.answers is None
    with pytest.raises(ValueError, match="no stream s9"):
        simulate(network, duration_s=0.001, record=["s9"])
    with pytest.raises(ValueError, match="no port talker:wires"):
        simulate(network, duration_s=0.001, departures=["talker:wires"])


MEMORY_OF_RECORDS = """
from pathlib import Path
from model_networks import one_hop
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import ConstantRate

network = one_hop([(ConstantRate(rate_mbps=400.0), 64, 0)])

def most_kib(**options):
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    result = simulate(network, duration_s=3.0, **options)
    lines = Path("/proc/self/status").read_text().splitlines()
    return result, next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

most_kib()  # loads the kernels, which takes more memory than running them
_, before = most_kib()
result, after = most_kib(record=True)
assert len(result.deliveries) == result.streams["s0"].unique > 2_300_000
print((after - before) * 1024 / result.deliveries.nbytes)
"""


def test_recorded_deliveries_take_little_more_than_their_rows():
    """Measured as the process' own memory, beyond what the same run takes without a record."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_OF_RECORDS],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert 0.8 < float(done.stdout) < 1.2
