"""Results of a run: counts by location, latencies, recovery counters; and the check of the sums.

Every frame is in exactly one term of its stream's :class:`FrameLedger`, every datagram in one of
its :class:`StreamAccount`; :func:`read_result` raises an error for sums that do not add up.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tsnrepro.model import layout, recovery
from tsnrepro.model.compiled import offset_of, read
from tsnrepro.model.network import Network, PingPong
from tsnrepro.model.plan import EliminationAddress, Plan
from tsnrepro.model.routes import Element, Port, RouteFlow, Traffic

_CARRY = 10**12


class ConservationError(RuntimeError):
    """Frames or datagrams are missing, or appeared without having been sent."""


class Tally:
    """Exact sums of times, carried from the kernels' 64 bits before they overflow."""

    def __init__(self, plan: Plan) -> None:
        self._memory = plan.memory
        addresses = [address + offset_of(layout.HOP, "wait_sum") for address in plan.hops.values()]
        for address in plan.listeners.values():
            addresses += [
                address + offset_of(layout.LISTENER, name) for name in ("latency", "transit")
            ]
        round_trip = offset_of(layout.SENDER, "round_trip")
        addresses += [address + round_trip for address in plan.senders.values()]
        self._addresses = np.array(addresses)
        self._carried = np.zeros(len(addresses), np.int64)
        self._index = {address: index for index, address in enumerate(addresses)}

    def carry(self) -> None:
        """Move whole seconds from the kernels' sums to this tally."""
        sums = self._memory[self._addresses]
        self._carried += sums // _CARRY
        self._memory[self._addresses] = sums % _CARRY

    def total_ps(self, address: int) -> int:
        """Return the total of the kernels' sum at an address."""
        return int(self._carried[self._index[address]]) * _CARRY + int(self._memory[address])


@dataclass(frozen=True)
class LatencyHistogram:
    """A distribution of times: exact count, sum, minimum, maximum; quantiles to 1/128 octave.

    ``bins`` counts times by bin; bin b is from :meth:`edge_ps` (b) to below (b + 1).
    """

    count: int
    sum_ps: int
    min_ps: int | None
    max_ps: int | None
    bins: npt.NDArray[np.int64] = field(repr=False)

    @property
    def mean_ns(self) -> float:
        """The mean, in nanoseconds; NaN without times."""
        return self.sum_ps / self.count / 1000 if self.count else float("nan")

    @staticmethod
    def edge_ps(index: int) -> float:
        """Return the lower edge of a bin, in picoseconds."""
        octave, part = divmod(index, 1 << layout.HISTOGRAM_SUB_BITS)
        return 2.0**octave * (1 + part / (1 << layout.HISTOGRAM_SUB_BITS))

    def quantile_ns(self, probability: float) -> float:
        """Return a quantile in nanoseconds: the middle of its bin (to 0.4 %).

        It is that of the order statistic of rank ceil(p n), limited to minimum and maximum. NaN
        without times; ValueError for a probability outside 0 ... 1.
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"probability {probability} is outside 0 ... 1")
        if self.count == 0 or self.min_ps is None or self.max_ps is None:
            return float("nan")
        rank = max(1, int(np.ceil(probability * self.count)))
        index = int(np.searchsorted(np.cumsum(self.bins), rank))
        middle = (self.edge_ps(index) + self.edge_ps(index + 1)) / 2
        return min(max(middle, self.min_ps), self.max_ps) / 1000


@dataclass(frozen=True)
class FrameLedger:
    """Where every frame of a stream went: entered + copied = sum of the others.

    ``taken`` frames reached the listener's transport; ``left`` were in a queue or on a link when
    the run ended. ``copied`` counts the copies of replication and of links that ``duplicated``
    frames. Ports are named node:link.
    """

    entered: int
    copied: int
    queue_drops: dict[str, int]
    lost_random: dict[str, int]
    lost_down: dict[str, int]
    eliminated: int
    nic_drops: int
    taken: int
    left: int
    duplicated: dict[str, int] = field(default_factory=dict, repr=False)

    @property
    def unaccounted(self) -> int:
        """Frames in no other term; zero unless the run is wrong."""
        gone = sum(sum(part.values()) for part in (self.queue_drops, self.lost_random))
        gone += sum(self.lost_down.values()) + self.eliminated + self.nic_drops
        return self.entered + self.copied - gone - self.taken - self.left


@dataclass(frozen=True)
class TcpAccount:
    """Retransmissions and acknowledgements of a TCP transfer, in segments and events."""

    retransmitted: int
    recoveries: int
    timeouts: int
    acknowledgements: int
    smoothed_rtt_ns: float


@dataclass(frozen=True)
class PingPongAccount:
    """The account of requests: written = ``answered`` + ``timeouts`` + ``waiting`` at the end.

    ``round_trip`` is from the write of a request to the end of reading its answer, for answers in
    time; late and repeated ones are ``disregarded``. ``answers`` were written.
    """

    answered: int
    timeouts: int
    waiting: int
    disregarded: int
    answers: int
    round_trip: LatencyHistogram
    answer_frames: FrameLedger


@dataclass(frozen=True)
class StreamAccount:
    """The account of one stream, in datagrams (segments of TCP) unless a name says frames.

    ``written`` = ``sender_socket_drops`` + ``entered`` + ``not_entered``; ``lost`` = ``entered`` -
    ``unique``, at any location. ``delivered`` = ``unique`` + ``duplicates`` were read by the
    process (UDP), or ``unique`` arrived first and ``duplicates`` again (TCP, where ``delivered``
    are in order, and ``entered`` includes retransmissions). Latency is from the write to the end of
    reading, transit to the arrival of the last frame at the listener's card.
    """

    name: str
    payload_bytes: int
    fragments: int
    written: int
    sender_socket_drops: int
    not_entered: int
    entered: int
    delivered: int
    unique: int
    duplicates: int
    out_of_order: int
    incomplete: int
    receiver_socket_drops: int
    last_delivered_ps: int | None
    latency: LatencyHistogram
    transit: LatencyHistogram
    frames: FrameLedger
    tcp: TcpAccount | None
    ack_frames: FrameLedger | None
    ping_pong: PingPongAccount | None = None

    @property
    def lost(self) -> int:
        """Datagrams that entered the network and were not read; segments not yet delivered."""
        return (self.written if self.tcp else self.entered) - self.unique

    @property
    def loss_ratio(self) -> float:
        """Lost divided by entered, 0 ... 1; NaN if nothing entered."""
        sent = self.written if self.tcp else self.entered
        return self.lost / sent if sent else float("nan")

    def offered_mbps(self, duration_s: float) -> float:
        """Return the payload rate that entered the network, in Mb/s."""
        return self.entered * self.payload_bytes * 8 / duration_s / 1e6

    def goodput_mbps(self, duration_s: float) -> float:
        """Return the payload rate read by the listener without repeats, in Mb/s."""
        received = self.delivered if self.tcp else self.unique
        return received * self.payload_bytes * 8 / duration_s / 1e6


@dataclass(frozen=True)
class PortFlow:
    """One flow at one port. ``part`` is path, before, member or after; ``member`` its number."""

    stream: str
    part: str
    member: int | None
    arrived: int
    eliminated: int
    queue_drops: int
    sent: int
    lost_random: int
    lost_down: int
    wait_sum_ps: int
    wait_max_ps: int
    duplicated: int = 0


@dataclass(frozen=True)
class PortAccount:
    """An egress port (node:link). ``busy_ps`` counts frames with preamble and gap.

    ``peak_queue_bytes`` and the credits' range (in bits) are by traffic class.
    """

    name: str
    busy_ps: int
    peak_queue_bytes: tuple[int, ...]
    credit_range_bits: tuple[tuple[float, float], ...]
    streams: list[PortFlow]


@dataclass(frozen=True)
class RecoveryAccount:
    """The clause 10 counters of one recovery function: of a stream, or of one member path."""

    stream: str
    member: int | None
    counters: dict[str, int]


@dataclass(frozen=True)
class LatentErrorSignal:
    """A latent error: its time, and the change of the difference since the last reset.

    Above zero, fewer copies were discarded than the member paths should have delivered (a path is
    down); below zero, more (a path duplicates frames).
    """

    time_ps: int
    moved: int


@dataclass(frozen=True)
class LatentAccount:
    """Latent error detection of a stream: tests, ``signalled`` alarms, and the first of them."""

    stream: str
    tests: int
    signalled: int
    alarms: list[LatentErrorSignal]


@dataclass(frozen=True)
class Logs:
    """Requested logs, in the types of :mod:`tsnrepro.model.logs`; None: not requested.

    ``left_out`` counts the rows of each log beyond the maximum.
    """

    deliveries: npt.NDArray[np.void] | None = None
    departures: npt.NDArray[np.void] | None = None
    answers: npt.NDArray[np.void] | None = None
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulationResult:
    """All counts of a run. ``ended_s`` is the time of the last event or of the end of the run."""

    network: Network
    duration_s: float
    ended_s: float
    streams: dict[str, StreamAccount]
    ports: dict[str, PortAccount]
    recoveries: list[RecoveryAccount]
    latent_errors: dict[str, LatentAccount] = field(default_factory=dict)
    logs: Logs = field(default_factory=Logs, repr=False)

    @property
    def deliveries(self) -> npt.NDArray[np.void]:
        """The log of deliveries; ValueError if it was not requested."""
        if self.logs.deliveries is None:
            raise ValueError("deliveries were not logged: give simulate() record=True or streams")
        return self.logs.deliveries

    def recovery(self, stream: str, member: int | None = None) -> dict[str, int]:
        """Return the counters of a stream's recovery function, or of that of a member path."""
        for found in self.recoveries:
            if found.stream == stream and found.member == member:
                return found.counters
        raise KeyError(f"stream {stream} has no recovery function for member {member}")


def read_result(
    plan: Plan, tally: Tally, duration_s: float, logs: Logs | None = None
) -> SimulationResult:
    """Read all counts from memory and check that they add up.

    Raises ConservationError if they do not.
    """
    reader = _Reader(plan, tally)
    for each in plan.eliminations:
        recovery.run_due_events(plan.memory, each.address, plan.stop_ps)
    for each in plan.recoveries:
        recovery.expire(plan.memory, each.address, plan.stop_ps)
    data = [traffic for traffic in plan.graph.traffic if not traffic.returns]
    return SimulationResult(
        network=plan.graph.network,
        duration_s=duration_s,
        ended_s=read(layout.RUN, plan.memory, 0).now / 1e12,
        streams={traffic.name: reader.stream(traffic) for traffic in data},
        ports={e.name: reader.port(e) for e in plan.graph.elements if isinstance(e, Port)},
        recoveries=[
            RecoveryAccount(
                each.traffic.name, each.member, recovery.read_counters(plan.memory, each.address)
            )
            for each in plan.recoveries
        ],
        latent_errors={
            each.traffic.name: reader.latent(each)
            for each in plan.eliminations
            if each.latent != layout.NONE
        },
        logs=logs or Logs(),
    )


class _Reader:
    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan, self.tally, self.memory = plan, tally, plan.memory
        self.left = self._count_left()

    def _counts(self, element: Element, flow: RouteFlow) -> Any:
        return read(layout.HOP, self.memory, self.plan.hops[element.index, flow.index])

    def _listener(self, traffic: Traffic) -> Any:
        return read(layout.LISTENER, self.memory, self.plan.listeners[traffic.index])

    def _count_left(self) -> npt.NDArray[np.int64]:
        """Return the frames in rings by traffic index."""
        left = np.zeros(len(self.plan.graph.traffic), np.int64)
        of_flow = np.array([flow.traffic.index for flow in self.plan.graph.flows])
        for address in self.plan.frame_rings(to_senders=False):
            ring = read(layout.RING, self.memory, address)
            places = np.arange(ring.read, ring.written) & ring.mask
            metas = self.memory[
                ring.start + places * layout.FRAME_WORDS + offset_of(layout.FRAME, "meta")
            ]
            np.add.at(left, of_flow[metas & layout.META_FLOW_MASK], 1)
        return left

    def stream(self, traffic: Traffic) -> StreamAccount:
        sender = read(layout.SENDER, self.memory, self.plan.senders[traffic.index])
        listener, address = self._listener(traffic), self.plan.listeners[traffic.index]
        tcp = self.plan.transports.get(traffic.index)
        transport = None if tcp is None else read(layout.TRANSPORT, self.memory, tcp)
        pings = isinstance(traffic.stream.send, PingPong)
        entered = sender.entered
        incomplete, pending = self._unfinished(traffic)
        result = StreamAccount(
            name=traffic.name,
            payload_bytes=traffic.stream.payload_bytes,
            fragments=len(traffic.frames),
            written=sender.written,
            sender_socket_drops=sender.socket_drops,
            not_entered=int(not transport and sender.phase in (layout.ENTERS, layout.BLOCKED)),
            entered=entered,
            delivered=listener.delivered,
            unique=listener.unique,
            duplicates=listener.duplicates,
            out_of_order=listener.out_of_order,
            incomplete=incomplete,
            receiver_socket_drops=listener.socket_drops,
            last_delivered_ps=listener.last if listener.unique else None,
            latency=self._times(address + offset_of(layout.LISTENER, "latency")),
            transit=self._times(address + offset_of(layout.LISTENER, "transit")),
            frames=self.ledger(traffic, entered * len(traffic.frames)),
            tcp=_tcp_result(transport) if transport else None,
            ack_frames=self.ledger(self._responses(traffic), transport.acks) if transport else None,
            ping_pong=self._ping_pong(traffic, sender, listener) if pings else None,
        )
        self._check_datagrams(result, listener, pending)
        return result

    def _responses(self, traffic: Traffic) -> Traffic:
        """Return the acknowledgements or answers of a stream."""
        return next(c for c in self.plan.graph.traffic if c.returns and c.sender == traffic.index)

    def _ping_pong(self, traffic: Traffic, sender: Any, listener: Any) -> PingPongAccount:
        responses = self._responses(traffic)
        answers = listener.answers
        result = PingPongAccount(
            answered=sender.answered,
            timeouts=sender.timeouts,
            waiting=int(sender.phase == layout.WAITS),
            disregarded=sender.disregarded,
            answers=answers,
            round_trip=self._times(
                self.plan.senders[traffic.index] + offset_of(layout.SENDER, "round_trip")
            ),
            answer_frames=self.ledger(responses, answers * len(responses.frames)),
        )
        self._check_ping_pong(traffic, sender, listener, result)
        return result

    def _check_ping_pong(
        self, traffic: Traffic, sender: Any, listener: Any, result: PingPongAccount
    ) -> None:
        client = self._listener(self._responses(traffic))
        ring = read(layout.RING, self.memory, client.edge + offset_of(layout.EDGE, "ring"))
        coming = ring.written - ring.read
        entered = sender.entered
        sums = {
            "requests": entered - result.answered - result.timeouts - result.waiting,
            "answers written": result.answers - listener.delivered,
            "answers read": client.delivered - result.answered - result.disregarded - coming,
            "round trips": result.round_trip.count - result.answered,
        }
        _check_sums(traffic.name, sums)

    def _unfinished(self, traffic: Traffic) -> tuple[int, int]:
        """Return the number of incomplete datagrams in reassembly, and of their fragments."""
        listener = self._listener(traffic)
        incomplete, frames = listener.incomplete, listener.pending_frames
        fragments = len(traffic.frames)
        if fragments > 1:
            end = listener.pending + layout.PENDING_SLOTS * layout.PENDING_WORDS
            slots = self.memory[listener.pending : end].view(layout.PENDING)
            masks = slots["mask"][slots["ident"] != layout.NONE]
            partial = [int(mask) for mask in masks if mask != (1 << fragments) - 1]
            incomplete += len(partial)
            frames += sum(mask.bit_count() for mask in partial)
        return incomplete, frames

    def _times(self, address: int) -> LatencyHistogram:
        """Return the distribution of the times in the record at an address."""
        times = read(layout.TIMES, self.memory, address)
        bins = self.memory[times.bins : times.bins + layout.HISTOGRAM_BINS].copy()
        count = int(bins.sum())
        return LatencyHistogram(
            count=count,
            sum_ps=self.tally.total_ps(address),
            min_ps=times.least if count else None,
            max_ps=times.most if count else None,
            bins=bins,
        )

    def ledger(self, traffic: Traffic, entered: int) -> FrameLedger:
        """Return where the frames of a stream went."""
        drops, random, down, twice = Counter(), Counter(), Counter(), Counter()
        copied = eliminated = nic_drops = 0
        for element in self.plan.graph.elements:
            for flow in element.flows:
                if flow.traffic is not traffic:
                    continue
                counts = self._counts(element, flow)
                eliminated += counts.eliminated
                nic_drops += counts.nic_drops
                if isinstance(element, Port):
                    lost = counts.lost_random + counts.lost_down
                    copied += counts.handed_on - (counts.sent - lost)
                    drops[element.name] += counts.queue_drops
                    random[element.name] += counts.lost_random
                    down[element.name] += counts.lost_down
                    twice[element.name] += counts.duplicated
        ledger = FrameLedger(
            entered=entered,
            copied=copied,
            queue_drops=dict(+drops),
            lost_random=dict(+random),
            lost_down=dict(+down),
            eliminated=eliminated,
            nic_drops=nic_drops,
            taken=self._listener(traffic).frames,
            left=int(self.left[traffic.index]),
            duplicated=dict(+twice),
        )
        if ledger.unaccounted:
            raise ConservationError(
                f"{traffic.name}: {ledger.unaccounted} frames unaccounted for: {ledger}"
            )
        return ledger

    def _check_datagrams(self, result: StreamAccount, listener: Any, pending: int) -> None:
        complete = listener.complete
        if result.tcp:
            sums = {"segments taken": result.frames.taken - result.unique - result.duplicates}
        else:
            strays = listener.stray_frames
            sums = {
                "datagrams written": result.written
                - result.sender_socket_drops
                - result.entered
                - result.not_entered,
                "frames taken": result.frames.taken
                - complete * result.fragments
                - strays
                - pending,
                "datagrams complete": complete - result.receiver_socket_drops - result.delivered,
                "datagrams delivered": result.delivered - result.unique - result.duplicates,
            }
        _check_sums(result.name, sums)

    def port(self, element: Port) -> PortAccount:
        queues = [read(layout.QUEUE, self.memory, q) for q in self.plan.queues(element.index)]
        return PortAccount(
            name=element.name,
            busy_ps=read(layout.ELEMENT, self.memory, self.plan.elements[element.index]).busy,
            peak_queue_bytes=tuple(queue.peak for queue in queues),
            credit_range_bits=tuple(
                (queue.credit_min / 1e9, queue.credit_max / 1e9) for queue in queues
            ),
            streams=[self._port_stream(element, flow) for flow in element.flows],
        )

    def _port_stream(self, element: Element, flow: RouteFlow) -> PortFlow:
        counts = self._counts(element, flow)
        return PortFlow(
            stream=flow.traffic.name,
            part=flow.part,
            member=flow.member,
            arrived=counts.arrived,
            eliminated=counts.eliminated,
            queue_drops=counts.queue_drops,
            sent=counts.sent,
            lost_random=counts.lost_random,
            lost_down=counts.lost_down,
            wait_sum_ps=self.tally.total_ps(
                self.plan.hops[element.index, flow.index] + offset_of(layout.HOP, "wait_sum")
            ),
            wait_max_ps=counts.wait_max,
            duplicated=counts.duplicated,
        )

    def latent(self, detection: EliminationAddress) -> LatentAccount:
        tests, signalled, alarms = recovery.read_alarms(self.memory, detection.latent)
        return LatentAccount(
            stream=detection.traffic.name,
            tests=tests,
            signalled=signalled,
            alarms=[LatentErrorSignal(time, moved) for time, moved in alarms],
        )


def _check_sums(name: str, sums: dict[str, int]) -> None:
    wrong = {what: difference for what, difference in sums.items() if difference}
    if wrong:
        raise ConservationError(f"{name}: do not add up, by: {wrong}")


def _tcp_result(row: Any) -> TcpAccount:
    return TcpAccount(
        retransmitted=row.retransmitted,
        recoveries=row.recoveries,
        timeouts=row.timeouts,
        acknowledgements=row.acks,
        smoothed_rtt_ns=row.smoothed / 1000,
    )
