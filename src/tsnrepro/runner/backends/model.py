"""Measure on the model testbed: simulate the network of a trial, with counts as of hosts."""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.common.errors import ToolError
from tsnrepro.common.ethernet import (
    TCP_SEGMENT_BYTES,
    payload_limit_mbps,
    payload_rate_mbps,
    payload_rate_pps,
)
from tsnrepro.common.topology import HOST_PORT, LISTENER, SWITCHES, TALKER
from tsnrepro.config import Configuration
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    Bursts,
    ConstantRate,
    DuplexLink,
    Duplication,
    LatentErrors,
    Listed,
    Network,
    PingPong,
    RandomLoss,
    Replicated,
    SequenceFaults,
    SinglePath,
    Span,
    TcpBulk,
    TrafficStream,
)
from tsnrepro.model.result import PingPongAccount, SimulationResult, StreamAccount
from tsnrepro.native.streams.log import LISTENER_DTYPE, Records
from tsnrepro.records.accounting import REASSEMBLY, SOCKET_BUFFER, SOCKET_CLOSED, STACK, Accounting
from tsnrepro.records.store import HALF_ROUND_TRIPS, Trial
from tsnrepro.runner.faults import NOTHING, AppliedFault, Fault, LatentAlarm, Timeline, at_once
from tsnrepro.runner.load import OF_TESTBED, HostOptions, IntendedLoad, LoadOutcome, RoundTrips
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.simulated import counts_of
from tsnrepro.testbeds.model import LISTENER_LINK, TALKER_LINK, ModelTestbed
from tsnrepro.tools import mausezahn
from tsnrepro.tools.iperf3 import Iperf3TcpResult
from tsnrepro.tools.sockperf import SockperfResult, latencies_of

STREAM = "stream"
# Waiting that a trial of RFC 2544 has: 2 s for late frames and 5 s to settle (section 23).
_PAUSE_SECONDS = 7.0
_NANO = 1e9


class ModelBackend:
    """The requests of one trial; see :class:`tsnrepro.runner.backends.Backend`."""

    def __init__(
        self,
        testbed: ModelTestbed,
        trial: Trial,
        measured: Measurement,
        options: HostOptions = OF_TESTBED,
    ) -> None:
        self._testbed, self._trial, self._measured = testbed, trial, measured
        self._options = options
        self._parameters = testbed.parameters(trial.repetition)
        self._seed = int(trial.digest, 16) ^ testbed.seed

    @property
    def link_rate_mbps(self) -> float:
        """Wire rate of the talker's and the listener's link."""
        return self._testbed.settings.link_rate_mbps

    def _simulate(
        self,
        streams: list[TrafficStream],
        duration_s: float,
        *,
        record: Any = False,
        timeline: Timeline = NOTHING,
    ) -> SimulationResult:
        """Simulate streams; the simulations of one trial have independent chances, in their order.

        The record keeps the network and the counts of the first.
        """
        network = self._testbed.network(self._parameters, streams)
        network = _with_listener(network, self._options)
        network = faulty_network(network, timeline)
        values, outputs = self._measured.values, self._measured.outputs
        values["runs"] = values.get("runs", 0) + 1
        seed = SeedSequence((self._seed, values["runs"]))
        result = simulate(network, duration_s=duration_s, seed=seed, record=record)
        if values["runs"] == 1:
            values |= {"parameters": asdict(self._parameters), "seed": self._seed}
            outputs["network.json.gz"] = network.model_dump_json(indent=1)
            outputs["counts.json.gz"] = json.dumps(counts_of(result), indent=1)
        return result

    def _stream(
        self,
        load: IntendedLoad,
        send: Any,
        name: str = STREAM,
        *,
        timeline: Timeline = NOTHING,
        datagrams: int | None = None,
    ) -> TrafficStream:
        return TrafficStream(
            name=name,
            talker=TALKER,
            listener=LISTENER,
            payload_bytes=load.payload_bytes,
            send=send,
            route=faulty_route(self._testbed.route(load.configuration), timeline),
            datagrams=datagrams,
        )

    def udp(self, load: IntendedLoad) -> LoadOutcome:
        """Send as iperf3 does: bursts on a timer's ticks. Jitter is not modelled."""
        stream = self._stream(load, Bursts(rate_mbps=load.rate_mbps))
        result = self._simulate([stream], float(load.duration_s))
        return _outcome(result, STREAM, sending_s=float(load.duration_s))

    def tcp(
        self, configuration: Configuration, duration_s: int
    ) -> tuple[Iperf3TcpResult, dict[str, int] | None]:
        """Transfer as fast as the windows allow."""
        duration = float(duration_s)
        acknowledgements = self._testbed.route(configuration, back=True)
        load = IntendedLoad(configuration, TCP_SEGMENT_BYTES, 0.0, duration)
        stream = self._stream(load, TcpBulk(ack_route=acknowledgements))
        result = self._simulate([stream], duration)
        of = result.streams[STREAM]
        assert of.tcp is not None
        # What was on its way at the end arrives later: counted, so its time counts too.
        seconds = max(duration, (of.last_delivered_ps or 0) / 1e12)
        transfer = Iperf3TcpResult(
            goodput_mbps=of.goodput_mbps(seconds),
            sent_mbps=of.offered_mbps(duration),
            retransmits=of.tcp.retransmitted,
            seconds=seconds,
        )
        return transfer, _recovery(result, STREAM)

    def constant_rate(
        self,
        loads: Sequence[IntendedLoad],
        *,
        arrivals: bool = False,
        timeline: Timeline = NOTHING,
    ) -> list[LoadOutcome]:
        """Simulate constant-rate talkers; faults take effect at once."""
        names = [f"{STREAM}-{number}" for number in range(len(loads))]
        streams = [
            self._stream(load, _sender(load), name, timeline=timeline, datagrams=_count(load))
            for name, load in zip(names, loads, strict=True)
        ]
        sending_s = [self._sending_seconds(load) for load in loads]
        # A talker that was stalled goes on until all is sent.
        longest = 1.2 * max(sending_s) + 1
        result = self._simulate(streams, longest, record=arrivals, timeline=timeline)
        logged = result.logs.deliveries
        return [
            _outcome(
                result,
                name,
                sending_s=seconds,
                elapsed_s=seconds + _PAUSE_SECONDS,
                arrivals=None if logged is None else _arrivals(logged, number),
                faults=tuple(AppliedFault(f, f.at_s, f.at_s) for f in timeline.faults),
                alarms=_alarms(result, name, seconds),
            )
            for number, (name, seconds) in enumerate(zip(names, sending_s, strict=True))
        ]

    def _sending_seconds(self, load: IntendedLoad) -> float:
        """Return how long sending takes: as requested, unless a send or the line takes longer.

        Beyond the line's limit the talker's socket blocks, so no more than that is offered.
        """
        if load.poisson is not None:
            return load.duration_s
        payload = load.payload_bytes
        line_mbps = payload_limit_mbps(payload, rate_mbps=self.link_rate_mbps)
        line_pps = payload_rate_pps(line_mbps, payload)
        fastest = min(1e6 / self._parameters.send_us, line_pps)
        seconds = load.before_step / min(load.rate_pps, fastest)
        if load.then:
            seconds += load.then.datagrams / min(load.then.rate_pps, fastest)
        # The trains of a group that was begun may be its short ones.
        return max(seconds, load.sending_s)

    def round_trips(
        self,
        configuration: Configuration,
        payload_bytes: int,
        duration_s: float,
        *,
        beside_pps: float = 0.0,
        keep: bool = True,
        faults: tuple[Fault, ...] = (),
    ) -> RoundTrips:
        """Simulate a ping-pong, beside a load where one is requested.

        Raises
        ------
        ToolError
            No request was answered.
        """
        load = IntendedLoad(configuration, payload_bytes, beside_pps, duration_s)
        back = self._testbed.route(configuration, back=True)
        timeline = Timeline(at_once(faults))
        streams = [self._stream(load, PingPong(answer_route=back), timeline=timeline)]
        if beside_pps >= 1:
            streams.append(self._stream(load, ConstantRate(rate_mbps=load.rate_mbps), "load"))
        result = self._simulate(streams, float(duration_s), record=[STREAM], timeline=timeline)
        answers, counts = result.logs.answers, result.streams[STREAM].ping_pong
        if answers is None or not len(answers) or counts is None:
            raise ToolError("no request was answered", f"model, trial {self._trial.label}")
        half_ps = (answers["answered_ps"] - answers["sent_ps"]) // 2
        if keep:
            file = io.BytesIO()
            np.save(file, half_ps)
            self._measured.outputs[HALF_ROUND_TRIPS] = file.getvalue()
        half_us = half_ps / 1e6
        report = _as_sockperf(counts, half_us, duration_s)
        return RoundTrips(half_us, report, _recovery(result, STREAM))

    def mausezahn_load(self, load: IntendedLoad, deadline_s: float, port: int) -> LoadOutcome:
        """Send a frame, sleep, send the next; timer slack lengthens each sleep."""
        delay_us = mausezahn.delay_us(load.rate_pps) + mausezahn.TIMER_SLACK_US
        pps = 1e6 / (delay_us + self._parameters.send_us)
        send = ConstantRate(rate_mbps=payload_rate_mbps(pps, load.payload_bytes))
        stream = self._stream(load, send, datagrams=load.datagrams)
        seconds = min(float(deadline_s), load.datagrams / pps + 1)
        result = self._simulate([stream], seconds)
        of = result.streams[STREAM]
        # As on other testbeds, the card's count.
        arrived = of.unique + of.duplicates + of.receiver_socket_drops
        return LoadOutcome(
            sent=of.entered,
            received_total=arrived,
            received_unique=arrived,
            sending_s=of.entered / pps,
            elapsed_s=min(float(deadline_s), load.datagrams / pps),
            timed_out=of.entered < load.datagrams,
            recovery=_recovery(result, STREAM),
        )


def _with_listener(network: Network, options: HostOptions) -> Network:
    """Return the network with the listener's buffer and scheduling of a trial.

    A real-time program is not stalled by the scheduler.
    """
    changes: dict[str, Any] = {}
    if options.receive_buffer_bytes:
        changes["receive_buffer_bytes"] = options.receive_buffer_bytes
    if options.realtime_listener:
        changes["stalls"] = None
    if not changes:
        return network
    listener = network.hosts[LISTENER].model_copy(update=changes)
    return network.model_copy(update={"hosts": {**network.hosts, LISTENER: listener}})


def _outcome(result: SimulationResult, stream: str, **others: Any) -> LoadOutcome:
    of = result.streams[stream]
    return LoadOutcome(
        sent=of.entered,
        received_total=of.delivered,
        received_unique=of.unique,
        reordered=of.out_of_order,
        accounting=_account(result, of).document(),
        recovery=_recovery(result, stream),
        **others,
    )


def _recovery(result: SimulationResult, stream: str) -> dict[str, int] | None:
    """Return the clause 10 counters of a stream's recovery function, None without one."""
    counters = (r.counters for r in result.recoveries if (r.stream, r.member) == (stream, None))
    return next(counters, None)


def _account(result: SimulationResult, stream: StreamAccount) -> Accounting:
    """Return where a stream's frames went, by the places of the emulated testbed.

    Counts are of frames: datagrams, unless a datagram is several frames.
    """
    network: Network = result.network
    ledger, parts = stream.frames, stream.fragments
    queued, random, down = ledger.queue_drops, ledger.lost_random, ledger.lost_down
    drops = {"talker socket": 0, "talker queue": queued.get(f"{TALKER}:{TALKER_LINK}", 0)}
    for member in (link.name for link in network.links if (link.a, link.b) == SWITCHES):
        place = f"{SWITCHES[0]}:{member}"
        drops[f"sw1 queue {member}"] = queued.get(place, 0)
        drops[f"path {member}"] = random.get(place, 0) + down.get(place, 0)
    drops[f"sw2 queue {HOST_PORT}"] = queued.get(f"{SWITCHES[1]}:{LISTENER_LINK}", 0)
    refused = _recovery(result, stream.name) or {}
    drops["recovery: rogue"] = refused.get("rogue", 0)
    drops["recovery: tagless"] = refused.get("tagless", 0)
    drops[SOCKET_BUFFER] = stream.receiver_socket_drops * parts
    read = stream.delivered * parts
    drops[REASSEMBLY] = ledger.taken - read - drops[SOCKET_BUFFER]
    # The card's ring overflows where the stack is too slow; no program closes its socket early.
    drops |= {STACK: ledger.nic_drops, SOCKET_CLOSED: 0, "still on the way": ledger.left}
    return Accounting(
        sent=ledger.entered,
        copies=ledger.copied,
        received=read,
        eliminated=ledger.eliminated - drops["recovery: rogue"] - drops["recovery: tagless"],
        drops=drops,
    )


def _count(load: IntendedLoad) -> int | None:
    """Return how many datagrams a load has, None where the number is random."""
    return load.datagrams if load.poisson is None else None


def _sender(load: IntendedLoad) -> ConstantRate | Listed:
    if load.poisson is not None:
        return Listed(times_ns=_poisson_times_ns(load, load.poisson))
    if load.trains != (1,) or load.phase_s is not None:
        slots = (load.phase_s or 0) + np.arange(load.slots) * load.slot_s
        datagrams = np.resize(load.trains, load.slots)
        return Listed(times_ns=np.repeat(slots * 1e9, datagrams).astype(np.int64).tolist())
    if load.then is None:
        return ConstantRate(rate_mbps=load.rate_mbps)
    first = np.arange(load.before_step) * (1e9 / load.rate_pps)
    after = load.step_s * 1e9 + np.arange(load.then.datagrams) * (1e9 / load.then.rate_pps)
    return Listed(times_ns=np.concatenate([first, after]).astype(np.int64).tolist())


def _poisson_times_ns(load: IntendedLoad, seed: int) -> list[int]:
    """Return the times of a Poisson process within the load's duration."""
    rng = np.random.default_rng(seed)
    mean = load.rate_pps * load.duration_s
    # Given their number, the times are independent and uniform (Kingman, Poisson Processes, 2.1).
    times = rng.uniform(0, load.duration_s * 1e9, rng.poisson(mean))
    return np.sort(times).astype(np.int64).tolist()


def _alarms(result: SimulationResult, stream: str, sending_s: float) -> tuple[LatentAlarm, ...]:
    """Return the alarms while datagrams were sent: later ones are due to the end of the run."""
    errors = result.latent_errors.get(stream)
    alarms = [LatentAlarm(a.time_ps / 1e12, a.moved) for a in (errors.alarms if errors else [])]
    return tuple(alarm for alarm in alarms if alarm.at_s <= sending_s)


def _arrivals(deliveries: npt.NDArray[np.void], stream: int) -> Records:
    """Return a stream's first arrivals as a listener's log has them, in order of reading."""
    own = deliveries[deliveries["stream"] == stream]
    ordered = own[np.argsort(own["delivered_ps"], kind="stable")]
    records = np.zeros(len(ordered), LISTENER_DTYPE)
    records["sequence"] = ordered["datagram"]
    for name, source in (
        ("sent_ns", "sent_ps"),
        ("received_ns", "delivered_ps"),
        ("stamped_ns", "arrived_ps"),
    ):
        records[name] = ordered[source] // 1000
    return records


def _as_sockperf(
    counts: PingPongAccount, half_us: npt.NDArray[np.float64], duration_s: float
) -> SockperfResult:
    """Return counts and half round trips as sockperf reports them."""
    percentages = ("25.000", "50.000", "75.000", "90.000", "99.000", "99.900")
    return SockperfResult(
        sent=counts.answered + counts.timeouts + counts.waiting,
        received=counts.answered,
        observations=len(half_us),
        valid_seconds=float(duration_s),
        dropped=counts.timeouts,
        duplicated=counts.disregarded,
        **latencies_of(half_us, percentages),
    )


# --- faults -----------------------------------------------------------------------------------


def faulty_network(network: Network, timeline: Timeline) -> Network:
    """Return a network whose member links fail according to a timeline.

    Raises
    ------
    ValueError
        A link is impaired in two ways, one after the other, which the model does not support.
    """
    links = {link.name: link for link in network.links}
    members = [name for name, link in links.items() if (link.a, link.b) == SWITCHES]
    for path, name in enumerate(members):
        links[name] = _faulty_link(links[name], [f for f in timeline.faults if f.path == path])
    return network.model_copy(update={"links": list(links.values())})


def _faulty_link(link: DuplexLink, faults: list[Fault]) -> DuplexLink:
    """Return a link with its cuts, losses and copies."""
    impaired = [fault for fault in faults if fault.kind == "impair"]
    begins = [f for f in impaired if f.loss_percent or f.duplicate_percent]
    if len(begins) > 1:
        raise ValueError(f"link {link.name} is impaired twice")
    values: dict[str, Any] = {"failures": _spans(faults, "cut", "repair")}
    for fault in begins:
        ends = [f.at_s for f in impaired if f.at_s > fault.at_s]
        span = {"from_ns": _ns(fault.at_s), "until_ns": _ns(ends[0]) if ends else None}
        if fault.loss_percent:
            values["loss"] = RandomLoss(probability=fault.loss_percent / 100, **span)
        if fault.duplicate_percent:
            values["duplication"] = Duplication(probability=fault.duplicate_percent / 100, **span)
    return link.model_copy(update=values)


def faulty_route(route: SinglePath | Replicated, timeline: Timeline) -> SinglePath | Replicated:
    """Return a stream's route with the faults of its sequence functions; a single path has none."""
    if isinstance(route, SinglePath):
        return route
    restarts = [fault for fault in timeline.faults if fault.kind == "restart"]
    # Where the listener eliminates, the second switch has no recovery function to restart.
    recovering = SWITCHES[1] if route.after else LISTENER
    faults = SequenceFaults(
        stuck=_spans(list(timeline.faults), "stick", "free"),
        generator_restarts_ns=[_ns(f.at_s) for f in restarts if f.switch == "sw1"],
        recovery_restarts_ns=[_ns(f.at_s) for f in restarts if f.switch == recovering],
    )
    latent = timeline.latent and LatentErrors(**timeline.latent.model_dump())
    return route.model_copy(update={"faults": faults, "latent_errors": latent})


def _spans(faults: list[Fault], begin: str, end: str) -> list[Span]:
    """Return the times between each beginning and the end that follows it."""
    ends = [fault.at_s for fault in faults if fault.kind == end]
    spans = []
    for fault in faults:
        if fault.kind == begin:
            until = [at for at in ends if at > fault.at_s]
            spans.append(Span(from_ns=_ns(fault.at_s), until_ns=_ns(until[0]) if until else None))
    return spans


def _ns(seconds: float) -> int:
    return round(seconds * _NANO)
