"""Jobs on hosts that are reached over SSH and whose cables are there: a rack of network cards.

The same steps as in a guest (:mod:`tsnrepro.testbeds.guest.testbed`) and on this machine
(:mod:`tsnrepro.testbeds.jobs.local`), one session each, with two differences that nothing can hide.
A step begins when its session is open, some milliseconds after the one before it has ended. And
no kernel takes the job down should this program be killed: each command then ends by its own
deadline, but devices stay as the job had them.

What a link joins is not known here: a cable that leads elsewhere shows as loss.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import CommandError, JobDeadlineError, TestbedError
from tsnrepro.config.registry import RACK
from tsnrepro.testbeds import facts
from tsnrepro.testbeds.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.host import (
    ENDED_BY_KILL,
    ENDED_BY_TERM,
    Completed,
    RemoteHost,
    RemoteProcess,
)
from tsnrepro.testbeds.jobs import files, network
from tsnrepro.testbeds.jobs.devices import Devices
from tsnrepro.testbeds.jobs.job import Acceleration, Cable, Job, JobResult, Pause, Step, Stop
from tsnrepro.testbeds.jobs.rollback import Undo, run_checked
from tsnrepro.testbeds.ssh import KILL_AFTER_SECONDS

# No exit status came, because a signal ended what SSH started.
_NO_STATUS = -1
_STARTED = "started"
# A shell that reports the signal which ended a step as an exit status; SSH would leave none. TERM
# reaches the shell together with the step, because timeout(1) passes it to all that it started.
# The shell waits on, since the step may end in a way of its own: a wait that TERM cut short is one
# after which the step is still there, or of whose end meanwhile a second wait tells (127: it has
# nothing more to tell). What the shell says of signals is no output of the step.
_REPORT = """\
cd / || exit
[ -z "$1" ] || echo "$1"
shift
exec 3>&2 2>/dev/null
trap : TERM
( exec "$@" 2>&3 3>&- ) </dev/null &
while wait $!; status=$?; kill -0 $!; do :; done
wait $!; meanwhile=$?
[ $meanwhile = 127 ] || status=$meanwhile
exit $status"""

_MACHINE = {
    "kernel": ["uname", "-r"],
    "processor": ["sed", "-n", "/^model name/{s/^[^:]*: //;p;q}", "/proc/cpuinfo"],
    "processors": ["nproc"],
}


During = Callable[[Job], AbstractContextManager[list[ClockSync | ClockSyncFailure]]]


class SessionJobs:
    """A testbed for jobs of hosts that somebody else connected to, and disconnects from.

    Parameters
    ----------
    hosts
        By the names that jobs give them, each logged in to as root.
    kind
        What records call the testbed.
    during
        Keeps the hosts' clocks together while a job's steps go on, from its links up to its last
        step; None where there is nothing to keep.
    """

    machines = ()
    cable: Cable | None = None
    max_parallel = 1
    """None: stalls are metered on hosts that stay what they are, which jobs set up anew."""
    acceleration: Acceleration = "none"

    def __init__(
        self, hosts: Mapping[str, RemoteHost], kind: str = RACK, during: During | None = None
    ) -> None:
        self.hosts, self.kind = hosts, kind
        self._during: During = during or (lambda _: nullcontext([]))

    def __enter__(self) -> "SessionJobs":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed carries."""
        return {
            "testbed": self.kind,
            # Ports, links and queues are a job's: each trial has them.
            "jobs": True,
            "acceleration": self.acceleration,
            "virtual_time": False,
            "ran_on": {name: _said_by(self.hosts, argv) for name, argv in _MACHINE.items()},
            "iproute2": _said_by(self.hosts, ["tc", "-V"]),
            "controller": facts.controller(),
            "hosts": {name: facts.host(host, []) for name, host in self.hosts.items()},
        }

    def run(self, job: Job) -> JobResult:
        """Let the hosts do the job and return what it brought back.

        Raises
        ------
        TestbedError
            A host, a device or a program is missing, or in use; or the set-up failed. What was set
            up until then is taken back.
        JobDeadlineError
            The job did not end within its deadline, and all that it had set up was taken back.
        CommandError
            What a step printed or how it ended was lost.
        """
        undo = Undo()
        try:
            return self._run(job, undo)
        except JobDeadlineError as error:
            if undo.failures:
                raise TestbedError(
                    f"{error.what}, and not all that it set up was taken back: {undo.failures[0]}",
                    error.where,
                    "Look at the host's devices and queues before the next campaign",
                ) from error
            raise

    def _run(self, job: Job, undo: Undo) -> JobResult:
        began = time.monotonic()
        hosts = self._hosts_of(job)
        with undo:
            kernel = _said_by(hosts, _MACHINE["kernel"])
            files.check_programs(job, hosts)
            devices = Devices(job, hosts)
            ready_s = time.monotonic() - began
            files.place(job, hosts, undo)
            devices.set_up(undo)
            steps = _Steps(job, hosts, began + job.deadline_s, undo)
            steps.do(*job.configure)
            devices.bring_up()
            with self._during(job) as agreed:
                steps.do(*job.meanwhile)
                steps.do(Pause(network.settle_seconds(job)))
                steps.run_checked(*job.set_up)
                steps.do(*job.steps)
                completed = steps.wait()
            collected = files.fetch(job, hosts)
        return JobResult(
            job=job.name,
            steps=completed,
            files=collected,
            testbed=self.kind,
            acceleration=self.acceleration,
            virtual_time=False,
            kernel=kernel,
            qemu=None,
            seed=job.seed,
            wall_s=time.monotonic() - began,
            ready_s=ready_s,
            console="",
            kernel_packages=(),
            clocks=tuple(agreed) or None,
        )

    def _hosts_of(self, job: Job) -> dict[str, RemoteHost]:
        for name in job.hosts():
            if name not in self.hosts:
                raise TestbedError(
                    f"there is no host {name}",
                    f"job {job.name}",
                    f"The testbed {self.kind} has: {', '.join(self.hosts) or 'no host'}",
                )
        return {name: self.hosts[name] for name in job.hosts()}


class _Steps:
    """The steps of a job: what has ended and what still runs, which ends with ``undo``."""

    def __init__(self, job: Job, hosts: Mapping[str, RemoteHost], end: float, undo: Undo) -> None:
        self._job, self._hosts, self._end = job, hosts, end
        self._running: dict[str, tuple[Step, RemoteProcess]] = {}
        self._completed: dict[str, Completed] = {}
        undo.defer(self._stop_all)

    def do(self, *steps: Step | Stop | Pause) -> None:
        """Do some steps, one after the other."""
        for step in steps:
            if isinstance(step, Pause):
                time.sleep(min(step.seconds, self._left_s()))
            elif isinstance(step, Stop):
                self._stop(step.step)
            elif step.background:
                self._start(step)
            else:
                self._run(step)
            self._left_s()

    def run_checked(self, *steps: Step) -> None:
        """Do some steps, none of which may fail: what is set up in part is not measured."""
        for step in steps:
            self.do(step)
            self._completed[step.name].check()

    def wait(self) -> dict[str, Completed]:
        """Wait for every step that runs, and return all in the order of the job."""
        while self._running:
            self._end_of(next(iter(self._running)))
            self._left_s()
        return {step.name: self._completed[step.name] for step in self._job.commands()}

    def _run(self, step: Step) -> None:
        host, deadline_s = self._hosts[step.host], min(step.deadline_s, self._left_s())
        with _errors_of(step):
            done = host.run(
                _reported(step), deadline_s=deadline_s, limit_bytes=self._job.memory_mb << 20
            )
        self._completed[step.name] = replace(done, argv=step.argv)

    def _start(self, step: Step) -> None:
        host, deadline_s = self._hosts[step.host], min(step.deadline_s, self._left_s())
        with _errors_of(step):
            process = host.start(_reported(step, _STARTED), deadline_s=deadline_s)
            self._running[step.name] = step, process
            # Until then TERM would end what starts the step, and not the step.
            process.read_line()
            # A line that is empty is the output's end.
            while step.ready and (line := process.read_line()) and line != step.ready:
                pass

    def _stop(self, name: str) -> None:
        step, process = self._running[name]
        began = time.monotonic()
        with _errors_of(step):
            if process.running:
                process.stop()
        self._end_of(name)
        if self._completed[name].exit_status == _NO_STATUS:
            killed = time.monotonic() - began >= KILL_AFTER_SECONDS
            status = ENDED_BY_KILL if killed else ENDED_BY_TERM
            self._completed[name] = replace(self._completed[name], exit_status=status)

    def _end_of(self, name: str) -> None:
        step, process = self._running[name]
        with _errors_of(step):
            self._completed[name] = replace(process.wait(), argv=step.argv)
        del self._running[name]

    def _stop_all(self) -> None:
        with Undo() as undo:
            for name in self._running:
                undo.defer(self._stop, name)

    def _left_s(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise JobDeadlineError(
                f"the job did not end within {self._job.deadline_s:g} s",
                f"job {self._job.name}",
                "Give the job a longer deadline_s, or find the step that blocks",
            )
        return left


def _reported(step: Step, word: str = "") -> list[str]:
    """Return the command that runs a step, after it has printed a word."""
    return ["sh", "-c", _REPORT, "sh", word, *step.argv]


@contextmanager
def _errors_of(step: Step) -> Iterator[None]:
    """Name the step's own command where the one that runs it failed."""
    try:
        yield
    except CommandError as error:
        where = f"{step.host}: {shlex.join(step.argv)}"
        raise CommandError(error.what, where, error.remedy) from error


def _said_by(hosts: Mapping[str, RemoteHost], argv: list[str]) -> str:
    """Return what all hosts answer to a command; where they differ, with the hosts of each."""
    answers = {name: run_checked(host, argv).strip() or "unknown" for name, host in hosts.items()}
    ordered = sorted(answers, key=lambda name: answers[name])
    groups = {said: list(names) for said, names in groupby(ordered, key=lambda n: answers[n])}
    if len(groups) < 2:
        return "".join(groups)
    return ", ".join(f"{said} ({', '.join(names)})" for said, names in groups.items())


if TYPE_CHECKING:
    from tsnrepro.testbeds.protocol import JobTestbed

    _satisfied: type[JobTestbed] = SessionJobs
