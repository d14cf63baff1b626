"""The emulated testbed for jobs: this machine's own kernel, each job in namespaces of its own.

If the kernel has the queueing disciplines, no guest is needed: the same script runs in unnamed
network, mount, PID, IPC and UTS namespaces. The kernel removes them, with their processes and
devices, when their first process has ended; and it kills that one when ours ends, even by
``kill -9``. Inputs and results pass through unnamed files.
"""

import io
import os
import re
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from tsnrepro.common.errors import JobDeadlineError, TestbedError
from tsnrepro.common.processes import in_namespaces
from tsnrepro.config.testbeds import EmulatedSettings
from tsnrepro.testbeds.hosts import facts
from tsnrepro.testbeds.hosts.lease import TestbedLock
from tsnrepro.testbeds.jobs import results, script
from tsnrepro.testbeds.jobs.job import Acceleration, Job, JobResult
from tsnrepro.testbeds.requirements import (
    SEARCH_PATH,
    find,
    has,
    missing_qdiscs,
    require_none_missing,
)

FOLDER = Path(__file__).resolve().parent
_SCRIPT = "/run/tsnrepro/script"
# The environment of every command, as in a guest.
_ENVIRONMENT = {"PATH": SEARCH_PATH, "HOME": "/root", "TMPDIR": "/tmp"}
PROGRAMS = (
    *("chroot", "ethtool", "ip", "mount", "nsenter", "setpriv", "sysctl", "tar", "tc", "timeout"),
    *("chrt", "unshare"),
)
# Private to a job.
_OWN = ("/dev", "/proc", "/run", "/sys", "/tmp")
# How long a job runs beyond its deadline if nothing ends it then.
GRACE_SECONDS = 10
_TAIL_CHARACTERS = 1500


class LocalJobs:
    """The emulated testbed for jobs, locked for a ``with`` block.

    ``settings``: settings of the testbed; links and queues are each job's own. ``purpose``: purpose
    of the jobs, for others who find the testbed in use; ``qdiscs``: queueing disciplines that the
    jobs need, by the names of the probe. Raises TestbedError if the machine does not meet a
    requirement, or the testbed is in use.
    """

    kind = "emulated"
    machines = ()
    max_parallel = 1
    cable = None
    acceleration: Acceleration = "none"

    def __init__(
        self,
        settings: EmulatedSettings | None = None,
        purpose: str = "",
        qdiscs: Collection[str] = (),
    ) -> None:
        self.settings = settings or EmulatedSettings()
        self._purpose, self._qdiscs = purpose, qdiscs
        self._stack = ExitStack()

    def __enter__(self) -> "LocalJobs":
        check_requirements(self._qdiscs)
        self._stack.enter_context(TestbedLock(self.kind, self._purpose))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def describe(self) -> dict:
        """Return the facts that every record of this testbed has."""
        version = subprocess.run([find("tc"), "-V"], capture_output=True, text=True, check=False)
        return {
            "testbed": self.kind,
            "settings": self.settings.recorded(),
            # No permanent hosts: links and queues are recorded with each trial.
            "jobs": True,
            # Otherwise the software bridge shapes.
            "kernel_queues": bool(self._qdiscs),
            "acceleration": self.acceleration,
            "virtual_time": False,
            "iproute2": version.stdout.strip() or "unknown",
            "controller": facts.controller(),
        }

    def run(self, job: Job) -> JobResult:
        """Run a job and return its result; see ``JobTestbed``."""
        began, clock = time.monotonic(), time.time()
        archive, console = _run(job)
        wall_s = time.monotonic() - began
        try:
            files = results.unpack(archive, job)
        except TestbedError as error:
            raise TestbedError(
                f"{error.what}; {_tail(console)}", error.where, error.remedy
            ) from error
        return results.result_of(
            files,
            job,
            testbed=self.kind,
            acceleration=self.acceleration,
            virtual_time=False,
            qemu=None,
            wall_s=wall_s,
            ready_s=int(files["ready"]) / 1e9 - clock,
            console=console,
            kernel_packages=(),
        )


def check_requirements(qdiscs: Collection[str] = ()) -> None:
    """Refuse jobs on a machine that cannot run them.

    Raises TestbedError if root, a program or a queueing discipline is missing.
    """
    missing = [] if os.geteuid() == 0 else ["root (run with sudo)"]
    missing += [f"the program {name}" for name in PROGRAMS if not has(name)]
    require_none_missing(missing, "emulated")
    missing = [name for name in missing_qdiscs() if name in qdiscs] if qdiscs else []
    if missing:
        raise TestbedError(
            f"this machine's kernel lacks {', '.join(missing)}",
            "testbed emulated",
            "Run it in a guest, whose kernel has them: --config testbed=guest",
        )


def _run(job: Job) -> tuple[bytes, str]:
    """Run a job to its end; return the archive of its results and its console output."""
    with (
        tempfile.TemporaryFile() as files,
        tempfile.TemporaryFile() as archive,
        tempfile.TemporaryFile() as console,
    ):
        files.write(_archive(job))
        files.seek(0)
        # In a session of its own: a terminal's interrupt is for this process, which ends the job.
        first = subprocess.Popen(
            _command(job),
            stdin=files,
            stdout=archive,
            stderr=console,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        try:
            first.wait(job.deadline_s)
        except subprocess.TimeoutExpired as error:
            raise JobDeadlineError(
                f"the job did not end within {job.deadline_s:g} s; {_tail(_read(console))}",
                f"job {job.name}",
                "Set a longer deadline_s for the job, or find the step that blocks",
            ) from error
        finally:
            _end(first)
        output = _read(console)
        if first.returncode:
            raise TestbedError(
                f"cannot create the job's namespaces: exit status {first.returncode}; "
                f"{_tail(output)}",
                f"job {job.name}",
                "They need root, network namespaces and overlayfs; a guest needs none of them: "
                "--config testbed=guest",
            )
        archive.seek(0)
        return archive.read(), output


def _command(job: Job) -> list[str]:
    root, inside = (
        (FOLDER / name).read_text(encoding="utf-8") for name in ("root.sh", "inside.sh")
    )
    limits = [str(job.memory_mb), f"{job.deadline_s + GRACE_SECONDS:g}"]
    script_arguments = [*limits, inside, *_mounts()]
    return in_namespaces(("net", "mount", "ipc", "uts"), "sh", "-c", root, "sh", *script_arguments)


def _end(first: subprocess.Popen) -> None:
    """Kill the job's first process, and all others with it."""
    if first.poll() is None:
        # Not unshare, which would end before its child.
        children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text(encoding="ascii")
        for number in map(int, children.split() or [str(first.pid)]):
            os.kill(number, signal.SIGKILL)
    first.wait()


def _mounts() -> list[str]:
    """Return the mount points of file systems that a job can read, outer ones first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    # White space and backslashes are octal escapes: proc_pid_mountinfo(5).
    mounts = [
        re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line.split()[4])
        for line in lines
    ]
    foreign = [p for p in mounts if p != "/" and not p.startswith(tuple(f"{own}/" for own in _OWN))]
    return sorted({*foreign} - {*_OWN})


def _archive(job: Job) -> bytes:
    """Return an archive of script, inputs, and programs that the job could not see otherwise."""
    programs = [find(name) for name in job.programs]
    hidden = [p for p in programs if p.is_relative_to("/tmp") or p.is_relative_to("/run")]
    added = {str(path): path.read_bytes() for path in hidden} | dict(job.inputs)
    added[_SCRIPT] = script.text(job).encode()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for path, what in added.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(what), 0o755
            tar.addfile(member, io.BytesIO(what))
    return content.getvalue()


def _read(console: IO[bytes]) -> str:
    console.seek(0)
    return console.read().decode(errors="replace")


def _tail(console: str) -> str:
    return f"its output ends: {console.strip()[-_TAIL_CHARACTERS:] or '(nothing)'}"
