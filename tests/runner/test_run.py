"""A campaign that is interrupted, killed or unlucky loses no trial and doubles none."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsnrepro.common.errors import (
    CommandError,
    JobDeadlineError,
    RecordError,
    TestbedError,
    ToolError,
)
from tsnrepro.records.store import RawStore, Trial, recorded_trials
from tsnrepro.runner import run as running
from tsnrepro.runner.design import Planned, StallLimits
from tsnrepro.runner.run import MeasureError, manifest, run_trials, write_manifest


def planned(count: int) -> list[Planned]:
    return [
        Planned(Trial("loss", f"trial-{n}", {"number": n}, 1), order=n, nominal_s=1.0)
        for n in range(count)
    ]


class FakeTestbed:
    """Counts how often it was up; a trial's number is all that is measured on it."""

    machines = ()
    max_parallel = 1

    def __init__(self) -> None:
        self.ups = self.downs = 0

    @contextmanager
    def open(self):
        self.ups += 1
        try:
            yield self
        finally:
            self.downs += 1

    def describe(self) -> dict:
        return {"testbed": "fake"}


class Script:
    """What happens to each measurement in turn; after its end all succeed."""

    def __init__(self, happenings=()) -> None:
        self._happenings = list(happenings)
        self.measured: list[int] = []

    def __call__(self, _testbed, trial, measured) -> None:
        number = trial.factors["number"]
        measured.outputs["tool.txt"] = f"measuring {number}\n"
        measured.commands.append({"argv": ["tool", str(number)]})
        happening = self._happenings.pop(0) if self._happenings else None
        if happening is not None:
            raise happening
        self.measured.append(number)
        measured.values["number"] = number


def run(store, items, attempts, testbed, measure):
    return run_trials(store, items, attempts, testbed.open, measure)


@pytest.fixture
def store(tmp_path):
    return RawStore(tmp_path / "raw", "emulated", "quick", "loss")


def documents(store, items) -> list[list[dict]]:
    return [[store.read(folder) for folder in store.attempts(item.trial)] for item in items]


def test_all_trials_are_recorded_in_their_order(store, capsys):
    items, testbed, measure = planned(4), FakeTestbed(), Script()
    found = run(store, items, 2, testbed, measure)
    assert measure.measured == [0, 1, 2, 3]
    assert [entry["trial"] for entry in found["trials"]] == [item.trial.name(1) for item in items]
    assert found["failed_attempts"] == []
    for item, (document,) in zip(items, documents(store, items), strict=True):
        assert document["status"] == "measured"
        assert document["values"] == {"number": item.order}
        assert (document["order"], document["attempt"]) == (item.order, 1)
        assert document["factors"] == item.trial.factors
        assert document["commands"] == [{"argv": ["tool", str(item.order)]}]
        assert document["testbed"] == "emulated"
        assert (store.root / "emulated/environments" / f"{document['environment']}.json").is_file()
    printed = capsys.readouterr().out
    assert "loss: 4 trials, 0 recorded" in printed
    assert "loss: trial 2 of 4 (trial-1)" in printed


class Wide(FakeTestbed):
    """Takes three trials at a time."""

    max_parallel = 3


def test_trials_that_cannot_disturb_each_other_run_side_by_side(store):
    items, testbed, together = planned(6), Wide(), Barrier(3, timeout=20)

    def measure(_testbed, trial, measured):
        together.wait()
        measured.values["number"] = trial.factors["number"]

    found = run(store, items, 1, testbed, measure)
    assert [entry["trial"] for entry in found["trials"]] == [item.trial.name(1) for item in items]
    assert [one[0]["values"]["number"] for one in documents(store, items)] == [*range(6)]
    assert (testbed.ups, testbed.downs) == (1, 1)


def test_side_by_side_too_what_starts_from_others_waits_for_them(store):
    """Three begin together; the slowest of them is recorded before what reads it begins."""
    items = [replace(item, from_earlier=item.order in (3, 4)) for item in planned(6)]
    seen = {}

    def measure(_testbed, trial, measured):
        number = trial.factors["number"]
        seen[number] = {document["factors"]["number"] for document in measured.earlier()}
        time.sleep(0.2 if number == 0 else 0.01)

    run(store, items, 1, Wide(), measure)
    assert all(seen[number] >= {0, 1, 2} for number in (3, 4))
    assert seen[5] == {0, 1, 2, 3, 4}


def test_side_by_side_too_a_lost_testbed_ends_the_run_and_the_next_goes_on(store):
    items, begun = planned(40), []

    def measure(_testbed, trial, _measured):
        begun.append(trial.factors["number"])
        time.sleep(0.02)
        if trial.factors["number"] == 5:
            raise TestbedError("gone", "sw1")

    with pytest.raises(TestbedError, match="gone"):
        run(store, items, 2, Wide(), measure)
    assert len(begun) < 20
    # What ran beside the one that failed is still being recorded; the next run is another process.
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(20)
    after = Script()
    run(store, items, 2, Wide(), after)
    recorded = [one for one in documents(store, items) if len(one) == 1]
    assert len(recorded) == 40
    assert 5 in after.measured
    assert not {0, 1} & {*after.measured}


def test_a_finished_run_needs_no_testbed(store):
    items, testbed = planned(3), FakeTestbed()
    first = run(store, items, 2, testbed, Script())
    again = run(store, items, 2, testbed, Script([AssertionError("measured twice")]))
    assert again == first
    assert (testbed.ups, testbed.downs) == (1, 1)


def test_what_changed_code_computed_is_computed_again(store):
    def under(code):
        return [replace(item, trial=replace(item.trial, code=code)) for item in planned(2)]

    seen = []

    def measure(_testbed, trial, measured):
        seen.append({d["code"] for d in measured.earlier()})
        measured.values["code"] = trial.code

    testbed = FakeTestbed()
    for code, ups in (("old", 1), ("new", 2), ("new", 2)):
        found = run(store, under(code), 1, testbed, measure)
        recorded = [store.read(store.folder / entry["trial"]) for entry in found["trials"]]
        assert [d["code"] for d in recorded] == [code, code]
        assert testbed.ups == ups
    # No trial takes what another state of the code has found.
    assert seen == [set(), {"old"}, set(), {"new"}]
    assert len(list(store.documents())) == 4


@pytest.mark.parametrize("at", range(5))
def test_an_interrupted_run_goes_on_where_it_was_left(store, at):
    items, testbed, measure = planned(5), FakeTestbed(), Script([None] * at + [KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        run(store, items, 2, testbed, measure)
    assert (testbed.ups, testbed.downs) == (1, 1)
    assert [len(found) for found in documents(store, items)] == [1] * at + [0] * (5 - at)
    run(store, items, 2, testbed, measure)
    assert measure.measured == [0, 1, 2, 3, 4]


def test_a_longer_campaign_measures_what_is_new(store):
    run(store, planned(3), 2, FakeTestbed(), Script())
    measure = Script()
    run(store, planned(5), 2, FakeTestbed(), measure)
    assert measure.measured == [3, 4]


# --- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [CommandError("no answer", "talker"), ToolError("no JSON")])
def test_a_failed_attempt_is_a_record_and_is_tried_again(store, error):
    items = planned(2)
    found = run(store, items, 3, FakeTestbed(), Script([None, error, error]))
    first, second = documents(store, items)
    assert [d["status"] for d in first] == ["measured"]
    assert [d["status"] for d in second] == ["failed", "failed", "measured"]
    assert [d["attempt"] for d in second] == [1, 2, 3]
    for failed in second[:2]:
        assert failed["reason"] == str(error)
        assert failed["values"] == {}
        assert failed["commands"], "what was done before the failure is kept"
        assert store.output(failed["trial"], "tool.txt") == "measuring 1\n"
        assert str(error) in store.output(failed["trial"], "failure.txt")
    assert found["trials"][1]["trial"] == items[1].trial.name(3)
    assert [entry["trial"] for entry in found["failed_attempts"]] == [
        items[1].trial.name(1),
        items[1].trial.name(2),
    ]


def test_a_trial_that_always_fails_does_not_stop_the_others(store):
    items, reason = planned(3), CommandError("no answer", "talker")
    measure = Script([None, reason, reason])
    with pytest.raises(RecordError, match=r"could not be measured: no answer.*trial-1") as error:
        run(store, items, 2, FakeTestbed(), measure)
    assert "run this again" in error.value.remedy
    assert measure.measured == [0, 2]


def test_what_failed_in_one_run_is_tried_as_often_in_the_next(store):
    """The cause was mended meanwhile: nobody has to edit the campaign or remove a folder."""
    items, reason = planned(3), CommandError("no sockperf", "talker")
    measure = Script([None, reason, reason])
    with pytest.raises(RecordError):
        run(store, items, 2, FakeTestbed(), measure)
    found = run(store, items, 2, FakeTestbed(), measure)
    assert measure.measured == [0, 2, 1]
    assert [d["status"] for d in documents(store, items)[1]] == ["failed", "failed", "measured"]
    assert len(found["failed_attempts"]) == 2


def test_what_was_measured_before_the_testbed_failed_is_kept(store):
    items, testbed = planned(3), FakeTestbed()
    with pytest.raises(TestbedError, match="the switch is gone"):
        run(store, items, 2, testbed, Script([None, TestbedError("the switch is gone", "sw1")]))
    assert [len(found) for found in documents(store, items)] == [1, 1, 0]
    (failed,) = documents(store, items)[1]
    assert (failed["status"], failed["reason"]) == ("failed", "the switch is gone (sw1)")
    assert store.output(failed["trial"], "tool.txt") == "measuring 1\n"
    assert store.output(failed["trial"], "failure.txt").startswith("TestbedError: the switch")
    assert testbed.downs == 1
    run(store, items, 2, testbed, Script())
    assert [d["status"] for d in documents(store, items)[1]] == ["failed", "measured"]


def test_a_testbed_that_failed_before_anything_was_measured_leaves_no_record(store):
    def measure(*_):
        raise TestbedError("the switch is gone", "sw1")

    with pytest.raises(TestbedError):
        run(store, planned(1), 2, FakeTestbed(), measure)
    assert not list(store.documents())


def test_a_job_beyond_its_deadline_costs_an_attempt_and_not_the_campaign(store):
    items, testbed = planned(2), FakeTestbed()
    run(store, items, 2, testbed, Script([JobDeadlineError("the job did not end", "job a")]))
    first, second = documents(store, items)
    assert [d["status"] for d in first] == ["failed", "measured"]
    assert [d["status"] for d in second] == ["measured"]
    assert testbed.ups == 1


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("bug")])
def test_an_error_that_is_not_the_trials_ends_the_run_without_a_record(store, error):
    items, testbed = planned(3), FakeTestbed()
    with pytest.raises(MeasureError, match=str(error)) as failure:
        run(store, items, 2, testbed, Script([None, error]))
    assert failure.value.__cause__ is error
    assert [len(found) for found in documents(store, items)] == [1, 0, 0]
    assert testbed.downs == 1


def test_an_error_of_an_experiment_names_its_line(store, tmp_path, monkeypatch):
    """Not that of the library that it called last."""
    monkeypatch.setattr(running, "_EXPERIMENTS", tmp_path)
    file = tmp_path / "mine" / "measure.py"
    source = "def measure(testbed, trial, measured):\n    json.loads(testbed.answer)\n"
    names = {"json": json}
    exec(compile(source, str(file), "exec"), names)
    place = re.escape(f"({file}, line 2, in measure)")
    with pytest.raises(MeasureError, match=f"trial-0: AttributeError: .*'answer' {place}"):
        run(store, planned(1), 1, FakeTestbed(), names["measure"])
    monkeypatch.setattr(FakeTestbed, "answer", "{", raising=False)
    with pytest.raises(MeasureError, match=f"trial-0: JSONDecodeError: .* {place}"):
        run(store, planned(1), 1, FakeTestbed(), names["measure"])


def test_a_testbed_that_does_not_come_up_leaves_the_record_as_it_was(store):
    @contextmanager
    def raise_first():
        raise TestbedError("the testbed is in use by process 7")
        yield

    with pytest.raises(TestbedError):
        run_trials(store, planned(2), 2, raise_first, Script())
    assert not store.folder.exists()


def test_an_altered_record_stops_the_run(store):
    items = planned(2)
    run(store, items, 2, FakeTestbed(), Script())
    document = store.attempts(items[0].trial)[0] / "trial.json"
    document.write_text(document.read_text().replace('"number": 0', '"number": 9'))
    with pytest.raises(RecordError, match="altered"):
        run(store, items, 2, FakeTestbed(), Script())


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_happens_every_trial_is_measured_once(tmp_path_factory, data):
    """Failures and interruptions in any order; the campaign is started until it is done."""
    store = RawStore(tmp_path_factory.mktemp("raw"), "emulated", "quick", "loss")
    count, attempts = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    kinds = st.sampled_from(["well", "well", "fails", "interrupted"])
    happenings = [
        {"well": None, "fails": CommandError("no answer"), "interrupted": KeyboardInterrupt()}[kind]
        for kind in data.draw(st.lists(kinds, max_size=25))
    ]
    items, measure = planned(count), Script(happenings)
    for _ in range(60):
        before = [len(found) for found in documents(store, items)]
        try:
            run(store, items, attempts, FakeTestbed(), measure)
        except (KeyboardInterrupt, RecordError):
            after = [len(found) for found in documents(store, items)]
            assert all(now - then <= attempts for then, now in zip(before, after, strict=True))
            continue
        break
    assert sorted(measure.measured) == sorted(set(measure.measured)), "a trial measured twice"
    for item, found in zip(items, documents(store, items), strict=True):
        statuses = [document["status"] for document in found]
        succeeded = item.order in measure.measured
        assert statuses == ["failed"] * (len(found) - succeeded) + ["measured"] * succeeded
        assert succeeded
        assert [document["attempt"] for document in found] == list(range(1, len(found) + 1))


# --- a real kill ----------------------------------------------------------------------------------

CAMPAIGN = """\
import sys, time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tsnrepro.runner.design import Planned
from tsnrepro.runner.run import run_trials, write_manifest
from tsnrepro.records.store import RawStore, Trial

root, done = Path(sys.argv[1]), Path(sys.argv[2])

class Testbed:
    machines = ()
    max_parallel = 1

    def describe(self):
        return {"testbed": "fake"}

@contextmanager
def testbed():
    yield Testbed()

def measure(_testbed, trial, measured):
    measured.outputs["output.gz"] = str(trial.factors["number"]) * 200_000
    measured.values["number"] = trial.factors["number"]
    with done.open("a") as file:
        file.write(f"{trial.factors['number']}\\n")

items = [Planned(Trial("loss", "t", {"number": n}, 1), n, 1.0) for n in range(60)]
store = RawStore(root, "emulated", "quick", "loss")
print("started", flush=True)
write_manifest(run_trials(store, items, 2, testbed, measure), sys.argv[3])
"""


def test_a_killed_campaign_resumes(tmp_path):
    """``kill -9`` again and again, at moments that no hook chooses."""
    root, done, result = tmp_path / "raw", tmp_path / "done", tmp_path / "run.json"
    command = [sys.executable, "-c", CAMPAIGN, str(root), str(done), str(result)]
    kills = 0
    for wait_s in (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 60.0, 60.0):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
        if process.returncode == 0:
            break
    assert process.returncode == 0
    assert kills >= 3, "too fast to be killed: the test shows nothing"
    store = RawStore(root, "emulated", "quick", "loss")
    found = json.loads(result.read_text())
    numbers = [store.read(store.folder / t["trial"])["values"]["number"] for t in found["trials"]]
    assert numbers == list(range(60)), "every trial once, none lost"
    folders = [p for p in store.folder.iterdir() if not p.name.startswith(".")]
    assert len(folders) == 60, "none doubled"
    for folder, number in zip(found["trials"], numbers, strict=True):
        assert store.output(folder["trial"], "output.gz") == str(number) * 200_000
    # What was measured and not recorded when the kill came was measured again: once a kill.
    assert 60 <= len(done.read_text().split()) <= 60 + kills


def test_a_manifest_is_written_and_names_what_is_missing(store, tmp_path):
    items = planned(2)
    with pytest.raises(RecordError, match="it was never tried"):
        manifest(store, items)
    found = run(store, items, 1, FakeTestbed(), Script())
    write_manifest(found, str(tmp_path / "run.json"))
    written = json.loads((tmp_path / "run.json").read_text())
    assert written | {"folder": found["folder"]} == found
    assert found["folder"] == str(store.folder)
    assert (tmp_path / written["folder"]).resolve() == store.folder.resolve()
    for entry in found["trials"]:
        assert entry["sha256"] == store.sha256(store.folder / entry["trial"])


def test_a_run_is_found_again_where_its_repository_was_moved_to(tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    store = RawStore(before / "data" / "raw", "emulated", "quick", "loss")
    found = run(store, planned(2), 1, FakeTestbed(), Script())
    listed = before / "results" / "run.json"
    listed.parent.mkdir()
    write_manifest(found, str(listed))
    before.rename(after)
    kept = list(recorded_trials(after / "results" / "run.json"))
    assert [document["trial"] for document in kept] == [t["trial"] for t in found["trials"]]
    assert str(tmp_path) not in (after / "results" / "run.json").read_text()


def test_a_failure_keeps_its_time(store):
    def slow(_testbed, _trial, _measured):
        time.sleep(0.05)
        raise ToolError("late")

    items = planned(1)
    with pytest.raises(RecordError):
        run(store, items, 1, FakeTestbed(), slow)
    ((document,),) = documents(store, items)
    assert 0.05 <= document["seconds"] < 5


def test_a_warm_up_is_recorded_and_counts_for_nothing(store):
    items, testbed, measure = planned(2), FakeTestbed(), Script()
    found = run_trials(store, items, 1, testbed.open, measure, warm_up=True)
    assert measure.measured == [0, 0, 1], "the first trial twice"
    assert len(found["trials"]) == 2
    kept = [folder.name for folder in store.folder.iterdir()]
    assert sum(name.startswith("warm-up-") for name in kept) == 1
    run_trials(store, items, 1, testbed.open, measure, warm_up=True)
    assert testbed.ups == 1, "nothing was missing, so nothing had to be warm"


def test_a_warm_up_that_fails_keeps_no_trial_from_being_measured(store):
    items = planned(1)
    measure = Script([CommandError("cold", "talker")])
    found = run_trials(store, items, 1, FakeTestbed().open, measure, warm_up=True)
    assert measure.measured == [0]
    assert len(found["trials"]) == 1


def until_known(repetitions: range) -> list[Planned]:
    return [
        Planned(
            Trial("loss", f"more-{n}", {"number": n}, n),
            order=n,
            nominal_s=1.0,
            stopping_rule="ratio",
        )
        for n in repetitions
    ]


def test_further_repetitions_are_measured_until_enough_is_known(store):
    firm, further = planned(2), until_known(range(3, 9))
    asked = []

    def is_precise(name, found):
        asked.append((name, [document["values"]["number"] for document in found]))
        return len(found) >= 4

    measure, testbed = Script(), FakeTestbed()
    found = run_trials(store, firm + further, 1, testbed.open, measure, is_precise=is_precise)
    assert measure.measured == [0, 1, 3, 4]
    assert asked[:3] == [("ratio", [0, 1]), ("ratio", [0, 1, 3]), ("ratio", [0, 1, 3, 4])]
    names = [item.trial.name(1) for item in (*firm, *further[:2])]
    assert [entry["trial"] for entry in found["trials"]] == names


def test_a_run_that_goes_on_asks_again_and_measures_what_it_would_have(store):
    """Killed in a further repetition: the next run takes the same trials."""
    items = planned(2) + until_known(range(3, 9))

    def is_precise(_, found):
        return len(found) >= 4

    killed = Script([None, None, KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        run_trials(store, items, 1, FakeTestbed().open, killed, is_precise=is_precise)
    measure = Script()
    found = run_trials(store, items, 1, FakeTestbed().open, measure, is_precise=is_precise)
    assert measure.measured == [3, 4]
    again = run_trials(store, items, 1, FakeTestbed().open, measure, is_precise=is_precise)
    assert again == found
    assert measure.measured == [3, 4]


def test_trials_that_need_another_testbed_get_it_in_their_order(store):
    items = planned(4)
    wide = [Planned(i.trial, i.order, i.nominal_s, {"paths": 3}) for i in items[1:3]]
    opened = []

    @contextmanager
    def open_testbed(**overrides):
        opened.append(overrides)
        yield FakeTestbed()

    measure = Script()
    run_trials(store, [items[0], *wide, items[3]], 1, open_testbed, measure)
    assert opened == [{}, {"paths": 3}, {}]
    assert measure.measured == [0, 1, 2, 3]


def test_a_trial_sees_those_recorded_before_it(store):
    seen = []

    def measure(_testbed, trial, measured):
        seen.append(len(list(measured.earlier())))
        measured.values["number"] = trial.factors["number"]

    run(store, planned(3), 1, FakeTestbed(), measure)
    assert seen == [0, 1, 2]


class Stalling:
    """Measures, on a machine that stalls for so many milliseconds in each measurement in turn.

    Each time it does so at that many of a thousand checks.
    """

    def __init__(self, stalls_ms) -> None:
        self._stalls_ms = list(stalls_ms)

    def __call__(self, _testbed, _trial, measured) -> None:
        longest_ms = self._stalls_ms.pop(0)
        stalls = {
            "longest_ms": longest_ms,
            "stalled_share": longest_ms / 1000,
            "threshold_ms": 0.5,
        }
        measured.values |= {"lost": longest_ms > 5, "stalls": {"here": stalls}}


@pytest.mark.parametrize(
    ("stalls_ms", "statuses", "counts"),
    [
        ([1.0], ["measured"], 0),
        ([60.0, 2.0], ["unsteady", "measured"], 1),
        # The steadiest attempt is as good as it gets.
        ([70.0, 60.0, 80.0], ["unsteady"] * 3, 1),
    ],
)
def test_a_trial_on_a_machine_that_stalled_is_kept_and_measured_again(
    store, stalls_ms, statuses, counts
):
    items = planned(1)
    opened = FakeTestbed().open
    found = run_trials(store, items, 3, opened, Stalling(stalls_ms), max_stall_ms=40.0)
    kept = documents(store, items)[0]
    assert [document["status"] for document in kept] == statuses
    assert [document["values"]["stalls"]["here"]["longest_ms"] for document in kept] == stalls_ms
    assert [entry["trial"] for entry in found["trials"]] == [kept[counts]["trial"]]
    assert len(found["failed_attempts"]) == len(statuses) - 1
    assert all("max_stall_ms of 40" in entry["reason"] for entry in found["failed_attempts"])
    # Nothing is left to measure: a machine would run out of stalls.
    assert run_trials(store, items, 3, opened, Stalling([]), max_stall_ms=40.0) == found


def test_a_trial_is_as_unsteady_as_its_worst_machine(store):
    def measure(_testbed, trial, measured):
        stalls = {"stalled_share": 0.0, "threshold_ms": 0.5}
        longest_ms = next(longest_of)
        measured.values["stalls"] = {
            name: stalls | {"longest_ms": longest} for name, longest in longest_ms.items()
        }

    longest_of = iter(({"pc1": 44.0, "pc2": 90.0}, {"pc1": 60.0, "pc2": 1.0}))
    items = planned(1)
    found = run_trials(store, items, 2, FakeTestbed().open, measure, max_stall_ms=40.0)
    first, second = documents(store, items)[0]
    assert (first["times_limit"], second["times_limit"]) == (90 / 40, 60 / 40)
    assert found["trials"][0]["trial"] == second["trial"]
    assert first["reason"] == (
        "the machine stalled for 90.0 ms, more than max_stall_ms of 40 (pc2)"
    )


def test_a_trial_may_be_measured_again_since_its_machine_stalled_often(store):
    items = planned(2)
    items[1] = replace(items[1], stall_limits=StallLimits(max_stalled_percent=1.0))
    found = run_trials(store, items, 3, FakeTestbed().open, Stalling([30.0, 10.1, 10.0]))
    statuses = [[each["status"] for each in kept] for kept in documents(store, items)]
    assert statuses == [["measured"], ["unsteady", "measured"]]
    (refused,) = found["failed_attempts"]
    assert "over 0.5 ms at 1.01 % of the meter's checks" in refused["reason"]
    assert "max_stalled_percent of 1" in refused["reason"]


def test_a_trial_whose_machine_stalled_often_is_put_off_until_the_others_are_measured(store):
    """Such stalls come in bursts, which attempts in a row do not outlast."""
    items = [
        replace(item, stall_limits=StallLimits(max_stalled_percent=1.0)) for item in planned(3)
    ]
    measure = Stalling([30.0, 20.0, 5.0, 25.0, 40.0, 15.0, 6.0])
    found = run_trials(store, items, 3, FakeTestbed().open, measure)
    percents = [
        [100 * each["values"]["stalls"]["here"]["stalled_share"] for each in kept]
        for kept in documents(store, items)
    ]
    assert percents == [
        pytest.approx([3.0, 2.5, 1.5]),
        pytest.approx([2.0, 4.0, 0.6]),
        pytest.approx([0.5]),
    ]
    counted = [entry["trial"][-2:] for entry in found["trials"]]
    assert counted == ["a3", "a3", "a1"]


def test_a_trials_own_limit_takes_the_place_of_the_campaigns(store):
    """The first is put off; the second, without one, is held to the campaign's."""
    items = planned(2)
    items[0] = replace(items[0], stall_limits=StallLimits(max_stall_ms=12.0))
    measure = Stalling([30.0, 30.0, 10.0])
    run_trials(store, items, 3, FakeTestbed().open, measure, max_stall_ms=40.0)
    statuses = [[each["status"] for each in kept] for kept in documents(store, items)]
    assert statuses == [["unsteady", "measured"], ["measured"]]
    assert "more than max_stall_ms of 12" in documents(store, items)[0][0]["reason"]


def test_without_a_limit_no_stall_is_too_long(store):
    items = planned(1)
    run_trials(store, items, 3, FakeTestbed().open, Stalling([5000.0]))
    assert [document["status"] for document in documents(store, items)[0]] == ["measured"]
