"""Measure a trial of ``occupancy``: the depth of a switch's queues before narrow member links."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsnrepro.common.errors import ToolError
from tsnrepro.common.ethernet import payload_rate_mbps, udp_frames
from tsnrepro.common.topology import LISTENER, SWITCHES, TALKER, member_names
from tsnrepro.experiments.occupancy.plan import Factors
from tsnrepro.model.logs import Depth, first_drop_ps, queue_depth
from tsnrepro.model.network import ConstantRate, EgressPort, Network, TrafficStream
from tsnrepro.model.result import SimulationResult
from tsnrepro.records.store import QUEUE_DEPTH, Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.simulated import run_network
from tsnrepro.testbeds.model import ModelTestbed

_STREAM = "stream"
# Spans of the recorded course: more than a figure shows.
_SPANS = 500
_PICO = 1e12


def measure(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Simulate one trial; the record keeps the course of each member port's queue."""
    factors = Factors.of(trial)
    ports = _member_ports(testbed, factors.configuration)
    network = _network(testbed, factors, trial.repetition, ports)
    result = run_network(testbed, trial, measured, network, factors.duration_s, departures=ports)
    departures = {port: _departures(result, port) for port in ports}
    courses = {port: queue_depth(rows) for port, rows in departures.items()}
    _check(result, courses)
    began_ps = min(int(rows["queued_ps"].min()) for rows in departures.values())
    edges = began_ps + np.linspace(0, factors.duration_s * _PICO, _SPANS + 1).astype(np.int64)
    measured.outputs[QUEUE_DEPTH] = _as_csv(courses, edges, began_ps)
    frame = udp_frames(factors.payload_bytes, tagged=factors.configuration == "frer")[0]
    limit = _limit(factors, ports)
    missing = [first_drop_ps(rows) for rows in departures.values()]
    # Full is a queue that has no room for one more frame.
    full = [course.reached_ps(limit - frame + 1) for course in courses.values()]
    of = result.streams[_STREAM]
    measured.values["result"] = {
        "sent": of.entered,
        "received": of.unique,
        "member_ports": len(ports),
        "queue_drops": sum(of.frames.queue_drops.values()),
        "filled_ms": _after_ms(full, began_ps),
        "first_loss_ms": _after_ms(missing, began_ps),
        "peak_percent": 100 * max(int(c.held_bytes.max()) for c in courses.values()) / limit,
        "carried_mbps": _carried_mbps(departures[ports[0]], factors, int(edges[-1])),
        "network_lost_percent": _network_lost_percent(result, departures),
        "offered_mbps": of.offered_mbps(factors.duration_s),
    }


def _member_ports(testbed: ModelTestbed, configuration: str) -> list[str]:
    """Return the first switch's ports that carry the stream."""
    members = member_names(testbed.settings.paths)
    used = members[:1] if configuration == "control" else members
    return [f"{SWITCHES[0]}:{member}" for member in used]


def _limit(factors: Factors, ports: list[str]) -> int:
    """Return what one port's queue may hold.

    Copies come to all member ports at once and leave them at one rate, so each takes an equal part
    of a shared memory until it is full: equal limits fill at the same time.
    """
    sharing = len(ports) if factors.memory == "shared" else 1
    return factors.buffer_bytes // sharing


def _network(testbed: ModelTestbed, factors: Factors, repetition: int, ports: list[str]) -> Network:
    """Return the testbed with narrow member links and the trial's buffer in front of them."""
    narrow = {"member_link_rate_mbps": factors.member_link_rate_mbps}
    changed = ModelTestbed(testbed.settings.model_copy(update=narrow), testbed.seed)
    stream = TrafficStream(
        name=_STREAM,
        talker=TALKER,
        listener=LISTENER,
        payload_bytes=factors.payload_bytes,
        send=ConstantRate(rate_mbps=factors.rate_mbps),
        route=changed.route(factors.configuration),
    )
    network = changed.network(changed.parameters(repetition), [stream])
    port = EgressPort(queue_bytes=_limit(factors, ports))
    return network.model_copy(update={"ports": dict.fromkeys(ports, port)})


def _departures(result: SimulationResult, port: str) -> npt.NDArray[np.void]:
    rows = result.logs.departures
    assert rows is not None
    return rows[rows["port"] == list(result.ports).index(port)]


def _check(result: SimulationResult, courses: dict[str, Depth]) -> None:
    """Compare the courses with the peak that the model counts as it runs.

    Raises ToolError if they differ: rows of the log are missing.
    """
    for port, course in courses.items():
        peak = max(result.ports[port].peak_queue_bytes)
        if int(course.held_bytes.max()) != peak:
            raise ToolError(
                f"the course of the queue peaks at {course.held_bytes.max()} bytes, "
                f"the port counted {peak}",
                port,
            )


def _after_ms(times_ps: list[int | None], began_ps: int) -> float | None:
    """Return the earliest of some times after the first frame arrived, None if there is none."""
    reached = [time for time in times_ps if time is not None]
    return (min(reached) - began_ps) / 1e9 if reached else None


def _carried_mbps(rows: npt.NDArray[np.void], factors: Factors, until_ps: int) -> float | None:
    """Return the payload rate that left a port while the talker sent."""
    sent = rows[rows["end_ps"] <= until_ps]
    if len(sent) < 2:
        return None
    span_s = (int(sent["end_ps"][-1]) - int(sent["end_ps"][0])) / _PICO
    return payload_rate_mbps(len(sent) - 1, factors.payload_bytes, span_s)


def _network_lost_percent(
    result: SimulationResult, departures: dict[str, npt.NDArray[np.void]]
) -> float:
    """Return the percentage of datagrams of which no port queued a copy: the network's part."""
    taken = np.unique(np.concatenate([rows["datagram"] for rows in departures.values()]))
    entered = result.streams[_STREAM].entered
    return 100 * (entered - len(taken)) / entered


def _as_csv(courses: dict[str, Depth], edges_ps: npt.NDArray[np.int64], began_ps: int) -> str:
    """Return the largest depth in each span: columns port, from_ms, held_bytes."""
    begins = (edges_ps[:-1] - began_ps) / 1e9
    tables = [
        pd.DataFrame({"port": port, "from_ms": begins, "held_bytes": course.highest(edges_ps)})
        for port, course in courses.items()
    ]
    return pd.concat(tables).to_csv(index=False, float_format="%.6f")
