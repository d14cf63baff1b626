"""Every file of config/ is what its model says, and the campaigns hold what the papers print."""

from importlib import import_module

import pytest
import yaml
from miniature import miniature
from tracked_files import tracked

from tsnrepro.common.repository import root
from tsnrepro.config import files as campaigns
from tsnrepro.config import load
from tsnrepro.config.campaigns import Selection
from tsnrepro.config.files import campaign
from tsnrepro.config.registry import experiments
from tsnrepro.experiments.loss.analysis import frame_bytes
from tsnrepro.experiments.tcp.analysis import DURATIONS

CAMPAIGNS = [path.stem for path in tracked("config/campaigns/*.yaml")]


def test_the_selection_is_valid():
    assert load(Selection, root() / "config" / "config.yaml").campaign in CAMPAIGNS


def test_the_testbed_file_holds_the_defaults():
    written = yaml.safe_load((root() / "config/testbeds/emulated.yaml").read_text("utf-8"))
    assert campaigns.testbed_settings("emulated").model_dump(mode="json") == written


@pytest.mark.parametrize("name", ["smoke", "quick", "documents"])
def test_a_campaign_measures_what_the_papers_print(name):
    settings = campaign(name)
    assert settings.loss
    assert settings.tcp
    assert settings.latency
    frames = {frame_bytes(part.payload_bytes) for part in settings.loss.parts}
    assert frames == {64, 128, 256, 512, 1024, 1518}
    assert len(settings.tcp.durations_s) == len(DURATIONS)


def test_rfc2544_to_the_letter_has_its_waits():
    """Without them no result is called compliant."""
    assert campaign("rfc2544-full").rfc2544.rfc2544_waits


def planned_of(name, kind="emulated"):
    """Return each experiment of a campaign that a kind of testbed can run, with its plan."""
    settings = campaign(name)
    found = [n for n in settings.experiments if kind in experiments()[n].kinds]
    modules = {n: import_module(f"tsnrepro.experiments.{n}.plan") for n in found}
    return {n: m.plan(settings.section(n), settings.seed, kind) for n, m in modules.items()}


@pytest.mark.parametrize("kind", ["emulated", "model"])
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_plan_has_every_trial_once(name, kind):
    plans = planned_of(name, kind)
    assert plans or (name, kind) == ("capture", "model")
    for planned in plans.values():
        assert planned
        assert len({item.trial.digest for item in planned}) == len(planned)
        assert [item.order for item in planned] == list(range(len(planned)))
        # Over further member paths there is FRER alone.
        factors = [item.trial.factors for item in planned]
        paired = [each for each in factors if each.get("question") != "paths" or each["paths"] == 2]
        by_configuration = {
            c: sum(each.get("configuration") == c for each in paired) for c in ("control", "frer")
        }
        assert by_configuration["control"] == by_configuration["frer"]


def nominal_s(name):
    return sum(item.nominal_s for planned in planned_of(name).values() for item in planned)


def test_the_quick_campaign_takes_less_than_an_hour():
    """Guests counted one at a time, and trials with generous set-ups."""
    assert nominal_s("quick") < 45 * 60


def test_the_soak_campaign_takes_a_day():
    assert nominal_s("soak") == pytest.approx(24 * 3600, rel=0.01)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_miniature_has_every_part_mode_method_and_scenario(name):
    whole, small = campaign(name), miniature(campaign(name))
    assert small.experiments == whole.experiments
    assert words(small) == words(whole)


def words(settings):
    """Return every word and name that is set, by its place."""
    found = set()

    def walk(value, place):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, (*place, key))
        elif isinstance(value, list):
            for item in value:
                walk(item, place)
        elif isinstance(value, str) and place not in {("description",), ("study",)}:
            found.add((place, value))

    walk(settings.model_dump(mode="json", exclude_none=True), ())
    return found
