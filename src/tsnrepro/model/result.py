"""What a run gives: counts by place, latencies, recovery counters; and the check of the sums.

Every frame is in exactly one place of its stream's :class:`FrameLedger`, every datagram in one of
its :class:`StreamAccount`; :func:`read_result` refuses to hand out a result that does not add up.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tsnrepro.model import latent, recovery
from tsnrepro.model import layout as at
from tsnrepro.model.compiled import offset_of, read
from tsnrepro.model.elimination import keep_up
from tsnrepro.model.network import Network, PingPong
from tsnrepro.model.plan import EliminationPlace, Plan
from tsnrepro.model.routes import Element, Port, RouteFlow, Traffic

_CARRY = 10**12


class ConservationError(RuntimeError):
    """Frames or datagrams that went in did not come out anywhere."""


class Tally:
    """Carries sums of times out of 64 bits before they run over, exactly."""

    def __init__(self, plan: Plan) -> None:
        self._memory = plan.memory
        addresses = [address + offset_of(at.HOP, "wait_sum") for address in plan.hops.values()]
        for address in plan.listeners.values():
            addresses += [address + offset_of(at.LISTENER, name) for name in ("latency", "transit")]
        round_trip = offset_of(at.SENDER, "round_trip")
        addresses += [address + round_trip for address in plan.senders.values()]
        self._addresses = np.array(addresses)
        self._carried = np.zeros(len(addresses), np.int64)
        self._place = {address: place for place, address in enumerate(addresses)}

    def carry(self) -> None:
        """Move whole seconds from the kernels' sums to this tally."""
        sums = self._memory[self._addresses]
        self._carried += sums // _CARRY
        self._memory[self._addresses] = sums % _CARRY

    def total_ps(self, address: int) -> int:
        """Return the sum that the kernels keep at an address, whole."""
        return int(self._carried[self._place[address]]) * _CARRY + int(self._memory[address])


@dataclass(frozen=True)
class LatencyHistogram:
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
class TcpAccount:
    """What a TCP transfer did besides delivering: in segments and events."""

    retransmitted: int
    recoveries: int
    timeouts: int
    acknowledgements: int
    smoothed_rtt_ns: float


@dataclass(frozen=True)
class PingPongAccount:
    """What became of requests: written = ``answered`` + ``timeouts`` + ``waiting`` at the end.

    ``round_trip`` runs from the write of a request to the end of reading its answer, for answers in
    time; those that came later, or again, are ``disregarded``. ``answers`` were written.
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
    """A latent error: when it was found, and how far the difference had moved from its base.

    Above zero, fewer copies were discarded than the member paths should have brought (a path is
    gone); below zero, more were (a path repeats frames).
    """

    time_ps: int
    moved: int


@dataclass(frozen=True)
class LatentAccount:
    """Latent error detection of a stream: tests made, ``signalled`` alarms, the first of them."""

    stream: str
    tests: int
    signalled: int
    alarms: list[LatentErrorSignal]


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
class SimulationResult:
    """All counts of a run. ``ended_s`` is when the last thing happened or the run was cut off."""

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


def read_result(
    plan: Plan, tally: Tally, duration_s: float, logs: Logs | None = None
) -> SimulationResult:
    """Read all counts out of the arrays and check that they add up.

    Raises ConservationError where frames or datagrams are missing or appear from nowhere.
    """
    reader = _Reader(plan, tally)
    for place in plan.eliminations:
        keep_up(plan.memory, place.address, plan.stop_ps)
    for place in plan.recoveries:
        recovery.expire(plan.memory, place.address, plan.stop_ps)
    data = [traffic for traffic in plan.graph.traffic if not traffic.returns]
    return SimulationResult(
        network=plan.graph.network,
        duration_s=duration_s,
        ended_s=read(at.RUN, plan.memory, 0).now / 1e12,
        streams={traffic.name: reader.stream(traffic) for traffic in data},
        ports={e.name: reader.port(e) for e in plan.graph.elements if isinstance(e, Port)},
        recoveries=[
            RecoveryAccount(
                place.traffic.name,
                place.member,
                recovery.read_counters(plan.memory, place.address),
            )
            for place in plan.recoveries
        ],
        latent_errors={
            place.traffic.name: reader.latent(place)
            for place in plan.eliminations
            if place.latent != at.NONE
        },
        logs=logs or Logs(),
    )


class _Reader:
    def __init__(self, plan: Plan, tally: Tally) -> None:
        self.plan, self.tally, self.memory = plan, tally, plan.memory
        self.left = self._count_left()

    def _counts(self, element: Element, flow: RouteFlow) -> Any:
        return read(at.HOP, self.memory, self.plan.hops[element.index, flow.index])

    def _heard(self, traffic: Traffic) -> Any:
        return read(at.LISTENER, self.memory, self.plan.listeners[traffic.index])

    def _count_left(self) -> npt.NDArray[np.int64]:
        """Return the frames of each traffic stream that are in rings."""
        left = np.zeros(len(self.plan.graph.traffic), np.int64)
        of_flow = np.array([flow.traffic.index for flow in self.plan.graph.flows])
        for address in self.plan.frame_rings(to_senders=False):
            ring = read(at.RING, self.memory, address)
            places = np.arange(ring.read, ring.written) & ring.mask
            metas = self.memory[ring.start + places * at.FRAME_WORDS + offset_of(at.FRAME, "meta")]
            np.add.at(left, of_flow[metas & at.META_FLOW_MASK], 1)
        return left

    def stream(self, traffic: Traffic) -> StreamAccount:
        """Return the account of a stream."""
        sender = read(at.SENDER, self.memory, self.plan.senders[traffic.index])
        heard, listener = self._heard(traffic), self.plan.listeners[traffic.index]
        place = self.plan.transports.get(traffic.index)
        transport = None if place is None else read(at.TRANSPORT, self.memory, place)
        pings = isinstance(traffic.stream.send, PingPong)
        entered = sender.entered
        incomplete, pending = self._unfinished(traffic)
        result = StreamAccount(
            name=traffic.name,
            payload_bytes=traffic.stream.payload_bytes,
            fragments=len(traffic.frames),
            written=sender.written,
            sender_socket_drops=sender.socket_drops,
            not_entered=int(not transport and sender.phase in (at.ENTERS, at.BLOCKED)),
            entered=entered,
            delivered=heard.delivered,
            unique=heard.unique,
            duplicates=heard.duplicates,
            out_of_order=heard.out_of_order,
            incomplete=incomplete,
            receiver_socket_drops=heard.socket_drops,
            last_delivered_ps=heard.last if heard.unique else None,
            latency=self._times(listener + offset_of(at.LISTENER, "latency")),
            transit=self._times(listener + offset_of(at.LISTENER, "transit")),
            frames=self.ledger(traffic, entered * len(traffic.frames)),
            tcp=_tcp_result(transport) if transport else None,
            ack_frames=self.ledger(self._back(traffic), transport.acks) if transport else None,
            ping_pong=self._ping_pong(traffic, sender, heard) if pings else None,
        )
        self._check_datagrams(result, heard, pending)
        return result

    def _back(self, traffic: Traffic) -> Traffic:
        """Return what comes back for a stream."""
        return next(c for c in self.plan.graph.traffic if c.returns and c.sender == traffic.index)

    def _ping_pong(self, traffic: Traffic, sender: Any, heard: Any) -> PingPongAccount:
        back = self._back(traffic)
        answers = heard.answers
        result = PingPongAccount(
            answered=sender.answered,
            timeouts=sender.timeouts,
            waiting=int(sender.phase == at.WAITS),
            disregarded=sender.disregarded,
            answers=answers,
            round_trip=self._times(
                self.plan.senders[traffic.index] + offset_of(at.SENDER, "round_trip")
            ),
            answer_frames=self.ledger(back, answers * len(back.frames)),
        )
        self._check_ping_pong(traffic, sender, heard, result)
        return result

    def _check_ping_pong(
        self, traffic: Traffic, sender: Any, heard: Any, result: PingPongAccount
    ) -> None:
        back = self._heard(self._back(traffic))
        ring = read(at.RING, self.memory, back.edge + offset_of(at.EDGE, "ring"))
        coming = ring.written - ring.read
        entered = sender.entered
        sums = {
            "requests": entered - result.answered - result.timeouts - result.waiting,
            "answers written": result.answers - heard.delivered,
            "answers read": back.delivered - result.answered - result.disregarded - coming,
            "round trips": result.round_trip.count - result.answered,
        }
        _refuse(traffic.name, sums)

    def _unfinished(self, traffic: Traffic) -> tuple[int, int]:
        """Return datagrams that reassembly never completed, and the fragments they had."""
        heard = self._heard(traffic)
        incomplete, frames = heard.incomplete, heard.pending_frames
        fragments = len(traffic.frames)
        if fragments > 1:
            end = heard.pending + at.PENDING_SLOTS * at.PENDING_WORDS
            slots = self.memory[heard.pending : end].view(at.PENDING)
            masks = slots["mask"][slots["ident"] != at.NONE]
            partial = [int(mask) for mask in masks if mask != (1 << fragments) - 1]
            incomplete += len(partial)
            frames += sum(mask.bit_count() for mask in partial)
        return incomplete, frames

    def _times(self, address: int) -> LatencyHistogram:
        """Return the distribution that is counted in the record at an address."""
        times = read(at.TIMES, self.memory, address)
        bins = self.memory[times.bins : times.bins + at.HISTOGRAM_BINS].copy()
        count = int(bins.sum())
        return LatencyHistogram(
            count=count,
            sum_ps=self.tally.total_ps(address),
            min_ps=times.least if count else None,
            max_ps=times.most if count else None,
            bins=bins,
        )

    def ledger(self, traffic: Traffic, entered: int) -> FrameLedger:
        """Return where the frames of a traffic stream went."""
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
            taken=self._heard(traffic).frames,
            left=int(self.left[traffic.index]),
            duplicated=dict(+twice),
        )
        if ledger.unaccounted:
            raise ConservationError(
                f"{traffic.name}: {ledger.unaccounted} frames unaccounted for: {ledger}"
            )
        return ledger

    def _check_datagrams(self, result: StreamAccount, heard: Any, pending: int) -> None:
        complete = heard.complete
        if result.tcp:
            sums = {"segments taken": result.frames.taken - result.unique - result.duplicates}
        else:
            strays = heard.stray_frames
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

    def port(self, element: Port) -> PortAccount:
        """Return the account of a port."""
        queues = [read(at.QUEUE, self.memory, q) for q in self.plan.queues(element.index)]
        return PortAccount(
            name=element.name,
            busy_ps=read(at.ELEMENT, self.memory, self.plan.elements[element.index]).busy,
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
                self.plan.hops[element.index, flow.index] + offset_of(at.HOP, "wait_sum")
            ),
            wait_max_ps=counts.wait_max,
            duplicated=counts.duplicated,
        )

    def latent(self, place: EliminationPlace) -> LatentAccount:
        """Return what a latent error detection found, up to the end of the writes."""
        tests, signalled, alarms = latent.read_alarms(self.memory, place.latent)
        return LatentAccount(
            stream=place.traffic.name,
            tests=tests,
            signalled=signalled,
            alarms=[LatentErrorSignal(time, moved) for time, moved in alarms],
        )


def _refuse(name: str, sums: dict[str, int]) -> None:
    """Refuse sums that are not zero."""
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
