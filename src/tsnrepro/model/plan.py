"""From a network to the arrays that the kernels work on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from tsnrepro.model import layout as at
from tsnrepro.model import recovery
from tsnrepro.model.ethernet import TCP_SEGMENT_BYTES
from tsnrepro.model.network import (
    BurstLoss,
    Bursts,
    ConstantRate,
    Duration,
    Gates,
    Listed,
    Network,
    Poisson,
    RandomLoss,
    Recovery,
    Replicated,
    TcpBulk,
    picoseconds,
)
from tsnrepro.model.routes import Carried, Edge, Element, Graph, route_network
from tsnrepro.model.variates import CONSTANT, ERLANG, PROBABILITY_ONE, stream_state

__all__ = ["Plan", "plan_network"]

_MOST_FRAMES = 1 << 25
_SPARE = 16
_HUGE = (1 << 63) - 1
_PROCESSES = {
    "bursts": at.BURSTS,
    "constant": at.CONSTANT_RATE,
    "poisson": at.POISSON,
    "listed": at.LISTED,
    "saturating": at.SATURATING,
    "tcp": at.TCP,
}


@dataclass(frozen=True)
class RecoveryPlace:
    """Where the registers of a recovery function begin, and whose it is."""

    carried: Carried
    member: int | None
    base: int


@dataclass(frozen=True)
class Plan:
    """A network laid out for the kernels."""

    graph: Graph
    state: at.State
    recoveries: list[RecoveryPlace]
    stop_ps: int


class _Rings:
    """Hands out rings in a store of rows."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.used = 0

    def take(self, needed: int) -> tuple[int, int]:
        """Return start and mask of a ring of at least ``needed`` places."""
        if needed > _MOST_FRAMES:
            raise ValueError(
                f"{self.what} would need {needed} places: give a smaller queue or buffer, or a "
                f"larger smallest frame"
            )
        size = 1 << max(1, int(needed - 1).bit_length())
        start = self.used
        self.used += size
        return start, size - 1


class _Planner:
    """Fills the arrays, one kind of thing after the other."""

    def __init__(self, graph: Graph, stop_ps: int, seed: SeedSequence, general: bool) -> None:
        self.graph = graph
        self.network = graph.network
        self.stop_ps = stop_ps
        self.seed = seed
        self.general = general
        self.frames = _Rings("a queue")
        self.held = _Rings("a buffer")
        self.segments = _Rings("a TCP window")
        self.random: list[np.ndarray] = []
        self.registers: list[int] = []
        self.recoveries: list[RecoveryPlace] = []
        self.windows: list[tuple[int, int]] = []
        self.failures: list[tuple[int, int]] = []
        self.stalls: list[np.ndarray] = []
        self.times: list[int] = []
        count, flows = len(graph.elements), len(graph.flows)
        self.senders_of = [c for c in graph.carried if not c.acknowledges]
        self.elements = at.zeros(count, at.E_COLUMNS)
        self.edges = at.zeros(len(graph.edges), at.G_COLUMNS)
        self.classes = at.zeros(count, at.CLASSES, at.Q_COLUMNS)
        self.hops = at.zeros(count, flows, at.H_COLUMNS)
        self.senders = at.zeros(len(self.senders_of), at.S_COLUMNS)
        self.listeners = at.zeros(len(graph.carried), at.L_COLUMNS)
        self.tcp = at.zeros(len(self.senders_of), at.T_COLUMNS)
        self.tcp[:, at.T_ACK_AT] = at.NEVER
        self.tcp_window = np.zeros((len(self.senders_of), at.W_COLUMNS))
        self.inputs: list[int] = []
        self.outs: list[tuple[int, int]] = []
        # Senders stand in the order of the ports they feed, so that a port has a range of them.
        self.sender_row: dict[int, int] = {}
        for element in graph.elements:
            for carried in element.senders:
                assert carried.sender is not None
                self.sender_row[carried.sender] = len(self.sender_row)

    # Shared parts

    def stream(self, name: str) -> int:
        """Return the index of a new stream of random numbers."""
        self.random.append(stream_state(self.seed, name))
        return len(self.random) - 1

    def duration(self, duration: Duration) -> tuple[int, int, int]:
        """Return kind, mean in ps, and shape."""
        kind = CONSTANT if duration.distribution == "constant" else ERLANG
        return kind, picoseconds(duration.mean_ns), duration.shape

    def stall_row(self, host: str, process: str) -> int:
        """Return the index of a new sequence of stalls, or NONE."""
        stalls = self.network.hosts[host].stalls
        if stalls is None:
            return at.NONE
        row = at.zeros(at.ST_COLUMNS)
        row[[at.ST_GAP_KIND, at.ST_GAP_MEAN, at.ST_GAP_SHAPE]] = self.duration(stalls.interval)
        row[[at.ST_LENGTH_KIND, at.ST_LENGTH_MEAN, at.ST_LENGTH_SHAPE]] = self.duration(
            stalls.length
        )
        row[at.ST_STREAM] = self.stream(f"stalls/{host}/{process}")
        self.stalls.append(row)
        return len(self.stalls) - 1

    def is_fast(self, element: Element) -> bool:
        """Tell whether a port can be served frame by frame, without events."""
        assert element.port is not None
        tcp = any(isinstance(carried.stream.send, TcpBulk) for carried in element.senders)
        return element.port.scheduler == "fifo" and not tcp and not self.general

    # Elements

    def fill_elements(self) -> None:
        """Fill ports and receiving sides."""
        for element in self.graph.elements:
            row = self.elements[element.index]
            edges = [edge.index for edge in self.graph.edges if edge.target is element]
            row[at.E_FIRST_IN], row[at.E_IN_COUNT] = len(self.inputs), len(edges)
            self.inputs += edges
            row[at.E_LOSS_STREAM] = at.NONE
            row[at.E_RELEASE_AT] = row[at.E_SELECT_AT] = at.NEVER
            if element.link is None:
                self.fill_receiver(element, row)
            else:
                self.fill_port(element, row)

    def fill_receiver(self, element: Element, row: np.ndarray) -> None:
        host = self.network.hosts[element.node]
        row[at.E_KIND] = at.RECEIVER
        row[at.E_NIC_LIMIT] = host.nic_ring_frames
        row[[at.E_STACK_KIND, at.E_STACK_MEAN, at.E_STACK_SHAPE]] = self.duration(host.stack_time)
        row[at.E_STACK_STREAM] = self.stream(f"stack/{element.node}")
        self.classes[element.index, 0, : at.RING_READ] = self.held.take(host.nic_ring_frames + 1)

    def fill_port(self, element: Element, row: np.ndarray) -> None:
        assert element.port is not None
        assert element.link is not None
        port = element.port
        row[at.E_KIND] = at.PORT
        row[at.E_FAST] = self.is_fast(element)
        if element.senders:
            first = element.senders[0].sender
            assert first is not None
            row[at.E_FIRST_SENDER] = self.sender_row[first]
            row[at.E_SENDER_COUNT] = len(element.senders)
        row[at.E_GAP] = element.gap_ps
        row[at.E_DELAY] = element.delay_ps
        row[at.E_AHEAD] = self.graph.ahead_ps(element)
        row[at.E_QUEUE_BYTES] = port.queue_bytes
        self.fill_loss(element, row)
        row[at.E_FAILURE] = len(self.failures)
        for failure in element.link.failures:
            up = at.NEVER if failure.up_ns is None else failure.up_ns * 1000
            self.failures.append((failure.down_ns * 1000, up))
        row[at.E_FAILURES_END] = len(self.failures)
        places = port.queue_bytes // element.shortest_frame + 2
        if row[at.E_FAST]:
            self.classes[element.index, 0, : at.RING_READ] = self.held.take(places)
        else:
            self.fill_classes(element, places)

    def fill_loss(self, element: Element, row: np.ndarray) -> None:
        assert element.link is not None
        loss = element.link.loss
        if loss is None:
            return
        row[at.E_LOSS_STREAM] = self.stream(f"loss/{element.link.name}/{element.node}")
        if isinstance(loss, RandomLoss):
            row[at.E_LOSS_KIND] = at.RANDOM_LOSS
            row[at.E_LOSS_GOOD] = _threshold(loss.probability)
        elif isinstance(loss, BurstLoss):
            row[at.E_LOSS_KIND] = at.BURST_LOSS
            row[at.E_LOSS_ENTER] = _threshold(loss.good_to_bad)
            row[at.E_LOSS_LEAVE] = _threshold(loss.bad_to_good)
            row[at.E_LOSS_GOOD] = _threshold(loss.loss_in_good)
            row[at.E_LOSS_BAD] = _threshold(loss.loss_in_bad)

    def fill_classes(self, element: Element, places: int) -> None:
        assert element.port is not None
        assert element.link is not None
        port, row = element.port, self.elements[element.index]
        used = {self.class_of(element, flow.carried) for flow in element.flows}
        rate_kbps = round(element.link.rate_mbps * 1000)
        for number in range(at.CLASSES):
            queue = self.classes[element.index, number]
            queue[: at.RING_READ] = self.frames.take(places if number in used else 1)
            queue[at.Q_WINDOW_COUNT] = at.ALWAYS_OPEN
            slope_mbps = port.idle_slopes_mbps.get(number)
            if slope_mbps is not None:
                slope = round(slope_mbps * 1000)
                if not 0 < slope < rate_kbps:
                    raise ValueError(
                        f"port {element.name}: idle slope {slope_mbps} Mb/s of class {number} must "
                        f"be at least 0.001 and below the link's {element.link.rate_mbps} Mb/s"
                    )
                queue[at.Q_IDLE_SLOPE], queue[at.Q_SEND_SLOPE] = slope, slope - rate_kbps
        if port.gates is not None:
            row[at.E_GUARD] = port.gates.guard_band
            row[at.E_GATE_CYCLE] = port.gates.cycle_ns * 1000
            row[at.E_GATE_SHIFT] = picoseconds(port.gates.clock_offset_ns) - (
                port.gates.base_time_ns * 1000
            )
            for number in range(at.CLASSES):
                self.fill_windows(self.classes[element.index, number], port.gates, number)

    def fill_windows(self, queue: np.ndarray, gates: Gates, number: int) -> None:
        windows = gate_windows_ps(gates, number)
        if windows is None:
            return
        queue[at.Q_FIRST_WINDOW], queue[at.Q_WINDOW_COUNT] = len(self.windows), len(windows)
        self.windows += windows

    def class_of(self, element: Element, carried: Carried) -> int:
        """Return the class in which a port queues a stream: its own, or the only one."""
        assert element.port is not None
        return 0 if element.port.scheduler == "fifo" else carried.stream.priority

    # Flows

    def fill_hops(self) -> None:
        """Fill what each element does with each flow."""
        edges = {
            (id(e.source), id(e.target)): e.index for e in self.graph.edges if e.to_sender is None
        }
        bases = self.fill_recoveries()
        for element in self.graph.elements:
            for flow in element.flows:
                hop = self.graph.hop(element, flow)
                row = self.hops[element.index, flow.index]
                row[at.H_STREAM] = flow.carried.index
                row[at.H_SPLIT] = flow.carried.index if hop.splits else at.NONE
                row[at.H_RECOVER] = row[at.H_INDIVIDUAL] = at.NONE
                row[at.H_SENDER] = at.NONE if hop.sender is None else self.sender_row[hop.sender]
                if hop.eliminates:
                    assert hop.after is not None
                    row[at.H_AFTER] = hop.after.index
                    row[at.H_RECOVER] = bases[flow.carried.index, None]
                    row[at.H_INDIVIDUAL] = bases.get((flow.carried.index, flow.member), at.NONE)
                row[at.H_FIRST_OUT], row[at.H_OUT_COUNT] = len(self.outs), len(hop.outs)
                for target, label in hop.outs:
                    self.outs.append((edges[id(element), id(target)], label.index))
                if element.link is not None:
                    row[at.H_CLASS] = self.class_of(element, flow.carried)
                    row[at.H_BYTES_FULL], row[at.H_BYTES_LAST] = flow.frames[0], flow.frames[-1]
                    row[at.H_DONE_FULL] = element.done_ps(flow.frames[0])
                    row[at.H_DONE_LAST] = element.done_ps(flow.frames[-1])

    def fill_recoveries(self) -> dict[tuple[int, int | None], int]:
        bases: dict[tuple[int, int | None], int] = {}
        for carried in self.graph.carried:
            route = carried.route
            if not isinstance(route, Replicated):
                continue
            bases[carried.index, None] = self.add_recovery(carried, None, route.recovery)
            for number in range(len(route.members) if route.individual else 0):
                assert route.individual is not None
                bases[carried.index, number] = self.add_recovery(carried, number, route.individual)
        return bases

    def add_recovery(self, carried: Carried, member: int | None, function: Recovery) -> int:
        base = len(self.registers)
        timeout = function.reset_timeout_ms
        self.registers += recovery.new_registers(
            function.history_length,
            None if timeout is None else picoseconds(timeout * 1e6),
            match=function.algorithm == "match",
            take_no_sequence=function.take_no_sequence,
            individual=member is not None,
        )
        self.recoveries.append(RecoveryPlace(carried, member, base))
        return base

    # Edges

    def fill_edges(self) -> None:
        """Give each edge a ring that cannot run full."""
        room: dict[int, int] = {}
        for edge in sorted(self.graph.edges, key=lambda edge: edge.source.link is None):
            needed = self.edge_room(edge, room)
            room[edge.index] = needed
            row = self.edges[edge.index]
            row[: at.RING_READ] = self.frames.take(needed)
            row[at.G_KIND] = at.EDGE_FRAMES if edge.to_sender is None else at.EDGE_ACKS
            row[at.G_SENDER] = (
                at.NONE if edge.to_sender is None else self.sender_row[edge.to_sender]
            )

    def edge_room(self, edge: Edge, room: dict[int, int]) -> int:
        source = edge.source
        if source.link is None:
            # At most one acknowledgement for a frame that came in or still was with the stack.
            arriving = [room[e.index] for e in self.graph.edges if e.target is source]
            return self.network.hosts[source.node].nic_ring_frames + 2 * sum(arriving) + _SPARE
        assert source.port is not None
        span = self.graph.window_ps + self.graph.ahead_ps(source)
        known_early = 0
        if self.is_fast(source):
            known_early = source.port.queue_bytes // source.shortest_frame
        return span // source.shortest_ps + known_early + _SPARE

    # Streams

    def fill_senders(self) -> None:
        """Fill the sending processes."""
        for element in self.graph.elements:
            for carried in element.senders:
                assert carried.sender is not None
                index = self.sender_row[carried.sender]
                self.fill_sender(self.senders[index], element, carried)
                if isinstance(carried.stream.send, TcpBulk):
                    self.fill_tcp(index, carried, carried.stream.send)

    def fill_sender(self, row: np.ndarray, element: Element, carried: Carried) -> None:
        stream, host = carried.stream, self.network.hosts[carried.talker]
        send = stream.send
        start = stream.start_ns * 1000
        flow = next(
            f for f in element.flows if f.carried is carried and f.part in ("path", "before")
        )
        row[at.S_KIND] = _PROCESSES[send.kind]
        row[at.S_ELEMENT], row[at.S_FLOW] = element.index, flow.index
        row[at.S_FRAGMENTS] = len(carried.frames)
        row[at.S_LIMIT] = at.UNLIMITED if stream.datagrams is None else stream.datagrams
        row[at.S_STOP], row[at.S_START] = self.stop_ps, start
        row[at.S_DUE] = row[at.S_FREE] = start
        row[at.S_PHASE] = at.CALLS
        row[at.S_BUFFER] = host.send_buffer_bytes
        row[at.S_CHARGE_FULL], row[at.S_CHARGE_LAST] = carried.truesizes[0], carried.truesizes[-1]
        row[at.S_DROPS] = host.when_full == "drop"
        row[[at.S_COST_KIND, at.S_COST_MEAN, at.S_COST_SHAPE]] = self.duration(host.send_cost)
        row[at.S_COST_STREAM] = self.stream(f"write/{stream.name}")
        row[at.S_STALLS] = self.stall_row(carried.talker, f"send/{stream.name}")
        row[at.S_GAP_STREAM] = at.NONE
        if isinstance(send, TcpBulk):
            row[at.S_BUFFER] = send.local_queue_bytes
        elif isinstance(send, Bursts | ConstantRate):
            rate_bps = round(send.rate_mbps * 1e6)
            step = stream.payload_bytes * 8 * 10**12
            row[at.S_STEP], row[at.S_STEP_REST] = divmod(step, rate_bps)
            row[at.S_STEP_UNIT] = rate_bps
            if isinstance(send, Bursts):
                row[at.S_TICK] = picoseconds(send.timer_us * 1000)
        elif isinstance(send, Poisson):
            row[at.S_GAP_MEAN] = round(stream.payload_bytes * 8 * 10**6 / send.rate_mbps)
            row[at.S_GAP_STREAM] = self.stream(f"gaps/{stream.name}")
        elif isinstance(send, Listed):
            row[at.S_FIRST_TIME] = len(self.times)
            self.times += [time * 1000 for time in send.times_ns]
            listed = len(send.times_ns)
            limit = row[at.S_LIMIT]
            row[at.S_LIMIT] = listed if limit == at.UNLIMITED else min(limit, listed)
        smallest = min(carried.truesizes)
        places = host.send_buffer_bytes // smallest + len(carried.frames) + 2
        row[: at.RING_READ] = self.held.take(places if self.is_fast(element) else 1)

    def fill_tcp(self, index: int, carried: Carried, send: TcpBulk) -> None:
        row, window = self.tcp[index], self.tcp_window[index]
        segments = send.window_bytes // carried.stream.payload_bytes
        if not 2 <= segments <= at.MOST_SEGMENTS:
            raise ValueError(
                f"stream {carried.name}: a window of {send.window_bytes} bytes is {segments} "
                f"segments; it must be 2 ... {at.MOST_SEGMENTS} "
                f"(segments carry up to {TCP_SEGMENT_BYTES} bytes)"
            )
        start = carried.stream.start_ns * 1000
        row[at.T_ENTRY_AT] = self.senders[index, at.S_NEXT] = start
        row[at.T_TIMEOUT_AT] = row[at.T_ACK_AT] = row[at.T_EPOCH] = at.NEVER
        row[at.T_NEWEST_SENT] = row[at.T_HIGHEST_SACKED] = at.NONE
        row[at.T_WINDOW] = segments
        row[at.T_CUBIC] = send.congestion == "cubic"
        row[[at.T_RING_START, at.T_RING_MASK]] = self.segments.take(2 * segments + 2)
        window[at.W_CONGESTION] = min(send.initial_segments, segments)
        window[at.W_THRESHOLD] = np.inf

    def fill_listeners(self) -> None:
        """Fill what receives each stream."""
        for carried in self.graph.carried:
            row = self.listeners[carried.index]
            receiver = self.graph.element(carried.listener, None)
            row[at.L_ELEMENT] = receiver.index
            row[at.L_FRAGMENTS] = len(carried.frames)
            row[at.L_NEWEST] = at.NONE
            row[[at.L_FIRST, at.L_LATENCY_MIN, at.L_TRANSIT_MIN]] = _HUGE
            row[[at.L_LAST, at.L_LATENCY_MAX, at.L_TRANSIT_MAX]] = at.NONE
            row[at.L_EDGE] = row[at.L_STALLS] = row[at.L_SENDER] = at.NONE
            row[at.L_PENDING] = carried.index * at.PENDING_SLOTS
            row[at.L_SEEN] = carried.index * (at.SEEN_SLOTS // 64)
            if isinstance(carried.stream.send, TcpBulk):
                self.fill_transport(row, carried, receiver)
            else:
                self.fill_socket(row, carried)

    def fill_socket(self, row: np.ndarray, carried: Carried) -> None:
        host = self.network.hosts[carried.listener]
        row[at.L_KIND] = at.TO_PROCESS
        row[at.L_CHARGE] = host.truesize_bytes or sum(carried.truesizes)
        row[at.L_BUFFER] = host.receive_buffer_bytes
        row[[at.L_TIME_KIND, at.L_TIME_MEAN, at.L_TIME_SHAPE]] = self.duration(host.receive_time)
        row[at.L_TIME_STREAM] = self.stream(f"read/{carried.name}")
        row[at.L_STALLS] = self.stall_row(carried.listener, f"receive/{carried.name}")
        row[: at.RING_READ] = self.held.take(int(row[at.L_BUFFER] // row[at.L_CHARGE]) + 2)

    def fill_transport(self, row: np.ndarray, carried: Carried, receiver: Element) -> None:
        assert carried.sender is not None
        row[at.L_SENDER] = self.sender_row[carried.sender]
        row[at.L_KIND] = at.TO_TCP_SENDER if carried.acknowledges else at.TO_TCP_RECEIVER
        outgoing = [edge for edge in self.graph.edges if edge.source is receiver]
        if carried.acknowledges:
            edge = next(edge for edge in outgoing if edge.to_sender == carried.sender)
        else:
            acks = next(
                c for c in self.graph.carried if c.acknowledges and c.sender == carried.sender
            )
            flow = next(
                f
                for f in self.graph.flows
                if f.carried is acks and f.part in ("path", "before")
            )
            row[at.L_ACK_FLOW] = flow.index
            edge = next(
                edge for edge in outgoing if edge.to_sender is None and flow in edge.target.flows
            )
        row[at.L_EDGE] = edge.index

    # The whole

    def state(self, record_rows: int) -> at.State:
        """Return all arrays, the counts at zero."""
        carried, elements = len(self.graph.carried), len(self.graph.elements)
        control = at.zeros(at.X_COLUMNS)
        control[at.X_WINDOW] = self.graph.window_ps
        control[at.X_RECORDING] = record_rows > 0
        control[at.X_RECORD_ROOM] = self.delivered_per_window()
        records = record_rows + control[at.X_RECORD_ROOM] if record_rows else 1
        pending = np.full((carried * at.PENDING_SLOTS, at.P_WORDS), at.NONE, np.int64)
        return at.State(
            control=control,
            elements=self.elements,
            inputs=_column(self.inputs),
            edges=self.edges,
            frames=at.zeros(self.frames.used, at.F_WORDS),
            classes=self.classes,
            held=at.zeros(self.held.used, at.HELD_WORDS),
            hops=self.hops,
            outs=_rows(self.outs, at.OUT_COLUMNS),
            counters=at.zeros(elements, len(self.graph.flows), at.C_COLUMNS),
            sequence=at.zeros(carried),
            recovery=_column(self.registers),
            windows=_rows(self.windows, 2),
            failures=_rows(self.failures, 2),
            senders=self.senders,
            times=_column(self.times),
            stalls=np.array(self.stalls or [at.zeros(at.ST_COLUMNS)]),
            listeners=self.listeners,
            pending=pending,
            seen=at.zeros(carried * (at.SEEN_SLOTS // 64)),
            histograms=at.zeros(carried, 2, at.HISTOGRAM_BINS),
            records=at.zeros(int(records), at.D_WORDS),
            random=np.array(self.random or [stream_state(self.seed, "none")]),
            tcp=self.tcp,
            tcp_window=self.tcp_window,
            segments=at.zeros(self.segments.used, at.SEG_WORDS),
        )

    def delivered_per_window(self) -> int:
        """Return how many frames can come to all receiving sides in one window, at most."""
        return sum(
            int(self.edges[edge.index, at.RING_MASK]) + 1
            for edge in self.graph.edges
            if edge.target.link is None
        )


def _threshold(probability: float) -> int:
    return int(probability * PROBABILITY_ONE)


def _column(values: Any) -> np.ndarray:
    return np.array(values or [0], np.int64)


def _rows(values: list[tuple[int, int]], columns: int) -> np.ndarray:
    return np.array(values or [(0,) * columns], np.int64).reshape(-1, columns)


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


def plan_network(
    network: Network,
    stop_ps: int,
    seed: SeedSequence,
    *,
    record_rows: int = 0,
    general_ports: bool = False,
) -> Plan:
    """Lay a network out for the kernels.

    Writes begin before ``stop_ps``. ``record_rows`` above zero keeps the deliveries of at least so
    many datagrams between two visits of Python. ``general_ports`` serves FIFO ports event by event
    too. Raises ValueError for what cannot be laid out, with what to change.
    """
    graph = route_network(network)
    planner = _Planner(graph, stop_ps, seed, general_ports)
    planner.fill_elements()
    planner.fill_hops()
    planner.fill_edges()
    planner.fill_senders()
    planner.fill_listeners()
    return Plan(graph, planner.state(record_rows), planner.recoveries, stop_ps)
