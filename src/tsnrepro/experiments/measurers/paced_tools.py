"""The constant-rate run by our own talker and listener on the hosts of a testbed."""

import json
import math
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import count

from tsnrepro.errors import CommandError, ToolError
from tsnrepro.experiments.iperf3_trial import command, settle_seconds
from tsnrepro.experiments.measurers.faults import NOTHING, Timeline
from tsnrepro.experiments.measurers.paced import PORT, Pace, PacedRun
from tsnrepro.experiments.measurers.unfolding import Unfolding
from tsnrepro.experiments.run import Measurement
from tsnrepro.records.accounting import account
from tsnrepro.records.store import Trial
from tsnrepro.streams import build
from tsnrepro.streams.clocks import clock_agreement, why_not_these_clocks
from tsnrepro.streams.command import (
    READY,
    Extent,
    Pacing,
    TalkerResult,
    listener,
    parse_listener,
    parse_talker,
    show_log,
    talker,
)
from tsnrepro.streams.log import Records, decoded, read_listener_log
from tsnrepro.testbed.emulated import LISTENER, TALKER, EmulatedTestbed
from tsnrepro.testbed.host import Completed, RemoteProcess
from tsnrepro.tools.frerctl import StreamFilter

STREAM = StreamFilter("udp", PORT)
# A talker that cannot keep up takes longer than planned, and reports it.
SLOWEST = 6
MARGIN_SECONDS = 15


def paced(
    testbed: EmulatedTestbed,
    trial: Trial,
    pace: Pace,
    *,
    measured: Measurement,
    arrivals: bool = False,
    timeline: Timeline = NOTHING,
) -> PacedRun:
    """Run talker and listener once, with the counters of all hosts around it.

    Parameters
    ----------
    testbed
        The hosts; the switches are set to the pace's configuration and start afresh.
    trial
        Whose run it is; one trial may have many, and their outputs are numbered.
    pace
        What is sent.
    measured
        Takes what the programs printed.
    arrivals
        Whether to return every arrival.
    timeline
        What goes wrong meanwhile.

    Raises
    ------
    CommandError
        A program failed; what it printed is in ``measured``.
    ToolError
        A program's report is none.
    """
    began = time.monotonic()
    programs = build.programs()
    log = "/run/tsnrepro-arrivals" if arrivals else None
    testbed.configure(pace.configuration, STREAM)
    if timeline.faults:
        # A neighbour that is asked for over a dead path does not answer.
        testbed.pin_neighbours()
    # Arrivals are wanted for their times.
    ends = testbed.hosts[TALKER], testbed.hosts[LISTENER]
    judge = partial(clock_agreement, *ends, (str(programs.talker), str(programs.listener)))
    clocks = [judge()] if arrivals else []
    before = testbed.snapshot()
    deadline = SLOWEST * pace.seconds + MARGIN_SECONDS
    extent = Extent(seconds=deadline)
    argv = listener(str(programs.listener), [PORT], extent, log=log, timestamps="software")
    receiving = testbed.hosts[LISTENER].start(testbed.bound(LISTENER, argv), deadline_s=deadline)
    unfolding = Unfolding(testbed, timeline)
    try:
        _await_ready(receiving)
        with unfolding:
            done = _send(testbed, pace, str(programs.talker), deadline, unfolding)
    finally:
        time.sleep(settle_seconds(pace.payload_bytes))
        receiving.stop()
        heard = receiving.wait()
    measured.commands += [command(done), command(heard)]
    name = _free_name(measured)
    measured.outputs |= {
        f"{name}talker.json": done.stdout,
        f"{name}talker.stderr.txt": done.stderr,
        f"{name}listener.json": heard.stdout,
    }
    after = testbed.snapshot()
    clocks += [judge()] if arrivals else []
    measured.outputs[f"{name}counters-before.json.gz"] = json.dumps(before.raw)
    measured.outputs[f"{name}counters-after.json.gz"] = json.dumps(after.raw)
    sent, got = parse_talker(done.check().stdout), parse_listener(heard.stdout)
    stream = got.stream(PORT)
    accounting = account(before, after, sent.sent, stream.received, testbed.host_of)
    return PacedRun(
        offered=sent.sent,
        received=stream.received,
        unique=stream.unique,
        duplicates=stream.duplicates,
        reordered=stream.out_of_order,
        sending_s=_sending_seconds(sent),
        elapsed_s=time.monotonic() - began,
        late=sent.late,
        first_ns=sent.first_ns or 0,
        accounting=asdict(accounting) | {"unaccounted": accounting.unaccounted},
        recovery=after.hosts["sw2"].station["recovery"],
        arrivals=_arrivals(testbed, log) if log else None,
        happened=unfolding.happened(sent.first_ns or 0),
        alarms=unfolding.alarms(sent.first_ns or 0),
        clocks=tuple(clocks),
        refusal=why_not_these_clocks(sent, got, "kernel"),
    )


def _free_name(measured: Measurement) -> str:
    """Return a start for the names of a run's outputs: a search has many runs in one record."""
    for number in count(1):
        name = f"run-{number:03d}-"
        if f"{name}talker.json" not in measured.outputs:
            return name
    raise AssertionError("count ended")


def _await_ready(listener_process: RemoteProcess) -> None:
    line = listener_process.read_line()
    if line != READY:
        said = listener_process.wait()
        raise CommandError(
            f"the listener is not ready: {said.stderr.strip() or line or said.stdout.strip()}",
            f"{LISTENER}: {' '.join(said.argv)}",
        )


def _send(
    testbed: EmulatedTestbed,
    pace: Pace,
    program: str,
    deadline: float,
    unfolding: Unfolding,
) -> Completed:
    """Run the talker to its end, and let unfold beside it what goes wrong."""
    argv = talker(
        program,
        testbed.address(LISTENER),
        PORT,
        _pacing(pace),
        # What it cannot send in a tenth more than its time stays unsent, and is reported.
        Extent(count=pace.count + pace.then_count, seconds=max(pace.seconds * 1.001, 0.01)),
        payload_bytes=pace.payload_bytes,
    )
    argv = testbed.bound(TALKER, argv)
    if not unfolding.timeline.faults:
        return testbed.hosts[TALKER].run(argv, deadline_s=deadline)
    sending = testbed.hosts[TALKER].start(argv, deadline_s=deadline)
    try:
        unfolding.run()
    except BaseException:
        with suppress(CommandError):
            sending.stop()
        raise
    return sending.wait()


def _pacing(pace: Pace) -> Pacing:
    then = round(1e9 / pace.then_pps) if pace.then_pps else None
    return Pacing(
        interval_ns=max(1, round(pace.burst * 1e9 / pace.rate_pps)),
        burst=pace.burst,
        then_after=pace.count if then else None,
        then_interval_ns=then,
    )


def _sending_seconds(sent: TalkerResult) -> float:
    if sent.first_ns is None or sent.last_ns is None or not sent.sent:
        raise ToolError("the talker sent nothing", TALKER, "Its output is in the record")
    span = (sent.last_ns - sent.first_ns) / 1e9
    return span * sent.sent / (sent.sent - 1) if sent.sent > 1 and span else math.ulp(1.0)


def _arrivals(testbed: EmulatedTestbed, log: str) -> Records:
    host = testbed.hosts[LISTENER]
    printed = host.run(show_log(log), deadline_s=SLOWEST * MARGIN_SECONDS).check()
    host.run(["rm", "-f", log], deadline_s=MARGIN_SECONDS)
    return read_listener_log(decoded(printed.stdout))
