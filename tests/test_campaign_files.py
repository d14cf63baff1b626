"""Every file of config/ is what its model says, and the campaigns hold what the papers print."""

import pytest
import yaml

from tsnrepro.analysis.loss import FRAME_OVERHEAD_BYTES
from tsnrepro.analysis.tcp import DURATIONS
from tsnrepro.campaigns import EXPERIMENTS, campaign, emulated_settings
from tsnrepro.experiments import latency, sweep, tcp
from tsnrepro.repository import root
from tsnrepro.settings import Selection, load

CAMPAIGNS = sorted(path.stem for path in (root() / "config" / "campaigns").glob("*.yaml"))


def test_the_selection_is_valid():
    assert load(Selection, root() / "config" / "config.yaml").campaign in CAMPAIGNS


def test_the_testbed_file_holds_the_defaults():
    written = yaml.safe_load((root() / "config/testbeds/emulated.yaml").read_text("utf-8"))
    assert emulated_settings().model_dump(mode="json") == written


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_campaign_measures_what_the_papers_print(name):
    settings = campaign(name)
    assert settings.sweep
    assert settings.tcp
    assert settings.latency
    frames = {part.payload_bytes + FRAME_OVERHEAD_BYTES for part in settings.sweep.parts}
    assert frames == {64, 128, 256, 512, 1024, 1518}
    assert len(settings.tcp.durations_s) == len(DURATIONS)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_plan_has_every_trial_once(name):
    settings = campaign(name)
    for module in (sweep, tcp, latency):
        planned = module.plan(settings)
        assert len({item.trial.digest for item in planned}) == len(planned)
        assert [item.order for item in planned] == list(range(len(planned)))
        by_configuration = {
            c: sum(item.trial.factors["configuration"] == c for item in planned)
            for c in ("control", "frer")
        }
        assert by_configuration["control"] == by_configuration["frer"]


def test_the_quick_campaign_takes_minutes():
    nominal = sum(
        item.nominal_s
        for module in (sweep, tcp, latency)
        for item in module.plan(campaign("quick"))
    )
    assert nominal < 8 * 60
    assert set(EXPERIMENTS) == {"sweep", "tcp", "latency"}
