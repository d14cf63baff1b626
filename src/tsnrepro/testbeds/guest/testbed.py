"""The guest testbed: jobs, each in a guest of its own, their results as records of commands."""

import os
from contextlib import ExitStack
from threading import Event

from tsnrepro.config.testbeds import GuestSettings
from tsnrepro.testbeds import facts
from tsnrepro.testbeds.emulated.requirements import refuse
from tsnrepro.testbeds.guest import initramfs, kernel, machine
from tsnrepro.testbeds.guest.requirements import missing
from tsnrepro.testbeds.jobs import results
from tsnrepro.testbeds.jobs.job import Job, JobResult, Link, LinkEnd, Step
from tsnrepro.testbeds.lock import TestbedLock

# What a trial of KVM runs: hosts, a link, a command.
_TRIAL = Job(
    "trial of KVM",
    links=(Link(LinkEnd("a", "eth0"), LinkEnd("b", "eth0")),),
    steps=(Step("say", "a", ("ip", "link"), 5),),
)


class GuestTestbed:
    """The testbed, held from ``with`` to its end; every job boots a guest of its own.

    Raises
    ------
    TestbedError
        The machine lacks something, or another campaign holds the testbed.
    """

    kind = "guest"
    machines = ()
    cable = None

    def __init__(self, settings: GuestSettings | None = None, purpose: str = "") -> None:
        self.settings = settings or GuestSettings()
        self._purpose = purpose
        self._stack = ExitStack()
        self.acceleration: machine.Acceleration = "tcg"
        self._closed = Event()

    def __enter__(self) -> "GuestTestbed":
        refuse(missing(), self.kind)
        with ExitStack() as stack:
            stack.enter_context(TestbedLock(self.kind, self._purpose))
            self._kernel = kernel.get(self.settings.kernel_package)
            self._base = initramfs.base(self._kernel)
            trial = self._guest("kvm", _TRIAL)
            self.acceleration = machine.accelerate(
                self.settings.acceleration, trial, self._base + initramfs.of_job(_TRIAL)
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._stack.close()

    @property
    def max_parallel(self) -> int:
        """As many as there are processors where time is virtual, which no other guest slows."""
        return len(os.sched_getaffinity(0)) if self.acceleration == "tcg" else 1

    def describe(self) -> dict:
        """Return the facts that every record of this testbed carries."""
        return {
            "testbed": self.kind,
            "settings": self.settings.recorded(),
            "kernel_packages": self._kernel.packages,
            "acceleration": self.acceleration,
            "virtual_time": self.acceleration == "tcg",
            "qemu": machine.version(),
            "controller": facts.controller(),
        }

    def _guest(self, acceleration: machine.Acceleration, job: Job) -> machine.Guest:
        epoch, memory = self.settings.epoch, job.memory_mb
        return machine.Guest(self._kernel, acceleration, job.seed, epoch, memory)

    def run(self, job: Job) -> JobResult:
        """Boot a guest, let it do the job, and return what it brought back; see ``JobTestbed``."""
        guest = self._guest(self.acceleration, job)
        initrd = self._base + initramfs.of_job(job)
        ended = machine.boot(guest, initrd, deadline_s=job.deadline_s, stop=self._closed)
        return results.result_of(
            results.unpack(ended.disk, job),
            job,
            testbed=self.kind,
            acceleration=guest.acceleration,
            virtual_time=guest.acceleration == "tcg",
            qemu=machine.version(),
            wall_s=ended.wall_s,
            ready_s=ended.ready_s,
            console=ended.console,
            kernel_packages=guest.kernel.packages,
        )
