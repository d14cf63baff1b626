"""Measure a trial of ``topologies``: lines, rings and meshes of switches."""

import math
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from tsnrepro.common.ethernet import (
    PREAMBLE_BYTES,
    payload_limit_mbps,
    payload_rate_mbps,
    udp_frames,
)
from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.experiments.topologies.plan import Factors
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    Network,
    RandomLoss,
    Recovery,
    Replicated,
    SinglePath,
    Span,
    TrafficStream,
)
from tsnrepro.model.result import SimulationResult
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.simulated import run_network
from tsnrepro.testbeds.model import ModelTestbed

_STREAM = "stream"
_FIRST, _LAST = "in", "out"


@dataclass(frozen=True)
class Topology:
    """Switches and the links between them; the first switch is the talker's.

    ``links`` maps names to the switches that they join. ``members`` are disjoint ways from the
    first switch to the ``last``, the control's first.
    """

    switches: list[str]
    last: str
    links: dict[str, tuple[str, str]]
    members: list[list[str]] = field(default_factory=list)


def topology(shape: str, size: int) -> Topology:
    """Return a line of ``size`` switches, a ring of as many, or a mesh of ``size`` paths."""
    return {"line": _line, "ring": _ring, "mesh": _mesh}[shape](size)


def _line(switches: int) -> Topology:
    names = [f"s{number}" for number in range(switches)]
    members = [[f"{path}{number}" for number in range(switches - 1)] for path in ("a", "b")]
    links = {
        link: ends for member in members for link, ends in zip(member, pairwise(names), strict=True)
    }
    return Topology(names, names[-1], links, members)


def _ring(switches: int) -> Topology:
    names = [f"s{number}" for number in range(switches)]
    links = {
        f"r{number}": (name, names[(number + 1) % switches]) for number, name in enumerate(names)
    }
    order, half = list(links), switches // 2
    return Topology(names, names[half], links, [order[:half], order[half:][::-1]])


def _mesh(paths: int) -> Topology:
    """One path is the direct link, each of the others leads over a switch of its own."""
    between = [f"via{number}" for number in range(1, paths)]
    names = ["first", *between, "last"]
    links = {f"{a}-{b}": (a, b) for a, b in combinations(names, 2)}
    members = [["first-last"], *[[f"first-{via}", f"{via}-last"] for via in between]]
    return Topology(names, "last", links, members)


def measure(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Simulate one trial; counts are of what leaves the last switch."""
    factors = Factors.of(trial)
    made = topology(factors.shape, factors.size)
    port = f"{made.last}:{_LAST}"
    network = _network(testbed, factors, trial.repetition, made)
    result = run_network(testbed, trial, measured, network, factors.duration_s, departures=[port])
    used = made.members if factors.configuration == "frer" else made.members[:1]
    hops = [len(member) for member in used]
    measured.values["result"] = {
        **_counts(result, factors, testbed.settings.propagation_delay_ns),
        "paths": len(hops),
        "switches": hops[0] + 1,
        "expected_us": _expected_us(testbed, factors, trial.repetition, min(hops)),
        "expected_lost_percent": _expected_lost_percent(factors, hops),
        "line_limit_mbps": _line_limit_mbps(testbed, factors),
    }


def _network(testbed: ModelTestbed, factors: Factors, repetition: int, made: Topology) -> Network:
    """Return the testbed's hosts and switches in another topology, with the trial's stream."""
    settings = testbed.settings
    stream = TrafficStream(
        name=_STREAM,
        talker=TALKER,
        listener=LISTENER,
        payload_bytes=factors.payload_bytes,
        send=ConstantRate(rate_mbps=factors.rate_mbps),
        route=_route(testbed, made, factors.configuration),
    )
    # The testbed's own parts; its two switches and links make room for others.
    plain = testbed.network(
        testbed.parameters(repetition),
        [stream.model_copy(update={"route": testbed.route("control")})],
    )
    switch = next(iter(plain.switches.values()))
    return Network(
        hosts=plain.hosts,
        switches=dict.fromkeys(made.switches, switch),
        links=[
            _link(settings, _FIRST, TALKER, made.switches[0]),
            *_switch_links(settings, factors, made),
            _link(settings, _LAST, made.last, LISTENER),
        ],
        streams=[stream],
    )


def _route(testbed: ModelTestbed, made: Topology, configuration: str) -> SinglePath | Replicated:
    if configuration == "control":
        return SinglePath(links=[_FIRST, *made.members[0], _LAST])
    recovery = Recovery(**testbed.settings.frer.model_dump())
    return Replicated(before=[_FIRST], members=made.members, after=[_LAST], recovery=recovery)


def _link(settings: Any, name: str, a: str, b: str, **others: Any) -> DuplexLink:
    rate = float(settings.link_rate_mbps)
    return DuplexLink(
        name=name, a=a, b=b, rate_mbps=rate, delay_ns=settings.propagation_delay_ns, **others
    )


def _switch_links(settings: Any, factors: Factors, made: Topology) -> list[DuplexLink]:
    """Return the links between switches, with their losses and failures."""
    chance = factors.link_loss_percent / 100
    loss = RandomLoss(probability=chance) if chance else None
    fails = [Span(from_ns=round(factors.duration_s * 1e9 / 2))] if factors.cut else []
    victim = made.members[0][0]
    return [
        _link(settings, name, a, b, loss=loss, failures=fails if name == victim else [])
        for name, (a, b) in made.links.items()
    ]


def _counts(result: SimulationResult, factors: Factors, cable_ns: float) -> dict[str, Any]:
    """Return what left the last switch: number, latency and rate of the datagrams."""
    rows, sent = result.logs.departures, result.streams[_STREAM].entered
    assert rows is not None
    ended = rows["end_ps"]
    delays_us = (ended - rows["sent_ps"]) / 1e6 + cable_ns / 1e3
    p50 = p99 = None
    if len(rows):
        p50, p99 = map(float, np.quantile(delays_us, [0.5, 0.99], method="inverted_cdf"))
    until_ps = factors.duration_s * 1e12
    in_time = int((ended <= until_ps).sum())
    span_s = (until_ps - int(ended[0])) / 1e12 if in_time else factors.duration_s
    # A rate counts the gaps between datagrams.
    carried = max(in_time - 1, 0)
    return {
        "sent": sent,
        "arrived": len(rows),
        "lost_percent": 100 * (sent - len(rows)) / sent,
        "p50_us": p50,
        "p99_us": p99,
        "carried_mbps": payload_rate_mbps(carried, factors.payload_bytes, span_s),
    }


def _expected_us(testbed: ModelTestbed, factors: Factors, repetition: int, hops: int) -> float:
    """Return the latency without waiting: write, every link stored and forwarded, every switch."""
    parameters, payload = testbed.parameters(repetition), factors.payload_bytes
    tagged = factors.configuration == "frer"
    rate = testbed.settings.link_rate_mbps
    plain_us, member_us = (
        (udp_frames(payload, tagged=tag)[0] + PREAMBLE_BYTES) * 8 / rate for tag in (False, tagged)
    )
    cables_us = (hops + 2) * testbed.settings.propagation_delay_ns / 1e3
    switches_us = (hops + 1) * parameters.switch_us
    return parameters.send_us + 2 * plain_us + hops * member_us + switches_us + cables_us


def _expected_lost_percent(factors: Factors, hops: list[int]) -> float:
    """Return the loss of members whose links lose independently: a copy on any of them is enough.

    A cut link makes the first member lose all for half of the time.
    """
    chance = factors.link_loss_percent / 100
    losses = [1 - (1 - chance) ** links for links in hops]
    whole = math.prod(losses)
    after = math.prod([1.0, *losses[1:]]) if factors.cut else whole
    return 100 * (whole + after) / 2


def _line_limit_mbps(testbed: ModelTestbed, factors: Factors) -> float:
    """Return the payload rate of the slowest link: every path carries the whole stream."""
    tagged = factors.configuration == "frer"
    rate = float(testbed.settings.link_rate_mbps)
    return payload_limit_mbps(factors.payload_bytes, tagged=tagged, rate_mbps=rate)
