"""A Slurm cluster of one node on this machine: its own munged, slurmctld and slurmd.

The daemons are private: configuration, keys, sockets, state and logs lie in one folder, ports are
free ones of loopback, and nothing of a Slurm that the machine may have is touched. They end with
the test, and by the kernel's hand if the test itself is killed.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
PROGRAMS = (*DAEMONS, "sbatch", "squeue", "srun", "scontrol", "sinfo", "setpriv")
NODE = "node1"
# More than there may be: a job waits for its programs to start as much as it computes.
PROCESSORS = 4
# From the last word of a node to its being given up.
SLURMD_TIMEOUT_SECONDS = 10
# What hangs below slurmd's cgroup-less jobs is found by this variable in their environment.
MARK = "TSNREPRO_TEST_CLUSTER"


def lacking() -> list[str]:
    """Return what this machine lacks for a Slurm of its own."""
    lacks = [] if os.geteuid() == 0 else ["root"]
    path = f"{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
    return lacks + [f"the program {name}" for name in PROGRAMS if not shutil.which(name, path=path)]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]
    finally:
        for opened in sockets:
            opened.close()


def wait_until(condition, seconds: float, what: str):
    """Return the first true value of ``condition()``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.2)
    raise AssertionError(f"after {seconds} s still not: {what}")


class Cluster:
    """Use as a context manager; ``environment`` leads every Slurm program to this cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self._daemons: dict[str, subprocess.Popen] = {}
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("SLURM_")},
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin",
            "SLURM_CONF": str(folder / "slurm.conf"),
            MARK: self.mark,
        }

    def __enter__(self) -> "Cluster":
        try:
            self._configure()
            self._munge()
            self._start("slurmctld", "-D", "-i")
            wait_until(lambda: self.ask("scontrol", "ping").returncode == 0, 30, "slurmctld is up")
            self.start_node()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(DAEMONS):
            self._stop(name)
        for pid in self._marked():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _configure(self) -> None:
        folder = self.folder
        for name in ("state", "spool", "munge", "bin"):
            (folder / name).mkdir(parents=True, mode=0o700)
        controller, node = free_ports(2)
        settings = {
            "ClusterName": "tsnrepro",
            "SlurmctldHost": f"{socket.gethostname()}(127.0.0.1)",
            "SlurmctldPort": controller,
            "SlurmUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self._socket}",
            "CredType": "cred/munge",
            # Without systemd and without control over cgroups.
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "MpiDefault": "none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "AccountingStorageType": "accounting_storage/none",
            "JobCompType": "jobcomp/filetxt",
            "JobCompLoc": folder / "completed.txt",
            "JobAcctGatherType": "jobacct_gather/none",
            "StateSaveLocation": folder / "state",
            "SlurmdSpoolDir": folder / "spool",
            "SlurmctldPidFile": folder / "slurmctld.pid",
            "SlurmdPidFile": folder / "slurmd.pid",
            "SlurmctldDebug": "info",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "sched_interval=2,batch_sched_delay=0",
            "SlurmdTimeout": SLURMD_TIMEOUT_SECONDS,
            "MessageTimeout": 10,
            "ReturnToService": 2,
            "JobRequeue": 1,
            "MinJobAge": 86_400,
            "KillWait": 1,
            "SlurmdParameters": "config_overrides",
        }
        node_line = (
            f"NodeName={NODE} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={node}"
            f" CPUs={PROCESSORS} RealMemory=1000 State=UNKNOWN"
        )
        lines = [f"{key}={value}" for key, value in settings.items()]
        lines += [node_line, f"PartitionName=all Nodes={NODE} Default=YES MaxTime=60 State=UP"]
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        # The plugin takes SLURM_CONF out of the environment of a job's step, and expects the
        # configuration in /etc/slurm; here it is not there.
        srun = folder / "bin" / "srun"
        real = shutil.which("srun", path=os.environ["PATH"])
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {real} "$@"\n')
        srun.chmod(0o700)

    @property
    def _socket(self) -> Path:
        return self.folder / "munge" / "socket"

    def _munge(self) -> None:
        key = self.folder / "munge" / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        files = {"key-file": key, "socket": self._socket}
        files |= {f"{kind}-file": self.folder / "munge" / kind for kind in ("pid", "log", "seed")}
        # Root owns the folders here, where the package would have a user of its own.
        options = [f"--{name}={path}" for name, path in files.items()]
        self._start("munged", "--foreground", "--force", "--num-threads=2", *options)
        wait_until(self._socket.exists, 10, "munged listens")

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", name, *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )

    def _stop(self, name: str) -> None:
        daemon = self._daemons.pop(name, None)
        if daemon is None:
            return
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def start_node(self) -> None:
        """Start slurmd and wait until the controller gives it work."""
        self._start("slurmd", "-D", "-N", NODE)
        wait_until(lambda: self.node_state() in ("idle", "mixed", "allocated"), 60, "node is up")

    def lose_node(self) -> None:
        """End slurmd and all that it started with -9, as when a node loses its power."""
        daemon = self._daemons.pop("slurmd")
        daemon.kill()
        daemon.wait()
        # Until none is left: what is being killed may have started another a moment ago.
        while pids := self._below_slurmd():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _below_slurmd(self) -> list[int]:
        return [pid for pid in self._marked() if _runs_in_a_job(pid)]

    def _marked(self) -> list[int]:
        """Return the processes that belong to this cluster, apart from this one."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def ask(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=30, check=False
        )

    def node_state(self) -> str:
        return self.ask("sinfo", "--noheader", "--format=%T").stdout.strip().rstrip("*~#!%$@^-")

    def jobs(self) -> dict[str, str]:
        """Return the state of every job that there was, by its number."""
        listed = self.ask("squeue", "--states=all", "--noheader", "--format=%i|%T").stdout
        return dict(line.split("|") for line in listed.split())

    def restarted(self) -> list[str]:
        """Return the numbers of jobs that Slurm put back into the queue."""
        shown = self.ask("scontrol", "--oneliner", "show", "jobs").stdout.splitlines()
        found = []
        for line in shown:
            restarts = re.search(r"\bRestarts=(\d+)", line)
            number = re.search(r"\bJobId=(\d+)", line)
            if restarts and number and int(restarts[1]) > 0:
                found.append(number[1])
        return found

    def start_waiting(self) -> None:
        """Let jobs that were put back start now: Slurm has them wait two minutes by itself."""
        for number in self.restarted():
            self.ask("scontrol", "update", f"JobId={number}", "StartTime=now")

    def logs(self) -> str:
        """Return the ends of the daemons' logs, for a failing test."""
        parts = []
        for path in sorted(self.folder.glob("*.out")):
            parts.append(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}")
        return "\n".join(parts)


def _runs_in_a_job(pid: int) -> bool:
    with suppress(OSError):
        if Path(f"/proc/{pid}/comm").read_text().strip() == "slurmstepd":
            return True
        return b"SLURM_JOB_ID=" in Path(f"/proc/{pid}/environ").read_bytes()
    return False
