"""Description of a network: hosts, switches, links, ports, streams.

Every parameter is physical and has its unit in its name. Unknown keys are errors. Defaults have a
source; values that depend on the machine or the switch have no default.
"""

import math
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tsnrepro.common.ethernet import TCP_SEGMENT_BYTES
from tsnrepro.config import FrerSettings, PositiveFloat
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.gates import GateControlList

_LINUX_SOCKET_BUFFER_BYTES = 212_992
"""net.core.rmem_default and wmem_default: 256 packets of SKB_TRUESIZE(256) (net/core/sock.c)."""

Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=60)]
RateMbps: TypeAlias = Annotated[float, Field(ge=0.001, le=1e6)]
Probability: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]


def _default(settings: type[BaseModel], name: str) -> Any:
    return settings.model_fields[name].default


class _Description(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Duration(_Description):
    """A random duration: constant, or Erlang with a shape (1: exponential).

    An Erlang duration of shape k has a coefficient of variation of 1 / sqrt(k).
    """

    mean_ns: Annotated[float, Field(ge=0.0, le=1e12)]
    distribution: Literal["constant", "erlang"] = "constant"
    shape: Annotated[int, Field(ge=1, le=64)] = 1


class Stalls(_Description):
    """Times during which the scheduler does not run a sending or receiving process.

    ``interval`` is from the end of one stall to the start of the next. Each process of a host has a
    separate sequence of stalls. Work in progress is interrupted and resumed.
    """

    interval: Duration
    length: Duration

    @model_validator(mode="after")
    def _interval_is_positive(self) -> Self:
        if self.interval.mean_ns <= 0:
            raise ValueError("stalls need an interval with a mean above 0 ns")
        return self


class EgressPort(_Description):
    """An egress port: its queues and its scheduler.

    ``queue_bytes`` limits each queue (with ``fifo`` there is one, else eight): frames with FCS
    count from arrival until the last bit is sent; a frame that does not fit is dropped (tail drop).
    ``strict_priority`` sends the highest class first and does not interrupt a frame. ``gates`` adds
    a time-aware shaper: with its guard band a frame starts only if its last bit leaves before its
    gate closes (IEEE Std 802.1Q-2022, 8.6.8.4, and always on in LAN966x); without it a frame that
    started in the window may exceed its end. With ``gate_toggle_ns`` the gates are enabled until
    that time after ``gate_toggle_from_ns``, then disabled for as long, and so on: GateEnabled of
    8.6.9.4. The port's clock is ahead of true time by ``clock_offset_ns``. ``idle_slopes_mbps``
    gives classes a credit-based shaper (8.6.8.2), whose rates count preamble and gap. A closed gate
    freezes the credit.
    """

    queue_bytes: Annotated[int, Field(ge=64)]
    scheduler: Literal["fifo", "strict_priority"] = "fifo"
    gates: GateControlList | None = None
    gate_toggle_ns: Annotated[int, Field(gt=0)] | None = None
    gate_toggle_from_ns: Annotated[int, Field(ge=0)] = 0
    clock_offset_ns: float = 0.0
    idle_slopes_mbps: dict[Annotated[int, Field(ge=0, le=7)], Annotated[float, Field(gt=0)]] = {}

    @model_validator(mode="after")
    def _shapers_need_queues(self) -> Self:
        if self.scheduler == "fifo" and (self.gates or self.idle_slopes_mbps):
            raise ValueError(
                "gates and idle slopes act on traffic classes: set scheduler: strict_priority"
            )
        if self.gate_toggle_ns and (self.gates is None or self.idle_slopes_mbps):
            raise ValueError("gate_toggle_ns needs gates and a port without idle slopes")
        return self


class EndStation(_Description):
    """A talker or listener: its sockets, its processes, its network card.

    Sending: a write waits while the socket is charged ``send_buffer_bytes`` of truesize or more
    (sock_alloc_send_pskb of Linux), or drops the datagram with ``when_full: drop``. ``send_cost``
    is processor time of one write. Receiving: the card holds ``nic_ring_frames`` frames, the
    network stack takes ``stack_time`` for each, reassembly follows, and the socket accepts a
    datagram while it is charged no more than ``receive_buffer_bytes`` (__udp_enqueue_schedule_skb).
    The process takes ``receive_time`` for each datagram; its memory is free when that has passed.
    ``truesize_bytes`` replaces the charge of a received datagram where the card's driver differs
    from :func:`tsnrepro.common.ethernet.skb_truesize`.
    """

    port: EgressPort
    send_buffer_bytes: Annotated[int, Field(gt=0)] = _LINUX_SOCKET_BUFFER_BYTES
    when_full: Literal["wait", "drop"] = "wait"
    send_cost: Duration = Duration(mean_ns=0.0)
    receive_buffer_bytes: Annotated[int, Field(gt=0)] = _LINUX_SOCKET_BUFFER_BYTES
    truesize_bytes: Annotated[int, Field(gt=0)] | None = None
    receive_time: Duration = Duration(mean_ns=0.0)
    stack_time: Duration = Duration(mean_ns=0.0)
    nic_ring_frames: Annotated[int, Field(gt=0, le=65_536)] = 256
    stalls: Stalls | None = None


class Switch(_Description):
    """A store-and-forward switch: a frame joins its egress queue ``processing_ns`` after its end.

    ``port`` applies to every port that is not in the network's ``ports``.
    """

    port: EgressPort
    processing_ns: Annotated[float, Field(ge=0.0)] = 0.0


class Span(_Description):
    """A span of time from ``from_ns`` to ``until_ns``, exclusive; to the end by default."""

    from_ns: Annotated[int, Field(ge=0)] = 0
    until_ns: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.until_ns is not None and self.until_ns <= self.from_ns:
            raise ValueError(f"until {self.until_ns} ns is not after from {self.from_ns} ns")
        return self


def _check_order(what: str, spans: list[Span]) -> None:
    for earlier, later in pairwise(spans):
        if earlier.until_ns is None or earlier.until_ns > later.from_ns:
            raise ValueError(f"{what} overlap or are out of order")


class RandomLoss(Span):
    """Independent loss of frames that start within the span.

    A probability of 1 is a path that is silently down. A random number is drawn for every frame,
    also outside the span, so that other spans have the same random numbers.
    """

    kind: Literal["random"] = "random"
    probability: Probability


class Duplication(Span):
    """Independent duplication of frames by a faulty link.

    The repeat follows the frame immediately. As with :class:`RandomLoss`, the span is that of the
    frame's start, and a random number is drawn for every frame.
    """

    probability: Probability


class BurstLoss(Span):
    """Gilbert-Elliott loss: two states, one step per frame, a loss probability in each state.

    Source: E. N. Gilbert, Capacity of a burst-noise channel, Bell Syst. Tech. J. 39 (1960).
    The link starts in the good state and steps before each frame, also outside the span; frames are
    lost within the span only.
    """

    kind: Literal["burst"] = "burst"
    good_to_bad: Probability
    bad_to_good: Probability
    loss_in_bad: Probability = 1.0
    loss_in_good: Probability = 0.0


class DuplexLink(_Description):
    """A full-duplex link between two nodes.

    ``delay_ns`` is the propagation time from ``a`` to ``b``, ``reverse_delay_ns`` that from ``b``
    to ``a`` (the same by default). A frame takes up to ``jitter_ns`` longer, uniformly distributed,
    unless the one before it is still on its way: frames keep their order. Each direction delays,
    loses and duplicates frames independently; failures, during which frames on the link or sent to
    it are lost, affect both directions.
    """

    name: Name
    a: Name
    b: Name
    rate_mbps: RateMbps = 1000.0
    delay_ns: Annotated[float, Field(ge=0.0)] = 0.0
    reverse_delay_ns: Annotated[float, Field(ge=0.0)] | None = None
    jitter_ns: Annotated[float, Field(ge=0.0)] = 0.0
    loss: Annotated[RandomLoss | BurstLoss, Field(discriminator="kind")] | None = None
    duplication: Duplication | None = None
    failures: list[Span] = []

    @model_validator(mode="after")
    def _joins_nodes_and_fails_in_order(self) -> Self:
        if self.a == self.b:
            raise ValueError(f"link {self.name} joins {self.a} to itself")
        _check_order(f"failures of link {self.name}", self.failures)
        return self


class Bursts(_Description):
    """The process of iperf3 -u: on every tick of a timer, send until the payload rate is reached.

    After each write the sender continues while the payload sent so far is below rate x elapsed
    time, else it waits for the next tick (iperf_check_throttle; --pacing-timer is 1000 us by
    default).
    """

    kind: Literal["bursts"] = "bursts"
    rate_mbps: RateMbps
    timer_us: Annotated[float, Field(gt=0.0)] = 1000.0


class ConstantRate(_Description):
    """One datagram every payload_bytes x 8 / rate, rounded down to the picosecond, no drift."""

    kind: Literal["constant"] = "constant"
    rate_mbps: RateMbps


class Poisson(_Description):
    """Independent exponential gaps with the mean that gives the payload rate."""

    kind: Literal["poisson"] = "poisson"
    rate_mbps: RateMbps


class Listed(_Description):
    """A write at each of the given times after the stream's start."""

    kind: Literal["listed"] = "listed"
    times_ns: list[Annotated[int, Field(ge=0)]]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if any(later < earlier for earlier, later in pairwise(self.times_ns)):
            raise ValueError("times_ns must not go back")
        return self


class Saturating(_Description):
    """A write as soon as the previous one has returned."""

    kind: Literal["saturating"] = "saturating"


class SinglePath(_Description):
    """The links from talker to listener, in order: no replication."""

    kind: Literal["single"] = "single"
    links: Annotated[list[Name], Field(min_length=1)]

    @property
    def first_link(self) -> str:
        """The link that the talker sends on."""
        return self.links[0]


class LatentErrors(LatentSettings):
    """Latent error detection of a stream's recovery (IEEE Std 802.1CB-2017, 7.4.4; 10.4.1.12).

    Every ``period_ms`` the packets discarded so far are compared with those that the member paths
    should have delivered beyond the ones passed; an alarm is a change of the difference by more
    than ``difference`` since its last reset, every ``reset_ms``. Both timers start with the run; of
    a test and a reset at the same time, the test is first. They need not be whole milliseconds.
    """

    period_ms: PositiveFloat = _default(LatentSettings, "period_ms")  # pyright: ignore
    reset_ms: PositiveFloat = _default(LatentSettings, "reset_ms")  # pyright: ignore


class SequenceFaults(_Description):
    """Faults of the sequence functions of one stream.

    While the generator is stuck all frames get the number that was next at the begin. After a
    restart of the generator the next number is 0 (as after a restart of a switch, 7.4.1 of IEEE Std
    802.1CB-2017). A restart of the recovery functions, those of the member paths too, clears their
    history, so that they accept any number; counters are kept, and it does not count as a reset.
    Each takes effect on a frame at that instant. Other effects of a restart are link failures.
    """

    stuck: list[Span] = []
    generator_restarts_ns: list[Annotated[int, Field(ge=0)]] = []
    recovery_restarts_ns: list[Annotated[int, Field(ge=0)]] = []

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _check_order("the spans of stuck", self.stuck)
        for times in (self.generator_restarts_ns, self.recovery_restarts_ns):
            if any(later < earlier for earlier, later in pairwise(times)):
                raise ValueError("times of restarts must not go back")
        return self


class Recovery(FrerSettings):
    """A sequence recovery function (IEEE Std 802.1CB-2017, 7.4.3; managed objects in 10.4).

    Its reset timeout need not be whole milliseconds; None never resets. ``history_length`` applies
    to the vector algorithm only.
    """

    reset_ms: PositiveFloat | None = _default(FrerSettings, "reset_ms")  # pyright: ignore


class Replicated(_Description):
    """FRER: replication at the end of ``before``, elimination at the end of the member paths.

    ``members`` are the member paths, each a list of links from the same switch to the same node;
    ``after`` leads to the listener and is empty if the listener itself eliminates. Frames have an
    R-TAG on the member paths only. ``individual`` adds a recovery function for each member path
    before the compound one. Sequence functions are separate for each stream.
    """

    kind: Literal["frer"] = "frer"
    before: Annotated[list[Name], Field(min_length=1)]
    members: Annotated[
        list[Annotated[list[Name], Field(min_length=1)]], Field(min_length=1, max_length=16)
    ]
    after: list[Name] = []
    recovery: Recovery = Recovery()
    individual: Recovery | None = None
    latent_errors: LatentErrors | None = None
    faults: SequenceFaults = SequenceFaults()

    @property
    def first_link(self) -> str:
        """The link that the talker sends on."""
        return self.before[0]


Route: TypeAlias = Annotated[SinglePath | Replicated, Field(discriminator="kind")]


class TcpBulk(_Description):
    """An endless TCP transfer, limited by its windows.

    Selective acknowledgements (RFC 2018) with loss detection by send time after three sacked
    segments (RFC 6675, RFC 8985 without its timer), delayed acknowledgements (every second segment,
    or 40 ms), Reno (RFC 5681) or CUBIC (RFC 9438), retransmission time-out (RFC 6298, 200 ms at
    least, as in Linux). No handshake, no segmentation offload, no pacing, no zero window.
    ``window_bytes`` is the receive window. ``local_queue_bytes`` of truesize may be in the talker's
    egress queue (tcp_limit_output_bytes of TCP small queues).
    """

    kind: Literal["tcp"] = "tcp"
    ack_route: Route
    window_bytes: Annotated[int, Field(ge=2 * TCP_SEGMENT_BYTES, le=32_000_000)] = 3_145_728
    congestion: Literal["reno", "cubic"] = "cubic"
    initial_segments: Annotated[int, Field(ge=1, le=100)] = 10
    local_queue_bytes: Annotated[int, Field(gt=0)] = 1_048_576


class PingPong(_Description):
    """Requests and answers, one at a time, as of sockperf ping-pong.

    The talker writes a request; the listener's process reads it, writes an answer of the same size
    (its host's ``send_cost``) and then reads on; when the talker's process has read the answer, or
    ``timeout_ms`` after its write returned, the next request follows, but no earlier than
    ``interval_us`` after the begin of the previous one. Late answers are read and ignored. The
    default is sockperf's time-out (its option --timeout).
    """

    kind: Literal["ping_pong"] = "ping_pong"
    answer_route: Route
    timeout_ms: Annotated[float, Field(ge=0.001, le=1e9)] = 10.0
    interval_us: Annotated[float, Field(ge=0.0, le=1e9)] = 0.0


SendProcess: TypeAlias = Annotated[
    Bursts | ConstantRate | Poisson | Listed | Saturating | TcpBulk | PingPong,
    Field(discriminator="kind"),
]


class TrafficStream(_Description):
    """A flow of datagrams (or one TCP transfer) from a talker to a listener.

    ``priority`` is its traffic class. ``payload_bytes`` is the UDP payload of each datagram, or the
    segment size of TCP. ``vlan`` adds a C-TAG. Without ``datagrams`` it sends until the run ends.
    """

    name: Name
    talker: Name
    listener: Name
    payload_bytes: Annotated[int, Field(ge=0, le=65_507)]
    send: SendProcess
    route: Route
    priority: Annotated[int, Field(ge=0, le=7)] = 0
    vlan: bool = False
    start_ns: Annotated[int, Field(ge=0)] = 0
    datagrams: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _payload_fits_process(self) -> Self:
        kind = self.send.kind
        if kind == "tcp" and not 1 <= self.payload_bytes <= TCP_SEGMENT_BYTES:
            raise ValueError(
                f"stream {self.name}: a TCP segment carries 1 ... {TCP_SEGMENT_BYTES} bytes, "
                f"not {self.payload_bytes}"
            )
        if kind in ("bursts", "constant", "poisson") and self.payload_bytes == 0:
            raise ValueError(f"stream {self.name}: a payload rate needs payload_bytes above 0")
        return self


class Network(_Description):
    """A network and its streams.

    ``ports`` replaces the port of a node to a link, keyed ``node:link``. Frames that reach a queue
    at the same instant are processed in the order of ``links`` (direction a to b first), those of
    one talker in the order of ``streams``.
    """

    hosts: dict[Name, EndStation]
    switches: dict[Name, Switch] = {}
    links: Annotated[list[DuplexLink], Field(min_length=1)]
    streams: Annotated[list[TrafficStream], Field(min_length=1)]
    ports: dict[str, EgressPort] = {}

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for what, names in (
            ("node", [*self.hosts, *self.switches]),
            ("link", [link.name for link in self.links]),
            ("stream", [stream.name for stream in self.streams]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} name used twice: {', '.join(twice)}")
        return self

    @model_validator(mode="after")
    def _links_join_nodes(self) -> Self:
        nodes = {*self.hosts, *self.switches}
        for link in self.links:
            for end in (link.a, link.b):
                if end not in nodes:
                    raise ValueError(
                        f"link {link.name} ends at {end}, which is not a host or switch"
                    )
        ends = {f"{end}:{link.name}" for link in self.links for end in (link.a, link.b)}
        unknown = sorted(set(self.ports) - ends)
        if unknown:
            raise ValueError(
                f"no such port: {', '.join(unknown)} (a port is node:link, one of "
                f"{', '.join(sorted(ends))})"
            )
        return self

    @model_validator(mode="after")
    def _streams_have_routes(self) -> Self:
        for stream in self.streams:
            for end in (stream.talker, stream.listener):
                if end not in self.hosts:
                    raise ValueError(f"stream {stream.name}: {end} is not a host")
            self._check_route(f"stream {stream.name}", stream.route, stream.talker, stream.listener)
            back = return_route(stream)
            if back is not None:
                self._check_route(
                    f"return route of stream {stream.name}", back, stream.listener, stream.talker
                )
            if isinstance(stream.send, Saturating):
                self._check_saturating(stream)
            pings = isinstance(stream.send, PingPong)
            if pings and self.hosts[stream.talker].when_full == "drop":
                raise ValueError(
                    f"stream {stream.name} waits for answers: set when_full: wait on host "
                    f"{stream.talker}"
                )
        return self

    def _check_route(
        self, what: str, route: SinglePath | Replicated, talker: str, listener: str
    ) -> None:
        if isinstance(route, SinglePath):
            end = self.walk(what, talker, route.links)[-1]
        else:
            split = self.walk(what, talker, route.before)[-1]
            if split not in self.switches:
                raise ValueError(f"{what}: replicates at {split}, which is not a switch")
            firsts = [member[0] for member in route.members]
            if len(set(firsts)) < len(firsts):
                raise ValueError(f"{what}: two member paths leave {split} on the same link")
            ends = {self.walk(what, split, member)[-1] for member in route.members}
            if len(ends) > 1:
                raise ValueError(
                    f"{what}: member paths end at different nodes: {', '.join(sorted(ends))}"
                )
            end = self.walk(what, ends.pop(), route.after)[-1]
        if end != listener:
            raise ValueError(f"{what}: the route ends at {end}, not at {listener}")

    def walk(self, what: str, start: str, links: list[str]) -> list[str]:
        """Return the nodes along ``links``, beginning with ``start``.

        Raises ValueError, whose message begins with ``what``, if the links are not connected, a
        node is passed twice, or a host is passed through.
        """
        by_name = {link.name: link for link in self.links}
        nodes = [start]
        for name in links:
            link = by_name.get(name)
            if link is None:
                raise ValueError(f"{what}: there is no link {name}")
            here = nodes[-1]
            if here not in (link.a, link.b):
                raise ValueError(f"{what}: link {name} does not start at {here}")
            if here in self.hosts and len(nodes) > 1:
                raise ValueError(f"{what}: passes through host {here}, which does not forward")
            following = link.b if here == link.a else link.a
            if following in nodes:
                raise ValueError(f"{what}: passes {following} twice")
            nodes.append(following)
        return nodes

    def port(self, node: str, link: str) -> EgressPort:
        """Return the port of ``node`` to ``link``."""
        listed = self.ports.get(f"{node}:{link}")
        if listed is not None:
            return listed
        return self.hosts[node].port if node in self.hosts else self.switches[node].port

    def _check_saturating(self, stream: TrafficStream) -> None:
        host = self.hosts[stream.talker]
        if host.when_full == "drop":
            raise ValueError(
                f"stream {stream.name} saturates a socket that drops, which would never end; "
                f"set when_full: wait on host {stream.talker}, or give a rate"
            )
        queue = self.port(stream.talker, stream.route.first_link).queue_bytes
        sharing = sum(other.talker == stream.talker for other in self.streams)
        needed = sharing * (host.send_buffer_bytes + 65_536)
        if host.send_cost.mean_ns == 0 and queue < needed:
            raise ValueError(
                f"stream {stream.name} saturates without send_cost and overruns the queue of "
                f"{stream.talker} ({queue} bytes): give send_cost, or a queue of at least {needed} "
                f"bytes"
            )


def picoseconds(nanoseconds: float) -> int:
    """Return a time in integer picoseconds, the unit of the model."""
    return math.floor(nanoseconds * 1000 + 0.5)


def return_route(stream: TrafficStream) -> SinglePath | Replicated | None:
    """Return the route of a stream's acknowledgements or answers, or None."""
    if isinstance(stream.send, TcpBulk):
        return stream.send.ack_route
    return stream.send.answer_route if isinstance(stream.send, PingPong) else None
