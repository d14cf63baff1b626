"""Several streams at once by our own talkers and one listener on the hosts of a testbed."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tsnrepro.errors import CommandError
from tsnrepro.experiments.iperf3_trial import SETTLE_SECONDS, command
from tsnrepro.experiments.measurers.several import Sent, sendings
from tsnrepro.experiments.run import Measurement
from tsnrepro.records.store import Trial
from tsnrepro.streams import build
from tsnrepro.streams.command import (
    READY,
    Extent,
    Pacing,
    listener,
    parse_listener,
    parse_talker,
    talker,
)
from tsnrepro.testbed.emulated import LISTENER, TALKER, EmulatedTestbed
from tsnrepro.testbed.host import Completed
from tsnrepro.tools.frerctl import Stream, StreamFilter

MARGIN_SECONDS = 15


def several(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> list[dict[str, Any]]:
    """Run a talker for each stream and return one row each.

    Raises
    ------
    CommandError
        A program failed; what it printed is in ``measured``.
    ToolError
        A program's report is none.
    """
    factors, programs = trial.factors, build.programs()
    sent_by = sendings(factors)
    filters = [StreamFilter("udp", port) for name, port, _, _ in sent_by if name != "best effort"]
    testbed.configure_streams([Stream(each) for each in filters])
    before = testbed.snapshot()
    deadline = 2 * factors["duration_s"] + MARGIN_SECONDS
    argv = listener(
        str(programs.listener), [port for _, port, _, _ in sent_by], Extent(seconds=deadline)
    )
    receiving = testbed.hosts[LISTENER].start(testbed.bound(LISTENER, argv), deadline_s=deadline)
    try:
        if receiving.read_line() != READY:
            raise CommandError("the listener is not ready", f"{LISTENER}: {' '.join(argv)}")
        done = _send_all(testbed, factors, str(programs.talker), deadline)
    finally:
        time.sleep(SETTLE_SECONDS)
        receiving.stop()
        heard = receiving.wait()
    after = testbed.snapshot()
    measured.commands += [command(heard), *(command(each) for each in done)]
    measured.outputs |= {
        "listener.json": heard.stdout,
        "counters-before.json.gz": json.dumps(before.raw, indent=1),
        "counters-after.json.gz": json.dumps(after.raw, indent=1),
    }
    for (name, *_), each in zip(sent_by, done, strict=True):
        measured.outputs[f"talker-{name.replace(' ', '-')}.json"] = each.stdout
    got = parse_listener(heard.stdout)
    switch = [each.hosts["sw2"].station["streams"] for each in (before, after)]
    rows = []
    for number, ((name, port, _, _), each) in enumerate(zip(sent_by, done, strict=True)):
        sent, of = parse_talker(each.check().stdout), got.stream(port)
        recovery = _counted(*(s[number] for s in switch)) if number < len(filters) else None
        counts = (of.unique, of.duplicates, of.out_of_order)
        rows.append(asdict(Sent(name, sent.sent, *counts, recovery)))
    return rows


# What the clause 10 counters are called by frerctl, beside the state of the function.
COUNTERS = ("out_of_order", "rogue", "passed", "discarded", "lost", "tagless", "resets")


def _counted(before: dict[str, Any], after: dict[str, Any]) -> dict[str, int]:
    """Return what a stream's recovery function counted between two snapshots."""
    return {name: after["recovery"][name] - before["recovery"][name] for name in COUNTERS}


def _send_all(
    testbed: EmulatedTestbed, factors: dict[str, Any], program: str, deadline: float
) -> list[Completed]:
    """Run one talker a sending, all at the same time."""

    def send(sending: tuple[str, int, int, float]) -> Completed:
        _, port, payload, rate = sending
        count = max(1, round(rate * factors["duration_s"]))
        pacing = Pacing(interval_ns=max(1, round(1e9 / rate)))
        extent = Extent(count=count, seconds=1.01 * factors["duration_s"])
        address = testbed.address(LISTENER)
        argv = talker(program, address, port, pacing, extent, payload_bytes=payload)
        return testbed.hosts[TALKER].run(testbed.bound(TALKER, argv), deadline_s=deadline)

    sent_by = sendings(factors)
    with ThreadPoolExecutor(len(sent_by)) as pool:
        return list(pool.map(send, sent_by))
