"""The soak campaign, its trials a second long: nothing grows, nothing goes unaccounted."""

from contextlib import nullcontext

import pytest

from tsnrepro.config.files import campaign
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.records.store import RawStore
from tsnrepro.runner.run import run_trials

pytestmark = [pytest.mark.namespaces, pytest.mark.slow]
REPETITIONS = 4


def short_soak():
    """Return the soak campaign with its loads, fewer repetitions and trials of a second."""
    soak = campaign("soak")
    part = soak.loss.parts[0].model_copy(update={"duration_s": 1})
    changed = soak.loss.model_copy(update={"parts": [part], "repetitions": REPETITIONS})
    return soak.model_copy(update={"loss": changed})


def left_open(testbed) -> dict[str, int]:
    """Return what each host holds open: a soak must not leave more behind trial after trial."""
    script = "ls /proc/[0-9]*/fd 2>/dev/null | wc -l"
    return {
        name: int(host.run(["sh", "-c", script], deadline_s=10).check().stdout)
        for name, host in testbed.hosts.items()
    }


def test_a_short_soak_accounts_for_everything_and_leaves_nothing(testbed, tmp_path):
    soak = short_soak()
    planned = plan_loss(soak.loss, soak.seed, "emulated")
    assert len(planned) == 2 * 2 * REPETITIONS
    store = RawStore(tmp_path, "emulated", "soak", "loss")

    def run(items):
        return run_trials(
            store, items, 1, lambda: nullcontext(testbed), loss.measure, warm_up=soak.warm_up
        )

    run(planned[:4])
    before = left_open(testbed)
    found = run(planned)
    after = left_open(testbed)
    assert len(found["trials"]) == len(planned)
    documents = [store.read(store.folder / entry["trial"]) for entry in found["trials"]]
    for document in documents:
        assert document["values"]["accounting"]["unaccounted"] == 0
    assert [d["order"] for d in documents] == list(range(len(planned)))
    # One left open a trial would be a dozen; a session that is just ending is a few.
    since = len(planned) - 4
    assert all(after[name] - before[name] < since for name in before), (before, after)
