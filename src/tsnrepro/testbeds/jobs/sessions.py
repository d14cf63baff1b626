"""Jobs on remote hosts with existing cables, over SSH.

The same steps as in a guest (:mod:`tsnrepro.testbeds.guest.testbed`) and on this machine
(:mod:`tsnrepro.testbeds.emulated.local_jobs`), in a session each, with two differences. A step
starts when its session is open, some milliseconds after the end of the previous one. And if this
program is killed, no kernel removes the job: commands end at their deadlines, but devices stay
configured.

The other end of a cable is not checked: a wrong cable shows as loss.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Any

from tsnrepro.common.errors import CommandError, JobDeadlineError, TestbedError
from tsnrepro.config.registry import RACK
from tsnrepro.testbeds.hosts import facts
from tsnrepro.testbeds.hosts.clocks import ClockSync, ClockSyncFailure
from tsnrepro.testbeds.hosts.host import (
    ENDED_BY_KILL,
    ENDED_BY_TERM,
    Completed,
    RemoteHost,
    RemoteProcess,
    run_checked,
)
from tsnrepro.testbeds.hosts.rollback import Rollback
from tsnrepro.testbeds.hosts.ssh import KILL_AFTER_SECONDS
from tsnrepro.testbeds.jobs import files, network
from tsnrepro.testbeds.jobs.devices import Devices
from tsnrepro.testbeds.jobs.job import Acceleration, Cable, Job, JobResult, Pause, Step, Stop

# Of a command that a signal ended.
_NO_STATUS = -1
_STARTED = "started"
# A shell that reports the signal that ended a step as an exit status, which SSH does not. TERM
# reaches the shell together with the step, because timeout(1) forwards it to its process group. The
# shell continues to wait, since the step may handle TERM: after a wait that TERM interrupted, the
# step is still running, or a second wait returns its status (127 if there is none). The shell's
# messages about signals do not go to the step's output.
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


Synchronized = Callable[[Job], AbstractContextManager[list[ClockSync | ClockSyncFailure]]]


class SessionJobs:
    """A testbed for jobs on connected hosts; the caller closes the connections.

    ``hosts``: hosts by their names in jobs, each logged in to as root; ``kind``: kind of the
    testbed in records. ``synchronized``: synchronizes the hosts' clocks from a job's links to its
    last step; None if not needed.
    """

    machines = ()
    cable: Cable | None = None
    max_parallel = 1
    """None: stalls are measured on permanent hosts, and jobs configure theirs."""
    acceleration: Acceleration = "none"

    def __init__(
        self,
        hosts: Mapping[str, RemoteHost],
        kind: str = RACK,
        synchronized: Synchronized | None = None,
    ) -> None:
        self.hosts, self.kind = hosts, kind
        self._synchronized: Synchronized = synchronized or (lambda _: nullcontext([]))

    def __enter__(self) -> "SessionJobs":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def describe(self) -> dict[str, Any]:
        """Return the facts that every record of this testbed has."""
        return {
            "testbed": self.kind,
            # Ports, links and queues are recorded with each trial.
            "jobs": True,
            "acceleration": self.acceleration,
            "virtual_time": False,
            "ran_on": {name: _output_of_all(self.hosts, argv) for name, argv in _MACHINE.items()},
            "iproute2": _output_of_all(self.hosts, ["tc", "-V"]),
            "controller": facts.controller(),
            "hosts": {name: facts.host(host, []) for name, host in self.hosts.items()},
        }

    def run(self, job: Job) -> JobResult:
        """Run a job on the hosts and return its result.

        Raises TestbedError if a host, device or program is missing or in use, or the set-up failed.
        All changes were rolled back. Raises JobDeadlineError if the job exceeded its deadline, and
        all changes were rolled back. Raises CommandError if the output or the exit status of a step
        was lost.
        """
        rollback = Rollback()
        try:
            return self._run(job, rollback)
        except JobDeadlineError as error:
            if rollback.failures:
                raise TestbedError(
                    f"{error.what}, and its rollback failed: {rollback.failures[0]}",
                    error.where,
                    "Check the host's devices and queues before the next campaign",
                ) from error
            raise

    def _run(self, job: Job, rollback: Rollback) -> JobResult:
        began = time.monotonic()
        hosts = self._hosts_of(job)
        with rollback:
            kernel = _output_of_all(hosts, _MACHINE["kernel"])
            files.check_programs(job, hosts)
            devices = Devices(job, hosts)
            ready_s = time.monotonic() - began
            files.write_inputs(job, hosts, rollback)
            devices.set_up(rollback)
            steps = _Steps(job, hosts, began + job.deadline_s, rollback)
            steps.run(*job.configure)
            devices.bring_up()
            with self._synchronized(job) as clocks:
                steps.run(*job.meanwhile)
                steps.run(Pause(network.settle_seconds(job)))
                steps.run_checked(*job.set_up)
                steps.run(*job.steps)
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
            clocks=tuple(clocks) or None,
        )

    def _hosts_of(self, job: Job) -> dict[str, RemoteHost]:
        for name in job.hosts():
            if name not in self.hosts:
                raise TestbedError(
                    f"there is no host {name}",
                    f"job {job.name}",
                    f"Hosts of the testbed: {', '.join(self.hosts) or 'none'}",
                )
        return {name: self.hosts[name] for name in job.hosts()}


class _Steps:
    """The running and completed steps of a job; ``rollback`` stops those that are running."""

    def __init__(
        self, job: Job, hosts: Mapping[str, RemoteHost], end: float, rollback: Rollback
    ) -> None:
        self._job, self._hosts, self._end = job, hosts, end
        self._running: dict[str, tuple[Step, RemoteProcess]] = {}
        self._completed: dict[str, Completed] = {}
        rollback.defer(self._stop_all)

    def run(self, *steps: Step | Stop | Pause) -> None:
        """Run steps, one after the other."""
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
        """Run steps that must not fail: a partial set-up is not measured."""
        for step in steps:
            self.run(step)
            self._completed[step.name].check()

    def wait(self) -> dict[str, Completed]:
        """Wait for all running steps, and return all steps in the order of the job."""
        while self._running:
            self._end_of(next(iter(self._running)))
            self._left_s()
        return {step.name: self._completed[step.name] for step in self._job.commands()}

    def _run(self, step: Step) -> None:
        host, deadline_s = self._hosts[step.host], min(step.deadline_s, self._left_s())
        with _errors_of(step):
            completed = host.run(
                _reporting(step), deadline_s=deadline_s, limit_bytes=self._job.memory_mb << 20
            )
        self._completed[step.name] = replace(completed, argv=step.argv)

    def _start(self, step: Step) -> None:
        host, deadline_s = self._hosts[step.host], min(step.deadline_s, self._left_s())
        with _errors_of(step):
            process = host.start(_reporting(step, _STARTED), deadline_s=deadline_s)
            self._running[step.name] = step, process
            # Before that, TERM would end the shell that starts the step.
            process.read_line()
            # An empty line is the end of the output.
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
        with Rollback() as rollback:
            for name in self._running:
                rollback.defer(self._stop, name)

    def _left_s(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise JobDeadlineError(
                f"the job did not end within {self._job.deadline_s:g} s",
                f"job {self._job.name}",
                "Set a longer deadline_s for the job, or find the step that blocks",
            )
        return left


def _reporting(step: Step, line: str = "") -> list[str]:
    """Return the command that prints a line, then runs a step and reports its end."""
    return ["sh", "-c", _REPORT, "sh", line, *step.argv]


@contextmanager
def _errors_of(step: Step) -> Iterator[None]:
    """Raise errors with the step's own command in place of the one that runs it."""
    try:
        yield
    except CommandError as error:
        where = f"{step.host}: {shlex.join(step.argv)}"
        raise CommandError(error.what, where, error.remedy) from error


def _output_of_all(hosts: Mapping[str, RemoteHost], argv: list[str]) -> str:
    """Return the output of a command on all hosts; if it differs, with the hosts of each."""
    outputs = {name: run_checked(host, argv).strip() or "unknown" for name, host in hosts.items()}
    ordered = sorted(outputs, key=lambda name: outputs[name])
    groups = {text: list(names) for text, names in groupby(ordered, key=lambda n: outputs[n])}
    if len(groups) < 2:
        return "".join(groups)
    return ", ".join(f"{text} ({', '.join(names)})" for text, names in groups.items())
