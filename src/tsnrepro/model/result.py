"""What a run gives: counts by place, latencies, recovery counters; and the check of the sums.

Every frame is in exactly one place of its stream's :class:`FrameLedger`, every datagram in one of
its :class:`StreamResult`; :func:`read_result` refuses to hand out a result that does not add up.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tsnrepro.model import latent, recovery
from tsnrepro.model import layout as at
from tsnrepro.model.elimination import keep_up
from tsnrepro.model.network import Network, PingPong, TcpBulk
from tsnrepro.model.plan import EliminationPlace, Plan
from tsnrepro.model.routes import Carried, Element, Flow

__all__ = [
    "Alarm",
    "ConservationError",
    "FrameLedger",
    "Latencies",
    "LatentResult",
    "Logs",
    "PingPongResult",
    "PortResult",
    "PortStream",
    "RecoveryResult",
    "Result",
    "StreamResult",
    "Tally",
    "TcpResult",
    "read_result",
]

_CARRY = 10**12


class ConservationError(RuntimeError):
    """Frames or datagrams that went in did not come out anywhere."""


class Tally:
    """Carries sums of times out of 64 bits before they run over, exactly."""

    def __init__(self, plan: Plan) -> None:
        self._memory = plan.memory
        columns = [address + at.C_WAIT_SUM for address in plan.hops.values()]
        for address in plan.listeners.values():
            columns += [address + at.L_LATENCY_SUM, address + at.L_TRANSIT_SUM]
        columns += [address + at.S_TRIP_SUM for address in plan.senders.values()]
        self._columns = np.array(columns)
        self._carried = np.zeros(len(columns), np.int64)
        self._place = {address: place for place, address in enumerate(columns)}

    def carry(self) -> None:
        """Move whole seconds from the kernels' sums to this tally."""
        sums = self._memory[self._columns]
        self._carried += sums // _CARRY
        self._memory[self._columns] = sums % _CARRY

    def total_ps(self, address: int) -> int:
        """Return the sum that the kernels keep at an address, whole."""
        return int(self._carried[self._place[address]]) * _CARRY + int(self._memory[address])


@dataclass(frozen=True)
class Latencies:
    """A distribution of times: exact count, sum, minimum, maximum; quantiles to 1/128 octave.

    ``bins`` counts times by bin; bin b holds times from :meth:`edge_ps` (b) to below (b + 1).
    """

    count: int
    sum_ps: int
    min_ps: int | None
    max_ps: int | None
    bins: npt.NDArray[np.int64] = field(repr=False)

    @property
    def mean_ns(self) -> float:
        """The mean, in nanoseconds; NaN where there is none."""
        return self.sum_ps / self.count / 1000 if self.count else float("nan")

    @staticmethod
    def edge_ps(index: int) -> float:
        """Return the lower edge of a bin, in picoseconds."""
        octave, part = divmod(index, 1 << at.HISTOGRAM_SUB_BITS)
        return 2.0**octave * (1 + part / (1 << at.HISTOGRAM_SUB_BITS))

    def quantile_ns(self, probability: float) -> float:
        """Return a quantile in nanoseconds: the middle of the bin that holds it (to 0.4 %).

        The order statistic of rank ceil(p n) is taken, and held within minimum and maximum. NaN
        where nothing was counted; ValueError for a probability outside 0 ... 1.
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
    """Where every frame of a stream went: entered + copied = all the others together.

    ``taken`` frames were handed to the listener's transport; ``left`` were still in a queue or on a
    link when the run ended. ``copied`` counts those of replication, and those that links
    ``duplicated``. Ports are named node:link.
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
        """Frames that are nowhere: zero, or the run is wrong."""
        gone = sum(sum(part.values()) for part in (self.queue_drops, self.lost_random))
        gone += sum(self.lost_down.values()) + self.eliminated + self.nic_drops
        return self.entered + self.copied - gone - self.taken - self.left


@dataclass(frozen=True)
class TcpResult:
    """What a TCP transfer did besides delivering: in segments and events."""

    retransmitted: int
    recoveries: int
    timeouts: int
    acknowledgements: int
    smoothed_rtt_ns: float


@dataclass(frozen=True)
class PingPongResult:
    """What became of requests: written = ``answered`` + ``timeouts`` + ``waiting`` at the end.

    ``round_trip`` runs from the write of a request to the end of reading its answer, for answers in
    time; those that came later, or again, are ``disregarded``. ``answers`` were written.
    """

    answered: int
    timeouts: int
    waiting: int
    disregarded: int
    answers: int
    round_trip: Latencies
    answer_frames: FrameLedger

    def half_quantile_ns(self, probability: float) -> float:
        """Return a quantile of half the round trip, in nanoseconds, as sockperf reports it."""
        return self.round_trip.quantile_ns(probability) / 2


@dataclass(frozen=True)
class StreamResult:
    """The account of one stream, in datagrams (segments of TCP) unless a name says frames.

    ``written`` = ``sender_socket_drops`` + ``entered`` + ``not_entered``; ``lost`` = ``entered`` -
    ``unique``, whatever the place. ``delivered`` = ``unique`` + ``duplicates`` were read by the
    process (UDP), or ``unique`` came first and ``duplicates`` again (TCP, where ``delivered`` came
    in order, and ``entered`` counts retransmissions too). Latency runs from the write to the end
    of its reading, transit to the last frame's arrival at the listener's card.
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
    first_delivered_ps: int | None
    last_delivered_ps: int | None
    latency: Latencies
    transit: Latencies
    frames: FrameLedger
    tcp: TcpResult | None
    ack_frames: FrameLedger | None
    ping_pong: PingPongResult | None = None

    @property
    def lost(self) -> int:
        """Datagrams that entered the network and were not read; segments not yet delivered."""
        return (self.written if self.tcp else self.entered) - self.unique

    @property
    def loss_ratio(self) -> float:
        """Lost of entered, 0 ... 1; NaN where nothing entered."""
        sent = self.written if self.tcp else self.entered
        return self.lost / sent if sent else float("nan")

    def offered_mbps(self, duration_s: float) -> float:
        """Return the payload rate that entered the network, in Mb/s."""
        return self.entered * self.payload_bytes * 8 / duration_s / 1e6

    def goodput_mbps(self, duration_s: float) -> float:
        """Return the payload rate read by the listener, repeats not counted, in Mb/s."""
        received = self.delivered if self.tcp else self.unique
        return received * self.payload_bytes * 8 / duration_s / 1e6


@dataclass(frozen=True)
class PortStream:
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

    @property
    def mean_wait_ns(self) -> float:
        """Mean time from arrival in the queue to the start of sending, in nanoseconds."""
        return self.wait_sum_ps / self.sent / 1000 if self.sent else float("nan")


@dataclass(frozen=True)
class PortResult:
    """An egress port (node:link). ``busy_ps`` counts frames with preamble and gap.

    ``peak_queue_bytes`` and the credits' range (in bits) are by traffic class.
    """

    name: str
    busy_ps: int
    peak_queue_bytes: tuple[int, ...]
    credit_range_bits: tuple[tuple[float, float], ...]
    streams: list[PortStream]


@dataclass(frozen=True)
class RecoveryResult:
    """The clause 10 counters of one recovery function: of a stream, or of one member path."""

    stream: str
    member: int | None
    counters: dict[str, int]


@dataclass(frozen=True)
class Alarm:
    """A latent error: when it was found, and how far the difference had moved from its base.

    Above zero, fewer copies were discarded than the member paths should have brought (a path is
    gone); below zero, more were (a path repeats frames).
    """

    time_ps: int
    moved: int


@dataclass(frozen=True)
class LatentResult:
    """Latent error detection of a stream: tests made, ``signalled`` alarms, the first of them."""

    stream: str
    tests: int
    signalled: int
    alarms: list[Alarm]


@dataclass(frozen=True)
class Logs:
    """Rows that were asked for, in the types of :mod:`tsnrepro.model.logs`; None: not asked for.

    ``left_out`` counts the rows of each log beyond the most that were to be kept.
    """

    deliveries: npt.NDArray[np.void] | None = None
    departures: npt.NDArray[np.void] | None = None
    answers: npt.NDArray[np.void] | None = None
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """All counts of a run. ``ended_s`` is when the last thing happened or the run was cut off."""

    network: Network
    duration_s: float
    ended_s: float
    streams: dict[str, StreamResult]
    ports: dict[str, PortResult]
    recoveries: list[RecoveryResult]
    latent_errors: dict[str, LatentResult] = field(default_factory=dict)
    logs: Logs = field(default_factory=Logs, repr=False)

    @property
    def deliveries(self) -> npt.NDArray[np.void]:
        """The log of deliveries; ValueError where it was not asked for."""
        if self.logs.deliveries is None:
            raise ValueError("deliveries were not logged: give simulate() record=True or streams")
        return self.logs.deliveries

    def recovery(self, stream: str, member: int | None = None) -> dict[str, int]:
        """Return the counters of a stream's recovery function, or of one of its members'."""
        for found in self.recoveries:
            if found.stream == stream and found.member == member:
                return found.counters
        raise KeyError(f"stream {stream} has no recovery function for member {member}")


def read_result(plan: Plan, tally: Tally, duration_s: float, logs: Logs | None = None) -> Result:
    """Read all counts out of the arrays and check that they add up.

    Raises ConservationError where frames or datagrams are missing or appear from nowhere.
    """
    reader = _Reader(plan, tally)
    for place in plan.eliminations:
        keep_up(plan.memory, place.address, plan.stop_ps)
    for place in plan.recoveries:
        recovery.expire(plan.memory, place.address, plan.stop_ps)
    data = [carried for carried in plan.graph.carried if not carried.returns]
    return Result(
        network=plan.graph.network,
        duration_s=duration_s,
        ended_s=int(plan.memory[at.X_NOW]) / 1e12,
        streams={carried.name: reader.stream(carried) for carried in data},
        ports={e.name: reader.port(e) for e in plan.graph.elements if e.link is not None},
        recoveries=[
            RecoveryResult(
                place.carried.name,
                place.member,
                recovery.read_counters(plan.memory, place.address),
            )
            for place in plan.recoveries
        ],
        latent_errors={
            place.carried.name: reader.latent(place)
            for place in plan.eliminations
            if place.latent != at.NONE
        },
        logs=logs or Logs(),
    )


class _Reader:
    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan, self.tally, self.memory = plan, tally, plan.memory
        self.left = self._count_left()

    def _row(self, address: int, columns: int) -> npt.NDArray[np.int64]:
        return self.memory[address : address + columns]

    def _queues(self, element: Element) -> npt.NDArray[np.int64]:
        address = int(self.memory[self.plan.elements[element.index] + at.E_CLASSES])
        return self._row(address, at.CLASSES * at.Q_COLUMNS).reshape(at.CLASSES, at.Q_COLUMNS)

    def _counts(self, element: Element, flow: Flow) -> npt.NDArray[np.int64]:
        return self._row(self.plan.hops[element.index, flow.index], at.H_COLUMNS)

    def _heard(self, carried: Carried) -> npt.NDArray[np.int64]:
        return self._row(self.plan.listeners[carried.index], at.L_COLUMNS)

    def _transport(self, carried: Carried) -> npt.NDArray[np.int64]:
        return self._row(self.plan.transports[carried.index], at.T_COLUMNS)

    def _count_left(self) -> npt.NDArray[np.int64]:
        """Return the frames of each carried stream that are in rings."""
        left = np.zeros(len(self.plan.graph.carried), np.int64)
        of_flow = np.array([flow.carried.index for flow in self.plan.graph.flows])
        rings = [
            self._row(self.plan.edges[edge.index], at.RING_COLUMNS)
            for edge in self.plan.graph.edges
            if edge.to_sender is None
        ]
        for element in self.plan.graph.elements:
            kind = self.memory[self.plan.elements[element.index] + at.E_KIND]
            if kind == at.SCHEDULED_PORT:
                rings += list(self._queues(element))
        for ring in rings:
            places = np.arange(ring[at.RING_READ], ring[at.RING_WRITTEN]) & ring[at.RING_MASK]
            metas = self.memory[ring[at.RING_START] + places * at.F_WORDS + at.F_META]
            np.add.at(left, of_flow[metas & at.META_FLOW_MASK], 1)
        return left

    def stream(self, carried: Carried) -> StreamResult:
        """Return the account of a stream."""
        sender = self._row(self.plan.senders[carried.index], at.S_COLUMNS)
        heard = self._heard(carried)
        tcp = isinstance(carried.stream.send, TcpBulk)
        pings = isinstance(carried.stream.send, PingPong)
        entered = int(sender[at.S_ENTERED])
        incomplete, pending = self._unfinished(carried)
        result = StreamResult(
            name=carried.name,
            payload_bytes=carried.stream.payload_bytes,
            fragments=len(carried.frames),
            written=int(sender[at.S_WRITTEN]),
            sender_socket_drops=int(sender[at.S_SOCKET_DROPS]),
            not_entered=int(not tcp and sender[at.S_PHASE] in (at.ENTERS, at.BLOCKED)),
            entered=entered,
            delivered=int(heard[at.L_DELIVERED]),
            unique=int(heard[at.L_UNIQUE]),
            duplicates=int(heard[at.L_DUPLICATES]),
            out_of_order=int(heard[at.L_OUT_OF_ORDER]),
            incomplete=incomplete,
            receiver_socket_drops=int(heard[at.L_SOCKET_DROPS]),
            first_delivered_ps=_time(heard, at.L_FIRST),
            last_delivered_ps=_time(heard, at.L_LAST),
            latency=self._latencies(carried, at.L_LATENCY_SUM),
            transit=self._latencies(carried, at.L_TRANSIT_SUM),
            frames=self.ledger(carried, entered * len(carried.frames)),
            tcp=_tcp_result(self._transport(carried)) if tcp else None,
            ack_frames=self._acknowledgements(carried) if tcp else None,
            ping_pong=self._ping_pong(carried, sender, heard) if pings else None,
        )
        self._check_datagrams(result, heard, pending)
        return result

    def _back(self, carried: Carried) -> Carried:
        """Return what comes back for a stream."""
        return next(c for c in self.plan.graph.carried if c.returns and c.sender == carried.index)

    def _acknowledgements(self, carried: Carried) -> FrameLedger:
        return self.ledger(self._back(carried), int(self._transport(carried)[at.T_ACKS]))

    def _ping_pong(
        self, carried: Carried, sender: npt.NDArray[np.int64], heard: npt.NDArray[np.int64]
    ) -> PingPongResult:
        back = self._back(carried)
        answers = int(heard[at.L_ANSWERS])
        result = PingPongResult(
            answered=int(sender[at.S_ANSWERED]),
            timeouts=int(sender[at.S_TIMEOUTS]),
            waiting=int(sender[at.S_PHASE] == at.WAITS),
            disregarded=int(sender[at.S_DISREGARDED]),
            answers=answers,
            round_trip=self._times(self.plan.senders[carried.index] + at.S_TRIP_SUM),
            answer_frames=self.ledger(back, answers * len(back.frames)),
        )
        self._check_ping_pong(carried, sender, heard, result)
        return result

    def _check_ping_pong(
        self,
        carried: Carried,
        sender: npt.NDArray[np.int64],
        heard: npt.NDArray[np.int64],
        result: PingPongResult,
    ) -> None:
        back = self._heard(self._back(carried))
        edge = self._row(int(back[at.L_EDGE]), at.RING_COLUMNS)
        coming = int(edge[at.RING_WRITTEN] - edge[at.RING_READ])
        entered = int(sender[at.S_ENTERED])
        sums = {
            "requests": entered - result.answered - result.timeouts - result.waiting,
            "answers written": result.answers - int(heard[at.L_DELIVERED]),
            "answers read": int(back[at.L_DELIVERED])
            - result.answered
            - result.disregarded
            - coming,
            "round trips": result.round_trip.count - result.answered,
        }
        _refuse(carried.name, sums)

    def _unfinished(self, carried: Carried) -> tuple[int, int]:
        """Return datagrams that reassembly never completed, and the fragments they had."""
        heard = self._heard(carried)
        incomplete, frames = int(heard[at.L_INCOMPLETE]), int(heard[at.L_PENDING_FRAMES])
        fragments = len(carried.frames)
        if fragments > 1:
            slots = self._row(int(heard[at.L_PENDING]), at.PENDING_SLOTS * at.P_WORDS)
            slots = slots.reshape(-1, at.P_WORDS)
            open_slots = slots[slots[:, at.P_IDENT] != at.NONE][:, at.P_MASK]
            partial = [int(mask) for mask in open_slots if mask != (1 << fragments) - 1]
            incomplete += len(partial)
            frames += sum(mask.bit_count() for mask in partial)
        return incomplete, frames

    def _latencies(self, carried: Carried, sums: int) -> Latencies:
        """Return the distribution at a listener whose sum and so on begin at a column."""
        return self._times(self.plan.listeners[carried.index] + sums)

    def _times(self, address: int) -> Latencies:
        """Return the distribution whose sum, minimum, maximum and bins begin at an address."""
        least, most, bins_at = (int(word) for word in self.memory[address + 1 : address + 4])
        bins = self._row(bins_at, at.HISTOGRAM_BINS).copy()
        count = int(bins.sum())
        return Latencies(
            count=count,
            sum_ps=self.tally.total_ps(address),
            min_ps=least if count else None,
            max_ps=most if count else None,
            bins=bins,
        )

    def ledger(self, carried: Carried, entered: int) -> FrameLedger:
        """Return where the frames of a carried stream went."""
        drops: dict[str, int] = {}
        random: dict[str, int] = {}
        down: dict[str, int] = {}
        twice: dict[str, int] = {}
        copied = eliminated = nic_drops = 0
        for element in self.plan.graph.elements:
            for flow in element.flows:
                if flow.carried is not carried:
                    continue
                counts = self._counts(element, flow)
                eliminated += int(counts[at.C_ELIMINATED])
                nic_drops += int(counts[at.C_NIC_DROPS])
                if element.link is not None:
                    lost = counts[at.C_LOST_RANDOM] + counts[at.C_LOST_DOWN]
                    copied += int(counts[at.C_HANDED_ON] - (counts[at.C_SENT] - lost))
                    _add(drops, element.name, counts[at.C_QUEUE_DROPS])
                    _add(random, element.name, counts[at.C_LOST_RANDOM])
                    _add(down, element.name, counts[at.C_LOST_DOWN])
                    _add(twice, element.name, counts[at.C_DUPLICATED])
        ledger = FrameLedger(
            entered=entered,
            copied=copied,
            queue_drops=drops,
            lost_random=random,
            lost_down=down,
            eliminated=eliminated,
            nic_drops=nic_drops,
            taken=int(self._heard(carried)[at.L_FRAMES]),
            left=int(self.left[carried.index]),
            duplicated=twice,
        )
        if ledger.unaccounted:
            raise ConservationError(
                f"{carried.name}: {ledger.unaccounted} frames unaccounted for: {ledger}"
            )
        return ledger

    def _check_datagrams(
        self, result: StreamResult, heard: npt.NDArray[np.int64], pending: int
    ) -> None:
        complete = int(heard[at.L_COMPLETE])
        if result.tcp:
            sums = {"segments taken": result.frames.taken - result.unique - result.duplicates}
        else:
            strays = int(heard[at.L_STRAY_FRAMES])
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
        _refuse(result.name, sums)

    def port(self, element: Element) -> PortResult:
        """Return the account of a port."""
        assert element.link is not None
        queues = self._queues(element)
        return PortResult(
            name=element.name,
            busy_ps=int(self.memory[self.plan.elements[element.index] + at.E_BUSY]),
            peak_queue_bytes=tuple(int(peak) for peak in queues[:, at.Q_PEAK]),
            credit_range_bits=tuple(
                (int(low) / 1e9, int(high) / 1e9)
                for low, high in queues[:, [at.Q_CREDIT_MIN, at.Q_CREDIT_MAX]]
            ),
            streams=[self._port_stream(element, flow) for flow in element.flows],
        )

    def _port_stream(self, element: Element, flow: Flow) -> PortStream:
        counts = self._counts(element, flow)
        return PortStream(
            stream=flow.carried.name,
            part=flow.part,
            member=flow.member,
            arrived=int(counts[at.C_ARRIVED]),
            eliminated=int(counts[at.C_ELIMINATED]),
            queue_drops=int(counts[at.C_QUEUE_DROPS]),
            sent=int(counts[at.C_SENT]),
            lost_random=int(counts[at.C_LOST_RANDOM]),
            lost_down=int(counts[at.C_LOST_DOWN]),
            wait_sum_ps=self.tally.total_ps(
                self.plan.hops[element.index, flow.index] + at.C_WAIT_SUM
            ),
            wait_max_ps=int(counts[at.C_WAIT_MAX]),
            duplicated=int(counts[at.C_DUPLICATED]),
        )

    def latent(self, place: EliminationPlace) -> LatentResult:
        """Return what a latent error detection found, up to the end of the writes."""
        tests, signalled, alarms = latent.read_alarms(self.memory, place.latent)
        return LatentResult(
            stream=place.carried.name,
            tests=tests,
            signalled=signalled,
            alarms=[Alarm(time, moved) for time, moved in alarms],
        )


def _refuse(name: str, sums: dict[str, int]) -> None:
    """Refuse sums that are not zero."""
    wrong = {what: difference for what, difference in sums.items() if difference}
    if wrong:
        raise ConservationError(f"{name}: do not add up, by: {wrong}")


def _time(row: npt.NDArray[np.int64], column: int) -> int | None:
    return int(row[column]) if row[at.L_UNIQUE] else None


def _add(places: dict[str, int], name: str, count: int) -> None:
    if count:
        places[name] = places.get(name, 0) + int(count)


def _tcp_result(row: npt.NDArray[np.int64]) -> TcpResult:
    return TcpResult(
        retransmitted=int(row[at.T_RETRANSMITTED]),
        recoveries=int(row[at.T_RECOVERIES]),
        timeouts=int(row[at.T_TIMEOUTS]),
        acknowledgements=int(row[at.T_ACKS]),
        smoothed_rtt_ns=int(row[at.T_SMOOTHED]) / 1000,
    )
