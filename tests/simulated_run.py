"""A simulated run with its record and results."""

import shutil

import pytest

from tsnrepro.common.repository import root
from tsnrepro.config import files as campaigns
from tsnrepro.experiments.tcp import analysis as tcp
from tsnrepro.records.integrity import write_seal
from tsnrepro.results.output import RunOutput
from tsnrepro.runner import run as measuring

CAMPAIGN = "description: A short experiment\ntcp: {repetitions: 3, durations_s: [1, 2]}\n"


def _analysed(run):
    output = RunOutput(run)
    output.values(tcp.analyse(output.trials, 1000.0))


@pytest.fixture(scope="session")
def analysed():
    """Return the function that analyses a run like the notebook, without a kernel."""
    return _analysed


@pytest.fixture(scope="session")
def simulated_run_folder(tmp_path_factory):
    """Return the folder of an analysed run of 12 trials, in a temporary repository."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(root() / "config", folder / "config")
    (folder / "config/campaigns/short.yaml").write_text(CAMPAIGN, encoding="utf-8")
    run = folder / "results/model/short/tcp/run.json"
    run.parent.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaigns, "root", lambda: folder)
        patch.setattr(measuring, "raw_root", lambda: folder / "data" / "raw")
        measuring.run_experiment("tcp", "model", "short", str(run))
    _analysed(run)
    write_seal(run.parent)
    return run.parent
