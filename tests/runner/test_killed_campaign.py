"""A campaign on the real testbed, killed while it measures, and started again."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from threading import Timer

import pytest
from left_behind import kernel_objects, surroundings

from tsnrepro.common.errors import RecordError, TestbedError
from tsnrepro.config import EmulatedSettings
from tsnrepro.config.campaigns import Campaign
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.records.store import RawStore
from tsnrepro.records.tables import load_trials
from tsnrepro.runner.run import run_trials
from tsnrepro.testbeds.emulated.testbed import LISTENER, TALKER, EmulatedTestbed

pytestmark = [pytest.mark.namespaces, pytest.mark.usefixtures("alone")]

CAMPAIGN = {
    "description": "four trials of a second",
    "loss": {
        "repetitions": 2,
        "parts": [{"payload_bytes": 200, "rates_mbps": [1], "duration_s": 1}],
    },
}
PROGRAM = """\
import json, sys
from functools import partial
from pathlib import Path
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.runner.run import run_trials, write_manifest
from tsnrepro.records.store import RawStore
from tsnrepro.config import EmulatedSettings
from tsnrepro.config.campaigns import Campaign
from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed

campaign = Campaign.model_validate(json.loads(sys.argv[1]))
store = RawStore(Path(sys.argv[2]), "emulated", "test", "loss")
bring_up = partial(EmulatedTestbed, EmulatedSettings(), "a campaign that is killed")
planned = plan_loss(campaign.loss, campaign.seed, "emulated")
found = run_trials(store, planned, 2, bring_up, loss.measure)
write_manifest(found, sys.argv[3])
"""


def test_it_resumes_at_the_trial_that_was_killed(tmp_path):
    raw, result = tmp_path / "raw", tmp_path / "run.json"
    command = [sys.executable, "-c", PROGRAM, json.dumps(CAMPAIGN), str(raw), str(result)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    store = RawStore(raw, "emulated", "test", "loss")
    campaign = Campaign.model_validate(CAMPAIGN)
    items = plan_loss(campaign.loss, campaign.seed, "emulated")

    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as first:
        for line in first.stdout:
            if "trial 3 of 4" in line:
                time.sleep(0.5)  # in the midst of its second
                first.kill()
                break
    recorded = [store.attempts(item.trial) for item in items]
    assert [len(folders) for folders in recorded] == [1, 1, 0, 0]
    before = {path: path.read_bytes() for (folder,) in recorded[:2] for path in folder.iterdir()}

    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "loss: 4 trials, 2 recorded" in again.stdout
    assert "trial 1 of 2" in again.stdout
    assert all(path.read_bytes() == data for path, data in before.items())

    trials = load_trials(result)
    assert len(trials) == 4
    assert sorted(trials["order"]) == [0, 1, 2, 3]
    assert (trials["unaccounted"] == 0).all()
    visible = [p for p in store.folder.iterdir() if not p.name.startswith(".")]
    assert len(visible) == 4, "none doubled"

    third = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "4 trials, 4 recorded" in third.stdout
    assert "trial 1 of" not in third.stdout


@pytest.mark.slow
@pytest.mark.parametrize("gone", [TALKER, LISTENER, "sw1"])
def test_a_host_that_goes_in_the_midst_of_a_trial_ends_the_run_and_the_next_completes(
    tmp_path, monkeypatch, gone
):
    """All that runs on it ends at once, its SSH server too, as where a machine loses its power."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = surroundings()
    store = RawStore(tmp_path / "raw", "emulated", "test", "loss")
    campaign = Campaign.model_validate(CAMPAIGN)
    items = plan_loss(campaign.loss, campaign.seed, "emulated")
    bring_up = partial(EmulatedTestbed, EmulatedSettings(), "a host that goes")

    def measure(testbed, trial, measured):
        if trial == items[1].trial:
            Timer(0.5, os.kill, (testbed._spaces[gone].pid, signal.SIGKILL)).start()
        loss.measure(testbed, trial, measured)

    with pytest.raises((TestbedError, RecordError)) as lost:
        run_trials(store, items, 1, bring_up, measure)
    assert gone in str(lost.value)
    end = time.monotonic() + 10  # the kernel takes its time with what nobody holds
    while (surroundings(), kernel_objects()) != (before, []) and time.monotonic() < end:
        time.sleep(0.1)
    assert (surroundings(), kernel_objects()) == (before, [])

    found = run_trials(store, items, 1, bring_up, loss.measure)
    done = [store.read(store.folder / entry["trial"]) for entry in found["trials"]]
    assert [document["status"] for document in done] == ["measured"] * len(items)
    assert not any(document["values"]["accounting"]["unaccounted"] for document in done)
