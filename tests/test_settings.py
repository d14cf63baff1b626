"""Configuration: every wrong key and value is named, with its file, and nothing is guessed."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tsnrepro import campaigns
from tsnrepro.errors import ConfigurationError
from tsnrepro.repository import root
from tsnrepro.settings import (
    Campaign,
    EmulatedSettings,
    FrerSettings,
    Selection,
    load,
    parse,
)

SWEEP = {
    "repetitions": 2,
    "parts": [{"payload_bytes": 1472, "rates_mbps": [100, 200], "duration_s": 1}],
}
CAMPAIGN = {
    "description": "a campaign",
    "sweep": SWEEP,
    "tcp": {"repetitions": 1, "durations_s": [1, 2]},
    "latency": {"repetitions": 1, "payloads_bytes": [64], "duration_s": 1},
}


def written(folder: Path, values: object, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def changed(values: dict, path: tuple, value: object) -> dict:
    """Return a copy with the value at ``path`` set."""
    copy = yaml.safe_load(yaml.safe_dump(values))
    node = copy
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    return copy


# --- what the repository brings along ------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((root() / "config" / "campaigns").glob("*.yaml")))
def test_every_campaign_of_the_repository_is_good(path):
    assert campaigns.campaign(path.stem).description


def test_the_shipped_testbed_is_the_default_one():
    """The file spells out what holds without it, so reading it tells the truth."""
    assert campaigns.testbed_settings("emulated") == EmulatedSettings()


def test_the_top_of_the_configuration_is_good():
    chosen = load(Selection, root() / "config" / "config.yaml")
    assert chosen.testbed == "auto"
    assert (root() / "config" / "campaigns" / f"{chosen.campaign}.yaml").is_file()


# --- unknown keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "values", "path", "named"),
    [
        (EmulatedSettings, {}, ("speed",), "speed"),
        (EmulatedSettings, {"frer": {}}, ("frer", "history"), "frer.history"),
        (Selection, {}, ("Testbed",), "Testbed"),
        (Campaign, CAMPAIGN, ("sweeps",), "sweeps"),
        (Campaign, CAMPAIGN, ("sweep", "rates"), "sweep.rates"),
        (Campaign, CAMPAIGN, ("sweep", "parts", 0, "rate_mbps"), "sweep.parts.0.rate_mbps"),
        (Campaign, CAMPAIGN, ("tcp", "duration_s"), "tcp.duration_s"),
        (Campaign, CAMPAIGN, ("latency", "payload_bytes"), "latency.payload_bytes"),
    ],
)
def test_an_unknown_key_is_named_with_its_file(tmp_path, model, values, path, named):
    file = written(tmp_path, changed(values, path, 1))
    with pytest.raises(ConfigurationError) as error:
        load(model, file)
    assert f"{named}: Extra inputs are not permitted" in str(error.value)
    assert str(file) in str(error.value)
    assert "Known keys: " in str(error.value)


def test_all_problems_are_named_at_once(tmp_path):
    values = changed(CAMPAIGN, ("atempts",), 3)
    values = changed(values, ("tcp", "repetitions"), 0)
    del values["description"]
    with pytest.raises(ConfigurationError) as error:
        load(Campaign, written(tmp_path, values))
    for problem in ("atempts: Extra inputs", "tcp.repetitions:", "description: Field required"):
        assert problem in error.value.what


@given(st.text(st.characters(codec="ascii", categories=("Ll", "Nd")), min_size=1, max_size=12))
def test_no_unknown_key_is_let_through(name):
    if name in EmulatedSettings.model_fields:
        return
    with pytest.raises(ConfigurationError, match=name):
        parse(EmulatedSettings, {name: 1}, "a file")


# --- bad values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("link_rate_mbps",), 0),
        (("link_rate_mbps",), -1000),
        (("link_rate_mbps",), "fast"),
        (("link_rate_mbps",), 0.5),
        (("queue_bytes",), 0),
        (("queue_bytes",), None),
        (("burst_bytes",), -1),
        (("paths",), 0),
        (("paths",), 9),
        (("kind",), "hardware"),
        (("locate_drops",), "maybe"),
        (("frer",), None),
        (("frer", "algorithm"), "best"),
        (("frer", "history_length"), 1),
        (("frer", "history_length"), 2049),
        (("frer", "reset_ms"), 0),
        (("frer", "take_no_sequence"), 2),
        (("processors",), {"sw1": 0}),
        (("processors",), {"talker": "first"}),
        (("processors",), [0, 1]),
    ],
)
def test_a_testbeds_bad_value_is_named(tmp_path, path, value):
    good = {**EmulatedSettings().model_dump(mode="json"), "kind": "emulated"}
    file = written(tmp_path, changed(good, path, value))
    with pytest.raises(ConfigurationError) as error:
        load(EmulatedSettings, file)
    assert error.value.what.startswith(".".join(path))
    assert error.value.where == str(file)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seed",), "today"),
        (("attempts",), 0),
        (("sweep", "repetitions"), 0),
        (("sweep", "parts"), []),
        (("sweep", "configurations"), ["frer", "both"]),
        (("sweep", "parts", 0, "payload_bytes"), 15),
        (("sweep", "parts", 0, "payload_bytes"), 65508),
        (("sweep", "parts", 0, "rates_mbps"), []),
        (("sweep", "parts", 0, "rates_mbps"), [100, 0]),
        (("sweep", "parts", 0, "rates_mbps"), 100),
        (("sweep", "parts", 0, "duration_s"), 0),
        (("sweep", "parts", 0, "duration_s"), 1.5),
        (("tcp", "durations_s"), []),
        (("tcp", "durations_s"), [10, -1]),
        (("latency", "payloads_bytes"), [13]),
        (("latency", "duration_s"), "60 s"),
    ],
)
def test_a_campaigns_bad_value_is_named(tmp_path, path, value):
    with pytest.raises(ConfigurationError) as error:
        load(Campaign, written(tmp_path, changed(CAMPAIGN, path, value)))
    assert error.value.what.startswith(".".join(map(str, path)))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_rate_is_a_number(number):
    values = changed(CAMPAIGN, ("sweep", "parts", 0, "rates_mbps"), [100])
    values["sweep"]["parts"][0]["rates_mbps"] = [number]
    with pytest.raises(ConfigurationError, match="rates_mbps"):
        parse(Campaign, values, "a file")


@pytest.mark.parametrize("values", [[], "text", 7, ["sweep"]])
def test_a_file_that_is_no_mapping(tmp_path, values):
    if not values:
        values = [None]
    with pytest.raises(ConfigurationError, match="file: Input should be a valid dictionary"):
        load(Campaign, written(tmp_path, values))


# --- files ----------------------------------------------------------------------------------------


def test_a_missing_file_names_those_there_are(tmp_path):
    for name in ("quick", "paper"):
        written(tmp_path, CAMPAIGN, name)
    with pytest.raises(ConfigurationError, match=r"no such file; there are: paper, quick"):
        load(Campaign, tmp_path / "fast.yaml")


def test_a_missing_campaign_names_those_of_the_repository():
    with pytest.raises(ConfigurationError, match=r"there are: .*paper, quick.*fast\.yaml"):
        campaigns.campaign("fast")


def test_a_file_that_is_no_yaml_says_where(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("sweep:\n  parts: [1, 2\nrates: }\n")
    with pytest.raises(ConfigurationError, match=r"not YAML: [\s\S]*line 3[\s\S]*broken\.yaml"):
        load(Campaign, path)


def test_an_empty_file_is_all_defaults_where_there_are_any(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("# nothing\n")
    assert load(EmulatedSettings, path) == EmulatedSettings()
    with pytest.raises(ConfigurationError, match="description: Field required"):
        load(Campaign, path)


def test_nothing_changes_after_it_was_read():
    settings = EmulatedSettings()
    with pytest.raises(ValidationError):
        settings.paths = 3
    with pytest.raises(ValidationError):
        settings.frer.history_length = 64


@given(
    st.builds(
        FrerSettings,
        algorithm=st.sampled_from(["vector", "match"]),
        history_length=st.integers(2, 2048),
        reset_ms=st.integers(1, 10**6),
        take_no_sequence=st.booleans(),
    ),
    st.integers(1, 8),
)
def test_what_is_recorded_of_a_testbed_can_be_read_again(frer, paths):
    settings = EmulatedSettings(frer=frer, paths=paths)
    assert parse(EmulatedSettings, settings.model_dump(mode="json"), "a record") == settings


# --- experiments ----------------------------------------------------------------------------------


def test_an_unknown_experiment_names_those_there_are():
    with pytest.raises(
        ConfigurationError, match=r"unknown experiment 'jitter'.*sweep, tcp, latency"
    ):
        campaigns.run_experiment("jitter", "emulated", "smoke")


def test_an_experiment_that_a_campaign_leaves_out(monkeypatch):
    monkeypatch.setattr(campaigns, "campaign", lambda _: Campaign(description="only words"))
    with pytest.raises(ConfigurationError, match="campaign 'quick' has no experiment 'tcp'"):
        campaigns.run_experiment("tcp", "emulated", "quick")
