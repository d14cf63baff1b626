"""How long a campaign takes: from the plan, and from what trials took on this machine."""

import json
import shutil
from dataclasses import replace

import pytest

from tsnrepro.cli import build_parser
from tsnrepro.common.repository import root
from tsnrepro.config import files as campaigns
from tsnrepro.runner.plan import planned_trials
from tsnrepro.workflow import forecast, status

CAMPAIGN = """\
description: two trials
tcp:
  repetitions: {repetitions}
  durations_s: [10]
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for folder in ("config/testbeds", "config/campaigns"):
        shutil.copytree(root() / folder, tmp_path / folder)
    (tmp_path / "config/config.yaml").write_text("testbed: emulated\ncampaign: two\n")
    write_campaign(tmp_path, "two", 2)
    for module in (campaigns, forecast):
        monkeypatch.setattr(module, "root", lambda: tmp_path)
    return tmp_path


def write_campaign(repository, name, repetitions):
    path = repository / "config/campaigns" / f"{name}.yaml"
    path.write_text(CAMPAIGN.format(repetitions=repetitions))


def record(repository, campaign, *, times, attempts=1, beside=1, code=""):
    """Record all trials of a campaign, some beside each other; each takes so many times longer."""
    began = 0.0
    for number, item in enumerate(planned_trials("tcp", "emulated", campaign)):
        for attempt in range(1, attempts + 1):
            folder = repository / f"data/raw/emulated/{campaign}/tcp" / item.trial.name(attempt)
            folder.mkdir(parents=True)
            minutes, seconds = divmod(began, 60)
            document = {
                "factors": item.trial.factors,
                "repetition": item.trial.repetition,
                "code": code,
                "attempt": attempt,
                "status": "measured" if attempt == attempts else "failed",
                "started": f"2026-01-01T00:{minutes:02.0f}:{seconds:06.3f}+00:00",
                "seconds": times * item.nominal_s,
            }
            (folder / "trial.json").write_text(json.dumps(document))
            if number % beside == beside - 1:
                began += times * item.nominal_s


def test_where_nothing_is_recorded_the_plan_is_all_there_is(repository):
    assert forecast.times_nominal("emulated", "tcp") == 1
    assert forecast.expected_s("emulated", "two", "tcp", 100.0) == pytest.approx(100, abs=10)
    assert forecast.expected_s("emulated", "two", "tcp", 0.0) == 0


@pytest.mark.parametrize("times", [0.5, 2.0])
@pytest.mark.parametrize(("attempts", "beside"), [(1, 1), (2, 1), (1, 2)])
def test_an_estimate_is_right_within_a_quarter_after_another_campaign(
    repository, times, attempts, beside
):
    write_campaign(repository, "four", 4)
    record(repository, "four", times=times, attempts=attempts, beside=beside)
    expected = times * attempts / beside
    assert forecast.times_nominal("emulated", "tcp") == pytest.approx(expected, rel=0.25)


def test_an_interruption_is_no_measuring(repository):
    assert forecast.spent_s(
        [
            {"started": "2026-01-01T00:00:00+00:00", "seconds": 10},
            {"started": "2026-01-01T00:00:11+00:00", "seconds": 10},
            {"started": "2026-01-01T09:00:00+00:00", "seconds": 10},
        ]
    ) == pytest.approx(31)


def test_a_campaign_that_is_gone_teaches_nothing(repository):
    write_campaign(repository, "gone", 4)
    record(repository, "gone", times=3)
    (repository / "config/campaigns/gone.yaml").unlink()
    assert forecast.times_nominal("emulated", "tcp") == 1


def test_a_plan_has_trials_time_and_disk(repository, capsys):
    planned = planned_trials("tcp", "emulated", "two")
    record(repository, "two", times=1)
    gone = repository / "data/raw/emulated/two/tcp" / planned[0].trial.name(1)
    shutil.rmtree(gone)
    (found,) = forecast.forecasts()
    assert (found.trials, found.recorded) == (len(planned), len(planned) - 1)
    assert found.left_s == pytest.approx(planned[0].nominal_s + 5, rel=0.25)
    assert found.left_bytes == found.trial_bytes > 0
    arguments = build_parser().parse_args(["plan", "--campaign", "two", "--testbed", "emulated"])
    arguments.run(arguments)
    said = capsys.readouterr().out
    assert "to measure: 1 trial, about" in said
    assert "GB are free" in said


def test_further_trials_of_a_stopping_rule_are_named(repository):
    text = forecast.as_text(forecast.forecasts("quick", "model"))
    line = next(line for line in text.splitlines() if line.startswith("latency"))
    assert "more trials" in line
    assert "unknown" in line, "nothing tells how large its trials are"


def test_a_plan_counts_trials_as_the_status_does(repository, monkeypatch):
    # A repetition that a stopping rule asked for is one of the campaign once it was tried.
    monkeypatch.setattr(status, "root", lambda: repository)
    record(repository, "two", times=1)
    items = planned_trials("tcp", "emulated", "two")
    in_any_case = {item.trial.digest for item in items if item.trial.repetition == 1}
    ruled = [
        item if item.trial.digest in in_any_case else replace(item, stopping_rule="ratio")
        for item in items
    ]
    untried = next(item for item in ruled if item.stopping_rule)
    shutil.rmtree(repository / "data/raw/emulated/two/tcp" / untried.trial.name(1))
    for module in (forecast, status):
        monkeypatch.setattr(module, "planned_trials", lambda *_: ruled)
    (found,) = forecast.forecasts()
    counted = status.status_of("emulated", "two", "tcp")
    assert (found.trials, found.recorded) == (counted.planned, counted.recorded)
    assert (found.trials, found.possible) == (len(items) - 1, 1)


def test_what_is_measured_at_once_takes_its_time_once(repository):
    write_campaign(repository, "two", 2)
    grid = (repository / "config/campaigns/two.yaml").read_text()
    grid += "papers: false\nvary: {queue_bytes: [16384, 262144]}\n"
    (repository / "config/campaigns/grid.yaml").write_text(grid)
    hosts = {("emulated", "two", name): 60.0 for name in ("loss", "tcp")}
    model = {("model", "two", name): 30.0 for name in ("loss", "tcp", "latency", "shaping")}
    assert forecast.elapsed_s(hosts, 4) == 120
    assert forecast.elapsed_s(model, 1) == 120
    assert forecast.elapsed_s(hosts | model, 2) == 120 + 60
    assert forecast.elapsed_s(model, 64) == 30, "one run is on one processor"
    assert forecast.elapsed_s({("model", "grid", "loss"): 60.0}, 2) == 30, "but a grid has parts"
    assert forecast.elapsed_s({}, 2) == 0


def test_what_a_start_takes_is_learned_from_what_was_started(repository):
    assert forecast.start_s("emulated") == 5, "a guess, where nothing was started"
    record(repository, "two", times=1)
    spent = forecast.spent_s(
        json.loads(path.read_text())
        for path in (repository / "data/raw/emulated/two/tcp").glob("*/trial.json")
    )
    folder = repository / "results/emulated/two/tcp"
    folder.mkdir(parents=True)
    notebook = folder / "measure.ipynb"
    minutes, seconds = divmod(spent + 18, 60)
    ran = {
        "start_time": "2026-01-01T00:00:00+00:00",
        "end_time": f"2026-01-01T00:{minutes:02.0f}:{seconds:09.6f}+00:00",
    }
    notebook.write_text(json.dumps({"metadata": {"papermill": ran}}))
    assert forecast.start_s("emulated") == pytest.approx(20, abs=0.01), "with its process"
    # The estimate of as much again is within a quarter of what it took, with its start.
    nominal = sum(item.nominal_s for item in planned_trials("tcp", "emulated", "two"))
    found = forecast.expected_s("emulated", "two", "tcp", nominal)
    assert found == pytest.approx(spent + 20, rel=0.25)
    notebook.write_text("not finished")
    assert forecast.start_s("emulated") == 5
