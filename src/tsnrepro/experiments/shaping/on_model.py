"""Shaping on the model: the part's network, simulated at its real rates.

Hosts take the model testbed's processor times; its stalls are left out, since they fall on every
mode alike and are no port's doing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tsnrepro.common.ethernet import GAP_BYTES
from tsnrepro.common.topology import INLINE_SWITCH, LISTENER, LOADER, TALKER, member_names
from tsnrepro.experiments.shaping import toggles
from tsnrepro.experiments.shaping.log import DEPARTURES, LISTENER_DTYPE, LOG, Records, compress
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.schedule import flows_of
from tsnrepro.experiments.shaping.settings import GATED, LAUNCHED, TOGGLED
from tsnrepro.model.engine import simulate
from tsnrepro.model.logs import Block
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    Duration,
    EgressPort,
    EndStation,
    Listed,
    Network,
    Replicated,
    SinglePath,
    Switch,
    TrafficStream,
)
from tsnrepro.native.streams.log import STREAM_DTYPE

if TYPE_CHECKING:
    from tsnrepro.experiments.shaping.settings import Mode, ShapingPart
    from tsnrepro.model.result import SimulationResult
    from tsnrepro.records.store import Trial
    from tsnrepro.runner.measurement import Measurement
    from tsnrepro.testbeds.model import ModelParameters, ModelTestbed

STREAM, _LOAD = "stream", "load"
_MEMBERS = tuple(member_names(2))
# Two cards' clocks are never the same (IEEE Std 802.3 allows +-100 ppm). With equal clocks a full
# queue would take every frame of a saturating host and none of another's, or the other way round.
_LOADER_CLOCK = 1 - 50e-6
# Until then the load has filled every queue and socket that it will fill.
_START_NS = 20_000_000


def measure(testbed: ModelTestbed, trial: Trial, measured: Measurement) -> None:
    """Simulate one trial; the record keeps the network and every datagram of the stream."""
    factors = Factors.of(trial)
    part, mode = factors.part, factors.mode
    seed = int(trial.digest, 16) ^ testbed.seed
    parameters = testbed.parameters(trial.repetition)
    network = _TrialNetwork(
        part, mode, parameters, testbed.settings.propagation_delay_ns, seed
    ).network()
    departures: list[Block] = []

    def keep(block: Block) -> None:
        departures.append(block[block["stream"] == 0])

    # Behind gates a stream's last datagrams may have to wait for many cycles.
    duration_s = (_START_NS + (part.packets + 1) * part.interval_us * 1000) / 1e9
    ports = [name for name in network.ports if part.kind == "tas-frer"]
    result = simulate(
        network,
        duration_s=duration_s,
        seed=seed,
        record=[STREAM],
        departures=ports,
        on_departure=keep if ports else None,
        max_rows=part.packets,  # of the departures the callback takes all, the load's too
    )
    log = _log_of(result.deliveries)
    if mode not in LAUNCHED:
        # A frame enters the talker's queue when its send call ends, which is before the next one.
        log["queued_ns"] = result.deliveries["sent_ps"] // 1000 + round(parameters.send_us * 1000)
    measured.outputs[LOG] = compress(log)
    if ports:
        measured.outputs[DEPARTURES] = compress(_departures_of(np.concatenate(departures)))
    measured.outputs["network.json.gz"] = network.model_copy(
        update={"streams": [_summary(stream) for stream in network.streams]}
    ).model_dump_json(indent=1)
    measured.values |= {
        "seed": seed,
        "parameters": asdict(parameters),
        "cable_ns": testbed.settings.propagation_delay_ns,
        "medium": "model",
        "egress": _egress_of(part, testbed.settings.propagation_delay_ns),
        **_phases_of(part),
        **_counts_of(result, duration_s),
    }


def _phases_of(part: ShapingPart) -> dict[str, Any]:
    """Return when the gates were enabled and disabled: in turn while the stream is sent."""
    if part.toggles is None:
        return {}
    length = _phase_ns(part)
    times = [_START_NS + place * length for place in range(part.toggles + 2)]
    # The model toggles in no time.
    toggled = [(at, at) for at in times[1:-1]]
    return toggles.recorded(toggles.phases_between(toggled, times[0], times[-1] - 1))


def _phase_ns(part: ShapingPart) -> int:
    return round(part.phase_s * 1e9)


def _summary(stream: TrafficStream) -> TrafficStream:
    """Return a stream without its list of times, which the seed and the factors give again."""
    if not isinstance(stream.send, Listed):
        return stream
    return stream.model_copy(update={"send": Listed(times_ns=stream.send.times_ns[:1])})


def _egress_of(part: ShapingPart, cable_ns: float) -> dict[str, Any]:
    """Return how the start of a frame at the shaped port follows from its arrival stamp.

    Where the listener hears the shaped port directly, a frame began there when it arrived less the
    frame's time on the line, preamble included, and the cable's. Where another port stands between,
    the departures from the shaped ports are kept, stamped when the preamble began.
    """
    # Preamble but no gap: the stamp is that of the last bit.
    line_ns = (flows_of(part)[0].wire_bytes[0] - GAP_BYTES) * 8000 / part.link_rate_mbps
    logged = part.kind == "tas-frer"
    before_ns = 0.0 if logged else line_ns + cable_ns
    return {
        "source": "departures from the member ports" if logged else "arrival of the last bit",
        "before_stamp_ns": before_ns,
        "frame_ns": line_ns,
        # Stamps are cut to whole nanoseconds.
        "uncertainty_ns": 0 if before_ns.is_integer() and line_ns.is_integer() else 1,
    }


def _log_of(deliveries: Block) -> Records:
    """Return the model's deliveries of one stream as its log; picoseconds are cut off."""
    log = np.zeros(len(deliveries), STREAM_DTYPE)
    log["sequence"] = deliveries["datagram"]
    log["sent_ns"] = deliveries["sent_ps"] // 1000
    log["received_ns"] = deliveries["delivered_ps"] // 1000
    log["stamped_ns"] = deliveries["arrived_ps"] // 1000
    return log


def _departures_of(departures: Block) -> Records:
    """Return departures as a log: ``stream`` is the member path, the stamp is the frame's start."""
    log = np.zeros(len(departures), LISTENER_DTYPE)
    log["stream"] = departures["member"]
    log["sequence"] = departures["datagram"]
    log["sent_ns"] = departures["sent_ps"] // 1000
    log["received_ns"] = departures["end_ps"] // 1000
    log["stamped_ns"] = departures["start_ps"] // 1000
    return log


def _counts_of(result: SimulationResult, duration_s: float) -> dict[str, Any]:
    """Return the accounts of stream and load, and what each port did."""
    stream = result.streams[STREAM]
    loads = [item for name, item in result.streams.items() if name != STREAM]
    return {
        "result": {
            "sent": stream.entered,
            "received": stream.unique,
            "lost": stream.lost,
            "left_in_queues": stream.frames.left,
            "queue_drops": stream.frames.queue_drops,
            "out_of_order": stream.out_of_order,
            "load_offered_mbps": sum(item.offered_mbps(duration_s) for item in loads),
            "load_delivered_mbps": sum(item.goodput_mbps(duration_s) for item in loads),
        },
        "ports": {
            name: {
                "busy_percent": 100 * port.busy_ps / 1e12 / result.ended_s,
                "peak_queue_bytes": port.peak_queue_bytes,
                "credit_range_bits": port.credit_range_bits,
                "streams": [asdict(part) for part in port.streams],
            }
            for name, port in result.ports.items()
        },
        "recoveries": [asdict(recovery) for recovery in result.recoveries],
    }


# --- networks ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TrialNetwork:
    """What decides the network of one trial."""

    part: ShapingPart
    mode: Mode
    parameters: ModelParameters
    cable_ns: float
    seed: int

    def network(self) -> Network:
        if self.part.kind == "tas-frer":
            return self._members()
        # On the direct link there is no switch.
        if self.part.kind == "bridge" and self.mode != "direct":
            return self._bridge()
        return self._end_station()

    def _end_station(self) -> Network:
        """Talker and listener on one cable; stream and load leave by the talker's shaped port."""
        link = self._link(TALKER, LISTENER)
        streams = self._streams(SinglePath(links=[link.name]), [(TALKER, LISTENER, [link.name])])
        # Room for all that its sockets may hold: a socket waits instead.
        port = self._shaped_port().model_copy(update={"queue_bytes": self._host_queue_bytes})
        return Network(
            hosts={TALKER: self._host(launches=self.mode == "etf"), LISTENER: self._host()},
            links=[link],
            streams=streams,
            ports={f"{TALKER}:{link.name}": port},
        )

    def _bridge(self) -> Network:
        """Talker and load each on a port of a switch, whose port to the listener is shaped."""
        first, last = self._link(TALKER, INLINE_SWITCH), self._link(INLINE_SWITCH, LISTENER)
        other = _slower(self._link(LOADER, INLINE_SWITCH))
        streams = self._streams(
            SinglePath(links=[first.name, last.name]),
            [(LOADER, LISTENER, [other.name, last.name])],
        )
        return Network(
            hosts=dict.fromkeys((TALKER, LOADER, LISTENER), self._host()),
            switches={INLINE_SWITCH: self._switch()},
            links=[first, other, last],
            streams=streams,
            ports={f"{INLINE_SWITCH}:{last.name}": self._shaped_port()},
        )

    def _members(self) -> Network:
        """Two switches, the stream replicated over shaped member ports, each under its own load.

        Loads come from hosts on the first switch and leave the second for hosts of their own, so
        that only the member paths are shared.
        """
        first, last = self._link(TALKER, "sw1"), self._link("sw2", LISTENER)
        members = [self._link("sw1", "sw2", name) for name in _MEMBERS]
        sources = [_slower(self._link(f"loader-{name}", "sw1")) for name in _MEMBERS]
        sinks = [self._link("sw2", f"sink-{name}") for name in _MEMBERS]
        route = Replicated(
            before=[first.name], members=[[name] for name in _MEMBERS], after=[last.name]
        )
        loads = [
            (source.a, sink.b, [source.name, name, sink.name])
            for source, sink, name in zip(sources, sinks, _MEMBERS, strict=True)
        ]
        hosts = [TALKER, LISTENER, *(source.a for source in sources), *(sink.b for sink in sinks)]
        return Network(
            hosts=dict.fromkeys(hosts, self._host()),
            switches=dict.fromkeys(("sw1", "sw2"), self._switch()),
            links=[first, *members, *sources, *sinks, last],
            streams=self._streams(route, loads),
            ports={f"sw1:{name}": self._shaped_port() for name in _MEMBERS},
        )

    def _shaped_port(self) -> EgressPort:
        """Return the port that the mode stands for; on a card mqprio is strict priority."""
        part, mode = self.part, self.mode
        if mode in ("fifo", "direct"):
            return EgressPort(queue_bytes=part.queue_bytes)
        slopes = {}
        if mode == "cbs":
            assert part.idle_slope_mbps is not None
            slopes = {part.priority: part.idle_slope_mbps}
        return EgressPort(
            queue_bytes=part.queue_bytes,
            scheduler="strict_priority",
            gates=part.gates if mode in (*GATED, TOGGLED) else None,
            gate_toggle_ns=_phase_ns(part) if part.toggles else None,
            gate_toggle_from_ns=_START_NS if part.toggles else 0,
            idle_slopes_mbps=slopes,
        )

    @property
    def _host_queue_bytes(self) -> int:
        return max(self.part.queue_bytes, 1 << 20)

    def _host(self, *, launches: bool = False) -> EndStation:
        """Return a host; one that ``launches`` hands frames over at their launch time exactly."""
        send_us = 0.0 if launches else self.parameters.send_us
        return EndStation(
            port=EgressPort(queue_bytes=self._host_queue_bytes),
            send_cost=Duration(mean_ns=send_us * 1000),
            receive_time=Duration(mean_ns=self.parameters.receive_us * 1000),
            stack_time=Duration(mean_ns=self.parameters.stack_us * 1000),
        )

    def _switch(self) -> Switch:
        port = EgressPort(queue_bytes=self.part.queue_bytes)
        return Switch(port=port, processing_ns=self.parameters.switch_us * 1000)

    def _link(self, a: str, b: str, name: str = "") -> DuplexLink:
        rate = self.part.link_rate_mbps
        return DuplexLink(name=name or f"{a}-{b}", a=a, b=b, rate_mbps=rate, delay_ns=self.cable_ns)

    def _streams(
        self, route: SinglePath | Replicated, loads: list[tuple[str, str, list[str]]]
    ) -> list[TrafficStream]:
        """Return the stream on its route and the loads, each from a host to a host over links."""
        part = self.part
        rate = part.loads_mbps[0]
        return [
            TrafficStream(
                name=STREAM,
                talker=TALKER,
                listener=LISTENER,
                payload_bytes=part.payload_bytes,
                send=Listed(times_ns=self._send_times_ns()),
                route=route,
                priority=part.priority,
                vlan=part.tagged,
                start_ns=_START_NS,
            ),
            *(
                TrafficStream(
                    name=f"{_LOAD}{number}" if number else _LOAD,
                    talker=source,
                    listener=sink,
                    payload_bytes=part.load_payload_bytes,
                    send=ConstantRate(rate_mbps=rate),
                    route=SinglePath(links=links),
                    priority=part.load_priority,
                    vlan=part.tagged,
                )
                for number, (source, sink, links) in enumerate(loads)
                if rate > 0
            ),
        ]

    def _send_times_ns(self) -> list[int]:
        """Return when the stream's datagrams are sent: evenly, each late by chance."""
        part = self.part
        chance = np.random.default_rng([self.seed, 1]).random(part.packets)
        times = np.arange(part.packets) * part.interval_us + chance * part.interval_spread_us
        return np.floor(times * 1000).astype(np.int64).tolist()


def _slower(link: DuplexLink) -> DuplexLink:
    return link.model_copy(update={"rate_mbps": link.rate_mbps * _LOADER_CLOCK})
