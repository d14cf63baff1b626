"""One iperf3 test between talker and listener, with the counters of all hosts around it."""

import json
import time
from contextlib import contextmanager

from tsnrepro.errors import CommandError
from tsnrepro.experiments.run import Measurement
from tsnrepro.records.store import Trial
from tsnrepro.testbed.emulated import LISTENER, TALKER, EmulatedTestbed
from tsnrepro.testbed.host import Completed, RemoteProcess
from tsnrepro.testbed.snapshot import Snapshot
from tsnrepro.tools import iperf3
from tsnrepro.tools.frerctl import StreamFilter

READY_SECONDS = 5
# What a test takes beyond its nominal time: connecting, and iperf3's exchange of results.
OVERHEAD_SECONDS = 10
# Queues hold a few milliseconds at most; after this nothing is on its way.
SETTLE_SECONDS = 0.05
# Beyond this a datagram is several frames on a link with an MTU of 1500 bytes.
LARGEST_UNFRAGMENTED_BYTES = 1472
# IP reassembly gives up on a datagram after ipfrag_time, which the testbed sets to a second.
REASSEMBLY_SECONDS = 1.6


def settle_seconds(payload_bytes: int) -> float:
    """Return how long after a test's end datagrams of a payload may still be on their way."""
    fragmented = payload_bytes > LARGEST_UNFRAGMENTED_BYTES
    return REASSEMBLY_SECONDS if fragmented else SETTLE_SECONDS


@contextmanager
def serving(testbed: EmulatedTestbed, argv: list[str], protocol: str, port: int, deadline_s: float):
    """Keep a server running on the listener, ready from the start of the block.

    Raises
    ------
    CommandError
        The server did not listen within seconds, with what it printed.
    """
    listener = testbed.hosts[LISTENER]
    server = listener.start(testbed.bound(LISTENER, argv), deadline_s=deadline_s)
    sockets = [
        "ss",
        "-H",
        "-n",
        "-l",
        "-t" if protocol == "tcp" else "-u",
        "sport",
        "=",
        f":{port}",
    ]
    end = time.monotonic() + READY_SECONDS
    while not listener.run(sockets, deadline_s=READY_SECONDS).stdout.strip():
        if time.monotonic() > end:
            server.stop()
            said = server.wait()
            raise CommandError(
                f"the server does not listen: {said.stderr.strip() or said.stdout.strip()}",
                f"{LISTENER}: {' '.join(argv)}",
            )
    yield server


def run_test(testbed: EmulatedTestbed, client: list[str], duration_s: float) -> Completed:
    """Run one client against a one-off server and return the client as it ended."""
    deadline = duration_s + OVERHEAD_SECONDS
    with serving(testbed, iperf3.server(), "tcp", iperf3.PORT, deadline) as server:
        done = testbed.hosts[TALKER].run(testbed.bound(TALKER, client), deadline_s=deadline)
        _end(server, done)
    return done


def _end(server: RemoteProcess, done: Completed) -> None:
    """Wait for the one-off server; after a failed client it would wait for another for ever."""
    if done.exit_status or iperf3.failed(done.stdout):
        server.stop()
    server.wait()


def command(done: Completed) -> dict:
    """Return what a record keeps of a command."""
    return {
        "host": done.host,
        "argv": list(done.argv),
        "exit_status": done.exit_status,
        "started_s": done.started_s,
        "seconds": done.seconds,
    }


def between(
    testbed: EmulatedTestbed,
    trial: Trial,
    stream: StreamFilter,
    client: list[str],
    measured: Measurement,
    *,
    settle_s: float = SETTLE_SECONDS,
) -> tuple[Completed, Snapshot, Snapshot]:
    """Configure the testbed, run one test and return it with the counters before and after.

    What was printed is in ``measured`` before anything is judged, so a failure keeps it.
    """
    testbed.configure(trial.factors["configuration"], stream)
    before = testbed.snapshot()
    measured.outputs["counters-before.json.gz"] = json.dumps(before.raw, indent=1)
    done = run_test(testbed, client, trial.factors["duration_s"])
    measured.commands.append(command(done))
    measured.outputs |= {"iperf3.json": done.stdout, "iperf3.stderr.txt": done.stderr}
    time.sleep(settle_s)
    after = testbed.snapshot()
    measured.outputs["counters-after.json.gz"] = json.dumps(after.raw, indent=1)
    return done.check(), before, after
