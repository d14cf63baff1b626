"""A testbed that was measured afterwards stands beside in the paper, without a word to Snakemake.

A second testbed of queues stands for the guest, which takes minutes.
"""

import json
import shutil

import pytest
import yaml
from miniature import miniature
from repository_copy import copy_of_repository, run_snakemake

from tsnrepro.config.files import campaign

CAMPAIGN, SECOND, PAPER = "queues", "second", "software-bridge"
# What a paper is printed from; LaTeX adds nothing to whose numbers stand in it.
PRINTED = f"results/papers/model-{CAMPAIGN}/{PAPER}/provenance.json"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def repository(tmp_path):
    """Return a copy with a campaign of one part, and the second testbed in the guest's column."""
    folder = copy_of_repository(tmp_path / "repository")
    testbeds = folder / "config/testbeds"
    shutil.copy(testbeds / "model.yaml", testbeds / f"{SECOND}.yaml")
    sources = folder / "paper" / PAPER / "sources.yaml"
    said = sources.read_text(encoding="utf-8")
    assert "guest: guest" in said
    sources.write_text(said.replace("guest: guest", f"guest: {SECOND}"), encoding="utf-8")
    small = miniature(campaign("quick")).model_dump(mode="json", exclude_none=True)
    shaping = small["shaping"]
    shaping["parts"] = [part for part in shaping["parts"] if part["name"] == "bridge"]
    kept = {"description": "One part", "attempts": 1, "shaping": shaping}
    path = folder / "config/campaigns" / f"{CAMPAIGN}.yaml"
    path.write_text(yaml.safe_dump(kept, sort_keys=False), encoding="utf-8")
    return folder


def run(repository, target, testbed):
    chosen = (f"testbed={testbed}", f"campaign={CAMPAIGN}")
    done = run_snakemake(repository, "--cores", "2", target, "--config", *chosen, seconds=300)
    assert done.returncode == 0, done.stdout[-4000:]


def columns(repository):
    """Return the columns that the paper's numbers stand in, the first one's without a name."""
    run(repository, PRINTED, "model")
    record = json.loads((repository / PRINTED).read_text(encoding="utf-8"))
    names = {item["key"].partition(".")[0] for item in record["measured"] if item["trials"]}
    drawn = {item["path"].split("/")[0] for item in record["files"]}
    assert drawn == names
    return names


def test_a_paper_shows_what_was_measured_since_and_not_what_is_missing(repository):
    assert columns(repository) == {"shaping", "simulated"}
    run(repository, "measurements", SECOND)
    assert columns(repository) == {"shaping", "simulated", "guest"}
    trial = next((repository / f"data/raw/{SECOND}/{CAMPAIGN}/shaping").glob("*/trial.json"))
    shutil.rmtree(trial.parent)
    assert columns(repository) == {"shaping", "simulated"}
    assert not trial.exists()  # nothing was measured for it
