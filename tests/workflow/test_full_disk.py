"""A disk that is full or read-only: one sentence that names it, and the next run completes.

The folder in question is a file system of its own, in a mount namespace that ends with the run.
"""

import shutil

import pytest
import yaml
from repository_copy import run_in_copy

from tsnrepro.records.tables import load_trials

# On the model: a namespace of mounts alone is needed.
pytestmark = [pytest.mark.whole_way, pytest.mark.timeout(1200)]

CAMPAIGN = "disk"
SETTINGS = {
    "description": "A few trials on the model",
    "seed": 1,
    "attempts": 2,
    "study": "threshold-coarse",
    "loss": {
        "repetitions": 2,
        "parts": [{"payload_bytes": 1472, "rates_mbps": [100], "duration_s": 1}],
    },
}
RUN = f"results/model/{CAMPAIGN}/loss"
FULL = "mount -t tmpfs -o size=16k none {folder}"
READ_ONLY = "mount -t tmpfs -o ro none {folder}"


@pytest.fixture(scope="module")
def repository(miniatures):
    path = miniatures / "config" / "campaigns" / f"{CAMPAIGN}.yaml"
    path.write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
    return miniatures


def run(repository, before="true"):
    """Run the campaign to its analysis, after a command in the same mount namespace."""
    config = f"campaign={CAMPAIGN} testbed=model"
    command = f"{before} && exec snakemake --cores 2 --config {config} -- {RUN}/values.json"
    return run_in_copy(repository, "unshare", "--mount", "sh", "-c", command, seconds=600)


@pytest.mark.parametrize("folder", [pytest.param("data/raw/model", marks=pytest.mark.long), RUN])
@pytest.mark.parametrize(
    ("mount", "said"), [(FULL, "No space left on device"), (READ_ONLY, "Read-only file system")]
)
def test_it_is_said_and_the_next_run_completes(repository, folder, mount, said):
    (repository / folder).mkdir(parents=True, exist_ok=True)
    done = run(repository, mount.format(folder=folder))
    assert done.returncode != 0, done.stdout
    assert said in done.stdout, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    done = run(repository)
    assert done.returncode == 0, done.stdout
    assert len(load_trials(repository / RUN / "run.json")) == 4
    for made in (f"data/raw/model/{CAMPAIGN}", RUN):
        shutil.rmtree(repository / made)
