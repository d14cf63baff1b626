"""The guest testbed: each job runs in a qemu guest of its own."""

import os
import platform
from contextlib import ExitStack
from threading import Event

from tsnrepro.common.errors import TestbedError
from tsnrepro.config.testbeds import GuestSettings
from tsnrepro.testbeds.guest import initramfs, kernel, machine
from tsnrepro.testbeds.hosts import facts
from tsnrepro.testbeds.hosts.lease import TestbedLock
from tsnrepro.testbeds.jobs import results
from tsnrepro.testbeds.jobs.job import Job, JobResult, Link, LinkEnd, Step
from tsnrepro.testbeds.requirements import has, require_none_missing

# Programs that build the guest's file system and start it.
PROGRAMS = ("depmod", "ldd", "setpriv", machine.QEMU)
FETCH_PROGRAMS = ("apt-cache", "apt-get", "dpkg-deb")
# The job of a trial boot under KVM: hosts, a link, a command.
_TRIAL = Job(
    "trial of KVM",
    links=(Link(LinkEnd("a", "eth0"), LinkEnd("b", "eth0")),),
    steps=(Step("links", "a", ("ip", "link"), 5),),
)


class GuestTestbed:
    """The guest testbed, locked for a ``with`` block; every job boots a guest of its own.

    Raises TestbedError if the machine does not meet a requirement, or the testbed is in use.
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
        require_none_missing(missing_requirements(), self.kind)
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
        """Number of processors if time is virtual, so that guests do not interfere, else 1."""
        return len(os.sched_getaffinity(0)) if self.acceleration == "tcg" else 1

    def describe(self) -> dict:
        """Return the facts that every record of this testbed has."""
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
        """Run a job in a guest and return its result; see ``JobTestbed``."""
        guest = self._guest(self.acceleration, job)
        initrd = self._base + initramfs.of_job(job)
        guest_result = machine.boot(guest, initrd, deadline_s=job.deadline_s, stop=self._closed)
        return results.result_of(
            results.unpack(guest_result.disk, job),
            job,
            testbed=self.kind,
            acceleration=guest.acceleration,
            virtual_time=guest.acceleration == "tcg",
            qemu=machine.version(),
            wall_s=guest_result.wall_s,
            ready_s=guest_result.ready_s,
            console=guest_result.console,
            kernel_packages=guest.kernel.packages,
        )


def missing_requirements() -> list[str]:
    """Return what this machine lacks for the guest testbed, as short phrases."""
    if platform.machine() != "x86_64":
        return ["an x86-64 processor"]
    programs = (*PROGRAMS, initramfs.SHELL, *initramfs.PROGRAMS)
    missing = [f"the program {name}" for name in programs if not has(name)]
    try:
        if not kernel.present():
            missing += [f"the program {name}" for name in FETCH_PROGRAMS if not has(name)]
    except TestbedError as error:
        missing.append(f"a kernel for the guest ({error.what})")
    return missing
