"""A run that is asked to stop, or to skip what it measures, loses nothing and goes on later."""

import threading
import time
from contextlib import contextmanager

import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.records.store import RawStore, Trial
from tsnrepro.runner import control
from tsnrepro.runner.control import (
    EXPERIMENT,
    RUN_CONTROL,
    STOP,
    TRIAL,
    StoppedError,
    controlled,
    holder_of,
    live_runs,
    request,
)
from tsnrepro.runner.design import Planned
from tsnrepro.runner.run import manifest, run_trials


def planned(count: int) -> list[Planned]:
    return [
        Planned(Trial("loss", f"trial-{n}", {"number": n}, 1), order=n, nominal_s=1.0)
        for n in range(count)
    ]


class Testbed:
    __test__ = False
    machines = ()

    def __init__(self, max_parallel: int = 1) -> None:
        self.max_parallel = max_parallel

    @contextmanager
    def open(self):
        yield self

    def describe(self) -> dict:
        return {"testbed": "fake"}


@pytest.fixture
def store(tmp_path):
    return RawStore(tmp_path, "fake", "short", "loss")


def statuses(store, items) -> list[list[str]]:
    return [store.attempt_statuses(item.trial) for item in items]


def run(store, items, measure, testbed=None):
    return run_trials(store, items, 2, (testbed or Testbed()).open, measure)


def value(_testbed, trial, measured):
    measured.values["number"] = trial.factors["number"]


def during(number, act):
    """Return what measures a trial, and acts during the trial of that number."""

    def measure(testbed, trial, measured):
        if trial.factors["number"] == number:
            act()
        value(testbed, trial, measured)

    return measure


def test_a_run_that_is_asked_to_stop_ends_after_its_trial_and_goes_on_later(store):
    items = planned(4)
    with pytest.raises(StoppedError, match="Measured trials are recorded"):
        run(store, items, during(1, lambda: request(store.folder / RUN_CONTROL, STOP)))
    assert statuses(store, items) == [["measured"], ["measured"], [], []]
    assert not (store.folder / RUN_CONTROL).exists()
    found = run(store, items, value)
    assert len(found["trials"]) == 4
    assert statuses(store, items) == [["measured"]] * 4


def test_what_is_measured_beside_the_trial_after_which_it_stops_is_recorded(store):
    items, together = planned(6), threading.Barrier(2)

    def measure(testbed, trial, measured):
        if trial.factors["number"] < 2:
            together.wait()
            if trial.factors["number"] == 0:
                request(store.folder / RUN_CONTROL, STOP)
            else:
                time.sleep(0.3)
        value(testbed, trial, measured)

    with pytest.raises(StoppedError):
        run(store, items, measure, Testbed(max_parallel=2))
    assert statuses(store, items)[:2] == [["measured"], ["measured"]]
    assert [] in statuses(store, items)


def test_a_run_stops_with_its_workflow(store, tmp_path, monkeypatch):
    path = tmp_path / "workflow"
    monkeypatch.setenv(control.WORKFLOW_VARIABLE, str(path))
    with controlled(path, {}):
        assert len(run(store, planned(1), value)["trials"]) == 1
        request(path, STOP)
        with pytest.raises(StoppedError):
            run(store, planned(2), value)
    assert statuses(store, planned(2)) == [["measured"], []]


def skip_from_elsewhere(store, what):
    """Skip as another process would, while this one waits."""
    (live,) = live_runs(store.root)
    timer = threading.Timer(0.2, live.skip, (what, "the cable was loose"))
    timer.start()
    time.sleep(20)


def test_a_trial_that_is_skipped_ends_at_once_and_does_not_count(store):
    items = planned(3)
    began = time.monotonic()
    found = run(store, items, during(1, lambda: skip_from_elsewhere(store, TRIAL)))
    assert time.monotonic() - began < 10
    assert statuses(store, items) == [["measured"], ["skipped"], ["measured"]]
    assert [entry["trial"][:7] for entry in found["trials"]] == ["trial-0", "trial-2"]
    (skipped,) = found["failed_attempts"]
    assert skipped["reason"] == "the cable was loose"
    again = run(store, items, value)
    assert statuses(store, items)[1] == ["skipped"], "it is not measured by the next run"
    assert again == found


def test_of_a_skipped_experiment_what_was_measured_counts(store):
    items = planned(4)
    found = run(store, items, during(1, lambda: skip_from_elsewhere(store, EXPERIMENT)))
    assert statuses(store, items) == [["measured"], ["skipped"], ["skipped"], ["skipped"]]
    assert len(found["trials"]) == 1


def test_an_experiment_without_any_trial_is_no_run(store):
    items = planned(2)
    with pytest.raises(RecordError, match=r"all trials were skipped.*tsnrepro again"):
        run(store, items, during(0, lambda: skip_from_elsewhere(store, EXPERIMENT)))
    with pytest.raises(RecordError, match="all trials were skipped"):
        manifest(store, items)


def test_a_killed_run_is_not_live(store):
    store.folder.mkdir(parents=True)
    (store.folder / RUN_CONTROL).write_text('{"pid": 1}\n{"request": "stop", "time": 1}\n')
    assert live_runs(store.root) == []
    assert holder_of(store.folder / RUN_CONTROL) is None
    assert len(run(store, planned(1), value)["trials"]) == 1, "and its requests are not the next's"


def test_of_two_holders_the_first_is_controlled(tmp_path):
    path = tmp_path / "file"
    with controlled(path, {"who": 1}):
        with controlled(path, {"who": 2}):
            assert holder_of(path)["who"] == 1
        assert holder_of(path)["who"] == 1
    assert holder_of(path) is None
