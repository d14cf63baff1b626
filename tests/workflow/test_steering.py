"""A trial is measured again, skipped or repeated more often, and the record says why."""

import json
import shutil
from pathlib import Path

import pytest

from tsnrepro.cli import build_parser
from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.config import files as campaigns
from tsnrepro.records.integrity import verify_run
from tsnrepro.records.store import RawStore
from tsnrepro.runner.control import EXPERIMENT, RUN_CONTROL, SKIP, TRIAL, controlled, requests_in
from tsnrepro.runner.plan import planned_trials
from tsnrepro.runner.run import run_experiment
from tsnrepro.workflow import steering

CAMPAIGN = """\
description: two trials on the model
attempts: 2
tcp:
  repetitions: 1
  durations_s: [1]  # short
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for folder in ("config/testbeds", "config/campaigns"):
        shutil.copytree(root() / folder, tmp_path / folder)
    shutil.copy(root() / "config/config.yaml", tmp_path / "config/config.yaml")
    (tmp_path / "config/campaigns/two.yaml").write_text(CAMPAIGN)
    monkeypatch.setattr(campaigns, "root", lambda: tmp_path)
    monkeypatch.setattr(steering, "root", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def store(repository):
    return RawStore(campaigns.raw_root(), "model", "two", "tcp")


def measured(repository):
    path = repository / "results/model/two/tcp/run.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    return run_experiment("tcp", "model", "two", str(path)), path


def test_a_withdrawn_trial_is_measured_again_and_the_record_says_why(repository, store):
    found, path = measured(repository)
    (name, other) = (entry["trial"] for entry in found["trials"])
    said = steering.again(store, store.folder / name, "the cable was loose")
    assert said.startswith(f"{name} no longer counts")
    campaign = repository / "config/campaigns/two.yaml"
    assert path.stat().st_mtime < campaign.stat().st_mtime, "Snakemake has something to do"
    with pytest.raises(ConfigurationError, match="measures this trial in any case"):
        steering.again(store, store.folder / name, "twice")
    found, _ = measured(repository)
    assert [entry["trial"] for entry in found["trials"]] == [f"{name[:-1]}3", other]
    assert (store.folder / name).is_dir(), "the old attempt stays"
    assert {each["trial"]: each["reason"] for each in found["failed_attempts"]} == {
        name: "the cable was loose",
        f"{name[:-1]}2": "the cable was loose",
    }
    assert not list(verify_run(path.parent))


def test_of_attempts_after_a_withdrawal_as_many_are_made_as_before(repository, store):
    found, _ = measured(repository)
    (name, _) = (entry["trial"] for entry in found["trials"])
    for number in (1, 3, 5):
        steering.again(store, store.folder / f"{name[:-1]}{number}", "once more")
        found, _ = measured(repository)
    assert found["trials"][0]["trial"] == f"{name[:-1]}7"


def test_only_what_the_campaign_plans_is_withdrawn(repository, store):
    found, _ = measured(repository)
    folder = store.folder / found["trials"][0]["trial"]
    with pytest.raises(ConfigurationError, match="the reason is empty"):
        steering.again(store, folder, " ")
    path = repository / "config/campaigns/two.yaml"
    path.write_text(path.read_text().replace("[1]", "[2]"))
    with pytest.raises(ConfigurationError, match="does not plan this trial"):
        steering.again(store, folder, "the cable was loose")


def test_more_blocks_repeat_every_trial_and_keep_the_file(repository):
    before = planned_trials("tcp", "model", "two")
    said = steering.more("tcp", 2, "two")
    assert "tcp of two: 2 extra blocks" in said
    steering.more("tcp", 1, "two")
    text = (repository / "config/campaigns/two.yaml").read_text()
    assert text == f"{CAMPAIGN}extra_blocks: {{tcp: 3}}\n"
    after = planned_trials("tcp", "model", "two")
    assert [item.trial for item in after[: len(before)]] == [item.trial for item in before]
    assert sorted((item.trial.label, item.trial.repetition) for item in after) == [
        (label, repetition)
        for label in sorted({item.trial.label for item in before})
        for repetition in (1, 2, 3, 4)
    ]
    assert [item.order for item in after] == list(range(len(after)))
    assert [item.trial.repetition for item in after] == sorted(
        item.trial.repetition for item in after
    ), "blocks come one after another"


def test_blocks_come_before_what_a_stopping_rule_decides_on(repository):
    quick = planned_trials("latency", "model", "quick")
    steering.more("latency", 2, "quick")
    more = planned_trials("latency", "model", "quick")
    rules = {item.trial.label for item in quick if item.stopping_rule}
    assert rules
    label = rules.pop()
    in_any_case, decided = (
        [i.trial.repetition for i in more if i.trial.label == label and bool(i.stopping_rule) == r]
        for r in (False, True)
    )
    first = sum(i.trial.label == label and not i.stopping_rule for i in quick)
    assert sorted(in_any_case) == list(range(1, first + 3))
    assert sorted(decided) == list(range(first + 3, 17))


@pytest.mark.parametrize("campaign", ["quick", "smoke"])
def test_every_experiment_can_have_more_blocks(repository, campaign):
    settings = campaigns.campaign(campaign)
    for name in settings.experiments:
        try:
            before = {i.trial.digest for i in planned_trials(name, "emulated", campaign)}
        except ConfigurationError:
            continue
        steering.more(name, 1, campaign)
        after = [i.trial.digest for i in planned_trials(name, "emulated", campaign)]
        assert len(after) == len({*after})
        assert before <= {*after}


@pytest.mark.parametrize(
    ("experiment", "message"),
    [("latency", "has no experiment 'latency'"), ("nonsense", "nonsense")],
)
def test_more_of_what_is_not_there_is_refused(repository, experiment, message):
    with pytest.raises(ConfigurationError, match=message):
        steering.more(experiment, 1, "two")
    assert (repository / "config/campaigns/two.yaml").read_text() == CAMPAIGN


def test_blocks_written_over_several_lines_are_not_touched(repository):
    path = repository / "config/campaigns/two.yaml"
    path.write_text(f"{CAMPAIGN}extra_blocks:\n  tcp: 1\n")
    with pytest.raises(ConfigurationError, match=r"extra_blocks: \{tcp: 2\}"):
        steering.more("tcp", 1, "two")
    assert path.read_text().endswith("  tcp: 1\n")


def test_blocks_of_unknown_experiments_are_refused(repository):
    path = repository / "config/campaigns/two.yaml"
    path.write_text(f"{CAMPAIGN}extra_blocks: {{tpc: 1}}\n")
    with pytest.raises(ConfigurationError, match="no such experiment: tpc"):
        planned_trials("tcp", "model", "two")


def test_the_one_that_is_measured_is_skipped(repository, store, monkeypatch):
    none = (None, None, None)
    with pytest.raises(ConfigurationError, match="nothing is being measured"):
        steering.skip(TRIAL, "why", none)
    monkeypatch.setattr("tsnrepro.runner.control.os.kill", lambda pid, number: None)
    other = store.folder.parent / "loss" / RUN_CONTROL
    with controlled(store.folder / RUN_CONTROL, {}), controlled(other, {}):
        with pytest.raises(ConfigurationError, match=r"2 experiments.*loss of two.*--experiment"):
            steering.skip(TRIAL, "why", none)
        said = steering.skip(EXPERIMENT, "not needed", (None, None, "loss"))
        assert said == "loss of two on model: the experiment is skipped: not needed"
        (asked,) = requests_in(other)
        assert (asked["request"], asked["because"]) == (SKIP, "not needed")
        assert requests_in(store.folder / RUN_CONTROL) == []


def test_the_commands(repository, store, capsys, monkeypatch):
    monkeypatch.setattr("tsnrepro.explore.show.raw_root", campaigns.raw_root)
    found, _ = measured(repository)
    name = found["trials"][0]["trial"]
    for command in (
        ["again", name, "--because", "the cable was loose"],
        ["more", "tcp", "--blocks", "1", "--campaign", "two"],
    ):
        arguments = build_parser().parse_args(command)
        arguments.run(arguments)
    said = capsys.readouterr().out
    assert f"{name} no longer counts" in said
    assert "1 extra block;" in said
    arguments = build_parser().parse_args(["again", "nonsense", "--because", "x"])
    with pytest.raises(RecordError, match="no trial 'nonsense'"):
        arguments.run(arguments)
    assert json.loads((store.folder / f"{name[:-1]}2" / "trial.json").read_text())["reason"]
    assert Path(store.folder / name).is_dir()
