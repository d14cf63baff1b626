"""One qemu guest from boot to power-off, and how it is accelerated."""

import functools
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal

from tsnrepro.common.errors import JobDeadlineError, TestbedError
from tsnrepro.testbeds.guest import cache
from tsnrepro.testbeds.guest.kernel import Kernel
from tsnrepro.testbeds.guest.programs import find

QEMU = "qemu-system-x86_64"
Acceleration = Literal["kvm", "tcg"]
READY = "guest: ready"
DONE = "guest: done"
_TAIL_CHARACTERS = 1500
_GAVE_UP = re.compile(r"Kernel panic|BUG:|Out of memory|job: set-up failed")
_POLL_SECONDS = 0.02
# What a guest is given beyond its deadline should nobody end it then.
GRACE_SECONDS = 10
# A guest under TCG says it is ready within about 3 s; a machine at work may take ten times that.
READY_SECONDS = 60
# A trial boot under KVM takes about a second where KVM works. Where it does not, kernels hang.
TRIAL_SECONDS = 12
_KERNEL_ARGUMENTS = (
    *("console=ttyS0", "quiet", "loglevel=4", "panic=-1", "nokaslr", "norandmaps"),
    *("ipv6.disable=1", "mitigations=off", "cryptomgr.notests"),
)
# Without ACPI there is no local APIC, whose calibration spins through 0.2 s of virtual time and
# makes half of the boot; the timer that is left meets taprio's windows just as well.
_VIRTUAL_TIME_ARGUMENTS = ("acpi=off", "tsc=reliable")


@dataclass(frozen=True)
class Guest:
    """What a guest boots from and how it runs."""

    kernel: Kernel
    acceleration: Acceleration
    seed: int
    epoch: str
    memory_mb: int


@dataclass(frozen=True)
class Ended:
    """A guest that powered off: its disk's content, its console, seconds of wall time."""

    disk: bytes
    console: str
    wall_s: float
    ready_s: float


def command(guest: Guest, initrd: Path, disk: Path, console: Path) -> list[str]:
    """Return qemu's command line: no network, no window, no default device."""
    return [
        str(find(QEMU)),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none"),
        *("-machine", "pc", "-m", str(guest.memory_mb), "-seed", str(guest.seed)),
        *_processor(guest),
        *("-kernel", str(guest.kernel.image), "-initrd", str(initrd)),
        *("-append", " ".join(_kernel_arguments(guest))),
        *("-serial", f"file:{console}"),
        *("-drive", f"if=none,id=results,format=raw,cache=unsafe,file={disk}"),
        *("-device", "virtio-blk-pci,drive=results"),
    ]


def _kernel_arguments(guest: Guest) -> tuple[str, ...]:
    virtual = _VIRTUAL_TIME_ARGUMENTS if guest.acceleration == "tcg" else ()
    return (*_KERNEL_ARGUMENTS, *virtual)


def _processor(guest: Guest) -> list[str]:
    if guest.acceleration == "kvm":
        count = str(min(2, os.cpu_count() or 1))
        return ["-accel", "kvm", "-cpu", "host", "-smp", count]
    # One instruction is one nanosecond (2^0), and time without instructions is not waited for.
    # A fixed processor, because a guest chooses its code by what the processor can do.
    virtual = ["-accel", "tcg", "-icount", "shift=0,sleep=off", "-rtc"]
    return [*virtual, f"base={guest.epoch},clock=vm", "-cpu", "Nehalem-v1", "-smp", "1"]


@functools.cache
def version() -> str:
    """Return qemu's version.

    Raises
    ------
    TestbedError
        qemu is not installed.
    """
    argv = [str(find(QEMU)), "--version"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = re.search(r"version (\S+)", said.stdout)
    return found[1] if found else said.stdout.strip()


def boot(
    guest: Guest,
    initrd: bytes,
    *,
    deadline_s: float,
    ready_s: float = READY_SECONDS,
    stop: Event | None = None,
) -> Ended:
    """Run a guest until it powers itself off, or until another thread sets ``stop``.

    It ends with this process, however that ends.

    Raises
    ------
    TestbedError
        It was not ready in time, was stopped, or ended without its results; with the end of its
        console.
    JobDeadlineError
        It did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="tsnrepro-guest-") as folder:
        place = Path(folder)
        image, disk, console = place / "initrd", place / "results", place / "console"
        image.write_bytes(initrd)
        console.touch()
        with disk.open("wb") as file:
            file.truncate(guest.memory_mb * 2**20)
        argv = _bounded(command(guest, image, disk, console), deadline_s)
        times = _run(argv, console, (deadline_s, ready_s), stop or Event())
        said = _read(console)
        if DONE not in said:
            raise TestbedError(
                f"the guest ended without its results; its console ends: {_tail(said)}",
                guest.kernel.release,
                "If its memory ran out, raise the job's memory_mb",
            )
        return Ended(disk.read_bytes(), said, *times)


def _bounded(argv: list[str], deadline_s: float) -> list[str]:
    """Return a command that ends with its parent, and by itself should its parent be stopped."""
    with_parent = ["setpriv", "--pdeathsig", "KILL"]
    return [*with_parent, "timeout", f"{deadline_s + GRACE_SECONDS:g}", *with_parent, *argv]


def _run(
    argv: list[str], console: Path, within_s: tuple[float, float], stop: Event
) -> tuple[float, float]:
    """Run qemu to its end; return the seconds it took in all and until it was ready."""
    deadline_s, ready_s = within_s
    began = time.monotonic()
    # A session of its own: a terminal's interrupt is for us, and we end the guest.
    qemu = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    ready = 0.0
    try:
        while qemu.poll() is None:
            passed = time.monotonic() - began
            if not ready and READY in _read(console):
                ready = passed
            if passed > deadline_s or not (ready or passed < ready_s):
                what = f"end within {deadline_s:g}" if ready else f"boot within {ready_s:g}"
                # A guest that does not boot tells of the machine, not of its job.
                raise (JobDeadlineError if ready else TestbedError)(
                    f"the guest did not {what} s of wall time; its console ends: "
                    + _tail(_read(console)),
                    QEMU,
                    "Give the job a longer deadline_s, or find the step that blocks",
                )
            if stop.wait(_POLL_SECONDS):
                raise TestbedError("the guest was stopped with its testbed", QEMU)
        if qemu.returncode:
            said = qemu.stderr.read().strip()[-_TAIL_CHARACTERS:] if qemu.stderr else ""
            raise TestbedError(f"qemu ended with {qemu.returncode}: {said}", QEMU)
    finally:
        if qemu.poll() is None:
            os.killpg(qemu.pid, signal.SIGKILL)
        qemu.wait()
        if qemu.stderr:
            qemu.stderr.close()
    return time.monotonic() - began, ready


def _read(console: Path) -> str:
    return console.read_text(encoding="utf-8", errors="replace")


def _tail(console: str) -> str:
    """Return the end of a console, after the line in which its kernel or init gave up."""
    end = console.strip()[-_TAIL_CHARACTERS:] or "(nothing)"
    reasons = [line for line in console.splitlines() if _GAVE_UP.search(line)]
    return "\n".join([*(line for line in reasons[:3] if line not in end), end])


def accelerate(wanted: str, guest: Guest, initrd: bytes) -> Acceleration:
    """Return the acceleration to use: what is wanted, or KVM where it works.

    Whether it works is found by booting the guest under it once, for 12 s at most; the answer
    is kept until the machine starts again.

    Raises
    ------
    TestbedError
        KVM is asked for and does not work here.
    """
    if wanted == "tcg":
        return "tcg"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        works, why = False, "this process may not open /dev/kvm, or there is none"
    else:
        works, why = _try_kvm(guest, initrd)
    if wanted == "kvm" and not works:
        raise TestbedError(
            f"KVM does not work here: {why}", "acceleration kvm", "Set acceleration: auto or tcg"
        )
    return "kvm" if works else "tcg"


def _try_kvm(guest: Guest, initrd: bytes) -> tuple[bool, str]:
    start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    question = {"boot": start, "qemu": version(), "kernel": guest.kernel.release}
    file = cache.folder("kvm") / "answer.json"
    if file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["question"] == question:
            return kept["works"], kept["why"]
    try:
        boot(guest, initrd, deadline_s=TRIAL_SECONDS, ready_s=TRIAL_SECONDS)
        works, why = True, ""
    except TestbedError as error:
        works, why = False, error.what
    answer = {"question": question, "works": works, "why": why}
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
    partial.rename(file)
    return works, why
