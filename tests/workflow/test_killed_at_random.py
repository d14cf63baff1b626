"""A small campaign killed at random instants: nothing measured is lost, nothing else is left.

Whoever of a run is killed, alone or all at once, and whether or not it is interrupted as by Ctrl-C,
the next plain ``snakemake`` goes on with it.
"""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import yaml
from left_behind import kernel_objects, names_left, processes, surroundings
from repository_copy import environment_of

from tsnrepro.records.tables import load_trials

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.whole_way,
    pytest.mark.usefixtures("alone"),
    pytest.mark.timeout(7200),
]

CAMPAIGN = "killed"
TRIALS = {"loss": 4, "tcp": 2}
SETTINGS = {
    "description": "Short trials, to be killed",
    "seed": 1,
    "attempts": 3,
    "warm_up": False,
    "study": "threshold-coarse",
    "loss": {
        "repetitions": 1,
        "parts": [
            {"payload_bytes": 1472, "rates_mbps": [1], "duration_s": 1},
            {
                "objective": "limit",
                "payload_bytes": 200,
                "rates_mbps": [1],
                "duration_s": 0.5,
                "generator": "talker",
            },
        ],
    },
    "tcp": {"repetitions": 1, "durations_s": [1]},
}
RESULTS = Path("results", "emulated", CAMPAIGN)
TARGETS = [str(RESULTS / experiment / "values.json") for experiment in TRIALS]
VICTIMS = ("group", "snakemake", "python", "sshd", "tool", "interrupt")
GONE_SECONDS = 10
RUN_SECONDS = 300
# About ten of each victim in the longer one.
KILLS = [4, pytest.param(60, marks=pytest.mark.long)]
OWN_SPACE = Path("/proc/self/ns/net").stat().st_ino


class Workflow:
    """Snakemake in a copy of the repository; who descends from it is told by a mark."""

    def __init__(self, repository: Path, temporary: Path) -> None:
        mark = f"TSNREPRO_TEST_MARK={uuid.uuid4()}"
        name, self._mark = mark.split("=")
        base = environment_of(repository) | {
            "TMPDIR": str(temporary),
            "JUPYTER_RUNTIME_DIR": str(temporary),
            name: self._mark,
        }
        self._said = (repository / "said.txt").open("w+", encoding="utf-8")
        arguments = ["--cores", "4", "--config", f"campaign={CAMPAIGN}", "--", *TARGETS]
        self.process = subprocess.Popen(
            [Path(sys.executable).parent / "snakemake", *arguments],
            cwd=repository,
            env=base,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def living(self) -> dict[int, str]:
        """Return the command lines of its processes and of all that are in a testbed's hosts."""
        return {
            pid: command
            for pid, (command, environment, space) in processes().items()
            if self._mark in environment or space != OWN_SPACE
        }

    def kill(self, whom: str, chance: random.Random) -> str:
        """Kill a process of the kind, and return what it was; empty where there is none now."""
        if whom in ("group", "interrupt"):
            os.killpg(self.process.pid, signal.SIGINT if whom == "interrupt" else signal.SIGKILL)
            return whom
        living = self.living().items()
        there = sorted((pid, line) for pid, line in living if self._is(whom, pid, line))
        if not there:
            return ""
        pid, line = chance.choice(there)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return ""
        return line or whom

    def kill_after(self, seconds: float, chance: random.Random) -> str:
        """Kill one after some time, of a kind that there is then; return what it was.

        Nothing where the workflow ended before.
        """
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                kinds = chance.sample(VICTIMS, len(VICTIMS))
                return next(killed for whom in kinds if (killed := self.kill(whom, chance)))
            time.sleep(0.02)
        return ""

    def _is(self, whom: str, pid: int, line: str) -> bool:
        if whom == "snakemake" or pid == self.process.pid:
            return whom == "snakemake" and pid == self.process.pid
        if whom == "python":
            return "python" in line.split(" ", maxsplit=1)[0]
        if whom == "sshd":
            return "sshd" in line
        # Nor who removes folders when Snakemake is gone: were both killed, nobody would.
        return not any(word in line for word in ("python", "sshd", "bash", "/sh ", "rm -rf"))

    def wait(self) -> str:
        """Wait for Snakemake's end and return what it said."""
        try:
            self.process.wait(RUN_SECONDS)
        finally:
            self.process.kill()
        self._said.seek(0)
        return self._said.read()


def assert_gone(workflow: Workflow, temporary: Path, before: dict[str, list[str]]) -> None:
    end = time.monotonic() + GONE_SECONDS
    while True:  # what is orphaned ends by itself, and the kernel takes namespaces down after it
        left = [*workflow.living().values(), *kernel_objects()]
        left += [name for name in names_left(temporary) if name != "tsnrepro-emulated.lock"]
        if not left or time.monotonic() > end:
            break
        time.sleep(0.1)
    assert left == []
    assert surroundings() == before


def recorded(repository: Path) -> dict[str, str]:
    """Return the checksum of every file of every whole trial."""
    folder = repository / "data" / "raw" / "emulated" / CAMPAIGN
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
    }


def assert_whole(repository: Path) -> None:
    """Each trial that was planned is there once, and every datagram is accounted for."""
    for experiment, number in TRIALS.items():
        run = repository / RESULTS / experiment / "run.json"
        trials = load_trials(run)
        assert sorted(trials["order"]) == list(range(number))
        if "unaccounted" in trials:
            assert (trials["unaccounted"] == 0).all()


@pytest.fixture(scope="module")
def repository(miniatures):
    path = miniatures / "config" / "campaigns" / f"{CAMPAIGN}.yaml"
    path.write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    return miniatures


def start_anew(repository: Path) -> None:
    shutil.rmtree(repository / "data" / "raw" / "emulated" / CAMPAIGN, ignore_errors=True)
    shutil.rmtree(repository / RESULTS, ignore_errors=True)


def run_undisturbed(repository: Path, temporary: Path, before: dict[str, list[str]]) -> None:
    workflow = Workflow(repository, temporary)
    said = workflow.wait()
    assert workflow.process.returncode == 0, said
    assert_gone(workflow, temporary, before)
    assert_whole(repository)


@pytest.mark.parametrize("kills", KILLS)
def test_killed_and_gone_on_with(repository, tmp_path, kills):
    before, chance = surroundings(), random.Random(kills)
    began = time.monotonic()
    run_undisturbed(repository, tmp_path, before)
    whole_run_s = time.monotonic() - began
    start_anew(repository)
    done, there = 0, {}
    while done < kills:
        workflow, killed = Workflow(repository, tmp_path), []
        # Within half a run, since what is recorded brings the next further. Who loses a tool or a
        # server goes on, and may be killed again.
        while line := workflow.kill_after(chance.uniform(0, whole_run_s / 2), chance):
            killed.append(line)
        said = workflow.wait()
        print(f"{time.monotonic() - began:6.0f} s: {killed}", flush=True)
        assert_gone(workflow, tmp_path, before)
        now = recorded(repository)
        assert now | there == now, f"lost or changed after a kill of {killed}"
        there, done = now, done + len(killed)
        assert killed or workflow.process.returncode == 0, said
        if workflow.process.returncode == 0:
            assert_whole(repository)
            start_anew(repository)
            there = {}
    run_undisturbed(repository, tmp_path, before)
