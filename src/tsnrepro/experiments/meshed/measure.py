"""Measure a trial of ``meshed``: many ports of a tester on one switch or two (RFC 2889).

The tester is ideal: it sends on time and counts what arrives at its cards. A port sends a frame in
every slot; in slot k it is for the port k + 1 places further among those it sends to (RFC 2889,
5.1), so that in no slot two frames of a full mesh are for one port.
"""

from tsnrepro.common.ethernet import udp_payload, wire_bytes
from tsnrepro.experiments.meshed.plan import Factors
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    EgressPort,
    EndStation,
    Network,
    SinglePath,
    Switch,
    TrafficStream,
)
from tsnrepro.model.result import SimulationResult
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.simulated import run_network
from tsnrepro.testbeds.model import ModelTestbed

_UPLINK = "uplink"
# Of the tester's ports and sockets: more than ever waits there.
_TESTER_BYTES = 4_000_000


def destinations(pattern: str, ports: int) -> dict[int, list[int]]:
    """Return to which ports each sending port sends, in the order of its slots."""
    everyone = range(ports)
    if pattern == "one_to_many":
        return {0: [port for port in everyone if port]}
    if pattern == "many_to_one":
        return {port: [0] for port in everyone if port}
    if pattern == "two_devices":
        half = ports // 2
        others = {port: half if port < half else 0 for port in everyone}
        return {p: [first + (p + k) % half for k in range(half)] for p, first in others.items()}
    return {port: [(port + k) % ports for k in range(1, ports)] for port in everyone}


def measure(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Simulate one trial: frames sent, received and lost, and the forwarding rate."""
    factors = Factors.of(trial)
    network = _network(testbed, factors, trial.repetition)
    result = run_network(testbed, trial, measured, network, factors.duration_s)
    sent = sum(stream.entered for stream in result.streams.values())
    received = sum(stream.unique for stream in result.streams.values())
    measured.values["result"] = {
        "sent": sent,
        "received": received,
        "lost": sent - received,
        "queue_drops": sum(sum(s.frames.queue_drops.values()) for s in result.streams.values()),
        "forwarding_fps": _forwarding_fps(result),
        "offered_fps": sent / factors.duration_s,
        "queue_bytes": testbed.settings.queue_bytes,
        "link_rate_mbps": testbed.settings.link_rate_mbps,
    }


def _network(testbed: ModelTestbed, factors: Factors, repetition: int) -> Network:
    settings, parameters = testbed.settings, testbed.parameters(repetition)
    tester = EndStation(
        port=EgressPort(queue_bytes=_TESTER_BYTES),
        send_buffer_bytes=_TESTER_BYTES,
        receive_buffer_bytes=_TESTER_BYTES,
    )
    switch = Switch(
        port=EgressPort(queue_bytes=settings.queue_bytes), processing_ns=parameters.switch_us * 1000
    )
    ports, two = factors.ports, factors.pattern == "two_devices"
    rate, cable = float(settings.link_rate_mbps), settings.propagation_delay_ns
    links = [
        DuplexLink(
            name=f"l{n}", a=f"t{n}", b=_switch_of(n, ports, two=two), rate_mbps=rate, delay_ns=cable
        )
        for n in range(ports)
    ]
    if two:
        assert factors.uplink_mbps is not None
        uplink = float(factors.uplink_mbps)
        links.append(DuplexLink(name=_UPLINK, a="sw0", b="sw1", rate_mbps=uplink, delay_ns=cable))
    return Network(
        hosts={f"t{n}": tester for n in range(ports)},
        switches=dict.fromkeys(["sw0", "sw1"][: 1 + two], switch),
        links=links,
        streams=_streams(factors, rate),
    )


def _switch_of(port: int, ports: int, *, two: bool) -> str:
    return "sw1" if two and port >= ports // 2 else "sw0"


def _streams(factors: Factors, rate_mbps: float) -> list[TrafficStream]:
    """Return a stream for each pair of ports: its frames are every so many slots of its sender."""
    payload = udp_payload(factors.frame_bytes)
    slot_ns = wire_bytes(factors.frame_bytes) * 8e3 / rate_mbps * 100 / factors.load_percent
    between = [_UPLINK] if factors.pattern == "two_devices" else []
    return [
        TrafficStream(
            name=f"s{port}-{other}",
            talker=f"t{port}",
            listener=f"t{other}",
            payload_bytes=payload,
            send=ConstantRate(rate_mbps=payload * 8e3 / (slot_ns * len(others))),
            route=SinglePath(links=[f"l{port}", *between, f"l{other}"]),
            start_ns=round(number * slot_ns),
        )
        for port, others in destinations(factors.pattern, factors.ports).items()
        for number, other in enumerate(others)
    ]


def _forwarding_fps(result: SimulationResult) -> float:
    """Return the frames a second that the receiving ports got (RFC 2285, 3.6.1), all together.

    Each port's run to its last frame, so a queue that drains after the last sending counts with the
    time that it takes.
    """
    received: dict[str, list[tuple[int, int]]] = {}
    for stream in result.network.streams:
        of = result.streams[stream.name]
        if of.last_delivered_ps:
            received.setdefault(stream.listener, []).append((of.unique, of.last_delivered_ps))
    return sum(
        sum(count for count, _ in port) / (max(last for _, last in port) / 1e12)
        for port in received.values()
    )
