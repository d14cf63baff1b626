"""From a network to the memory that the kernels work on."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.model import latent, recovery
from tsnrepro.model import layout as at
from tsnrepro.model.network import (
    BurstLoss,
    Bursts,
    ConstantRate,
    Duration,
    Gates,
    Host,
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
from tsnrepro.model.routes import Carried, Edge, Element, Flow, Graph, route_network
from tsnrepro.model.variates import CONSTANT, ERLANG, PROBABILITY_ONE, stream_state

__all__ = [
    "NOTHING_LOGGED",
    "EliminationPlace",
    "Memory",
    "Plan",
    "RecoveryPlace",
    "Wanted",
    "gate_windows_ps",
    "plan_network",
]

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
class Wanted:
    """What is logged: the streams' deliveries and answers (None: all), ports' departures.

    A log keeps at least ``rows`` rows between two visits of Python.
    """

    streams: frozenset[str] | None
    ports: frozenset[str] = frozenset()
    rows: int = 1 << 16

    def stream(self, carried: Carried) -> bool:
        """Tell whether what arrives of a stream is logged."""
        return not carried.returns and (self.streams is None or carried.name in self.streams)


NOTHING_LOGGED = Wanted(streams=frozenset())


class Memory:
    """Hands out addresses and notes what stands there at the start; all else is zero."""

    def __init__(self) -> None:
        self.used = 0
        self._written: list[tuple[int, list[int]]] = []

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

    def write(self, address: int, columns: dict[int, int]) -> None:
        """Set columns of what stands at an address."""
        self._written += [(address + column, [int(value)]) for column, value in columns.items()]

    def ring(self, what: str, places: int, words: int) -> dict[int, int]:
        """Return the columns of a new ring of at least so many places of so many words.

        Raises ValueError, naming ``what``, for a ring that would not fit into memory.
        """
        if places > _MOST_PLACES:
            raise ValueError(
                f"{what} can hold {places} frames or datagrams, more than the {_MOST_PLACES} that "
                f"the model keeps: give a smaller queue, buffer or delay"
            )
        size = 1 << max(1, int(places - 1).bit_length())
        return {at.RING_START: self.take(size * words), at.RING_MASK: size - 1}

    def array(self) -> npt.NDArray[np.int64]:
        """Return the memory as an array."""
        memory = np.zeros(self.used, np.int64)
        for address, values in self._written:
            memory[address : address + len(values)] = values
        return memory


@dataclass(frozen=True)
class RecoveryPlace:
    """Where the registers of a recovery function begin, and whose it is."""

    carried: Carried
    member: int | None
    address: int


@dataclass(frozen=True)
class EliminationPlace:
    """Where an elimination stands that has more to do than to recover; ``latent`` may be NONE."""

    carried: Carried
    address: int
    latent: int


@dataclass
class Plan:
    """A network laid out in memory: the array, and the addresses of what is in it.

    ``hops`` is by element and flow index; ``senders``, ``transports`` and ``listeners`` are by the
    index of what is carried; ``edges`` and ``elements`` are by index.
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


def plan_network(
    network: Network,
    stop_ps: int,
    seed: SeedSequence,
    *,
    wanted: Wanted = NOTHING_LOGGED,
    general_ports: bool = False,
) -> Plan:
    """Lay a network out for the kernels.

    Writes begin before ``stop_ps``. ``general_ports`` serves FIFO ports event by event too. Raises
    ValueError for what cannot be laid out, with what to change.
    """
    return _Planner(route_network(network), stop_ps, seed, general_ports, wanted).plan()


class _Planner:
    """Lays out one kind of thing after the other: first the addresses, then what stands there."""

    def __init__(
        self, graph: Graph, stop_ps: int, seed: SeedSequence, general: bool, wanted: Wanted
    ) -> None:
        self.graph, self.network = graph, graph.network
        self.seed, self.general, self.wanted = seed, general, wanted
        self.memory = Memory()
        self.made = Plan(graph, stop_ps)
        self.eliminations: dict[int, int] = {}

    def plan(self) -> Plan:
        """Return the whole plan."""
        run = self.memory.take(at.X_COLUMNS)
        made, take = self.made, self.memory.take
        made.elements = [take(at.E_COLUMNS) for _ in self.graph.elements]
        made.edges = [take(at.G_COLUMNS) for _ in self.graph.edges]
        for carried in self.graph.carried:
            made.listeners[carried.index] = take(at.L_COLUMNS)
            if not carried.returns:
                made.senders[carried.index] = take(at.S_COLUMNS)
                if isinstance(carried.stream.send, TcpBulk):
                    made.transports[carried.index] = take(at.T_COLUMNS)
        places = self.fill_edges()
        for element in self.graph.elements:
            self.fill_element(element)
        self.fill_hops()
        for element in self.graph.elements:
            for carried in element.senders:
                self.fill_sender(element, carried)
        for carried in self.graph.carried:
            self.fill_listener(carried)
        self.fill_logs(run, places)
        self.memory.write(
            run,
            {
                at.X_WINDOW: self.graph.window_ps,
                at.X_ELEMENTS: self.memory.put(made.elements),
                at.X_ELEMENT_COUNT: len(made.elements),
                at.X_SENDERS: self.memory.put(list(made.senders.values())),
                at.X_SENDER_COUNT: len(made.senders),
            },
        )
        made.memory = self.memory.array()
        return made

    def fill_logs(self, run: int, places: dict[int, int]) -> None:
        """Give each log that is wanted its rows: what one window can add, and more.

        An edge holds what its port can start in a window; a request is answered after more than a
        window, which is no longer than the way over the edge at which the circle is cut.
        """
        wanted, edges = self.wanted, self.graph.edges
        streams = any(wanted.stream(carried) for carried in self.graph.carried)
        pinging = [c for c in self.graph.carried if isinstance(c.stream.send, PingPong)]
        room = {
            at.X_DELIVERIES: sum(places[e.index] for e in edges if e.target.link is None),
            at.X_DEPARTURES: sum(places[e.index] for e in edges if e.source.name in wanted.ports),
            at.X_ANSWERS: 2 * len(pinging),
        }
        words = {at.X_DELIVERIES: at.R_WORDS, at.X_DEPARTURES: at.DP_WORDS}
        kept = {
            at.X_DELIVERIES: streams,
            at.X_DEPARTURES: bool(wanted.ports),
            at.X_ANSWERS: streams and bool(pinging),
        }
        for log, most in room.items():
            rows = wanted.rows + most if kept[log] else 0
            address = self.memory.take(rows * words.get(log, at.AN_WORDS))
            self.memory.write(
                run + log,
                {at.LOG_START: address, at.LOG_SIZE: rows, at.LOG_ROOM: most},
            )

    # Shared parts

    def random(self, name: str) -> int:
        """Return the address of a new stream of random numbers."""
        return self.memory.put([int(word) for word in stream_state(self.seed, name)])

    def duration(self, duration: Duration, random: int) -> int:
        """Return the address of a duration that draws from ``random``."""
        kind = CONSTANT if duration.distribution == "constant" else ERLANG
        return self.memory.put([kind, picoseconds(duration.mean_ns), duration.shape, random])

    def stalls(self, host: str, process: str) -> int:
        """Return the address of a new sequence of stalls, or NONE."""
        stalls = self.network.hosts[host].stalls
        if stalls is None:
            return at.NONE
        random = self.random(f"stalls/{host}/{process}")
        return self.memory.put(
            [0, 0, self.duration(stalls.interval, random), self.duration(stalls.length, random)]
        )

    def is_fifo(self, element: Element) -> bool:
        """Tell whether a port can be served frame by frame, without events."""
        assert element.port is not None
        waits = any(
            isinstance(carried.stream.send, TcpBulk | PingPong) for carried in element.senders
        )
        return element.port.scheduler == "fifo" and not waits and not self.general

    def class_of(self, element: Element, carried: Carried) -> int:
        """Return the class in which a port queues a stream: its own, or the only one."""
        assert element.port is not None
        return 0 if element.port.scheduler == "fifo" else carried.stream.priority

    # Edges

    def fill_edges(self) -> dict[int, int]:
        """Give each edge a ring that cannot run full; return what they hold, by index."""
        places: dict[int, int] = {}
        for edge in sorted(self.graph.edges, key=lambda edge: edge.source.link is None):
            places[edge.index] = self.edge_places(edge, places)
            what = f"the way from {edge.source.name} to {edge.target.name}"
            sender = at.NONE
            if edge.to_sender is not None:
                sender = self.made.senders[edge.to_sender]
            self.memory.write(
                self.made.edges[edge.index],
                self.memory.ring(what, places[edge.index], at.F_WORDS) | {at.G_SENDER: sender},
            )
        return places

    def edge_places(self, edge: Edge, places: dict[int, int]) -> int:
        """Return how many frames an edge can hold at a time."""
        source = edge.source
        if source.link is None:
            # At most one acknowledgement for a frame that came in or still was with the stack.
            arriving = [places[e.index] for e in self.graph.edges if e.target is source]
            host = self.network.hosts[source.node]
            # Datagrams of a ping-pong are followed to their end ahead of time: all in its socket.
            ahead = sum(
                self.socket_places(carried, host) * len(carried.frames)
                for carried in self.graph.carried
                if carried.listener == source.node and isinstance(carried.stream.send, PingPong)
            )
            return host.nic_ring_frames + 2 * sum(arriving) + ahead + _SPARE
        assert source.port is not None
        span = self.graph.window_ps + self.graph.ahead_ps(source)
        # A FIFO port hands a frame on as soon as it is in the queue, ahead of its time.
        early = source.port.queue_bytes // source.shortest_frame if self.is_fifo(source) else 0
        assert source.link is not None
        copies = 2 if source.link.duplication else 1
        return copies * (span // source.shortest_ps + early + _SPARE)

    def socket_places(self, carried: Carried, host: Host) -> int:
        """Return how many datagrams the listener's socket can hold, and one more."""
        return host.receive_buffer_bytes // self.receive_charge(carried, host) + 2

    def receive_charge(self, carried: Carried, host: Host) -> int:
        """Return what a received datagram is charged for."""
        return host.truesize_bytes or sum(carried.truesizes)

    # Elements

    def fill_element(self, element: Element) -> None:
        """Fill a port or a receiving side."""
        inputs = [
            self.made.edges[edge.index] for edge in self.graph.edges if edge.target is element
        ]
        senders = [self.made.senders[carried.index] for carried in element.senders]
        columns = {
            at.E_INPUTS: self.memory.put(inputs),
            at.E_INPUT_COUNT: len(inputs),
            at.E_SENDERS: self.memory.put(senders),
            at.E_SENDER_COUNT: len(senders),
            at.E_RELEASE_AT: at.NEVER,
            at.E_SELECT_AT: at.NEVER,
            at.E_LOSS_RANDOM: at.NONE,
            at.E_TWICE_RANDOM: at.NONE,
            at.E_LOGGED: element.index if element.name in self.wanted.ports else at.NONE,
            at.E_WATCHED: int(element.name in self.wanted.ports),
        }
        if element.link is None:
            columns |= self.receiver_columns(element)
        else:
            columns |= self.port_columns(element) | self.loss_columns(element)
            columns |= self.duplication_columns(element)
        self.memory.write(self.made.elements[element.index], columns)

    def receiver_columns(self, element: Element) -> dict[int, int]:
        host = self.network.hosts[element.node]
        ring = self.memory.ring(
            f"the card of {element.node}", host.nic_ring_frames + 1, at.HELD_WORDS
        )
        card = self.memory.take(at.Q_COLUMNS)
        self.memory.write(card, ring)
        transports = [
            self.made.listeners[carried.index]
            for carried in self.graph.carried
            if isinstance(carried.stream.send, TcpBulk)
            and not carried.returns
            and carried.listener == element.node
        ]
        random = self.random(f"stack/{element.node}")
        return {
            at.E_KIND: at.RECEIVER,
            at.E_CLASSES: card,
            at.E_CARD_FRAMES: host.nic_ring_frames,
            at.E_STACK: self.duration(host.stack_time, random),
            at.E_TRANSPORTS: self.memory.put(transports),
            at.E_TRANSPORT_COUNT: len(transports),
        }

    def port_columns(self, element: Element) -> dict[int, int]:
        assert element.port is not None
        assert element.link is not None
        failures: list[int] = []
        for failure in element.link.failures:
            up = at.NEVER if failure.up_ns is None else failure.up_ns * 1000
            failures += [failure.down_ns * 1000, up]
        first = self.memory.put(failures)
        classes = self.memory.take(at.CLASSES * at.Q_COLUMNS)
        columns = {
            at.E_KIND: at.FIFO_PORT if self.is_fifo(element) else at.SCHEDULED_PORT,
            at.E_CLASSES: classes,
            at.E_GAP: element.gap_ps,
            at.E_DELAY: element.delay_ps,
            at.E_AHEAD: self.graph.ahead_ps(element),
            at.E_QUEUE_BYTES: element.port.queue_bytes,
            at.E_FAILURE: first,
            at.E_FAILURES_END: first + len(failures),
        }
        if self.is_fifo(element):
            self.memory.write(classes, self.queue_ring(element, at.HELD_WORDS))
            return columns
        used = {self.class_of(element, flow.carried) for flow in element.flows}
        for number in range(at.CLASSES):
            queue = classes + number * at.Q_COLUMNS
            self.memory.write(queue, {at.Q_WINDOW_COUNT: at.ALWAYS_OPEN})
            if number in used:
                self.memory.write(queue, self.queue_ring(element, at.F_WORDS))
                self.memory.write(queue, self.shaper_columns(element, number))
        gates = element.port.gates
        if gates is not None:
            columns |= {
                at.E_GUARD: int(gates.guard_band),
                at.E_GATE_CYCLE: gates.cycle_ns * 1000,
                at.E_GATE_SHIFT: picoseconds(gates.clock_offset_ns) - gates.base_time_ns * 1000,
            }
        return columns

    def queue_ring(self, element: Element, words: int) -> dict[int, int]:
        assert element.port is not None
        places = element.port.queue_bytes // element.shortest_frame + 2
        return self.memory.ring(f"the queue of {element.name}", places, words)

    def shaper_columns(self, element: Element, number: int) -> dict[int, int]:
        assert element.port is not None
        assert element.link is not None
        columns: dict[int, int] = {}
        slope_mbps = element.port.idle_slopes_mbps.get(number)
        if slope_mbps is not None:
            slope, rate = round(slope_mbps * 1000), round(element.link.rate_mbps * 1000)
            if not 0 < slope < rate:
                raise ValueError(
                    f"port {element.name}: idle slope {slope_mbps} Mb/s of class {number} must be "
                    f"at least 0.001 and below the link's {element.link.rate_mbps} Mb/s"
                )
            columns |= {at.Q_IDLE_SLOPE: slope, at.Q_SEND_SLOPE: slope - rate}
        windows = gate_windows_ps(element.port.gates, number) if element.port.gates else None
        if windows is not None:
            columns |= {
                at.Q_WINDOWS: self.memory.put([edge for window in windows for edge in window]),
                at.Q_WINDOW_COUNT: len(windows),
            }
        return columns

    def loss_columns(self, element: Element) -> dict[int, int]:
        assert element.link is not None
        loss = element.link.loss
        if loss is None:
            return {}
        random = self.random(f"loss/{element.link.name}/{element.node}")
        since, until = _span_ps(loss)
        span = {at.E_LOSS_FROM: since, at.E_LOSS_UNTIL: until}
        if isinstance(loss, BurstLoss):
            return span | {
                at.E_LOSS_KIND: at.BURST_LOSS,
                at.E_LOSS_RANDOM: random,
                at.E_LOSS_ENTER: _threshold(loss.good_to_bad),
                at.E_LOSS_LEAVE: _threshold(loss.bad_to_good),
                at.E_LOSS_GOOD: _threshold(loss.loss_in_good),
                at.E_LOSS_BAD: _threshold(loss.loss_in_bad),
            }
        return span | {
            at.E_LOSS_KIND: at.RANDOM_LOSS,
            at.E_LOSS_RANDOM: random,
            at.E_LOSS_GOOD: _threshold(loss.probability),
        }

    def duplication_columns(self, element: Element) -> dict[int, int]:
        assert element.link is not None
        duplication = element.link.duplication
        if duplication is None:
            return {}
        since, until = _span_ps(duplication)
        return {
            at.E_WATCHED: 1,
            at.E_TWICE: _threshold(duplication.probability),
            at.E_TWICE_RANDOM: self.random(f"duplication/{element.link.name}/{element.node}"),
            at.E_TWICE_FROM: since,
            at.E_TWICE_UNTIL: until,
        }

    # Flows

    def fill_hops(self) -> None:
        """Fill what each element does with each flow."""
        bases = self.fill_recoveries()
        sequences = {
            carried.index: self.generator(carried.route.faults)
            for carried in self.graph.carried
            if isinstance(carried.route, Replicated)
        }
        for element in self.graph.elements:
            # A hop's address is first + flow x H_COLUMNS: room for the flows from least to most.
            numbers = [flow.index for flow in element.flows]
            first = self.memory.take((max(numbers) - min(numbers) + 1) * at.H_COLUMNS)
            first -= min(numbers) * at.H_COLUMNS
            self.memory.write(self.made.elements[element.index], {at.E_HOPS: first})
            for flow in element.flows:
                address = first + flow.index * at.H_COLUMNS
                self.made.hops[element.index, flow.index] = address
                self.memory.write(address, self.hop_columns(element, flow, bases))
                if self.graph.hop(element, flow).splits:
                    self.memory.write(address, {at.H_SEQUENCE: sequences[flow.carried.index]})

    def hop_columns(
        self, element: Element, flow: Flow, bases: dict[tuple[int, int | None], int]
    ) -> dict[int, int]:
        hop = self.graph.hop(element, flow)
        outs: list[int] = []
        for target, label in hop.outs:
            outs += [self.made.edges[self.graph.edge(element, target).index], label.index]
        columns = {
            at.H_OUTS: self.memory.put(outs),
            at.H_OUT_COUNT: len(hop.outs),
            at.H_SEQUENCE: at.NONE,
            at.H_RECOVER: at.NONE,
            at.H_INDIVIDUAL: at.NONE,
            at.H_ELIMINATION: at.NONE,
            at.H_LISTENER: self.made.listeners[flow.carried.index],
            at.H_SENDER: at.NONE if hop.sender is None else self.made.senders[hop.sender],
        }
        if hop.after is not None:
            carried = flow.carried.index
            columns[at.H_AFTER] = hop.after.index
            columns[at.H_RECOVER] = bases[carried, None]
            columns[at.H_INDIVIDUAL] = bases.get((carried, flow.member), at.NONE)
            columns[at.H_ELIMINATION] = self.eliminations.get(carried, at.NONE)
        if element.link is not None:
            columns |= {
                at.H_CLASS: self.class_of(element, flow.carried),
                at.H_BYTES_FULL: flow.frames[0],
                at.H_BYTES_LAST: flow.frames[-1],
                at.H_DONE_FULL: element.done_ps(flow.frames[0]),
                at.H_DONE_LAST: element.done_ps(flow.frames[-1]),
            }
        return columns

    def fill_recoveries(self) -> dict[tuple[int, int | None], int]:
        bases: dict[tuple[int, int | None], int] = {}
        for carried in self.graph.carried:
            route = carried.route
            if not isinstance(route, Replicated):
                continue
            bases[carried.index, None] = self.recovery(carried, None, route.recovery)
            if route.individual is not None:
                for number in range(len(route.members)):
                    bases[carried.index, number] = self.recovery(carried, number, route.individual)
            if route.latent_errors is not None or route.faults.recovery_restarts_ns:
                functions = [base for (index, _), base in bases.items() if index == carried.index]
                self.eliminations[carried.index] = self.elimination(carried, route, functions)
        return bases

    def elimination(self, carried: Carried, route: Replicated, functions: list[int]) -> int:
        """Return the address of what else there is to an elimination, the compound one first."""
        restarts = self.memory.put([t * 1000 for t in route.faults.recovery_restarts_ns])
        address, errors, detection = self.memory.take(at.EL_COLUMNS), route.latent_errors, at.NONE
        if errors is not None:
            detection = self.memory.put(
                latent.new_latent(
                    len(route.members),
                    errors.difference,
                    picoseconds(errors.period_ms * 1e6),
                    picoseconds(errors.reset_period_ms * 1e6),
                    self.made.stop_ps,
                )
            )
        columns = {
            at.EL_RESTART: restarts,
            at.EL_RESTARTS_END: restarts + len(route.faults.recovery_restarts_ns),
            at.EL_FUNCTIONS: self.memory.put(functions),
            at.EL_FUNCTION_COUNT: len(functions),
            at.EL_LATENT: detection,
        }
        self.memory.write(address, columns)
        self.made.eliminations.append(EliminationPlace(carried, address, detection))
        return address

    def generator(self, faults: SequenceFaults) -> int:
        """Return the address of a sequence generator and its faults."""
        events = [(time * 1000, at.RESTART) for time in faults.generator_restarts_ns]
        for span in faults.stuck:
            since, until = _span_ps(span)
            events += [(since, at.STICK), (until, at.UNSTICK)]
        events.sort()
        first = self.memory.put([word for event in events for word in event])
        address = self.memory.take(at.SQ_COLUMNS)
        columns = {at.SQ_EVENT: first, at.SQ_EVENTS_END: first + len(events) * at.EV_WORDS}
        self.memory.write(address, columns)
        return address

    def recovery(self, carried: Carried, member: int | None, function: Recovery) -> int:
        timeout = function.reset_timeout_ms
        address = self.memory.put(
            recovery.new_registers(
                function.history_length,
                None if timeout is None else picoseconds(timeout * 1e6),
                match=function.algorithm == "match",
                take_no_sequence=function.take_no_sequence,
                individual=member is not None,
            )
        )
        self.made.recoveries.append(RecoveryPlace(carried, member, address))
        return address

    # Streams

    def fill_sender(self, element: Element, carried: Carried) -> None:
        """Fill a sending process."""
        stream, host = carried.stream, self.network.hosts[carried.talker]
        start = stream.start_ns * 1000
        flow = next(
            f for f in element.flows if f.carried is carried and f.part in ("path", "before")
        )
        fifo = self.is_fifo(element)
        places = host.send_buffer_bytes // min(carried.truesizes) + len(carried.frames) + 2
        columns = {
            at.S_KIND: _PROCESSES[stream.send.kind],
            at.S_PORT: self.made.elements[element.index],
            at.S_FLOW: flow.index,
            at.S_FRAGMENTS: len(carried.frames),
            at.S_LIMIT: at.UNLIMITED if stream.datagrams is None else stream.datagrams,
            at.S_STOP: self.made.stop_ps,
            at.S_START: start,
            at.S_DUE: start,
            at.S_FREE: start,
            at.S_PHASE: at.CALLS,
            at.S_BUFFER: host.send_buffer_bytes,
            at.S_CHARGE_FULL: carried.truesizes[0],
            at.S_CHARGE_LAST: carried.truesizes[-1],
            at.S_DROPS: int(host.when_full == "drop"),
            at.S_COST: self.duration(host.send_cost, self.random(f"write/{stream.name}")),
            at.S_STALLS: self.stalls(carried.talker, f"send/{stream.name}"),
            at.S_TRANSPORT: self.made.transports.get(carried.index, at.NONE),
            at.S_NUMBER: carried.index,
            at.S_LOGGED: int(self.wanted.stream(carried)),
        }
        columns |= self.memory.ring(
            f"the send buffer of {carried.talker}", places if fifo else 1, at.HELD_WORDS
        )
        address = self.made.senders[carried.index]
        self.memory.write(address, columns | self.process_columns(carried))
        if isinstance(stream.send, TcpBulk):
            self.memory.write(address, {at.S_NEXT: start})
            self.fill_transport(carried, stream.send)

    def process_columns(self, carried: Carried) -> dict[int, int]:
        """Return what makes the sending process come when it does."""
        stream, send = carried.stream, carried.stream.send
        payload_bits = stream.payload_bytes * 8
        if isinstance(send, Bursts | ConstantRate):
            rate_bps = round(send.rate_mbps * 1e6)
            step, rest = divmod(payload_bits * 10**12, rate_bps)
            columns = {at.S_STEP: step, at.S_STEP_REST: rest, at.S_STEP_UNIT: rate_bps}
            if isinstance(send, Bursts):
                columns[at.S_TICK] = picoseconds(send.timer_us * 1000)
            return columns
        if isinstance(send, Poisson):
            mean = picoseconds(payload_bits * 1000 / send.rate_mbps)
            gap = self.memory.put([ERLANG, mean, 1, self.random(f"gaps/{stream.name}")])
            return {at.S_GAP: gap}
        if isinstance(send, Listed):
            count = len(send.times_ns)
            limit = count if stream.datagrams is None else min(count, stream.datagrams)
            times = self.memory.put([time * 1000 for time in send.times_ns])
            return {at.S_TIMES: times, at.S_LIMIT: limit}
        if isinstance(send, TcpBulk):
            return {at.S_BUFFER: send.local_queue_bytes}
        if isinstance(send, PingPong):
            return {
                at.S_STEP: picoseconds(send.interval_us * 1000),
                at.S_TIMEOUT: picoseconds(send.timeout_ms * 1e6),
                at.S_TRIP_MIN: _HUGE,
                at.S_TRIP_MAX: at.NONE,
                at.S_TRIP_BINS: self.memory.take(at.HISTOGRAM_BINS),
            }
        return {}

    def fill_transport(self, carried: Carried, send: TcpBulk) -> None:
        segments = send.window_bytes // carried.stream.payload_bytes
        if not 2 <= segments <= at.MOST_SEGMENTS:
            raise ValueError(
                f"stream {carried.name}: a window of {send.window_bytes} bytes holds {segments} "
                f"segments of {carried.stream.payload_bytes} bytes; it must hold 2 ... "
                f"{at.MOST_SEGMENTS}"
            )
        ring = self.memory.ring("a TCP window", 2 * segments + 2, at.SEG_WORDS)
        window = float(min(send.initial_segments, segments))
        self.memory.write(
            self.made.transports[carried.index],
            {
                at.T_ENTRY_AT: carried.stream.start_ns * 1000,
                at.T_TIMEOUT_AT: at.NEVER,
                at.T_ACK_AT: at.NEVER,
                at.T_EPOCH: at.NEVER,
                at.T_NEWEST_SENT: at.NONE,
                at.T_HIGHEST_SACKED: at.NONE,
                at.T_WINDOW: segments,
                at.T_CUBIC: int(send.congestion == "cubic"),
                at.T_SEGMENTS: ring[at.RING_START],
                at.T_SEGMENT_MASK: ring[at.RING_MASK],
                at.W_CONGESTION: _bits(window),
                at.W_THRESHOLD: _bits(float("inf")),
            },
        )

    def fill_listener(self, carried: Carried) -> None:
        """Fill what receives a stream."""
        address = self.made.listeners[carried.index]
        columns = {
            at.L_NUMBER: carried.index,
            at.L_FRAGMENTS: len(carried.frames),
            at.L_NEWEST: at.NONE,
            at.L_EDGE: at.NONE,
            at.L_LOGGED: int(self.wanted.stream(carried)),
            at.L_STALLS: at.NONE,
            at.L_TRANSPORT: at.NONE,
            at.L_SEEN: self.memory.take(at.SEEN_WORDS),
            at.L_LATENCY_BINS: self.memory.take(at.HISTOGRAM_BINS),
            at.L_TRANSIT_BINS: self.memory.take(at.HISTOGRAM_BINS),
        }
        columns |= dict.fromkeys((at.L_FIRST, at.L_LATENCY_MIN, at.L_TRANSIT_MIN), _HUGE)
        columns |= dict.fromkeys((at.L_LAST, at.L_LATENCY_MAX, at.L_TRANSIT_MAX), at.NONE)
        if isinstance(carried.stream.send, TcpBulk):
            columns |= self.transport_columns(carried)
        else:
            columns |= self.socket_columns(carried, self.network.hosts[carried.listener])
            if isinstance(carried.stream.send, PingPong):
                columns |= self.answer_columns(carried)
        self.memory.write(address, columns)

    def socket_columns(self, carried: Carried, host: Host) -> dict[int, int]:
        charge, places = self.receive_charge(carried, host), self.socket_places(carried, host)
        ring = self.memory.ring(f"the socket of {carried.name}", places, at.HELD_WORDS)
        random = self.random(f"read/{carried.name}")
        pending = [at.NONE, 0] * (at.PENDING_SLOTS if len(carried.frames) > 1 else 0)
        return ring | {
            at.L_KIND: at.TO_PROCESS,
            at.L_CHARGE: charge,
            at.L_BUFFER: host.receive_buffer_bytes,
            at.L_TIME: self.duration(host.receive_time, random),
            at.L_STALLS: self.stalls(carried.listener, f"receive/{carried.name}"),
            at.L_PENDING: self.memory.put(pending),
        }

    def answer_columns(self, carried: Carried) -> dict[int, int]:
        """Return what makes the process at a ping-pong's listener answer, or the talker's go on."""
        columns = self.return_columns(carried, at.TO_CLIENT, at.TO_SERVER)
        if not carried.returns:
            name = f"{carried.name}.answer"
            host = self.network.hosts[carried.listener]
            cost = self.duration(host.send_cost, self.random(f"write/{name}"))
            columns |= {
                at.L_COST: cost,
                at.L_COST_STALLS: self.stalls(carried.listener, f"send/{name}"),
            }
        return columns

    def transport_columns(self, carried: Carried) -> dict[int, int]:
        columns = {at.L_TRANSPORT: self.made.transports[carried.sender]}
        return columns | self.return_columns(carried, at.TO_TCP_SENDER, at.TO_TCP_RECEIVER)

    def return_columns(self, carried: Carried, back: int, forth: int) -> dict[int, int]:
        """Return the kind of a listener, and where it puts what it gives for what it receives."""
        receiver = self.graph.element(carried.listener, None)
        outgoing = [edge for edge in self.graph.edges if edge.source is receiver]
        if carried.returns:
            edge = next(edge for edge in outgoing if edge.to_sender == carried.sender)
            return {at.L_KIND: back, at.L_EDGE: self.made.edges[edge.index]}
        flow = next(
            flow
            for flow in self.graph.flows
            if flow.carried.returns
            and flow.carried.sender == carried.sender
            and flow.part in ("path", "before")
        )
        answers = None if forth == at.TO_TCP_RECEIVER else flow.carried.index
        edge = next(
            edge
            for edge in outgoing
            if edge.to_sender is None and edge.answers == answers and flow in edge.target.flows
        )
        return {
            at.L_KIND: forth,
            at.L_EDGE: self.made.edges[edge.index],
            at.L_ACK_FLOW: flow.index,
        }


def _threshold(probability: float) -> int:
    return int(probability * PROBABILITY_ONE)


def _span_ps(span: Span) -> tuple[int, int]:
    """Return when a span begins and ends, in picoseconds."""
    return span.from_ns * 1000, at.NEVER if span.until_ns is None else span.until_ns * 1000


def _bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def gate_windows_ps(gates: Gates, traffic_class: int) -> list[tuple[int, int]] | None:
    """Return when a class is open in the cycle, as [from, until) in ps; None: always.

    Neighbouring windows are joined. One that runs through the end of the cycle is the last and
    ends beyond it.
    """
    cycle = gates.cycle_ns
    windows: list[list[int]] = []
    time = 0
    for number, entry in enumerate(gates.entries):
        last = number == len(gates.entries) - 1
        until = cycle if last else min(cycle, time + entry.interval_ns)
        if time < until and traffic_class in entry.open_classes:
            if windows and windows[-1][1] == time:
                windows[-1][1] = until
            else:
                windows.append([time, until])
        time = until
    if windows == [[0, cycle]]:
        return None
    if len(windows) > 1 and windows[0][0] == 0 and windows[-1][1] == cycle:
        windows[-1][1] = cycle + windows.pop(0)[1]
    return [(start * 1000, until * 1000) for start, until in windows]
