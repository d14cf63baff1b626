"""Every file of config/ is what its model says, and the campaigns hold what the papers print."""

from importlib import import_module

import pytest
import yaml

from tsnrepro import campaigns
from tsnrepro.analysis.loss import FRAME_OVERHEAD_BYTES
from tsnrepro.analysis.tcp import DURATIONS
from tsnrepro.campaigns import EXPERIMENTS, campaign
from tsnrepro.repository import root
from tsnrepro.settings import Selection, load

CAMPAIGNS = sorted(path.stem for path in (root() / "config" / "campaigns").glob("*.yaml"))


def test_the_selection_is_valid():
    assert load(Selection, root() / "config" / "config.yaml").campaign in CAMPAIGNS


def test_the_testbed_file_holds_the_defaults():
    written = yaml.safe_load((root() / "config/testbeds/emulated.yaml").read_text("utf-8"))
    assert campaigns.testbed_settings("emulated").model_dump(mode="json") == written


@pytest.mark.parametrize("name", ["smoke", "quick", "paper"])
def test_a_campaign_measures_what_the_papers_print(name):
    settings = campaign(name)
    assert settings.sweep
    assert settings.tcp
    assert settings.latency
    frames = {part.payload_bytes + FRAME_OVERHEAD_BYTES for part in settings.sweep.parts}
    assert frames == {64, 128, 256, 512, 1024, 1518}
    assert len(settings.tcp.durations_s) == len(DURATIONS)


def planned_of(name):
    """Return each experiment of a campaign with its plan."""
    settings = campaign(name)
    found = [n for n in EXPERIMENTS if getattr(settings, n) is not None]
    modules = {n: import_module(f"tsnrepro.experiments.{EXPERIMENTS[n].module}") for n in found}
    return {n: module.plan(settings) for n, module in modules.items()}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_plan_has_every_trial_once(name):
    plans = planned_of(name)
    assert plans
    for planned in plans.values():
        assert len({item.trial.digest for item in planned}) == len(planned)
        assert [item.order for item in planned] == list(range(len(planned)))
        by_configuration = {
            c: sum(item.trial.factors.get("configuration") == c for item in planned)
            for c in ("control", "frer")
        }
        assert by_configuration["control"] == by_configuration["frer"]


def nominal_s(name):
    return sum(item.nominal_s for planned in planned_of(name).values() for item in planned)


def test_the_quick_campaign_takes_minutes():
    assert nominal_s("quick") < 8 * 60


def test_the_soak_campaign_takes_a_day():
    assert nominal_s("soak") == pytest.approx(24 * 3600, rel=0.01)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_experiment_has_its_notebooks(name):
    for experiment in planned_of(name):
        found = EXPERIMENTS[experiment]
        for part, notebook in (("measure", found.measure), ("analyse", found.analyse)):
            assert (root() / "notebooks" / part / f"{notebook}.ipynb").is_file()
