"""Changes to the files of a run after its analysis are detected, by seal and by full check."""

import json
import os
import shutil

import pytest
from analysed_run import Run

from tsnrepro.common.errors import RecordError
from tsnrepro.records.integrity import changed_files, check_seals, verify, verify_run
from tsnrepro.records.store import SUMS, trial_files


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def alter(path) -> None:
    """Change one byte, as bit rot does; the size stays."""
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(bytes(data))


def messages(problems) -> list[str]:
    return [str(problem) for problem in problems]


def test_an_unchanged_run_is_sound(run, capsys):
    assert messages(changed_files(run.folder)) == []
    assert messages(verify_run(run.folder)) == []
    verify(run.folder.parents[2])
    assert f"{run.folder}: 3 trials, sound" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["trial.json", "talker.json", SUMS])
def test_an_altered_record_stops_the_workflow(run, name):
    path = run.trials[1] / name
    alter(path)
    for problems in (changed_files(run.folder), verify_run(run.folder)):
        found = messages(problems)
        assert found
        assert all(run.trials[1].name in each for each in found)
    with pytest.raises(RecordError, match=run.trials[1].name):
        check_seals([str(run.folder)])


def test_a_consistent_record_that_the_run_does_not_list(run):
    """Changing a file and its checksum does not change the checksum in the run."""
    document = json.loads((run.trials[0] / "trial.json").read_bytes()) | {"values": {"lost": 0}}
    for name, data in trial_files(document, {"talker.json": "{}"}).items():
        (run.trials[0] / name).write_bytes(data)
    (found,) = messages(changed_files(run.folder))
    assert "not the one that the run lists" in found


@pytest.mark.parametrize("name", ["values.json", "testbed.json", "tables/summary.csv"])
def test_a_result_that_the_analysis_did_not_write_is_found(run, name):
    run.write(name, "[]\n")
    for problems in (changed_files(run.folder), verify_run(run.folder)):
        (found,) = messages(problems)
        assert f"not what the analysis wrote ({run.folder / name})" in found


def test_a_change_of_equal_size_and_time_is_found_by_verify_only(run):
    path = run.trials[2] / "trial.json"
    times = path.stat()
    alter(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert messages(changed_files(run.folder)) == []
    with pytest.raises(RecordError, match="altered"):
        verify(run.folder)


def test_a_copy_with_new_times_is_still_the_record(run):
    for path in [*run.store.folder.rglob("*"), *run.folder.rglob("*.csv")]:
        os.utime(path)
    assert messages(changed_files(run.folder)) == []


def test_the_remedies_work(run):
    """After the files are removed the run is not up to date any more, so they are made again."""
    shutil.rmtree(run.trials[0])
    (found,) = messages(changed_files(run.folder))
    assert f"remove the trial's folder and {run.folder / 'run.json'}" in found
    kept = (run.folder / "run.json").read_bytes()
    (run.folder / "run.json").unlink()
    assert messages(changed_files(run.folder)) == []
    (run.folder / "run.json").write_bytes(kept)
    (run.folder / "values.json").unlink()
    assert messages(changed_files(run.folder)) == []


def test_a_run_that_was_measured_again_is_left_to_its_analysis(run):
    path = run.folder / "run.json"
    manifest = json.loads(path.read_bytes())
    manifest["trials"].pop()
    run.write("run.json", json.dumps(manifest))
    assert messages(changed_files(run.folder)) == []
    os.utime(path, ns=(0, 0))
    (found,) = messages(changed_files(run.folder))
    assert "not the one that was analysed" in found


def test_trials_of_other_runs_and_copies_are_named(run):
    shutil.copytree(run.trials[0], run.store.folder / "copied")
    (run.store.folder / "empty").mkdir()
    foreign = json.loads((run.trials[0] / "trial.json").read_bytes()) | {"campaign": "other"}
    place = run.store.folder / "foreign"
    place.mkdir()
    for name, data in trial_files(foreign, {}).items():
        (place / name).write_bytes(data)
    found = "\n".join(messages(verify_run(run.folder)))
    assert "its factors belong to frer-1472B-500M-r1" in found
    assert "a copy of trial" in found
    assert "it was measured as campaign other" in found
    assert f"a file of the record is missing ({place.parent / 'empty' / SUMS})" in found
    assert messages(changed_files(run.folder)) == []  # nothing uses them


def test_a_trial_that_is_listed_twice_is_named(run):
    manifest = json.loads((run.folder / "run.json").read_bytes())
    manifest["trials"].append(manifest["trials"][0])
    run.write("run.json", json.dumps(manifest))
    found = "\n".join(messages(verify_run(run.folder)))
    assert "2 times" in found
    assert "not the one that was analysed" in found


def test_forged_facts_of_the_testbed_are_refused(run):
    facts = json.loads(run.environment.read_bytes()) | {"processor": "a faster one"}
    run.environment.write_text(json.dumps(facts))
    (found,) = messages(verify_run(run.folder))
    assert "do not match their digest" in found
    with pytest.raises(RecordError, match="do not match their digest"):
        run.store.environment(run.environment.stem)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": 1}', "\x00"])
def test_an_altered_seal_is_an_error(run, text):
    run.write("seal.json", text)
    with pytest.raises(RecordError, match="the seal was altered"):
        check_seals([str(run.folder)])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"folder": "x", "trials": [1]}', "\x00"])
def test_an_invalid_manifest_is_an_error(run, text):
    run.write("run.json", text)
    with pytest.raises(RecordError, match=r"run\.json"):
        list(verify_run(run.folder))


def test_nothing_to_verify_is_an_error(tmp_path):
    with pytest.raises(RecordError, match="there is no run"):
        verify(tmp_path)
