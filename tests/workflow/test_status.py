"""How far a campaign is, on one that was measured on the model."""

import json
import os
import shutil
from dataclasses import replace

import pytest

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import files as campaigns
from tsnrepro.runner.plan import is_recorded
from tsnrepro.workflow import status


@pytest.fixture
def repository(short_repository, tmp_path, monkeypatch):
    """Return a copy of the short campaign's repository, which is the one asked about."""
    folder = tmp_path / "repository"
    shutil.copytree(short_repository, folder)
    for module in (campaigns, status):
        monkeypatch.setattr(module, "root", lambda: folder)
    monkeypatch.setattr(status, "configured_runs", lambda: [])
    return folder


def of(experiment):
    return status.status_of("model", "short", experiment)


def test_all_is_measured_and_current(repository):
    found = {run.experiment: run for run in status.statuses()}
    assert {*found} == {"loss", "tcp", "latency"}
    assert found["tcp"].planned == found["tcp"].recorded == 18
    assert found["loss"].planned == 4
    assert {run.analysis for run in found.values()} == {"current"}
    assert not any(run.missing or run.left_s or run.failed or run.other for run in found.values())


def test_a_trial_that_is_gone_is_missing_and_takes_its_time(repository):
    trial = next((repository / "data/raw/model/short/latency").iterdir())
    shutil.rmtree(trial)
    found = of("latency")
    assert (found.planned, found.recorded, found.missing) == (6, 5, 1)
    assert found.left_s == pytest.approx(10.05, rel=0.1), "with the notebook's start"
    expected = {("model", "short", "latency"): found.left_s, ("model", "short", "tcp"): 0}
    assert status.seconds_to_measure(expected) == expected


def test_a_run_is_recorded_once_it_has_all_trials(repository):
    assert is_recorded("latency", "model", "short")
    assert not is_recorded("latency", "emulated", "short")
    assert not is_recorded("shaping", "model", "short")  # the campaign has none
    assert not is_recorded("latency", "model", "no-such-campaign")
    trial = next((repository / "data/raw/model/short/latency").iterdir())
    record = json.loads((trial / "trial.json").read_text())
    (trial / "trial.json").write_text(json.dumps(record | {"status": "failed"}))
    assert not is_recorded("latency", "model", "short")
    shutil.rmtree(trial)
    assert not is_recorded("latency", "model", "short")


def test_what_may_not_be_needed_is_not_missing(repository, monkeypatch):
    items = status.planned_trials("tcp", "model", "short")
    further = [
        replace(item, trial=replace(item.trial, repetition=9), stopping_rule="ratio")
        for item in items[:2]
    ]
    monkeypatch.setattr(status, "planned_trials", lambda *_: [*items, *further])
    found = of("tcp")
    assert (found.planned, found.missing, found.left_s) == (18, 0, 0)
    assert found.analysis == "current"


def test_a_trial_that_failed_is_missing_and_said_to_have_failed(repository):
    trial = next((repository / "data/raw/model/short/tcp").iterdir())
    record = json.loads((trial / "trial.json").read_text())
    (trial / "trial.json").write_text(json.dumps(record | {"status": "failed"}))
    assert (of("tcp").missing, of("tcp").failed) == (1, 1)
    assert "1 of the missing trials failed" in status.as_text([of("tcp")])


def test_what_a_changed_campaign_does_not_ask_for_is_of_other_settings(repository):
    path = repository / "config/campaigns/short.yaml"
    path.write_text(path.read_text().replace("durations_s: [1, 2, 3]", "durations_s: [1, 2, 4]"))
    found = of("tcp")
    assert (found.planned, found.recorded, found.other) == (18, 12, 6)
    assert found.analysis == "stale: the campaign has other trials than were analysed"
    path.unlink()
    assert of("tcp").recorded == 18
    assert "short" in of("tcp").analysis


def test_results_are_stale_when_what_they_rest_on_changed(repository, monkeypatch):
    values = repository / "results/model/short/loss/values.json"
    os.utime(values, (1, 1))
    (repository / "notebooks/analyse/loss.ipynb").touch()
    assert of("loss").analysis == "current"  # touched, it is still the same code
    with monkeypatch.context() as patch:
        for other in ({"name": "tcp"}, {"reads": ("config/testbeds/emulated.yaml",)}):
            declared = replace(status.experiment_of("loss"), **other)
            patch.setattr(status, "analysed_experiment", lambda *_, declared=declared: declared)
            assert of("loss").analysis.startswith("stale: its analysis, or a file that it reads")
    run = values.with_name("run.json")
    run.write_text(run.read_text() + "\n")
    assert of("loss").analysis == "stale: measured again since"
    values.unlink()
    assert of("loss").analysis == "none"


def test_the_text_fits_a_terminal_and_names_the_papers(repository):
    pdf = repository / "results/papers/quick/frer-udp/frer-udp.pdf"
    pdf.parent.mkdir(parents=True)
    pdf.touch()
    said = status.as_text(status.statuses(testbed="model", campaign_name="short"))
    assert max(map(len, said.splitlines())) <= 80
    assert "tcp" in said
    assert "results/papers/quick/frer-udp/frer-udp.pdf" in said
    assert "tas-evaluation is not built yet" in said


def test_names_that_are_none_are_refused(repository):
    with pytest.raises(ConfigurationError, match=r"no such run.*short on model"):
        list(status.statuses(campaign_name="shrt"))
    with pytest.raises(ConfigurationError, match="unknown experiment 'los'"):
        list(status.statuses(experiment="los"))


def test_what_is_configured_is_listed_before_anything_is_measured():
    testbeds = {run[0] for run in status.configured_runs()}
    assert "model" in testbeds
    assert {run[1] for run in status.configured_runs()} == {"quick"}


def older(folder, seconds=1000):
    """Make all files as old as those that are copied into a clone."""
    for path in (*folder.rglob("*"), folder):
        before = path.stat().st_mtime - seconds
        os.utime(path, (before, before))


def sources_newer_than(folder):
    made = (folder / "run.json").stat().st_mtime
    campaign = folder.parents[3] / "config/campaigns/short.yaml"
    return campaign.stat().st_mtime > made


def test_copied_results_are_as_new_as_their_content_says(repository):
    run = ("model", "short", "latency")
    folder = repository / "results/model/short/latency"
    older(folder)
    assert sources_newer_than(folder)
    # Which they are, changes no file: a dry run only looks.
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    copies = status.current_copies([run])
    assert copies == {run}
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    status.refresh_copies(copies)
    assert status.current_copies([run]) == set()
    assert not sources_newer_than(folder)
    newest = {path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(newest) == 1, "none is newer than another that it was made from"


def test_an_archive_has_no_empty_folder_but_the_results_do(repository):
    folder = repository / "results/model/short/tcp"
    shutil.rmtree(folder / "figures")
    status.refresh_copies(status.current_copies([("model", "short", "tcp")]))
    assert (folder / "figures").is_dir()


def test_copied_results_without_all_trials_stay_old(repository):
    folder = repository / "results/model/short/latency"
    older(folder)
    shutil.rmtree(next((repository / "data/raw/model/short/latency").iterdir()))
    runs = [("model", "short", "latency"), ("model", "short", "shaping")]
    assert status.current_copies(runs) == set()
    assert sources_newer_than(folder)
