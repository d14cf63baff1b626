"""A qemu guest from boot to power-off, and its acceleration."""

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
from tsnrepro.common.processes import killed_with_parent
from tsnrepro.testbeds.guest.kernel import Kernel, cache_folder
from tsnrepro.testbeds.requirements import find

QEMU = "qemu-system-x86_64"
Acceleration = Literal["kvm", "tcg"]
READY = "guest: ready"
DONE = "guest: done"
_TAIL_CHARACTERS = 1500
_FATAL = re.compile(r"Kernel panic|BUG:|Out of memory|job: set-up failed")
_POLL_SECONDS = 0.02
# How long a guest runs beyond its deadline if nothing ends it then.
GRACE_SECONDS = 10
# Under TCG a guest is ready within about 3 s; on a busy machine it may take ten times that.
READY_SECONDS = 60
# A trial boot takes about a second if KVM works. If it does not, kernels hang.
TRIAL_SECONDS = 12
_KERNEL_ARGUMENTS = (
    *("console=ttyS0", "quiet", "loglevel=4", "panic=-1", "nokaslr", "norandmaps"),
    *("ipv6.disable=1", "mitigations=off", "cryptomgr.notests"),
)
# Without ACPI there is no local APIC, whose calibration busy-waits for 0.2 s of virtual time, half
# of the boot; the remaining timer is as precise for taprio's windows.
_VIRTUAL_TIME_ARGUMENTS = ("acpi=off", "tsc=reliable")


@dataclass(frozen=True)
class Guest:
    """Parameters of a guest."""

    kernel: Kernel
    acceleration: Acceleration
    seed: int
    epoch: str
    memory_mb: int


@dataclass(frozen=True)
class GuestResult:
    """Result of a guest that powered off: its disk's content, its console, wall times."""

    disk: bytes
    console: str
    wall_s: float
    ready_s: float


def command(guest: Guest, initrd: Path, disk: Path, console: Path) -> list[str]:
    """Return qemu's command line: without network, display and default devices."""
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
    # One instruction takes one nanosecond (2^0), and idle time passes at once. The processor model
    # is fixed, because programs select their code by its features.
    virtual = ["-accel", "tcg", "-icount", "shift=0,sleep=off", "-rtc"]
    return [*virtual, f"base={guest.epoch},clock=vm", "-cpu", "Nehalem-v1", "-smp", "1"]


@functools.cache
def version() -> str:
    """Return qemu's version; TestbedError if qemu is not installed."""
    argv = [str(find(QEMU)), "--version"]
    output = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\S+)", output)
    return found[1] if found else output.strip()


def boot(
    guest: Guest,
    initrd: bytes,
    *,
    deadline_s: float,
    ready_s: float = READY_SECONDS,
    stop: Event | None = None,
) -> GuestResult:
    """Run a guest until it powers off, or until another thread sets ``stop``.

    It is killed with this process.

    Raises TestbedError if it was not ready in time, was stopped, or ended without results; with the
    end of its console. Raises JobDeadlineError if it exceeded its deadline.
    """
    with tempfile.TemporaryDirectory(prefix="tsnrepro-guest-") as folder:
        path = Path(folder)
        image, disk, console = path / "initrd", path / "results", path / "console"
        image.write_bytes(initrd)
        console.touch()
        with disk.open("wb") as file:
            file.truncate(guest.memory_mb * 2**20)
        argv = _bounded(command(guest, image, disk, console), deadline_s)
        times = _run(argv, console, (deadline_s, ready_s), stop or Event())
        output = _read(console)
        if DONE not in output:
            raise TestbedError(
                f"the guest ended without results; its console ends: {_tail(output)}",
                guest.kernel.release,
                "If its memory ran out, raise the job's memory_mb",
            )
        return GuestResult(disk.read_bytes(), output, *times)


def _bounded(argv: list[str], deadline_s: float) -> list[str]:
    """Return a command that is killed with its parent, and times out if its parent is stopped."""
    limit = f"{deadline_s + GRACE_SECONDS:g}"
    return killed_with_parent("timeout", limit, *killed_with_parent(*argv))


def _run(
    argv: list[str], console: Path, limits_s: tuple[float, float], stop: Event
) -> tuple[float, float]:
    """Run qemu to its end; return the seconds in total and until the guest was ready."""
    deadline_s, ready_s = limits_s
    began = time.monotonic()
    # In a session of its own: a terminal's interrupt is for this process, which ends the guest.
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
                # A guest that does not boot is the machine's failure, not its job's.
                raise (JobDeadlineError if ready else TestbedError)(
                    f"the guest did not {what} s of wall time; its console ends: "
                    + _tail(_read(console)),
                    QEMU,
                    "Set a longer deadline_s for the job, or find the step that blocks",
                )
            if stop.wait(_POLL_SECONDS):
                raise TestbedError("the guest was stopped with its testbed", QEMU)
        if qemu.returncode:
            errors = qemu.stderr.read().strip()[-_TAIL_CHARACTERS:] if qemu.stderr else ""
            raise TestbedError(f"qemu ended with exit status {qemu.returncode}: {errors}", QEMU)
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
    """Return the end of a console, after the lines of fatal errors."""
    end = console.strip()[-_TAIL_CHARACTERS:] or "(nothing)"
    reasons = [line for line in console.splitlines() if _FATAL.search(line)]
    return "\n".join([*(line for line in reasons[:3] if line not in end), end])


def accelerate(wanted: str, guest: Guest, initrd: bytes) -> Acceleration:
    """Return the acceleration to use: the one that is configured, or for ``auto`` KVM if it works.

    That is determined by a trial boot, for at most 12 s, and cached until the machine reboots.

    Raises TestbedError if KVM is configured and does not work here.
    """
    if wanted == "tcg":
        return "tcg"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        works, reason = False, "/dev/kvm does not exist or is not accessible"
    else:
        works, reason = _try_kvm(guest, initrd)
    if wanted == "kvm" and not works:
        raise TestbedError(
            f"KVM does not work here: {reason}", "acceleration kvm", "Set acceleration: auto or tcg"
        )
    return "kvm" if works else "tcg"


def _try_kvm(guest: Guest, initrd: bytes) -> tuple[bool, str]:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    key = {"boot": boot_id, "qemu": version(), "kernel": guest.kernel.release}
    file = cache_folder("kvm") / "trial.json"
    if file.exists():
        cached = json.loads(file.read_text(encoding="utf-8"))
        if cached["key"] == key:
            return cached["works"], cached["reason"]
    try:
        boot(guest, initrd, deadline_s=TRIAL_SECONDS, ready_s=TRIAL_SECONDS)
        works, reason = True, ""
    except TestbedError as error:
        works, reason = False, error.what
    result = {"key": key, "works": works, "reason": reason}
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    partial.rename(file)
    return works, reason
