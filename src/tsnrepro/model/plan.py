"""From a network to the memory that the kernels work on."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.config.gates import GateControlList
from tsnrepro.model import latent, recovery
from tsnrepro.model import layout as at
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

_MOST_PLACES = 1 << 25
_SPARE = 16
_HUGE = (1 << 63) - 1
_PROCESSES = {
    "bursts": at.BURSTS,
    "constant": at.CONSTANT_RATE,
    "poisson": at.POISSON,
    "listed": at.LISTED,
    "saturating": at.SATURATING,
    "tcp": at.TCP,
    "ping_pong": at.PING_PONG,
}


@dataclass(frozen=True)
class LogRequest:
    """What is logged: the streams' deliveries and answers (None: all), ports' departures.

    A log keeps at least ``rows`` rows between two visits of Python.
    """

    streams: frozenset[str] | None = frozenset()
    ports: frozenset[str] = frozenset()
    rows: int = 1 << 16

    def stream(self, traffic: Traffic) -> bool:
        """Tell whether what arrives of a stream is logged."""
        return not traffic.returns and (self.streams is None or traffic.name in self.streams)


class _Memory:
    """Hands out addresses and notes what stands there at the start; all else is zero."""

    def __init__(self) -> None:
        self.used = 0
        self._written: list[tuple[int, list[int]]] = []
        self._filled: dict[int, int] = {}

    def take(self, words: int) -> int:
        """Return the address of ``words`` new words."""
        address = self.used
        self.used += words
        return address

    def put(self, values: list[int]) -> int:
        """Return the address of new words with these values."""
        address = self.take(len(values))
        self._written.append((address, values))
        return address

    def fill(self, dtype: np.dtype, address: int, values: Fields) -> None:
        """Set fields of the record of this type at an address."""
        for name, value in values.items():
            place = address + offset_of(dtype, name)
            if isinstance(value, tuple):
                self._filled.update(enumerate(value, place))
            elif isinstance(value, float):
                self._filled[place] = int(np.float64(value).view(np.int64))
            else:
                self._filled[place] = value

    def new(self, dtype: np.dtype, values: Fields | None = None) -> int:
        """Return the address of a new record, with these values of its fields."""
        address = self.take(words_of(dtype))
        self.fill(dtype, address, values or {})
        return address

    def ring(self, what: str, places: int, words: int) -> Fields:
        """Return the field of a new ring of at least so many places of so many words.

        Raises ValueError, naming ``what``, for a ring that would not fit into memory.
        """
        if places > _MOST_PLACES:
            raise ValueError(
                f"{what} can hold {places} frames or datagrams, more than the {_MOST_PLACES} that "
                f"the model keeps: give a smaller queue, buffer or delay"
            )
        size = 1 << max(1, int(places - 1).bit_length())
        return {"ring": (self.take(size * words), size - 1, 0, 0)}

    def array(self) -> npt.NDArray[np.int64]:
        """Return the memory as an array."""
        memory = np.zeros(self.used, np.int64)
        for address, values in self._written:
            memory[address : address + len(values)] = values
        memory[list(self._filled)] = list(self._filled.values())
        return memory


@dataclass(frozen=True)
class RecoveryPlace:
    """Where the registers of a recovery function begin, and whose it is."""

    traffic: Traffic
    member: int | None
    address: int


@dataclass(frozen=True)
class EliminationPlace:
    """Where an elimination stands that has more to do than to recover; ``latent`` may be NONE."""

    traffic: Traffic
    address: int
    latent: int


@dataclass
class Plan:
    """A network laid out in memory: the array, and the addresses of what is in it.

    ``hops`` is by element and flow index; ``senders``, ``transports`` and ``listeners`` are by the
    index of what is traffic; ``edges`` and ``elements`` are by index.
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
    recoveries: list[RecoveryPlace] = field(default_factory=list)
    eliminations: list[EliminationPlace] = field(default_factory=list)

    def queues(self, element: int) -> list[int]:
        """Return the addresses of the traffic classes of the port with this index."""
        first = int(self.memory[self.elements[element] + offset_of(at.ELEMENT, "classes")])
        return [first + number * at.QUEUE_WORDS for number in range(at.CLASSES)]

    def frame_rings(self, *, to_senders: bool = True) -> list[int]:
        """Return the addresses of the rings of frames; ``to_senders`` of those to senders, too."""
        sender, kind = offset_of(at.EDGE, "sender"), offset_of(at.ELEMENT, "kind")
        rings = [
            edge + offset_of(at.EDGE, "ring")
            for edge in self.edges
            if to_senders or self.memory[edge + sender] == at.NONE
        ]
        for index, element in enumerate(self.elements):
            if self.memory[element + kind] == at.SCHEDULED_PORT:
                rings += [queue + offset_of(at.QUEUE, "ring") for queue in self.queues(index)]
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
    ValueError for what cannot be laid out, with what to change.
    """
    return _Planner(route_network(network), stop_ps, seed, general_ports, requested).plan()


class _Planner:
    """Lays out one kind of thing after the other: first the addresses, then what stands there."""

    def __init__(
        self, graph: Graph, stop_ps: int, seed: SeedSequence, general: bool, requested: LogRequest
    ) -> None:
        self.graph, self.network = graph, graph.network
        self.seed, self.general, self.requested = seed, general, requested
        self.memory = _Memory()
        self.made = Plan(graph, stop_ps)
        self.eliminations: dict[int, int] = {}

    def plan(self) -> Plan:
        """Return the whole plan."""
        made, new = self.made, self.memory.new
        run = new(at.RUN)
        made.elements = [new(at.ELEMENT) for _ in self.graph.elements]
        made.edges = [new(at.EDGE) for _ in self.graph.edges]
        for traffic in self.graph.traffic:
            made.listeners[traffic.index] = new(at.LISTENER)
            if not traffic.returns:
                made.senders[traffic.index] = new(at.SENDER)
                if isinstance(traffic.stream.send, TcpBulk):
                    made.transports[traffic.index] = new(at.TRANSPORT)
        places = self.fill_edges()
        for element in self.graph.elements:
            self.fill_element(element)
        self.fill_hops()
        for element in self.graph.elements:
            for traffic in element.senders:
                assert isinstance(element, Port)
                self.fill_sender(element, traffic)
        for traffic in self.graph.traffic:
            self.fill_listener(traffic)
        self.fill_logs(run, places)
        self.memory.fill(
            at.RUN,
            run,
            {
                "window": self.graph.window_ps,
                "elements": self.memory.put(made.elements),
                "element_count": len(made.elements),
                "senders": self.memory.put(list(made.senders.values())),
                "sender_count": len(made.senders),
            },
        )
        made.memory = self.memory.array()
        return made

    def fill_logs(self, run: int, places: dict[int, int]) -> None:
        """Give each log that is requested its rows: what one window can add, and more.

        An edge holds what its port can start in a window; a request is answered after more than a
        window, which is no longer than the way over the edge at which the circle is cut.
        """
        requested, edges = self.requested, self.graph.edges
        arriving = [edge for edge in edges if not isinstance(edge.target, Port)]
        leaving = [edge for edge in edges if edge.source.name in requested.ports]
        pinging = [c for c in self.graph.traffic if isinstance(c.stream.send, PingPong)]
        streams = any(requested.stream(traffic) for traffic in self.graph.traffic)
        for log, words, kept, most in (
            ("deliveries", at.DELIVERY_WORDS, streams, sum(places[e.index] for e in arriving)),
            ("departures", at.STARTED_WORDS, bool(leaving), sum(places[e.index] for e in leaving)),
            ("answers", at.ANSWER_WORDS, streams and bool(pinging), 2 * len(pinging)),
        ):
            rows = requested.rows + most if kept else 0
            address = self.memory.take(rows * words)
            self.memory.fill(at.RUN, run, {log: (address, rows, most, 0)})

    # Shared parts

    def random(self, name: str) -> int:
        """Return the address of a new stream of random numbers."""
        return self.memory.put([int(word) for word in stream_state(self.seed, name)])

    def duration(self, duration: Duration, random: int) -> int:
        """Return the address of a duration that draws from ``random``."""
        kind = CONSTANT if duration.distribution == "constant" else ERLANG
        mean = picoseconds(duration.mean_ns)
        values = {"kind": kind, "mean_ps": mean, "phases": duration.shape, "random": random}
        return self.memory.new(at.DURATION, values)

    def times(self) -> tuple[int, int, int, int]:
        """Return what counts times, before there are any."""
        return (0, _HUGE, at.NONE, self.memory.take(at.HISTOGRAM_BINS))

    def stalls(self, host: str, process: str) -> int:
        """Return the address of a new sequence of stalls, or NONE."""
        stalls = self.network.hosts[host].stalls
        if stalls is None:
            return at.NONE
        random = self.random(f"stalls/{host}/{process}")
        interval = self.duration(stalls.interval, random)
        length = self.duration(stalls.length, random)
        return self.memory.new(at.STALLS, {"interval": interval, "length": length})

    def is_fifo(self, port: Port) -> bool:
        """Tell whether a port can be served frame by frame, without events."""
        waits = any(isinstance(traffic.stream.send, TcpBulk | PingPong) for traffic in port.senders)
        return port.egress.scheduler == "fifo" and not waits and not self.general

    def class_of(self, port: Port, traffic: Traffic) -> int:
        """Return the class in which a port queues a stream: its own, or the only one."""
        return 0 if port.egress.scheduler == "fifo" else traffic.stream.priority

    # Edges

    def fill_edges(self) -> dict[int, int]:
        """Give each edge a ring that cannot run full; return what they hold, by index."""
        places: dict[int, int] = {}
        for edge in sorted(self.graph.edges, key=lambda edge: not isinstance(edge.source, Port)):
            places[edge.index] = self.edge_places(edge, places)
            what = f"the way from {edge.source.name} to {edge.target.name}"
            sender = at.NONE
            if edge.to_sender is not None:
                sender = self.made.senders[edge.to_sender]
            ring = self.memory.ring(what, places[edge.index], at.FRAME_WORDS)
            self.memory.fill(at.EDGE, self.made.edges[edge.index], ring | {"sender": sender})
        return places

    def edge_places(self, edge: Edge, places: dict[int, int]) -> int:
        """Return how many frames an edge can hold at a time."""
        source = edge.source
        if not isinstance(source, Port):
            # At most one acknowledgement for a frame that came in or still was with the stack.
            arriving = [places[e.index] for e in self.graph.edges if e.target is source]
            host = self.network.hosts[source.node]
            # Datagrams of a ping-pong are followed to their end ahead of time: all in its socket.
            ahead = sum(
                self.socket_places(traffic, host) * len(traffic.frames)
                for traffic in self.graph.traffic
                if traffic.listener == source.node and isinstance(traffic.stream.send, PingPong)
            )
            return host.nic_ring_frames + 2 * sum(arriving) + ahead + _SPARE
        span = self.graph.window_ps + self.graph.ahead_ps(source)
        # A FIFO port hands a frame on as soon as it is in the queue, ahead of its time.
        early = source.egress.queue_bytes // source.shortest_frame if self.is_fifo(source) else 0
        copies = 2 if source.link.duplication else 1
        return copies * (span // source.shortest_ps + early + _SPARE)

    def socket_places(self, traffic: Traffic, host: EndStation) -> int:
        """Return how many datagrams the listener's socket can hold, and one more."""
        return host.receive_buffer_bytes // self.receive_charge(traffic, host) + 2

    def receive_charge(self, traffic: Traffic, host: EndStation) -> int:
        """Return what a received datagram is charged for."""
        return host.truesize_bytes or sum(traffic.truesizes)

    # Elements

    def fill_element(self, element: Element) -> None:
        """Fill a port or a receiving side."""
        inputs = [
            self.made.edges[edge.index] for edge in self.graph.edges if edge.target is element
        ]
        senders = [self.made.senders[traffic.index] for traffic in element.senders]
        columns = {
            "inputs": self.memory.put(inputs),
            "input_count": len(inputs),
            "senders": self.memory.put(senders),
            "sender_count": len(senders),
            "release_at": at.NEVER,
            "select_at": at.NEVER,
            "loss_random": at.NONE,
            "twice_random": at.NONE,
            "logged": element.index if element.name in self.requested.ports else at.NONE,
            "watched": int(element.name in self.requested.ports),
        }
        if isinstance(element, Port):
            columns |= self.port_columns(element) | self.loss_columns(element)
            columns |= self.duplication_columns(element)
        else:
            columns |= self.receiver_columns(element)
        self.memory.fill(at.ELEMENT, self.made.elements[element.index], columns)

    def receiver_columns(self, element: Element) -> Fields:
        host = self.network.hosts[element.node]
        ring = self.memory.ring(
            f"the card of {element.node}", host.nic_ring_frames + 1, at.HELD_WORDS
        )
        card = self.memory.new(at.QUEUE, ring)
        transports = [
            self.made.listeners[traffic.index]
            for traffic in self.graph.traffic
            if isinstance(traffic.stream.send, TcpBulk)
            and not traffic.returns
            and traffic.listener == element.node
        ]
        random = self.random(f"stack/{element.node}")
        return {
            "kind": at.RECEIVER,
            "classes": card,
            "card_frames": host.nic_ring_frames,
            "stack": self.duration(host.stack_time, random),
            "transports": self.memory.put(transports),
            "transport_count": len(transports),
        }

    def port_columns(self, port: Port) -> Fields:
        failures = [time for failure in port.link.failures for time in _span_ps(failure)]
        first = self.memory.put(failures)
        classes = self.memory.take(at.CLASSES * at.QUEUE_WORDS)
        columns = {
            "kind": at.FIFO_PORT if self.is_fifo(port) else at.SCHEDULED_PORT,
            "classes": classes,
            "gap": port.gap_ps,
            "delay": port.delay_ps,
            "ahead": self.graph.ahead_ps(port),
            "queue_bytes": port.egress.queue_bytes,
            "failure": first,
            "failures_end": first + len(failures),
        }
        if self.is_fifo(port):
            self.memory.fill(at.QUEUE, classes, self.queue_ring(port, at.HELD_WORDS))
            return columns
        used = {self.class_of(port, flow.traffic) for flow in port.flows}
        for number in range(at.CLASSES):
            queue = {"window_count": at.ALWAYS_OPEN}
            if number in used:
                queue |= self.queue_ring(port, at.FRAME_WORDS)
                queue |= self.shaper_columns(port, number)
            self.memory.fill(at.QUEUE, classes + number * at.QUEUE_WORDS, queue)
        gates, offset = port.egress.gates, picoseconds(port.egress.clock_offset_ns)
        if gates is not None:
            columns |= {
                "guard": int(gates.guard_band),
                "gate_cycle": gates.cycle * 1000,
                "gate_shift": offset - gates.base_time_ns * 1000,
                "gate_toggle": (port.egress.gate_toggle_ns or 0) * 1000,
                "gate_toggle_from": port.egress.gate_toggle_from_ns * 1000,
            }
        return columns

    def queue_ring(self, port: Port, words: int) -> Fields:
        places = port.egress.queue_bytes // port.shortest_frame + 2
        return self.memory.ring(f"the queue of {port.name}", places, words)

    def shaper_columns(self, port: Port, number: int) -> Fields:
        columns: Fields = {}
        slope_mbps = port.egress.idle_slopes_mbps.get(number)
        if slope_mbps is not None:
            slope, rate = round(slope_mbps * 1000), round(port.link.rate_mbps * 1000)
            if not 0 < slope < rate:
                raise ValueError(
                    f"port {port.name}: idle slope {slope_mbps} Mb/s of class {number} must be "
                    f"at least 0.001 and below the link's {port.link.rate_mbps} Mb/s"
                )
            columns |= {"idle_slope": slope, "send_slope": slope - rate}
        windows = _gate_windows_ps(port.egress.gates, number) if port.egress.gates else None
        if windows is not None:
            columns |= {
                "windows": self.memory.put([edge for window in windows for edge in window]),
                "window_count": len(windows),
            }
        return columns

    def loss_columns(self, port: Port) -> Fields:
        loss = port.link.loss
        if loss is None:
            return {}
        random = self.random(f"loss/{port.link.name}/{port.node}")
        since, until = _span_ps(loss)
        span = {"loss_from": since, "loss_until": until}
        if isinstance(loss, BurstLoss):
            return span | {
                "loss_kind": at.BURST_LOSS,
                "loss_random": random,
                "loss_enter": _threshold(loss.good_to_bad),
                "loss_leave": _threshold(loss.bad_to_good),
                "loss_good": _threshold(loss.loss_in_good),
                "loss_bad": _threshold(loss.loss_in_bad),
            }
        return span | {
            "loss_kind": at.RANDOM_LOSS,
            "loss_random": random,
            "loss_good": _threshold(loss.probability),
        }

    def duplication_columns(self, port: Port) -> Fields:
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
        """Fill what each element does with each flow."""
        bases = self.fill_recoveries()
        sequences = {
            traffic.index: self.generator(traffic.route.faults)
            for traffic in self.graph.traffic
            if isinstance(traffic.route, Replicated)
        }
        for element in self.graph.elements:
            # A hop's address is first + flow x H_COLUMNS: room for the flows from least to most.
            numbers = [flow.index for flow in element.flows]
            first = self.memory.take((max(numbers) - min(numbers) + 1) * at.HOP_WORDS)
            first -= min(numbers) * at.HOP_WORDS
            self.memory.fill(at.ELEMENT, self.made.elements[element.index], {"hops": first})
            for flow in element.flows:
                address = first + flow.index * at.HOP_WORDS
                self.made.hops[element.index, flow.index] = address
                columns = self.hop_columns(element, flow, bases)
                if self.graph.hop(element, flow).splits:
                    columns["sequence"] = sequences[flow.traffic.index]
                self.memory.fill(at.HOP, address, columns)

    def hop_columns(
        self, element: Element, flow: RouteFlow, bases: dict[tuple[int, int | None], int]
    ) -> Fields:
        hop = self.graph.hop(element, flow)
        outs: list[int] = []
        for target, label in hop.outs:
            outs += [self.made.edges[self.graph.edge(element, target).index], label.index]
        columns = {
            "outs": self.memory.put(outs),
            "out_count": len(hop.outs),
            "sequence": at.NONE,
            "recover": at.NONE,
            "individual": at.NONE,
            "elimination": at.NONE,
            "listener": self.made.listeners[flow.traffic.index],
            "sender": at.NONE if hop.sender is None else self.made.senders[hop.sender],
        }
        if hop.after is not None:
            traffic = flow.traffic.index
            columns["after"] = hop.after.index
            columns["recover"] = bases[traffic, None]
            columns["individual"] = bases.get((traffic, flow.member), at.NONE)
            columns["elimination"] = self.eliminations.get(traffic, at.NONE)
        if isinstance(element, Port):
            columns |= {
                "traffic_class": self.class_of(element, flow.traffic),
                "bytes_full": flow.frames[0],
                "bytes_last": flow.frames[-1],
                "done_full": element.done_ps(flow.frames[0]),
                "done_last": element.done_ps(flow.frames[-1]),
            }
        return columns

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
        """Return the address of what else there is to an elimination, the compound one first."""
        restarts = self.memory.put([t * 1000 for t in route.faults.recovery_restarts_ns])
        errors, detection = route.latent_errors, at.NONE
        if errors is not None:
            fields = latent.started(
                len(route.members),
                errors.difference,
                picoseconds(errors.period_ms * 1e6),
                picoseconds(errors.reset_ms * 1e6),
                self.made.stop_ps,
            )
            rows = self.memory.take(latent.MOST_ALARMS * at.ALARM_WORDS)
            detection = self.memory.new(at.LATENT, fields | {"rows": rows})
        columns = {
            "restart": restarts,
            "restarts_end": restarts + len(route.faults.recovery_restarts_ns),
            "functions": self.memory.put(functions),
            "function_count": len(functions),
            "latent": detection,
        }
        address = self.memory.new(at.ELIMINATION, columns)
        self.made.eliminations.append(EliminationPlace(traffic, address, detection))
        return address

    def generator(self, faults: SequenceFaults) -> int:
        """Return the address of a sequence generator and its faults."""
        events = [(time * 1000, at.RESTART) for time in faults.generator_restarts_ns]
        for span in faults.stuck:
            since, until = _span_ps(span)
            events += [(since, at.STICK), (until, at.UNSTICK)]
        events.sort()
        first = self.memory.put([word for event in events for word in event])
        end = first + len(events) * at.EVENT_WORDS
        return self.memory.new(at.GENERATOR, {"event": first, "events_end": end})

    def recovery(self, traffic: Traffic, member: int | None, function: Recovery) -> int:
        timeout = function.reset_ms
        fields = recovery.started(
            function.history_length,
            None if timeout is None else picoseconds(timeout * 1e6),
            match=function.algorithm == "match",
            take_no_sequence=function.take_no_sequence,
            individual=member is not None,
        )
        history = self.memory.take(function.history_length)
        address = self.memory.new(at.RECOVERY, fields | {"history": history})
        self.made.recoveries.append(RecoveryPlace(traffic, member, address))
        return address

    # Streams

    def fill_sender(self, port: Port, traffic: Traffic) -> None:
        """Fill a sending process."""
        stream, host = traffic.stream, self.network.hosts[traffic.talker]
        start = stream.start_ns * 1000
        flow = next(f for f in port.flows if f.traffic is traffic and f.part in ("path", "before"))
        fifo = self.is_fifo(port)
        places = host.send_buffer_bytes // min(traffic.truesizes) + len(traffic.frames) + 2
        columns = {
            "kind": _PROCESSES[stream.send.kind],
            "port": self.made.elements[port.index],
            "flow": flow.index,
            "fragments": len(traffic.frames),
            "limit": at.UNLIMITED if stream.datagrams is None else stream.datagrams,
            "stop": self.made.stop_ps,
            "start": start,
            "due": start,
            "free": start,
            "phase": at.CALLS,
            "buffer": host.send_buffer_bytes,
            "charge_full": traffic.truesizes[0],
            "charge_last": traffic.truesizes[-1],
            "drops": int(host.when_full == "drop"),
            "cost": self.duration(host.send_cost, self.random(f"write/{stream.name}")),
            "stalls": self.stalls(traffic.talker, f"send/{stream.name}"),
            "transport": self.made.transports.get(traffic.index, at.NONE),
            "number": traffic.index,
            "logged": int(self.requested.stream(traffic)),
        }
        columns |= self.memory.ring(
            f"the send buffer of {traffic.talker}", places if fifo else 1, at.HELD_WORDS
        )
        address = self.made.senders[traffic.index]
        self.memory.fill(at.SENDER, address, columns | self.process_columns(traffic))
        if isinstance(stream.send, TcpBulk):
            self.memory.fill(at.SENDER, address, {"next": start})
            self.fill_transport(traffic, stream.send)

    def process_columns(self, traffic: Traffic) -> Fields:
        """Return what makes the sending process come when it does."""
        stream, send = traffic.stream, traffic.stream.send
        payload_bits = stream.payload_bytes * 8
        if isinstance(send, Bursts | ConstantRate):
            rate_bps = round(send.rate_mbps * 1e6)
            step, rest = divmod(payload_bits * 10**12, rate_bps)
            columns = {"step": step, "step_rest": rest, "step_unit": rate_bps}
            if isinstance(send, Bursts):
                columns["tick"] = picoseconds(send.timer_us * 1000)
            return columns
        if isinstance(send, Poisson):
            mean = picoseconds(payload_bits * 1000 / send.rate_mbps)
            random = self.random(f"gaps/{stream.name}")
            gap = {"kind": ERLANG, "mean_ps": mean, "phases": 1, "random": random}
            return {"gap": self.memory.new(at.DURATION, gap)}
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
        if not 2 <= segments <= at.MOST_SEGMENTS:
            raise ValueError(
                f"stream {traffic.name}: a window of {send.window_bytes} bytes holds {segments} "
                f"segments of {traffic.stream.payload_bytes} bytes; it must hold 2 ... "
                f"{at.MOST_SEGMENTS}"
            )
        start, mask, _, _ = self.memory.ring("a TCP window", 2 * segments + 2, at.SEGMENT_WORDS)[
            "ring"
        ]
        window = float(min(send.initial_segments, segments))
        self.memory.fill(
            at.TRANSPORT,
            self.made.transports[traffic.index],
            {
                "entry_at": traffic.stream.start_ns * 1000,
                "timeout_at": at.NEVER,
                "ack_at": at.NEVER,
                "epoch": at.NEVER,
                "newest_sent": at.NONE,
                "highest_sacked": at.NONE,
                "window": segments,
                "cubic": int(send.congestion == "cubic"),
                "segments": start,
                "segment_mask": mask,
                "congestion": window,
                "threshold": float("inf"),
            },
        )

    def fill_listener(self, traffic: Traffic) -> None:
        """Fill what receives a stream."""
        address = self.made.listeners[traffic.index]
        columns = {
            "number": traffic.index,
            "fragments": len(traffic.frames),
            "newest": at.NONE,
            "edge": at.NONE,
            "logged": int(self.requested.stream(traffic)),
            "stalls": at.NONE,
            "transport": at.NONE,
            "seen": self.memory.take(at.SEEN_WORDS),
            "latency": self.times(),
            "transit": self.times(),
            "last": at.NONE,
        }
        if isinstance(traffic.stream.send, TcpBulk):
            columns |= self.transport_columns(traffic)
        else:
            columns |= self.socket_columns(traffic, self.network.hosts[traffic.listener])
            if isinstance(traffic.stream.send, PingPong):
                columns |= self.answer_columns(traffic)
        self.memory.fill(at.LISTENER, address, columns)

    def socket_columns(self, traffic: Traffic, host: EndStation) -> Fields:
        charge, places = self.receive_charge(traffic, host), self.socket_places(traffic, host)
        ring = self.memory.ring(f"the socket of {traffic.name}", places, at.HELD_WORDS)
        random = self.random(f"read/{traffic.name}")
        pending = [at.NONE, 0] * (at.PENDING_SLOTS if len(traffic.frames) > 1 else 0)
        return ring | {
            "kind": at.TO_PROCESS,
            "charge": charge,
            "buffer": host.receive_buffer_bytes,
            "work": self.duration(host.receive_time, random),
            "stalls": self.stalls(traffic.listener, f"receive/{traffic.name}"),
            "pending": self.memory.put(pending),
        }

    def answer_columns(self, traffic: Traffic) -> Fields:
        """Return what makes the process at a ping-pong's listener answer, or the talker's go on."""
        columns = self.return_columns(traffic, at.TO_CLIENT, at.TO_SERVER)
        if not traffic.returns:
            name = f"{traffic.name}.answer"
            host = self.network.hosts[traffic.listener]
            cost = self.duration(host.send_cost, self.random(f"write/{name}"))
            columns |= {
                "cost": cost,
                "cost_stalls": self.stalls(traffic.listener, f"send/{name}"),
            }
        return columns

    def transport_columns(self, traffic: Traffic) -> Fields:
        columns = {"transport": self.made.transports[traffic.sender]}
        return columns | self.return_columns(traffic, at.TO_TCP_SENDER, at.TO_TCP_RECEIVER)

    def return_columns(self, traffic: Traffic, back: int, forth: int) -> Fields:
        """Return the kind of a listener, and where it puts what it gives for what it receives."""
        receiver = self.graph.receiver(traffic.listener)
        outgoing = [edge for edge in self.graph.edges if edge.source is receiver]
        if traffic.returns:
            edge = next(edge for edge in outgoing if edge.to_sender == traffic.sender)
            return {"kind": back, "edge": self.made.edges[edge.index]}
        flow = next(
            flow
            for flow in self.graph.flows
            if flow.traffic.returns
            and flow.traffic.sender == traffic.sender
            and flow.part in ("path", "before")
        )
        answers = None if forth == at.TO_TCP_RECEIVER else flow.traffic.index
        edge = next(
            edge
            for edge in outgoing
            if edge.to_sender is None and edge.answers == answers and flow in edge.target.flows
        )
        return {
            "kind": forth,
            "edge": self.made.edges[edge.index],
            "return_flow": flow.index,
        }


def _threshold(probability: float) -> int:
    return int(probability * PROBABILITY_ONE)


def _span_ps(span: Span) -> tuple[int, int]:
    """Return when a span begins and ends, in picoseconds."""
    return span.from_ns * 1000, at.NEVER if span.until_ns is None else span.until_ns * 1000


def _gate_windows_ps(gates: GateControlList, traffic_class: int) -> list[tuple[int, int]] | None:
    """Return when a class is open in the cycle, as [from, until) in ps; None: always."""
    if gates.always_open(traffic_class):
        return None
    return [(begin * 1000, end * 1000) for begin, end in gates.windows_ns(traffic_class)]
