"""Measure by tools on the hosts of a testbed: iperf3, sockperf, mausezahn, talker and listener."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from tsnrepro.common.errors import CommandError, TestbedError, ToolError
from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, TALKER
from tsnrepro.config import Configuration
from tsnrepro.config.registry import LOCAL_KINDS
from tsnrepro.native import streams
from tsnrepro.native.streams.command import (
    READY,
    ListenerResult,
    Pacing,
    StopCondition,
    TalkerResult,
    listener,
    parse_listener,
    parse_talker,
    show_log,
    talker,
)
from tsnrepro.native.streams.delivery import of_stream, on_senders_clock
from tsnrepro.native.streams.log import Records, decode_log, read_listener_log
from tsnrepro.records.accounting import Accounting, account
from tsnrepro.records.accounting_separate import account_separate_hosts, refuse_gains
from tsnrepro.records.store import COUNTERS_AFTER, COUNTERS_BEFORE, SOCKPERF_LOG, Trial
from tsnrepro.runner.backends.receiver_options import (
    check_window,
    pinned_to_one_cpu,
    receiver_options,
    skipping_warmup,
)
from tsnrepro.runner.faults import NOTHING, Fault, FaultInjector, Timeline, at_once
from tsnrepro.runner.load import OF_TESTBED, HostOptions, IntendedLoad, LoadOutcome, RoundTrips
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.hosts.clocks import ClockSyncFailure, why_not_these_clocks
from tsnrepro.testbeds.hosts.host import Completed, RemoteProcess
from tsnrepro.testbeds.protocol import HostTestbed
from tsnrepro.testbeds.quiescence import settle
from tsnrepro.tools import iperf3, mausezahn, sockperf
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream
from tsnrepro.tools.snapshot import CounterDifferences, Snapshot

UDP_STREAM = StreamFilter("udp", iperf3.PORT, iperf3.MIN_UDP_PAYLOAD_BYTES)
_TCP_STREAM = StreamFilter("tcp", iperf3.PORT)
_PING_PONG_STREAM = StreamFilter("udp", sockperf.PORT)
# The streams of our talkers have this port and those after it.
PORT = 5202
_ARRIVALS_LOG = "/run/tsnrepro-arrivals"

# What a test takes beyond its nominal time: connecting, and exchanging results.
OVERHEAD_SECONDS = 15
# A server that does not listen by then has not started.
READY_SECONDS = 5
_COMMAND_SECONDS = 20
# Far above a round trip, and above most stalls of a machine.
_RESEND_MS = 100
_FILE_SECONDS = 120
# Largest log of every datagram or request from a host.
LOG_BYTES = 1 << 30
# A talker that cannot keep up takes longer than planned, and reports it.
_SLOWEST = 6
# How long a busy machine may delay a talker's first datagram.
_STALL_SECONDS = 0.05
# RFC 2544, section 23: after learning frames, for late frames, and until the device is at rest.
_LEARNED_SECONDS, _LATE_SECONDS, _REST_SECONDS = 2.0, 2.0, 5.0
# Reads of the first switch's counters while mausezahn sends.
_SAMPLES = 8
# A clock drifts by less in a trial.
_MOST_STEP_NS = 1_000_000


@dataclass
class CountersAround:
    """The counters of all hosts before a test and, when it is over, after it."""

    before: Snapshot
    after: Snapshot | None = None

    def of_stream(self, index: int) -> tuple[Snapshot, Snapshot]:
        """Return both, as if the stream were the only one."""
        assert self.after is not None
        return self.before.of_stream(index), self.after.of_stream(index)

    def recovery(self, index: int = 0) -> dict[str, Any]:
        """Return what a stream's recovery function counted."""
        return CounterDifferences(*self.of_stream(index)).recovery()


class HostsBackend:
    """The requests of one trial; see :class:`tsnrepro.runner.backends.Backend`.

    All raise CommandError where a program failed, and ToolError where its report cannot be read;
    the measurement has its output.
    """

    def __init__(
        self,
        testbed: HostTestbed,
        trial: Trial,
        measured: Measurement,
        options: HostOptions = OF_TESTBED,
    ) -> None:
        self._testbed, self._trial, self._measured = testbed, trial, measured
        self._talker, self._listener = testbed.hosts[TALKER], testbed.hosts[LISTENER]
        self._options, self._receiver = options, receiver_options(testbed, options)

    @property
    def link_rate_mbps(self) -> float:
        """Wire rate of the talker's and the listener's link."""
        return self._testbed.settings.link_rate_mbps

    # --- iperf3 -------------------------------------------------------------------------------

    def udp(
        self, load: IntendedLoad, around: AbstractContextManager[CountersAround] | None = None
    ) -> LoadOutcome:
        """Send by ``iperf3 -u``; ``around`` takes the place of configuring and counting."""
        window = self._receiver.window_bytes
        if window:
            check_window(self._testbed, window)
        client = iperf3.udp_client(
            self._testbed.address(LISTENER),
            load.payload_bytes,
            load.rate_mbps,
            load.duration_s,
            window_bytes=window,
        )
        began, prefix = time.monotonic(), self._free_prefix("iperf3.json", first="")
        test = self._test(load.configuration, UDP_STREAM, load.payload_bytes, prefix)
        with around or test as counters:
            done = self._run_iperf3(client, load.duration_s, prefix)
        result = iperf3.parse_udp(done.check().stdout)
        accounting = self._account(counters.of_stream(0), result.sent, result.received)
        if accounting.unaccounted:
            print(f"{self._trial.label}: {accounting.unaccounted} datagrams are not accounted for")
        return LoadOutcome(
            sent=result.sent,
            received_total=result.received,
            received_unique=result.received,
            sending_s=result.send_seconds,
            reordered=result.out_of_order,
            jitter_ms=result.jitter_ms,
            elapsed_s=time.monotonic() - began,
            accounting=accounting.document(),
            recovery=counters.recovery(),
        )

    def tcp(
        self, configuration: Configuration, duration_s: int
    ) -> tuple[iperf3.Iperf3TcpResult, dict[str, Any]]:
        """Run one TCP connection of iperf3."""
        client = iperf3.tcp_client(self._testbed.address(LISTENER), duration_s)
        with self._test(configuration, _TCP_STREAM) as counters:
            done = self._run_iperf3(client, duration_s)
        return iperf3.parse_tcp(done.check().stdout), counters.recovery()

    def _run_iperf3(self, client: list[str], duration_s: float, prefix: str = "") -> Completed:
        """Run one client against a one-off server and return the client as it ended."""
        deadline = duration_s + OVERHEAD_SECONDS
        argv = self._receiver.scheduled(iperf3.server())
        with self._serving(argv, "tcp", iperf3.PORT, deadline) as server:
            done = self._talker.run(client, deadline_s=deadline)
            # After a failed client the one-off server would wait for another one forever.
            if failed := done.exit_status != 0 or iperf3.failed(done.stdout):
                server.stop()
            served = server.wait()
        self._measured.commands.append(done.as_record())
        self._measured.outputs |= {
            f"{prefix}iperf3.json": done.stdout,
            f"{prefix}iperf3.stderr.txt": done.stderr,
        }
        if not failed:
            # Of a server that ended otherwise, another program was the client's.
            served.check()
        return done

    @contextmanager
    def _serving(
        self, argv: list[str], protocol: str, port: int, deadline_s: float
    ) -> Iterator[RemoteProcess]:
        """Run a server on the listener, ready from the start of the block."""
        kind = "-t" if protocol == "tcp" else "-u"
        sockets = ["ss", "-H", "-n", "-l", "-p", kind, "sport", "=", f":{port}"]
        # Another server on the port would answer instead.
        if used := self._listener.run(sockets, deadline_s=READY_SECONDS).stdout.strip():
            raise CommandError(
                f"{protocol.upper()} port {port} is in use: {' '.join(used.split())}",
                LISTENER,
                "End the program that listens there",
            )
        server = self._listener.start(argv, deadline_s=deadline_s)
        end = time.monotonic() + READY_SECONDS
        while not self._listener.run(sockets, deadline_s=READY_SECONDS).stdout.strip():
            if time.monotonic() > end:
                server.stop()
                ended = server.wait()
                raise CommandError(
                    f"the server does not listen: {ended.stderr.strip() or ended.stdout.strip()}",
                    f"{LISTENER}: {' '.join(argv)}",
                )
        try:
            yield server
        except BaseException:
            # It would answer the next trial.
            with suppress(CommandError):
                server.stop()
                server.wait()
            raise

    # --- counters -----------------------------------------------------------------------------

    @contextmanager
    def _test(
        self,
        configuration: Configuration,
        stream: StreamFilter,
        payload_bytes: int = 0,
        prefix: str = "",
    ) -> Iterator[CountersAround]:
        """Configure for one stream and record the counters before the block and after it."""
        self._testbed.configure(configuration, stream)
        with self._counted(prefix) as counters:
            yield counters
            settle(self._testbed, payload_bytes)

    @contextmanager
    def _counted(self, prefix: str = "") -> Iterator[CountersAround]:
        """Record the counters of all hosts before the block and, where it succeeds, after it."""
        counters = CountersAround(self._testbed.snapshot())
        self._record_counters(f"{prefix}{COUNTERS_BEFORE}", counters.before)
        yield counters
        counters.after = self._testbed.quiescent_snapshot()
        self._record_counters(f"{prefix}{COUNTERS_AFTER}", counters.after)

    def _record_counters(self, name: str, snapshot: Snapshot) -> None:
        self._measured.outputs[name] = json.dumps(snapshot.raw, indent=1)

    def _account(
        self, around: tuple[Snapshot, Snapshot], sent: int, received: int, faults: bool = False
    ) -> Accounting:
        if around[1].apart:
            found = account_separate_hosts(*around, sent, received)
            if not faults:  # these may restart a switch, whose counters begin again
                refuse_gains(found, self._trial.label)
            return found
        return account(*around, sent, received, self._testbed.host_of)

    # --- talker and listener --------------------------------------------------------------------

    def constant_rate(
        self,
        loads: Sequence[IntendedLoad],
        *,
        arrivals: bool = False,
        timeline: Timeline = NOTHING,
    ) -> list[LoadOutcome]:
        """Run a talker for each load, and one listener, with the counters of all hosts around."""
        began = time.monotonic()
        streams = self._configure(loads)
        full_waits = any(load.full_waits for load in loads)
        if full_waits:
            self._learn()
        if timeline.faults:
            # ARP fails over a dead path.
            self._testbed.pin_neighbours()
        log = _ARRIVALS_LOG if arrivals else None
        prefix = self._free_prefix("listener.json")
        deadline_s = _SLOWEST * max(load.sending_s for load in loads) + OVERHEAD_SECONDS
        # The faults begin before the talkers, whose own deadlines end the trial.
        injector = FaultInjector(self._testbed, timeline, deadline_s + OVERHEAD_SECONDS)
        synchronised = nullcontext(())
        if arrivals:
            synchronised = self._testbed.synchronized_clocks(deadline_s + _FILE_SECONDS)
        with synchronised as clocks:
            with self._counted(prefix) as counters:
                talkers, listened = self._send(loads, injector, log, deadline_s)
                self._record_programs(prefix, talkers, listened)
            if full_waits:
                time.sleep(_REST_SECONDS)
        if log and listened.exit_status:
            self._remove_arrivals()
        listened.check()
        records = self._fetch_arrivals() if log else None
        sent = [parse_talker(each.check().stdout) for each in talkers]
        received = parse_listener(listened.stdout)
        ahead_ns = None
        if records is not None and any(isinstance(sync, ClockSyncFailure) for sync in clocks):
            records, ahead_ns = on_senders_clock(records)
            if timeline.faults:
                _check_clocks_were_not_set(sent, received)
        return [
            self._outcome(
                *(sent[number], received, PORT + number, counters, streams.get(number)),
                elapsed_s=time.monotonic() - began,
                arrivals=None if records is None else of_stream(records, PORT + number),
                faults=injector.applied(sent[number].first_ns or 0),
                alarms=injector.alarms(sent[number].first_ns or 0),
                listener_ahead_ns=ahead_ns,
                clocks=tuple(clocks),
            )
            for number in range(len(loads))
        ]

    def _configure(self, loads: Sequence[IntendedLoad]) -> dict[int, int]:
        """Configure the switches for the loads; return the index of each load's stream."""
        if len(loads) == 1:
            self._testbed.configure(loads[0].configuration, StreamFilter("udp", PORT))
            return {0: 0}
        frer = [n for n, load in enumerate(loads) if load.configuration == "frer"]
        if not frer:
            single = [StreamFilter("udp", PORT + number) for number in range(len(loads))]
            self._testbed.configure_streams([SwitchStream(each, "control") for each in single])
            return {number: number for number in range(len(loads))}
        filters = [StreamFilter("udp", PORT + number) for number in frer]
        self._testbed.configure_streams([SwitchStream(each) for each in filters])
        return {number: index for index, number in enumerate(frer)}

    def _learn(self) -> None:
        """Send learning frames from the receiving side, and wait until they have been learned.

        An echo and its reply teach both hosts each other's address, and every switch both ports.
        """
        argv = ["ping", "-c", "1", "-W", "2", self._testbed.address(TALKER)]
        self._listener.run(argv, deadline_s=_COMMAND_SECONDS).check()
        time.sleep(_LEARNED_SECONDS)

    def _send(
        self,
        loads: Sequence[IntendedLoad],
        injector: FaultInjector,
        log: str | None,
        deadline: float,
    ) -> tuple[list[Completed], Completed]:
        """Run all talkers to their end, with the faults beside them, and then end the listener."""
        receiving = self._start_listener([PORT + n for n in range(len(loads))], deadline, log)
        try:
            with injector:
                done = self._run_talkers(loads, injector, deadline)
        finally:
            try:
                self._settle(loads)
            finally:
                # It would keep its ports beyond the trial.
                receiving.stop()
                listened = receiving.wait()
        return done, listened

    def _settle(self, loads: Sequence[IntendedLoad]) -> None:
        """Wait for late frames."""
        at_least_s = _LATE_SECONDS if any(load.full_waits for load in loads) else 0.0
        settle(self._testbed, max(load.payload_bytes for load in loads), at_least_s)

    def _start_listener(
        self, ports: list[int], deadline_s: float, log: str | None = None
    ) -> RemoteProcess:
        """Start the listener and wait until its ports are open."""
        argv = listener(
            str(streams.listener()),
            ports,
            StopCondition(seconds=deadline_s),
            log=log,
            # Clocks, and a card's with them, are synchronised only where arrivals are logged.
            timestamps=self._receiver.stamps if log else "software",
            buffer_bytes=self._receiver.receive_buffer_bytes,
            realtime=self._receiver.priority,
        )
        receiving = self._listener.start(argv, deadline_s=deadline_s)
        if (line := receiving.read_line()) != READY:
            ended = receiving.wait()
            error_text = ended.stderr.strip() or line or ended.stdout.strip()
            raise CommandError(
                f"the listener is not ready: {error_text}", f"{LISTENER}: {' '.join(argv)}"
            )
        return receiving

    def _run_talkers(
        self, loads: Sequence[IntendedLoad], injector: FaultInjector, deadline_s: float
    ) -> list[Completed]:
        sending: list[RemoteProcess] = []
        try:
            for number, load in enumerate(loads):
                # Datagrams that it cannot send in this time stay unsent, and are reported.
                stop = StopCondition(load.datagrams, load.sending_s * 1.001 + _STALL_SECONDS)
                if load.poisson is not None:
                    stop = StopCondition(seconds=load.duration_s)
                argv = self._talker_command(PORT + number, load, stop)
                sending.append(self._talker.start(argv, deadline_s=deadline_s))
            injector.run()
            return [each.wait() for each in sending]
        except BaseException:
            for each in sending:
                with suppress(CommandError):
                    each.stop()
            raise

    def _talker_command(self, port: int, load: IntendedLoad, stop: StopCondition) -> list[str]:
        then, slot_ns = load.then, max(1, round(1e9 * load.slot_s))
        pacing = Pacing(
            interval_ns=slot_ns,
            burst=load.trains if load.trains != (1,) else None,
            cycle_ns=slot_ns if load.phase_s is not None else None,
            phase_ns=None if load.phase_s is None else round(load.phase_s * 1e9) % slot_ns,
            poisson=load.poisson,
            then_after=load.before_step if then else None,
            then_interval_ns=round(1e9 / then.rate_pps) if then else None,
        )
        program, address = str(streams.talker()), self._testbed.address(LISTENER)
        return talker(
            program,
            address,
            port,
            pacing,
            stop,
            payload_bytes=load.payload_bytes,
            send_buffer_bytes=self._options.send_buffer_bytes,
        )

    def _outcome(
        self,
        sent: TalkerResult,
        received: ListenerResult,
        port: int,
        counters: CountersAround,
        stream: int | None,
        **others: Any,
    ) -> LoadOutcome:
        """Return the counts of talker, listener and, unless it is best effort, switches."""
        report = received.stream(port)
        if report.unique > sent.sent:
            raise ToolError(
                f"the listener counts {report.unique} different datagrams of {sent.sent} sent",
                f"port {port}",
                "Another talker sends to this port",
            )
        counted: dict[str, Any] = {}
        if stream is not None:
            around = counters.of_stream(stream)
            faults = bool(others["faults"])
            accounting = self._account(around, sent.sent, report.received, faults)
            counted = {
                "accounting": accounting.document(),
                "recovery": counters.recovery(stream),
            }
        return LoadOutcome(
            sent=sent.sent,
            received_total=report.received,
            received_unique=report.unique,
            reordered=report.out_of_order,
            sending_s=_sending_seconds(sent),
            late=sent.late,
            first_ns=sent.first_ns or 0,
            refusal=why_not_these_clocks(sent, received, "kernel"),
            **counted,
            **others,
        )

    def _free_prefix(self, output: str, first: str = "run-001-") -> str:
        """Return an unused prefix for the names of outputs: a search has many in one record.

        ``output`` is a name that each of them has.
        """
        prefixes = chain([first], (f"run-{number:03d}-" for number in count(2)))
        taken = self._measured.outputs
        return next(each for each in prefixes if f"{each}{output}" not in taken)

    def _record_programs(self, prefix: str, talkers: list[Completed], listened: Completed) -> None:
        self._measured.commands += [each.as_record() for each in (*talkers, listened)]
        self._measured.outputs[f"{prefix}listener.json"] = listened.stdout
        self._measured.outputs[f"{prefix}listener.stderr.txt"] = listened.stderr
        for number, each in enumerate(talkers):
            name = "talker" if len(talkers) == 1 else f"talker-{number}"
            self._measured.outputs[f"{prefix}{name}.json"] = each.stdout
            self._measured.outputs[f"{prefix}{name}.stderr.txt"] = each.stderr

    def _fetch_arrivals(self) -> Records:
        show = show_log(_ARRIVALS_LOG)
        printed = self._listener.run(show, deadline_s=_FILE_SECONDS, limit_bytes=LOG_BYTES).check()
        self._remove_arrivals()
        return read_listener_log(decode_log(printed.stdout))

    def _remove_arrivals(self) -> None:
        self._listener.run(["rm", "-f", _ARRIVALS_LOG], deadline_s=_COMMAND_SECONDS)

    # --- sockperf -----------------------------------------------------------------------------

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
        """Run ``sockperf ping-pong``, beside a load of our talker where one is requested.

        Raises TestbedError if the path may lose frames and the hosts are not this machine's.
        """
        lossy = configuration == "control" and any(each.loses for each in faults)
        if lossy and self._testbed.kind not in LOCAL_KINDS:
            raise TestbedError(
                "round trips over a path that loses frames are not counted on a testbed of kind "
                f"{self._testbed.kind}: sockperf there waits for a lost answer until its test ends",
                self._trial.experiment,
                "Use faults that FRER masks, constant_rate with arrivals, or the testbed emulated",
            )
        if beside_pps >= 1:
            filters = (_PING_PONG_STREAM, StreamFilter("udp", PORT))
            self._testbed.configure_streams([SwitchStream(f, configuration) for f in filters])
            load = IntendedLoad(configuration, payload_bytes, beside_pps, duration_s)
        else:
            self._testbed.configure(configuration, _PING_PONG_STREAM)
            load = None
        if faults:
            # ARP fails over a dead path.
            self._testbed.pin_neighbours()
        timeline, seconds = Timeline(at_once(faults)), duration_s + 2 * OVERHEAD_SECONDS
        injector = FaultInjector(self._testbed, timeline, seconds)
        resend_ms = _RESEND_MS if faults else None
        with self._counted() as counters, self._beside(load), injector:
            injector.run()
            done, log = self._run_sockperf(payload_bytes, duration_s, resend_ms)
        if keep:
            self._measured.outputs |= {"sockperf.txt": done.stdout, SOCKPERF_LOG: log}
        half_us = sockperf.parse_log(log)["half_round_trip_us"].to_numpy()
        report = sockperf.parse(done.stdout)
        resent = sockperf.resent(done.stderr)
        if resend_ms and resent is not None:
            # What was sent again has the wait in its round trip.
            half_us = half_us[2 * half_us < 1000 * resend_ms]
            report = sockperf.with_lost(report, half_us, resent)
        return RoundTrips(half_us, report, counters.recovery())

    @contextmanager
    def _beside(self, load: IntendedLoad | None) -> Iterator[None]:
        """Run a load during the block; its own losses do not matter to the samples."""
        if load is None:
            yield
            return
        seconds = load.duration_s + 2 * OVERHEAD_SECONDS
        running = [self._start_listener([PORT], seconds)]
        try:
            argv = self._talker_command(PORT, load, StopCondition(seconds=seconds))
            running.insert(0, self._talker.start(argv, deadline_s=seconds))
            yield
        finally:
            for process in running:
                with suppress(CommandError):
                    process.stop()
                    process.wait()

    def _run_sockperf(
        self, payload_bytes: int, duration_s: float, resend_ms: int | None
    ) -> tuple[Completed, str]:
        """Return the client as it ended, and its log of every observation."""
        host, address = self._talker, self._testbed.address(LISTENER)
        log = host.run(["mktemp"], deadline_s=_COMMAND_SECONDS).check().stdout.strip()
        deadline = duration_s + OVERHEAD_SECONDS
        try:
            client = sockperf.ping_pong(address, payload_bytes, max(1, round(duration_s)), log)
            client = skipping_warmup(self._testbed, client, resend_ms)
            client = pinned_to_one_cpu(self._testbed, client)
            argv = pinned_to_one_cpu(
                self._testbed, self._receiver.scheduled(sockperf.server(address))
            )
            with self._serving(argv, "udp", sockperf.PORT, deadline + _FILE_SECONDS) as server:
                try:
                    done = host.run(client, deadline_s=deadline)
                finally:
                    server.stop()
                    server.wait()
            self._measured.commands.append(done.as_record())
            self._measured.outputs["sockperf.stderr.txt"] = done.stderr
            show = ["cat", log]
            printed = host.run(show, deadline_s=_FILE_SECONDS, limit_bytes=LOG_BYTES).check()
        finally:
            host.run(["rm", "-f", log], deadline_s=_COMMAND_SECONDS)
        return done.check(), printed.stdout

    # --- mausezahn ----------------------------------------------------------------------------

    def mausezahn_load(self, load: IntendedLoad, deadline_s: float, port: int) -> LoadOutcome:
        """Run mausezahn and sample at the first switch how fast frames arrive."""
        testbed = self._testbed
        ends = mausezahn.Ends(
            CARD, testbed.address(TALKER), testbed.address(LISTENER), self._listener_mac()
        )
        delay = mausezahn.delay_us(load.rate_pps)
        argv = mausezahn.udp(ends, load.payload_bytes, load.datagrams, delay, port=port)
        with self._test(load.configuration, StreamFilter("udp", port)) as counters:
            process = self._talker.start(argv, deadline_s=deadline_s)
            samples = self._frames_over_time(load.duration_s)
            done = process.wait()
            self._measured.commands.append(done.as_record())
            self._measured.outputs |= {
                "samples.json": json.dumps(samples),
                "mausezahn.stderr.txt": done.stderr,
            }
        if not done.timed_out:
            done.check()
        frames = CounterDifferences(*counters.of_stream(0))
        sent = frames.port(SWITCHES[0], HOST_PORT, "in").stream_frames
        received = frames.rx_frames()
        rate = mausezahn.frames_per_second(samples)
        return LoadOutcome(
            sent=sent,
            received_total=received,
            received_unique=received,
            sending_s=sent / rate if rate else done.seconds,
            elapsed_s=done.seconds,
            timed_out=done.timed_out,
            recovery=counters.recovery(),
        )

    def _listener_mac(self) -> str:
        argv = ["cat", f"/sys/class/net/{CARD}/address"]
        return self._listener.run(argv, deadline_s=_COMMAND_SECONDS).check().stdout.strip()

    def _frames_over_time(self, duration_s: float) -> list[tuple[float, int]]:
        """Return seconds and frames received by the first switch while a generator runs."""
        samples = []
        for _ in range(_SAMPLES):
            time.sleep(duration_s / (_SAMPLES + 2))
            frames = f"/sys/class/net/{HOST_PORT}/statistics/rx_packets"
            switch = self._testbed.hosts[SWITCHES[0]]
            argv = ["cat", "/proc/uptime", frames]
            shown = switch.run(argv, deadline_s=_COMMAND_SECONDS).check().stdout.split()
            samples.append((float(shown[0]), int(shown[2])))
        return samples


def _check_clocks_were_not_set(sent: Sequence[TalkerResult], received: ListenerResult) -> None:
    """Reject a run whose faults cannot be timed, because a clock was set meanwhile."""
    steps = [(TALKER, each.clock_step_ns) for each in sent]
    steps.append((LISTENER, received.clock_step_ns))
    for name, step_ns in steps:
        if abs(step_ns) > _MOST_STEP_NS:
            raise ToolError(
                f"the {name}'s clock was set by {step_ns / 1e6:.1f} ms during the trial",
                name,
                "Make its time service slew the clock while the rack measures (chrony: makestep)",
            )


def _sending_seconds(sent: TalkerResult) -> float:
    if sent.first_ns is None or sent.last_ns is None or not sent.sent:
        raise ToolError("the talker sent nothing", TALKER, "Its output is in the record")
    span = (sent.last_ns - sent.first_ns) / 1e9
    return span * sent.sent / (sent.sent - 1) if sent.sent > 1 and span else math.ulp(1.0)
