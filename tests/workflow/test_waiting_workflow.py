"""While a job measures, Snakemake does not take the processors that it is measured on."""

import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest

from tsnrepro.common.repository import root

# As a campaign's: one job on the testbed, others that wait for it, with many inputs each.
RULES = """
from tsnrepro.workflow.startup import disable_rate_limiter

onstart:
    {start}

rule all:
    input: expand("waits-{{n}}.txt", n=range(30))

rule measure:
    output: "measures.txt"
    priority: 1
    resources: testbed=1
    shell: "touch {{output}}; sleep 600"

rule wait:
    input: expand("inputs/{{{{n}}}}-{{m}}.txt", m=range(100))
    output: "waits-{{n}}.txt"
    resources: testbed=1
    shell: "touch {{output}}"

"""


def processor_seconds(folder: Path, start: str) -> float:
    """Return what Snakemake itself takes of a processor in three seconds of waiting."""
    folder.mkdir()
    (folder / "Snakefile").write_text(RULES.format(start=start))
    shutil.copytree(root() / "workflow/profiles/default", folder / "profiles/default")
    (folder / "inputs").mkdir()
    for job, number in product(range(30), range(100)):
        (folder / f"inputs/{job}-{number}.txt").touch()
    snakemake = Path(sys.executable).parent / "snakemake"
    process = subprocess.Popen(
        [snakemake, "--cores", "4", "all", "measures.txt"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not (folder / "measures.txt").exists():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        before = processor_time(process.pid)
        time.sleep(3)
        return processor_time(process.pid) - before
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def processor_time(process: int) -> float:
    user, system = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_a_quiet_scheduler_leaves_the_processors_to_what_is_measured(tmp_path):
    left = processor_seconds(tmp_path / "left", "pass")
    quiet = processor_seconds(tmp_path / "quiet", "disable_rate_limiter(workflow.scheduler)")
    assert quiet < 0.25 * left
