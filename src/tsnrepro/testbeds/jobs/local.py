"""Jobs on this machine's own kernel, each in namespaces of its own that end with it.

Where the kernel has the queueing disciplines, no guest is needed: the same script runs in network,
mount, process, IPC and host-name namespaces that nothing names. The kernel takes them down, with
every process and device in them, when their first process is gone; and it ends that one when ours
ends, even by ``kill -9``. Files go in and results come out through files without a name.
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
from tsnrepro.config.testbeds import EmulatedSettings
from tsnrepro.testbeds import facts
from tsnrepro.testbeds.emulated.requirements import refuse
from tsnrepro.testbeds.guest.programs import SEARCH_PATH, find, has
from tsnrepro.testbeds.guest.requirements import lacking_qdiscs
from tsnrepro.testbeds.jobs import results, script
from tsnrepro.testbeds.jobs.job import Acceleration, Job, JobResult
from tsnrepro.testbeds.lock import TestbedLock

FOLDER = Path(__file__).resolve().parent
_SCRIPT = "/run/tsnrepro/script"
# The environment of every command, as in a guest.
_ENVIRONMENT = {"PATH": SEARCH_PATH, "HOME": "/root", "TMPDIR": "/tmp"}
PROGRAMS = (
    *("chroot", "ethtool", "ip", "mount", "nsenter", "setpriv", "sysctl", "tar", "tc", "timeout"),
    *("chrt", "unshare"),
)
# A job has these for itself.
_OWN = ("/dev", "/proc", "/run", "/sys", "/tmp")
# What a job is given beyond its deadline should nobody be there to end it then.
GRACE_SECONDS = 10
_TAIL_CHARACTERS = 1500


class LocalJobs:
    """The emulated testbed for jobs, held from ``with`` to its end.

    Parameters
    ----------
    settings
        Of the testbed; a job says itself how its links and queues are, so they only name its kind.
    purpose
        For whoever finds the testbed in use.
    needs
        Queueing disciplines without which no job can run, as the probe calls them.

    Raises
    ------
    TestbedError
        The machine lacks something, or another campaign holds the testbed.
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
        needs: Collection[str] = (),
    ) -> None:
        self.settings = settings or EmulatedSettings()
        self._purpose, self._needs = purpose, needs
        self._stack = ExitStack()

    def __enter__(self) -> "LocalJobs":
        refuse_without(self._needs)
        self._stack.enter_context(TestbedLock(self.kind, self._purpose))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def describe(self) -> dict:
        """Return the facts that every record of this testbed carries."""
        version = subprocess.run([find("tc"), "-V"], capture_output=True, text=True, check=False)
        return {
            "testbed": self.kind,
            "settings": self.settings.recorded(),
            # Jobs, on no hosts that stay: what their links and queues are is in each trial.
            "jobs": True,
            # Else the software bridge shapes.
            "kernel_queues": bool(self._needs),
            "acceleration": self.acceleration,
            "virtual_time": False,
            "iproute2": version.stdout.strip() or "unknown",
            "controller": facts.controller(),
        }

    def run(self, job: Job) -> JobResult:
        """Let this machine do the job and return what it brought back; see ``JobTestbed``."""
        began, clock = time.monotonic(), time.time()
        content, console = _run(job)
        wall_s = time.monotonic() - began
        try:
            brought = results.unpack(content, job)
        except TestbedError as error:
            raise TestbedError(
                f"{error.what}; {_tail(console)}", error.where, error.remedy
            ) from error
        return results.result_of(
            brought,
            job,
            testbed=self.kind,
            acceleration=self.acceleration,
            virtual_time=False,
            qemu=None,
            wall_s=wall_s,
            ready_s=int(brought["ready"]) / 1e9 - clock,
            console=console,
            kernel_packages=(),
        )


def refuse_without(needs: Collection[str] = ()) -> None:
    """Refuse jobs on a machine that cannot run them.

    Raises
    ------
    TestbedError
        It names what is missing (root, a program, a queueing discipline) and what to do.
    """
    missing = [] if os.geteuid() == 0 else ["root (run with sudo)"]
    missing += [f"the program {name}" for name in PROGRAMS if not has(name)]
    refuse(missing, "emulated")
    lacks = [name for name in lacking_qdiscs() if name in needs] if needs else []
    if lacks:
        raise TestbedError(
            f"this machine's kernel lacks {', '.join(lacks)}",
            "testbed emulated",
            "Run it in a guest, whose kernel has them: --config testbed=guest",
        )


def _run(job: Job) -> tuple[bytes, str]:
    """Run a job to its end; return the tar that it wrote and what it said besides."""
    with (
        tempfile.TemporaryFile() as files,
        tempfile.TemporaryFile() as disk,
        tempfile.TemporaryFile() as console,
    ):
        files.write(_archive(job))
        files.seek(0)
        # A session of its own: a terminal's interrupt is for us, and we end the job.
        first = subprocess.Popen(
            _command(job),
            stdin=files,
            stdout=disk,
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
                "Give the job a longer deadline_s, or find the step that blocks",
            ) from error
        finally:
            _end(first)
        said = _read(console)
        if first.returncode:
            raise TestbedError(
                f"no namespaces for this job: exit status {first.returncode}; {_tail(said)}",
                f"job {job.name}",
                "It needs root, network namespaces and overlay; a guest needs neither: "
                "--config testbed=guest",
            )
        disk.seek(0)
        return disk.read(), said


def _command(job: Job) -> list[str]:
    root, inside = (
        (FOLDER / name).read_text(encoding="utf-8") for name in ("root.sh", "inside.sh")
    )
    bounded = [str(job.memory_mb), f"{job.deadline_s + GRACE_SECONDS:g}"]
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--net", "--mount", "--pid", "--ipc", "--uts"),
        *("--fork", "--kill-child=KILL", "--mount-proc"),
        *("sh", "-c", root, "sh", *bounded, inside, *_mounts()),
    ]


def _end(first: subprocess.Popen) -> None:
    """End the job's first process and wait until all others are gone with it."""
    if first.poll() is None:
        # Not unshare, which would be gone before what it waits for.
        children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text(encoding="ascii")
        for number in map(int, children.split() or [str(first.pid)]):
            os.kill(number, signal.SIGKILL)
    first.wait()


def _mounts() -> list[str]:
    """Return where file systems are mounted that a job is to see, outer ones first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    # Octal stands for a space, a tab, a line's end and a backslash: proc_pid_mountinfo(5).
    places = [
        re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), line.split()[4])
        for line in lines
    ]
    foreign = [p for p in places if p != "/" and not p.startswith(tuple(f"{own}/" for own in _OWN))]
    return sorted({*foreign} - {*_OWN})


def _archive(job: Job) -> bytes:
    """Return what the job finds in its file system: script, inputs, and programs out of sight."""
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
    return f"it said: {console.strip()[-_TAIL_CHARACTERS:] or '(nothing)'}"
