"""Layout of a network in the memory that the kernels work on."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.config.gates import GateControlList
from tsnrepro.model import layout, recovery
from tsnrepro.model.compiled import offset_of, words_of
from tsnrepro.model.network import (
    BurstLoss,
    Bursts,
    ConstantRate,
    Duration,
    EndStation,
    Listed,
    Network,
    PingPong,
    Poisson,
    Recovery,
    Replicated,
    SequenceFaults,
    Span,
    TcpBulk,
    picoseconds,
)
from tsnrepro.model.routes import Edge, Element, Graph, Port, RouteFlow, Traffic, route_network
from tsnrepro.model.variates import CONSTANT, ERLANG, PROBABILITY_ONE, stream_state

Fields: TypeAlias = dict[str, Any]
"""Values of a record's fields by name."""

_MAX_SLOTS = 1 << 25
_SPARE = 16
_HUGE = (1 << 63) - 1
_PROCESSES = {
    "bursts": layout.BURSTS,
    "constant": layout.CONSTANT_RATE,
    "poisson": layout.POISSON,
    "listed": layout.LISTED,
    "saturating": layout.SATURATING,
    "tcp": layout.TCP,
    "ping_pong": layout.PING_PONG,
}


@dataclass(frozen=True)
class LogRequest:
    """Requested logs: deliveries and answers of streams (None: all), departures of ports.

    A log has room for at least ``rows`` rows between two calls.
    """

    streams: frozenset[str] | None = frozenset()
    ports: frozenset[str] = frozenset()
    rows: int = 1 << 16

    def stream(self, traffic: Traffic) -> bool:
        """Return whether the deliveries of a stream are logged."""
        return not traffic.returns and (self.streams is None or traffic.name in self.streams)


class _Memory:
    """Allocates addresses and records the initial values there; all others are zero."""

    def __init__(self) -> None:
        self.used = 0
        self._written: list[tuple[int, list[int]]] = []
        self._filled: dict[int, int] = {}

    def take(self, words: int) -> int:
        """Allocate ``words`` words and return their address."""
        address = self.used
        self.used += words
        return address

    def put(self, values: list[int]) -> int:
        """Allocate words with initial values and return their address."""
        address = self.take(len(values))
        self._written.append((address, values))
        return address

    def fill(self, dtype: np.dtype, address: int, values: Fields) -> None:
        """Set initial values of fields of a record at an address."""
        for name, value in values.items():
            first = address + offset_of(dtype, name)
            if isinstance(value, tuple):
                self._filled.update(enumerate(value, first))
            elif isinstance(value, float):
                self._filled[first] = int(np.float64(value).view(np.int64))
            else:
                self._filled[first] = value

    def new(self, dtype: np.dtype, values: Fields | None = None) -> int:
        """Allocate a record with initial values of fields and return its address."""
        address = self.take(words_of(dtype))
        self.fill(dtype, address, values or {})
        return address

    def ring(self, what: str, slots: int, words: int) -> Fields:
        """Allocate a ring of at least ``slots`` slots of ``words`` words and return its field.

        Raises ValueError, naming ``what``, for a ring that would not fit into memory.
        """
        if slots > _MAX_SLOTS:
            raise ValueError(
                f"{what} can hold {slots} frames or datagrams, more than the maximum of "
                f"{_MAX_SLOTS}: give a smaller queue, buffer or delay"
            )
        size = 1 << max(1, int(slots - 1).bit_length())
        return {"ring": (self.take(size * words), size - 1, 0, 0)}

    def array(self) -> npt.NDArray[np.int64]:
        memory = np.zeros(self.used, np.int64)
        for address, values in self._written:
            memory[address : address + len(values)] = values
        memory[list(self._filled)] = list(self._filled.values())
        return memory


@dataclass(frozen=True)
class RecoveryAddress:
    """The address of a recovery function, with its stream and member path."""

    traffic: Traffic
    member: int | None
    address: int


@dataclass(frozen=True)
class EliminationAddress:
    """The address of an elimination with latent error detection (or NONE) or restarts."""

    traffic: Traffic
    address: int
    latent: int


@dataclass
class Plan:
    """A network laid out in memory: the array, and the addresses of its records.

    ``hops`` is by element and flow index; ``senders``, ``transports`` and ``listeners`` are by
    traffic index; ``edges`` and ``elements`` are by index.
    """

    graph: Graph
    stop_ps: int
    memory: npt.NDArray[np.int64] = field(init=False)
    elements: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    hops: dict[tuple[int, int], int] = field(default_factory=dict)
    senders: dict[int, int] = field(default_factory=dict)
    transports: dict[int, int] = field(default_factory=dict)
    listeners: dict[int, int] = field(default_factory=dict)
    recoveries: list[RecoveryAddress] = field(default_factory=list)
    eliminations: list[EliminationAddress] = field(default_factory=list)

    def queues(self, element: int) -> list[int]:
        """Return the addresses of the traffic classes of a port, by its index."""
        first = int(self.memory[self.elements[element] + offset_of(layout.ELEMENT, "classes")])
        return [first + number * layout.QUEUE_WORDS for number in range(layout.CLASSES)]

    def frame_rings(self, *, to_senders: bool = True) -> list[int]:
        """Return the addresses of the rings of frames; ``to_senders`` includes those to senders."""
        sender, kind = offset_of(layout.EDGE, "sender"), offset_of(layout.ELEMENT, "kind")
        rings = [
            edge + offset_of(layout.EDGE, "ring")
            for edge in self.edges
            if to_senders or self.memory[edge + sender] == layout.NONE
        ]
        for index, element in enumerate(self.elements):
            if self.memory[element + kind] == layout.SCHEDULED_PORT:
                rings += [queue + offset_of(layout.QUEUE, "ring") for queue in self.queues(index)]
        return rings


def plan_network(
    network: Network,
    stop_ps: int,
    seed: SeedSequence,
    *,
    requested: LogRequest = LogRequest(),
    general_ports: bool = False,
) -> Plan:
    """Lay a network out for the kernels.

    Writes begin before ``stop_ps``. ``general_ports`` serves FIFO ports event by event too. Raises
    ValueError for a network that cannot be laid out, with what to change.
    """
    return _Planner(route_network(network), stop_ps, seed, general_ports, requested).build()


class _Planner:
    """Lays out a network: first the addresses of records, then their initial values."""

    def __init__(
        self, graph: Graph, stop_ps: int, seed: SeedSequence, general: bool, requested: LogRequest
    ) -> None:
        self.graph, self.network = graph, graph.network
        self.seed, self.general, self.requested = seed, general, requested
        self.memory = _Memory()
        self.plan = Plan(graph, stop_ps)
        self.eliminations: dict[int, int] = {}

    def build(self) -> Plan:
        plan, new = self.plan, self.memory.new
        run = new(layout.RUN)
        plan.elements = [new(layout.ELEMENT) for _ in self.graph.elements]
        plan.edges = [new(layout.EDGE) for _ in self.graph.edges]
        for traffic in self.graph.traffic:
            plan.listeners[traffic.index] = new(layout.LISTENER)
            if not traffic.returns:
                plan.senders[traffic.index] = new(layout.SENDER)
                if isinstance(traffic.stream.send, TcpBulk):
                    plan.transports[traffic.index] = new(layout.TRANSPORT)
        slots = self.fill_edges()
        for element in self.graph.elements:
            self.fill_element(element)
        self.fill_hops()
        for element in self.graph.elements:
            for traffic in element.senders:
                assert isinstance(element, Port)
                self.fill_sender(element, traffic)
        for traffic in self.graph.traffic:
            self.fill_listener(traffic)
        self.fill_logs(run, slots)
        self.memory.fill(
            layout.RUN,
            run,
            {
                "window": self.graph.window_ps,
                "elements": self.memory.put(plan.elements),
                "element_count": len(plan.elements),
                "senders": self.memory.put(list(plan.senders.values())),
                "sender_count": len(plan.senders),
            },
        )
        plan.memory = self.memory.array()
        return plan

    def fill_logs(self, run: int, slots: dict[int, int]) -> None:
        """Allocate the rows of each requested log: those of one window, and more.

        An edge has slots for all frames that its port can start in a window; a request is answered
        after more than a window, which is not longer than the edge at which the cycle is cut.
        """
        requested, edges = self.requested, self.graph.edges
        arriving = [edge for edge in edges if not isinstance(edge.target, Port)]
        leaving = [edge for edge in edges if edge.source.name in requested.ports]
        pinging = [c for c in self.graph.traffic if isinstance(c.stream.send, PingPong)]
        streams = any(requested.stream(traffic) for traffic in self.graph.traffic)
        for log, words, kept, most in (
            ("deliveries", layout.DELIVERY_WORDS, streams, sum(slots[e.index] for e in arriving)),
            (
                "departures",
                layout.STARTED_WORDS,
                bool(leaving),
                sum(slots[e.index] for e in leaving),
            ),
            ("answers", layout.ANSWER_WORDS, streams and bool(pinging), 2 * len(pinging)),
        ):
            rows = requested.rows + most if kept else 0
            address = self.memory.take(rows * words)
            self.memory.fill(layout.RUN, run, {log: (address, rows, most, 0)})

    # Shared parts

    def random(self, name: str) -> int:
        """Allocate a stream of random numbers and return its address."""
        return self.memory.put([int(word) for word in stream_state(self.seed, name)])

    def duration(self, duration: Duration, random: int) -> int:
        """Allocate a duration that draws from ``random`` and return its address."""
        kind = CONSTANT if duration.distribution == "constant" else ERLANG
        mean = picoseconds(duration.mean_ns)
        values = {"kind": kind, "mean_ps": mean, "phases": duration.shape, "random": random}
        return self.memory.new(layout.DURATION, values)

    def times(self) -> tuple[int, int, int, int]:
        """Return the initial fields of statistics of times."""
        return (0, _HUGE, layout.NONE, self.memory.take(layout.HISTOGRAM_BINS))

    def stalls(self, host: str, process: str) -> int:
        """Allocate a sequence of stalls and return its address, or NONE."""
        stalls = self.network.hosts[host].stalls
        if stalls is None:
            return layout.NONE
        random = self.random(f"stalls/{host}/{process}")
        interval = self.duration(stalls.interval, random)
        length = self.duration(stalls.length, random)
        return self.memory.new(layout.STALLS, {"interval": interval, "length": length})

    def is_fifo(self, port: Port) -> bool:
        """Return whether a port can be served frame by frame, without events."""
        waits = any(isinstance(traffic.stream.send, TcpBulk | PingPong) for traffic in port.senders)
        return port.egress.scheduler == "fifo" and not waits and not self.general

    def class_of(self, port: Port, traffic: Traffic) -> int:
        return 0 if port.egress.scheduler == "fifo" else traffic.stream.priority

    # Edges

    def fill_edges(self) -> dict[int, int]:
        """Allocate a sufficient ring for each edge; return their slots by index."""
        slots: dict[int, int] = {}
        for edge in sorted(self.graph.edges, key=lambda edge: not isinstance(edge.source, Port)):
            slots[edge.index] = self.edge_slots(edge, slots)
            what = f"the edge from {edge.source.name} to {edge.target.name}"
            sender = layout.NONE
            if edge.to_sender is not None:
                sender = self.plan.senders[edge.to_sender]
            ring = self.memory.ring(what, slots[edge.index], layout.FRAME_WORDS)
            self.memory.fill(layout.EDGE, self.plan.edges[edge.index], ring | {"sender": sender})
        return slots

    def edge_slots(self, edge: Edge, slots: dict[int, int]) -> int:
        """Return the largest number of frames on an edge at a time."""
        source = edge.source
        if not isinstance(source, Port):
            # At most one acknowledgement for a frame that arrived or was still in the stack.
            arriving = [slots[e.index] for e in self.graph.edges if e.target is source]
            host = self.network.hosts[source.node]
            # Datagrams of a ping-pong are processed ahead of time: all in the socket.
            ahead = sum(
                self.socket_slots(traffic, host) * len(traffic.frames)
                for traffic in self.graph.traffic
                if traffic.listener == source.node and isinstance(traffic.stream.send, PingPong)
            )
            return host.nic_ring_frames + 2 * sum(arriving) + ahead + _SPARE
        span = self.graph.window_ps + self.graph.ahead_ps(source)
        span += picoseconds(source.link.jitter_ns)
        # A FIFO port forwards a frame when it enters the queue, ahead of its departure.
        early = source.egress.queue_bytes // source.shortest_frame if self.is_fifo(source) else 0
        copies = 2 if source.link.duplication else 1
        return copies * (span // source.shortest_ps + early + _SPARE)

    def socket_slots(self, traffic: Traffic, host: EndStation) -> int:
        """Return the largest number of datagrams in the listener's socket, plus one."""
        return host.receive_buffer_bytes // self.receive_charge(traffic, host) + 2

    def receive_charge(self, traffic: Traffic, host: EndStation) -> int:
        """Return the bytes that a received datagram is charged."""
        return host.truesize_bytes or sum(traffic.truesizes)

    # Elements

    def fill_element(self, element: Element) -> None:
        """Set the fields of a port or a receiving side."""
        inputs = [
            self.plan.edges[edge.index] for edge in self.graph.edges if edge.target is element
        ]
        senders = [self.plan.senders[traffic.index] for traffic in element.senders]
        values = {
            "inputs": self.memory.put(inputs),
            "input_count": len(inputs),
            "senders": self.memory.put(senders),
            "sender_count": len(senders),
            "release_at": layout.NEVER,
            "select_at": layout.NEVER,
            "loss_random": layout.NONE,
            "twice_random": layout.NONE,
            "logged": element.index if element.name in self.requested.ports else layout.NONE,
            "watched": int(element.name in self.requested.ports),
        }
        if isinstance(element, Port):
            values |= self.port_fields(element) | self.loss_fields(element)
            values |= self.duplication_fields(element)
        else:
            values |= self.receiver_fields(element)
        self.memory.fill(layout.ELEMENT, self.plan.elements[element.index], values)

    def receiver_fields(self, element: Element) -> Fields:
        host = self.network.hosts[element.node]
        ring = self.memory.ring(
            f"the card of {element.node}", host.nic_ring_frames + 1, layout.ALLOCATION_WORDS
        )
        card = self.memory.new(layout.QUEUE, ring)
        transports = [
            self.plan.listeners[traffic.index]
            for traffic in self.graph.traffic
            if isinstance(traffic.stream.send, TcpBulk)
            and not traffic.returns
            and traffic.listener == element.node
        ]
        random = self.random(f"stack/{element.node}")
        return {
            "kind": layout.RECEIVER,
            "classes": card,
            "card_frames": host.nic_ring_frames,
            "stack": self.duration(host.stack_time, random),
            "transports": self.memory.put(transports),
            "transport_count": len(transports),
        }

    def port_fields(self, port: Port) -> Fields:
        failures = [time for failure in port.link.failures for time in _span_ps(failure)]
        first = self.memory.put(failures)
        classes = self.memory.take(layout.CLASSES * layout.QUEUE_WORDS)
        values = {
            "kind": layout.FIFO_PORT if self.is_fifo(port) else layout.SCHEDULED_PORT,
            "classes": classes,
            "gap": port.gap_ps,
            "delay": port.delay_ps,
            "ahead": self.graph.ahead_ps(port),
            "queue_bytes": port.egress.queue_bytes,
            "failure": first,
            "failures_end": first + len(failures),
        }
        if port.link.jitter_ns:
            values |= {
                "jitter": picoseconds(port.link.jitter_ns),
                "jitter_random": self.random(f"jitter/{port.link.name}/{port.node}"),
            }
        if self.is_fifo(port):
            self.memory.fill(layout.QUEUE, classes, self.queue_ring(port, layout.ALLOCATION_WORDS))
            return values
        used = {self.class_of(port, flow.traffic) for flow in port.flows}
        for number in range(layout.CLASSES):
            queue = {"window_count": layout.ALWAYS_OPEN}
            if number in used:
                queue |= self.queue_ring(port, layout.FRAME_WORDS)
                queue |= self.shaper_fields(port, number)
            self.memory.fill(layout.QUEUE, classes + number * layout.QUEUE_WORDS, queue)
        gates, offset = port.egress.gates, picoseconds(port.egress.clock_offset_ns)
        if gates is not None:
            values |= {
                "guard": int(gates.guard_band),
                "gate_cycle": gates.cycle * 1000,
                "gate_shift": offset - gates.base_time_ns * 1000,
                "gate_toggle": (port.egress.gate_toggle_ns or 0) * 1000,
                "gate_toggle_from": port.egress.gate_toggle_from_ns * 1000,
            }
        return values

    def queue_ring(self, port: Port, words: int) -> Fields:
        slots = port.egress.queue_bytes // port.shortest_frame + 2
        return self.memory.ring(f"the queue of {port.name}", slots, words)

    def shaper_fields(self, port: Port, number: int) -> Fields:
        values: Fields = {}
        slope_mbps = port.egress.idle_slopes_mbps.get(number)
        if slope_mbps is not None:
            slope, rate = round(slope_mbps * 1000), round(port.link.rate_mbps * 1000)
            if not 0 < slope < rate:
                raise ValueError(
                    f"port {port.name}: idle slope {slope_mbps} Mb/s of class {number} must be "
                    f"at least 0.001 and below the link's {port.link.rate_mbps} Mb/s"
                )
            values |= {"idle_slope": slope, "send_slope": slope - rate}
        windows = _gate_windows_ps(port.egress.gates, number) if port.egress.gates else None
        if windows is not None:
            values |= {
                "windows": self.memory.put([edge for window in windows for edge in window]),
                "window_count": len(windows),
            }
        return values

    def loss_fields(self, port: Port) -> Fields:
        loss = port.link.loss
        if loss is None:
            return {}
        random = self.random(f"loss/{port.link.name}/{port.node}")
        since, until = _span_ps(loss)
        span = {"loss_from": since, "loss_until": until}
        if isinstance(loss, BurstLoss):
            return span | {
                "loss_kind": layout.BURST_LOSS,
                "loss_random": random,
                "loss_enter": _threshold(loss.good_to_bad),
                "loss_leave": _threshold(loss.bad_to_good),
                "loss_good": _threshold(loss.loss_in_good),
                "loss_bad": _threshold(loss.loss_in_bad),
            }
        return span | {
            "loss_kind": layout.RANDOM_LOSS,
            "loss_random": random,
            "loss_good": _threshold(loss.probability),
        }

    def duplication_fields(self, port: Port) -> Fields:
        duplication = port.link.duplication
        if duplication is None:
            return {}
        since, until = _span_ps(duplication)
        return {
            "watched": 1,
            "twice": _threshold(duplication.probability),
            "twice_random": self.random(f"duplication/{port.link.name}/{port.node}"),
            "twice_from": since,
            "twice_until": until,
        }

    # Flows

    def fill_hops(self) -> None:
        bases = self.fill_recoveries()
        sequences = {
            traffic.index: self.generator(traffic.route.faults)
            for traffic in self.graph.traffic
            if isinstance(traffic.route, Replicated)
        }
        for element in self.graph.elements:
            # A hop's address is first + flow x HOP_WORDS, for flows from the lowest to the highest.
            numbers = [flow.index for flow in element.flows]
            first = self.memory.take((max(numbers) - min(numbers) + 1) * layout.HOP_WORDS)
            first -= min(numbers) * layout.HOP_WORDS
            self.memory.fill(layout.ELEMENT, self.plan.elements[element.index], {"hops": first})
            for flow in element.flows:
                address = first + flow.index * layout.HOP_WORDS
                self.plan.hops[element.index, flow.index] = address
                values = self.hop_fields(element, flow, bases)
                if self.graph.hop(element, flow).splits:
                    values["sequence"] = sequences[flow.traffic.index]
                self.memory.fill(layout.HOP, address, values)

    def hop_fields(
        self, element: Element, flow: RouteFlow, bases: dict[tuple[int, int | None], int]
    ) -> Fields:
        hop = self.graph.hop(element, flow)
        outs: list[int] = []
        for target, label in hop.outs:
            outs += [self.plan.edges[self.graph.edge(element, target).index], label.index]
        values = {
            "outs": self.memory.put(outs),
            "out_count": len(hop.outs),
            "sequence": layout.NONE,
            "recover": layout.NONE,
            "individual": layout.NONE,
            "elimination": layout.NONE,
            "listener": self.plan.listeners[flow.traffic.index],
            "sender": layout.NONE if hop.sender is None else self.plan.senders[hop.sender],
        }
        if hop.after is not None:
            traffic = flow.traffic.index
            values["after"] = hop.after.index
            values["recover"] = bases[traffic, None]
            values["individual"] = bases.get((traffic, flow.member), layout.NONE)
            values["elimination"] = self.eliminations.get(traffic, layout.NONE)
        if isinstance(element, Port):
            values |= {
                "traffic_class": self.class_of(element, flow.traffic),
                "bytes_full": flow.frames[0],
                "bytes_last": flow.frames[-1],
                "done_full": element.done_ps(flow.frames[0]),
                "done_last": element.done_ps(flow.frames[-1]),
            }
        return values

    def fill_recoveries(self) -> dict[tuple[int, int | None], int]:
        bases: dict[tuple[int, int | None], int] = {}
        for traffic in self.graph.traffic:
            route = traffic.route
            if not isinstance(route, Replicated):
                continue
            bases[traffic.index, None] = self.recovery(traffic, None, route.recovery)
            if route.individual is not None:
                for number in range(len(route.members)):
                    bases[traffic.index, number] = self.recovery(traffic, number, route.individual)
            if route.latent_errors is not None or route.faults.recovery_restarts_ns:
                functions = [base for (index, _), base in bases.items() if index == traffic.index]
                self.eliminations[traffic.index] = self.elimination(traffic, route, functions)
        return bases

    def elimination(self, traffic: Traffic, route: Replicated, functions: list[int]) -> int:
        """Allocate latent error detection and restarts; the compound function is the first."""
        restarts = self.memory.put([t * 1000 for t in route.faults.recovery_restarts_ns])
        errors, detection = route.latent_errors, layout.NONE
        if errors is not None:
            fields = recovery.latent_fields(
                len(route.members),
                errors.difference,
                picoseconds(errors.period_ms * 1e6),
                picoseconds(errors.reset_ms * 1e6),
                self.plan.stop_ps,
            )
            rows = self.memory.take(recovery.MAX_ALARMS * layout.ALARM_WORDS)
            detection = self.memory.new(layout.LATENT, fields | {"rows": rows})
        values = {
            "restart": restarts,
            "restarts_end": restarts + len(route.faults.recovery_restarts_ns),
            "functions": self.memory.put(functions),
            "function_count": len(functions),
            "latent": detection,
        }
        address = self.memory.new(layout.ELIMINATION, values)
        self.plan.eliminations.append(EliminationAddress(traffic, address, detection))
        return address

    def generator(self, faults: SequenceFaults) -> int:
        """Allocate a sequence generator and its faults and return its address."""
        events = [(time * 1000, layout.RESTART) for time in faults.generator_restarts_ns]
        for span in faults.stuck:
            since, until = _span_ps(span)
            events += [(since, layout.STICK), (until, layout.UNSTICK)]
        events.sort()
        first = self.memory.put([word for event in events for word in event])
        end = first + len(events) * layout.EVENT_WORDS
        return self.memory.new(layout.GENERATOR, {"event": first, "events_end": end})

    def recovery(self, traffic: Traffic, member: int | None, function: Recovery) -> int:
        timeout = function.reset_ms
        fields = recovery.recovery_fields(
            function.history_length,
            None if timeout is None else picoseconds(timeout * 1e6),
            match=function.algorithm == "match",
            take_no_sequence=function.take_no_sequence,
            individual=member is not None,
        )
        history = self.memory.take(function.history_length)
        address = self.memory.new(layout.RECOVERY, fields | {"history": history})
        self.plan.recoveries.append(RecoveryAddress(traffic, member, address))
        return address

    # Streams

    def fill_sender(self, port: Port, traffic: Traffic) -> None:
        stream, host = traffic.stream, self.network.hosts[traffic.talker]
        start = stream.start_ns * 1000
        flow = next(f for f in port.flows if f.traffic is traffic and f.part in ("path", "before"))
        fifo = self.is_fifo(port)
        slots = host.send_buffer_bytes // min(traffic.truesizes) + len(traffic.frames) + 2
        values = {
            "kind": _PROCESSES[stream.send.kind],
            "port": self.plan.elements[port.index],
            "flow": flow.index,
            "fragments": len(traffic.frames),
            "limit": layout.UNLIMITED if stream.datagrams is None else stream.datagrams,
            "stop": self.plan.stop_ps,
            "start": start,
            "due": start,
            "free": start,
            "phase": layout.CALLS,
            "buffer": host.send_buffer_bytes,
            "charge_full": traffic.truesizes[0],
            "charge_last": traffic.truesizes[-1],
            "drops": int(host.when_full == "drop"),
            "cost": self.duration(host.send_cost, self.random(f"write/{stream.name}")),
            "stalls": self.stalls(traffic.talker, f"send/{stream.name}"),
            "transport": self.plan.transports.get(traffic.index, layout.NONE),
            "number": traffic.index,
            "logged": int(self.requested.stream(traffic)),
        }
        values |= self.memory.ring(
            f"the send buffer of {traffic.talker}", slots if fifo else 1, layout.ALLOCATION_WORDS
        )
        address = self.plan.senders[traffic.index]
        self.memory.fill(layout.SENDER, address, values | self.process_fields(traffic))
        if isinstance(stream.send, TcpBulk):
            self.memory.fill(layout.SENDER, address, {"next": start})
            self.fill_transport(traffic, stream.send)

    def process_fields(self, traffic: Traffic) -> Fields:
        """Return the fields that determine the times of writes."""
        stream, send = traffic.stream, traffic.stream.send
        payload_bits = stream.payload_bytes * 8
        if isinstance(send, Bursts | ConstantRate):
            rate_bps = round(send.rate_mbps * 1e6)
            step, rest = divmod(payload_bits * 10**12, rate_bps)
            values = {"step": step, "step_rest": rest, "step_unit": rate_bps}
            if isinstance(send, Bursts):
                values["tick"] = picoseconds(send.timer_us * 1000)
            return values
        if isinstance(send, Poisson):
            mean = picoseconds(payload_bits * 1000 / send.rate_mbps)
            random = self.random(f"gaps/{stream.name}")
            gap = {"kind": ERLANG, "mean_ps": mean, "phases": 1, "random": random}
            return {"gap": self.memory.new(layout.DURATION, gap)}
        if isinstance(send, Listed):
            count = len(send.times_ns)
            limit = count if stream.datagrams is None else min(count, stream.datagrams)
            times = self.memory.put([time * 1000 for time in send.times_ns])
            return {"times": times, "limit": limit}
        if isinstance(send, TcpBulk):
            return {"buffer": send.local_queue_bytes}
        if isinstance(send, PingPong):
            return {
                "step": picoseconds(send.interval_us * 1000),
                "timeout": picoseconds(send.timeout_ms * 1e6),
                "round_trip": self.times(),
            }
        return {}

    def fill_transport(self, traffic: Traffic, send: TcpBulk) -> None:
        segments = send.window_bytes // traffic.stream.payload_bytes
        if not 2 <= segments <= layout.MOST_SEGMENTS:
            raise ValueError(
                f"stream {traffic.name}: a window of {send.window_bytes} bytes holds {segments} "
                f"segments of {traffic.stream.payload_bytes} bytes; it must hold 2 ... "
                f"{layout.MOST_SEGMENTS}"
            )
        start, mask, _, _ = self.memory.ring(
            "a TCP window", 2 * segments + 2, layout.SEGMENT_WORDS
        )["ring"]
        window = float(min(send.initial_segments, segments))
        self.memory.fill(
            layout.TRANSPORT,
            self.plan.transports[traffic.index],
            {
                "entry_at": traffic.stream.start_ns * 1000,
                "timeout_at": layout.NEVER,
                "ack_at": layout.NEVER,
                "epoch": layout.NEVER,
                "newest_sent": layout.NONE,
                "highest_sacked": layout.NONE,
                "window": segments,
                "cubic": int(send.congestion == "cubic"),
                "segments": start,
                "segment_mask": mask,
                "congestion": window,
                "threshold": float("inf"),
            },
        )

    def fill_listener(self, traffic: Traffic) -> None:
        address = self.plan.listeners[traffic.index]
        values = {
            "number": traffic.index,
            "fragments": len(traffic.frames),
            "newest": layout.NONE,
            "edge": layout.NONE,
            "logged": int(self.requested.stream(traffic)),
            "stalls": layout.NONE,
            "transport": layout.NONE,
            "seen": self.memory.take(layout.SEEN_WORDS),
            "latency": self.times(),
            "transit": self.times(),
            "last": layout.NONE,
        }
        if isinstance(traffic.stream.send, TcpBulk):
            values |= self.transport_fields(traffic)
        else:
            values |= self.socket_fields(traffic, self.network.hosts[traffic.listener])
            if isinstance(traffic.stream.send, PingPong):
                values |= self.answer_fields(traffic)
        self.memory.fill(layout.LISTENER, address, values)

    def socket_fields(self, traffic: Traffic, host: EndStation) -> Fields:
        charge, slots = self.receive_charge(traffic, host), self.socket_slots(traffic, host)
        ring = self.memory.ring(f"the socket of {traffic.name}", slots, layout.ALLOCATION_WORDS)
        random = self.random(f"read/{traffic.name}")
        pending = [layout.NONE, 0] * (layout.PENDING_SLOTS if len(traffic.frames) > 1 else 0)
        return ring | {
            "kind": layout.TO_PROCESS,
            "charge": charge,
            "buffer": host.receive_buffer_bytes,
            "work": self.duration(host.receive_time, random),
            "stalls": self.stalls(traffic.listener, f"receive/{traffic.name}"),
            "pending": self.memory.put(pending),
        }

    def answer_fields(self, traffic: Traffic) -> Fields:
        """Return the fields by which a ping-pong's listener answers or its talker continues."""
        values = self.return_fields(traffic, layout.TO_CLIENT, layout.TO_SERVER)
        if not traffic.returns:
            name = f"{traffic.name}.answer"
            host = self.network.hosts[traffic.listener]
            cost = self.duration(host.send_cost, self.random(f"write/{name}"))
            values |= {"cost": cost, "cost_stalls": self.stalls(traffic.listener, f"send/{name}")}
        return values

    def transport_fields(self, traffic: Traffic) -> Fields:
        values = {"transport": self.plan.transports[traffic.sender]}
        return values | self.return_fields(traffic, layout.TO_TCP_SENDER, layout.TO_TCP_RECEIVER)

    def return_fields(self, traffic: Traffic, returning: int, forward: int) -> Fields:
        """Return the kind of a listener, with the edge and flow of its responses."""
        receiver = self.graph.receiver(traffic.listener)
        outgoing = [edge for edge in self.graph.edges if edge.source is receiver]
        if traffic.returns:
            edge = next(edge for edge in outgoing if edge.to_sender == traffic.sender)
            return {"kind": returning, "edge": self.plan.edges[edge.index]}
        flow = next(
            flow
            for flow in self.graph.flows
            if flow.traffic.returns
            and flow.traffic.sender == traffic.sender
            and flow.part in ("path", "before")
        )
        answers = None if forward == layout.TO_TCP_RECEIVER else flow.traffic.index
        edge = next(
            edge
            for edge in outgoing
            if edge.to_sender is None and edge.answers == answers and flow in edge.target.flows
        )
        return {"kind": forward, "edge": self.plan.edges[edge.index], "return_flow": flow.index}


def _threshold(probability: float) -> int:
    return int(probability * PROBABILITY_ONE)


def _span_ps(span: Span) -> tuple[int, int]:
    """Return the begin and the end of a span, in picoseconds."""
    return span.from_ns * 1000, layout.NEVER if span.until_ns is None else span.until_ns * 1000


def _gate_windows_ps(gates: GateControlList, traffic_class: int) -> list[tuple[int, int]] | None:
    """Return the open windows of a class in the cycle, as [from, until) in ps; None: always."""
    if gates.always_open(traffic_class):
        return None
    return [(begin * 1000, end * 1000) for begin, end in gates.windows_ns(traffic_class)]
