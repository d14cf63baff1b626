"""Round trips by sockperf beside a load of our own talker, both with FRER or both without."""

from contextlib import contextmanager, suppress

from tsnrepro.errors import CommandError
from tsnrepro.experiments.iperf3_trial import command, serving
from tsnrepro.experiments.measurers.paced import PORT
from tsnrepro.experiments.measurers.round_trips import LOG, SHORT_SECONDS, RoundTrips
from tsnrepro.experiments.run import Measurement
from tsnrepro.records.store import Trial
from tsnrepro.streams import build
from tsnrepro.streams.command import READY, Extent, Pacing, listener, talker
from tsnrepro.testbed.emulated import LISTENER, TALKER, EmulatedTestbed
from tsnrepro.tools import sockperf
from tsnrepro.tools.frerctl import Stream, StreamFilter

MARGIN_SECONDS = 15
FILE_SECONDS = 120


def round_trips(
    testbed: EmulatedTestbed,
    trial: Trial,
    background_pps: float,
    measured: Measurement,
    *,
    short: bool = False,
) -> RoundTrips:
    """Run ``sockperf ping-pong`` beside a load of ``background_pps`` of the same payload.

    ``short`` takes a second only, and is not kept.

    Raises
    ------
    CommandError
        A program failed.
    ToolError
        sockperf's report or log is none.
    """
    factors = trial.factors
    duration = SHORT_SECONDS if short else float(factors["duration_s"])
    filters = (StreamFilter("udp", sockperf.PORT), StreamFilter("udp", PORT))
    testbed.configure_streams([Stream(each, factors["configuration"]) for each in filters])
    with _load(testbed, factors["payload_bytes"], background_pps, duration):
        text, log = _ping_pong(testbed, factors["payload_bytes"], duration, measured)
    if not short:
        measured.outputs |= {"sockperf.txt": text, LOG: log}
    half = sockperf.parse_log(log)["half_round_trip_us"].to_numpy()
    return RoundTrips(half, sockperf.parse(text).valid_seconds)


@contextmanager
def _load(testbed: EmulatedTestbed, payload_bytes: int, pps: float, duration_s: float):
    """Keep a constant-rate load running; what it loses is no matter of the samples."""
    if pps < 1:
        yield
        return
    programs = build.programs()
    seconds = duration_s + MARGIN_SECONDS
    argv = listener(str(programs.listener), [PORT], Extent(seconds=seconds))
    receiving = testbed.hosts[LISTENER].start(argv, deadline_s=seconds)
    pacing = Pacing(interval_ns=max(1, round(1e9 / pps)))
    sending = None
    try:
        if receiving.read_line() != READY:
            raise CommandError("the listener of the load is not ready", " ".join(argv))
        argv = talker(
            str(programs.talker),
            testbed.address(LISTENER),
            PORT,
            pacing,
            Extent(seconds=seconds),
            payload_bytes=payload_bytes,
        )
        sending = testbed.hosts[TALKER].start(argv, deadline_s=seconds)
        yield
    finally:
        for process in (sending, receiving):
            if process is not None:
                with suppress(CommandError):
                    process.stop()
                    process.wait()


def _ping_pong(
    testbed: EmulatedTestbed, payload_bytes: int, duration_s: float, measured: Measurement
) -> tuple[str, str]:
    """Return what sockperf printed, and its log of every observation."""
    host, address = testbed.hosts[TALKER], testbed.address(LISTENER)
    log = host.run(["mktemp"], deadline_s=FILE_SECONDS).check().stdout.strip()
    deadline = duration_s + MARGIN_SECONDS
    try:
        client = sockperf.ping_pong(address, payload_bytes, max(1, round(duration_s)), log)
        with serving(
            testbed, sockperf.server(address), "udp", sockperf.PORT, deadline + FILE_SECONDS
        ) as server:
            try:
                done = host.run(testbed.bound(TALKER, client), deadline_s=deadline)
            finally:
                server.stop()
                server.wait()
        measured.commands.append(command(done))
        printed = host.run(["cat", log], deadline_s=FILE_SECONDS).check()
    finally:
        host.run(["rm", "-f", log], deadline_s=FILE_SECONDS)
    return done.check().stdout, printed.stdout
