"""Studies and grids on a real Slurm give the same bytes as on this machine, if a node is lost too.

In every job the plugin starts Snakemake twice, at three seconds of processor time each, and a job
that Slurm puts back waits for two minutes: so only --all runs a grid and loses a node.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository_copy import environment_of, run_snakemake
from slurm_cluster import Cluster, lacking, wait_until
from study_repository import copy_for_studies

from tsnrepro.common.repository import root
from tsnrepro.experiments.studies.study import load_study

# Four points, one a job.
FOUR = """\
description: Few jobs
duration_s: 0.05
replications: 1
points_per_job: 1
measure: {kind: loss}
base: {rate_mbps: 300, stall_length_ms: 2, stall_interval_ms: 20}
parts:
  hosts:
    factors:
      configuration: [control, frer]
      receive_buffer_bytes: [106496, 425984]
"""
GRID = """\
description: Two queues
papers: false
vary: {queue_bytes: [16384, 262144]}
loss:
  repetitions: 1
  parts: [{payload_bytes: 1472, rates_mbps: [90], duration_s: 0.02}]
"""
TABLES = ("study.csv", "study.parquet")
SECONDS = 3600

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(3 * SECONDS)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a copy of the files that a study and a grid need."""
    lacks = lacking()
    if lacks and os.environ.get("CI") != "true":
        pytest.skip(f"this machine lacks {', '.join(lacks)} for a Slurm of its own")
    assert not lacks, f"CI must run Slurm, and lacks {', '.join(lacks)}"
    copy = copy_for_studies(tmp_path_factory.mktemp("repository"))
    studies = copy / "config" / "studies"
    (studies / "four.yaml").write_text(FOUR, encoding="utf-8")
    eight = FOUR.replace("replications: 1", "replications: 2")
    (studies / "eight.yaml").write_text(eight, encoding="utf-8")
    (copy / "config" / "campaigns" / "queues.yaml").write_text(GRID, encoding="utf-8")
    shutil.copytree(root() / "notebooks", copy / "notebooks")
    return copy


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path) as up:
        yield up


def run_here(repository: Path, name: str) -> dict[str, bytes]:
    """Return the tables as the machine itself makes them, in few jobs, and clear them away."""
    study = repository / "config" / "studies" / f"{name}.yaml"
    as_it_is = study.read_text(encoding="utf-8")
    few, changes = re.subn(r"(?m)^points_per_job:.*$", "points_per_job: 60", as_it_is)
    assert changes == 1
    study.write_text(few, encoding="utf-8")
    chosen = ["study", "--config", f"study={name}", "testbed=model"]
    done = run_snakemake(repository, "--cores", "2", *chosen, seconds=SECONDS)
    assert done.returncode == 0, done.stdout[-4000:]
    study.write_text(as_it_is, encoding="utf-8")
    folder = repository / "results" / "studies"
    tables = {table: (folder / name / table).read_bytes() for table in TABLES}
    shutil.rmtree(folder)
    return tables


def grid_here(repository: Path) -> dict[str, object]:
    """Return what the machine itself measures of the grid, and clear it away."""
    chosen = ["measurements", "--config", "testbed=model", "campaign=queues"]
    done = run_snakemake(repository, "--cores", "2", *chosen, seconds=SECONDS)
    assert done.returncode == 0, done.stdout[-4000:]
    values = grid_values(repository)
    shutil.rmtree(repository / "data")
    shutil.rmtree(repository / "results")
    return values


def grid_values(repository: Path) -> dict[str, object]:
    found = (repository / "data/raw/model/queues/loss").glob("*/trial.json")
    return {path.parent.name: json.loads(path.read_text())["values"] for path in found}


def start_on(cluster: Cluster, repository: Path, log, *targets: str) -> subprocess.Popen:
    # The profile as it is; a test has no patience for looks every 20 seconds.
    quicker = ["--slurm-init-seconds-before-status-checks", "3", "--latency-wait", "5"]
    profile = ["--workflow-profile", "workflow/profiles/slurm", *quicker]
    return subprocess.Popen(
        ["snakemake", *profile, *targets],
        cwd=repository,
        env=environment_of(repository, cluster.environment),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def run_on(cluster: Cluster, repository: Path, log: Path, *targets: str) -> None:
    with log.open("w") as said:
        snakemake = start_on(cluster, repository, said, *targets)
        try:
            assert snakemake.wait(SECONDS) == 0, log.read_text()[-4000:] + cluster.logs()
        finally:
            snakemake.kill()
            snakemake.wait()


def test_a_study_on_slurm_gives_the_bytes_of_this_machine(repository, cluster, tmp_path):
    here = run_here(repository, "four")
    run_on(cluster, repository, tmp_path / "log", "study", "--config", "study=four")
    assert [*cluster.jobs().values()] == ["COMPLETED"] * 6  # compiling and collecting too
    folder = repository / "results" / "studies" / "four"
    assert {table: (folder / table).read_bytes() for table in TABLES} == here


@pytest.mark.long
def test_a_grid_on_slurm_gives_the_values_of_this_machine(repository, cluster, tmp_path):
    here = grid_here(repository)
    targets = ["--snakefile", "Snakefile", "measurements"]
    targets += ["--config", "testbed=model", "campaign=queues"]
    run_on(cluster, repository, tmp_path / "log", *targets)
    # A part for each queue, and the list of trials.
    assert [*cluster.jobs().values()] == ["COMPLETED"] * 3
    assert len(here) == 4
    assert grid_values(repository) == here


@pytest.mark.long
def test_a_study_survives_its_node(repository, cluster, tmp_path):
    jobs = load_study(str(repository / "config" / "studies" / "eight.yaml")).chunk_count()
    assert jobs == 8
    before_loss = 2  # most are done after it
    here = run_here(repository, "eight")
    chunks = repository / "results" / "studies" / "eight" / "chunks"

    with (tmp_path / "snakemake.log").open("w+") as log:
        snakemake = start_on(cluster, repository, log, "study", "--config", "study=eight")
        try:

            def done_so_far() -> int:
                assert snakemake.poll() is None, Path(log.name).read_text()[-4000:] + cluster.logs()
                return len(list(chunks.glob("[0-9]*.json")))

            wait_until(lambda: done_so_far() >= before_loss, SECONDS, f"{before_loss} jobs done")
            cluster.lose_node()
            after_loss = done_so_far()
            assert after_loss < jobs, "the node was lost too late"
            wait_until(lambda: cluster.node_state() == "down", 120, "the node is given up")
            assert done_so_far() == after_loss, "something went on without a node"
            cluster.start_node()
            assert snakemake.wait(SECONDS) == 0, Path(log.name).read_text()[-4000:] + cluster.logs()
        finally:
            snakemake.kill()
            snakemake.wait()

    states = cluster.jobs()
    assert len(states) >= jobs + 2  # compiling and collecting are jobs too
    assert set(states.values()) <= {"COMPLETED", "NODE_FAIL", "FAILED", "CANCELLED"}
    assert cluster.restarted(), "no job was put back into the queue: was the node lost in time?"
    assert len(list(chunks.glob("*.json"))) == jobs
    on_slurm = {table: (chunks.parent / table).read_bytes() for table in TABLES}
    assert on_slurm == here


def test_nothing_is_left_of_a_cluster(tmp_path):
    if lacks := lacking():
        pytest.skip(f"this machine lacks {', '.join(lacks)}")
    cluster = Cluster(tmp_path)
    with cluster:
        submitted = cluster.ask(
            "sbatch", "--parsable", "--output", "/dev/null", "--wrap", "srun sleep 600"
        )
        job = submitted.stdout.strip()
        wait_until(lambda: cluster.jobs().get(job) == "RUNNING", 30, "the job runs")
        wait_until(cluster._below_slurmd, 10, "slurmd has started it")
    wait_until(lambda: not cluster._marked(), 10, "all processes are gone")


def test_a_killed_test_leaves_no_daemon(tmp_path):
    """The kernel ends the daemons of whoever started them, even by -9."""
    if lacks := lacking():
        pytest.skip(f"this machine lacks {', '.join(lacks)}")
    script = (
        "import sys, time; from pathlib import Path; from slurm_cluster import Cluster\n"
        "cluster = Cluster(Path(sys.argv[1])); cluster.__enter__()\n"
        "print(cluster.mark, flush=True); time.sleep(600)\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        text=True,
    )
    left = Cluster(tmp_path / "unused")
    left.mark = started.stdout.readline().strip()
    assert left._marked()
    started.kill()
    started.wait()
    wait_until(lambda: not left._marked(), 20, "all daemons are gone")
