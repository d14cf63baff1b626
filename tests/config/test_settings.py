"""Configuration: every wrong key and value is named, with its file, and nothing is guessed."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tracked_files import tracked

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import EmulatedSettings, FrerSettings, load, load_testbed, parse
from tsnrepro.config import files as campaigns
from tsnrepro.config.base import (
    Attempts,
    ConfigModel,
    Configurations,
    LinkRateMbps,
    LoadMbps,
    Name,
    Packets,
    PacketsPerSecond,
    RateMbps,
    RatesMbps,
    Repetitions,
    Seconds,
    Seed,
    WholeSeconds,
    named_file,
)
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.papers import Sources
from tsnrepro.config.testbeds import ModelListener
from tsnrepro.config.yaml_files import parse_yaml
from tsnrepro.experiments.mausezahn.settings import MausezahnSettings
from tsnrepro.experiments.studies.study import Study
from tsnrepro.runner import plan as planning
from tsnrepro.runner import run as measuring

LOSS = {
    "repetitions": 2,
    "parts": [{"payload_bytes": 1472, "rates_mbps": [100, 200], "duration_s": 1}],
}
CAMPAIGN = {
    "description": "a campaign",
    "loss": LOSS,
    "tcp": {"repetitions": 1, "durations_s": [1, 2]},
    "latency": {"repetitions": 1, "payloads_bytes": [64], "duration_s": 1},
}
STUDY = {
    "description": "a study",
    "duration_s": 0.1,
    "replications": 1,
    "measure": {"kind": "threshold"},
    "parts": {"all": {"factors": {"paths": [1]}}},
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


@pytest.mark.parametrize("path", tracked("config/campaigns/*.yaml"))
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
    ("model", "values", "path", "known"),
    [
        (EmulatedSettings, {}, ("speed",), "Known keys: kind, link_rate_mbps, "),
        (EmulatedSettings, {"frer": {}}, ("frer", "history"), "Known keys of frer: algorithm, "),
        (Selection, {}, ("Testbed",), "Known keys: testbed, campaign, "),
        (Campaign, CAMPAIGN, ("sweeps",), "Known keys: description, seed, "),
        (Campaign, CAMPAIGN, ("loss", "rates"), "Known keys of loss: configurations, repetitions"),
        (
            *(Campaign, CAMPAIGN, ("loss", "parts", 0, "rate_mbps")),
            "Known keys of loss.parts.0: repetitions, max_repetitions, ratio_precision_percent, ",
        ),
        (Campaign, CAMPAIGN, ("tcp", "duration_s"), "Known keys of tcp: configurations, "),
        (Campaign, CAMPAIGN, ("latency", "payload_bytes"), "Known keys of latency: "),
        (
            *(ModelListener, {"receive_us": {"low": 1, "high": 2}, "stack_us": 1}),
            *(("receive_us", "mean"), "Known keys of receive_us.range: low, high"),
        ),
        (
            Study,
            STUDY,
            ("measure", "rate"),
            "Known keys of measure.threshold: kind, min_rate_mbps, ",
        ),
        (Study, STUDY, ("parts", "all", "factor"), "Known keys of parts.all: base, factors"),
    ],
)
def test_an_unknown_key_is_named_with_those_known_at_its_level(
    tmp_path, model, values, path, known
):
    file = written(tmp_path, changed(values, path, 1))
    with pytest.raises(ConfigurationError) as error:
        load(model, file)
    assert re.search(rf"(\.|^){path[-1]}: Extra inputs are not permitted", error.value.what)
    assert error.value.where == str(file)
    assert error.value.remedy.startswith(known)


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
        (("link_rate_mbps",), True),
        (("link_rate_mbps",), "1000"),
        (("link_rate_mbps",), 10**15),
        (("queue_bytes",), 1),
        (("queue_bytes",), 10**12),
        (("burst_bytes",), 1),
        (("burst_bytes",), 10**12),
        (("delay_us",), [float("inf")]),
        (("frer", "reset_ms"), 10**12),
        (("frer", "take_no_sequence"), "yes"),
        (("queue_bytes",), 0),
        (("queue_bytes",), None),
        (("burst_bytes",), -1),
        (("paths",), 0),
        (("paths",), 9),
        (("kind",), "hardware"),
        (("trace_drops",), "maybe"),
        (("frer",), None),
        (("frer", "algorithm"), "best"),
        (("frer", "history_length"), 1),
        (("frer", "history_length"), 2049),
        (("frer", "reset_ms"), 0),
        (("frer", "take_no_sequence"), 2),
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
        (("loss", "repetitions"), 0),
        (("loss", "parts"), []),
        (("loss", "configurations"), ["frer", "both"]),
        (("loss", "parts", 0, "payload_bytes"), 15),
        (("loss", "parts", 0, "payload_bytes"), 65508),
        (("loss", "parts", 0, "rates_mbps"), []),
        (("loss", "parts", 0, "rates_mbps"), [100, 0]),
        (("loss", "parts", 0, "rates_mbps"), 100),
        (("loss", "parts", 0, "duration_s"), 0),
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


class Quantities(ConfigModel):
    """One key of each kind that experiments' settings are made of."""

    attempts: Attempts = 1
    repetitions: Repetitions = 1
    seed: Seed = 1
    duration_s: WholeSeconds = 1
    time_s: Seconds = 1.0
    rate_mbps: RateMbps = 1.0
    load_mbps: LoadMbps = 0.0
    link_rate_mbps: LinkRateMbps = 1
    rate_pps: PacketsPerSecond = 1.0
    packets: Packets = 1
    rates_mbps: RatesMbps = [1.0]
    configurations: Configurations = ["control", "frer"]
    study: Name = "threshold"
    latent: LatentSettings = LatentSettings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("attempts", value) for value in (True, "3", 1.0, 10**12)],
        *[("repetitions", value) for value in (0, 10**9, False)],
        *[("seed", value) for value in (-1, 2**63, None)],
        *[("duration_s", value) for value in (10**18, 1.5, "1", 0)],
        *[("time_s", value) for value in (0, 10**18, float("inf"))],
        *[("rate_mbps", value) for value in (1e308, 1e-9, True, "100", 10**400)],
        *[("load_mbps", value) for value in (float("inf"), -1, float("nan"))],
        *[("link_rate_mbps", value) for value in (10**15, 0, 0.5)],
        *[("packets", value) for value in (10**15, 0)],
        ("rate_pps", 1e12),
        *[("rates_mbps", value) for value in ([], [1, 1], [1, 1.0], "1", {"low": 1})],
        *[("configurations", value) for value in ([], ["frer", "frer"], "frer", ["both"])],
        *[
            ("study", value)
            for value in ("", "../../etc/passwd", "a;touch X", "$(x)", "a b", "A", "-a", "a" * 65)
        ],
        ("study", "threshold\n"),
    ],
)
def test_what_would_run_for_years_or_measure_nothing_is_refused(key, value):
    with pytest.raises(ConfigurationError) as error:
        parse(Quantities, {key: value}, "a file")
    assert error.value.what.startswith(key)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("rate_mbps", 1), ("rate_mbps", 400_000), ("duration_s", 86_400), ("rates_mbps", [1, 2.5])],
)
def test_the_ends_of_a_range_are_in_it(key, value):
    assert getattr(parse(Quantities, {key: value}, "a file"), key) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_rate_is_a_number(number):
    values = changed(CAMPAIGN, ("loss", "parts", 0, "rates_mbps"), [100])
    values["loss"]["parts"][0]["rates_mbps"] = [number]
    with pytest.raises(ConfigurationError, match="rates_mbps"):
        parse(Campaign, values, "a file")


@pytest.mark.parametrize("values", [[], "text", 7, ["loss"]])
def test_a_file_that_is_no_mapping(tmp_path, values):
    if not values:
        values = [None]
    with pytest.raises(ConfigurationError, match="file: Input should be a valid dictionary"):
        load(Campaign, written(tmp_path, values))


# --- files ----------------------------------------------------------------------------------------


def test_a_missing_file_names_those_there_are(tmp_path):
    for name in ("quick", "documents"):
        written(tmp_path, CAMPAIGN, name)
    with pytest.raises(ConfigurationError, match=r"no such file; there are: documents, quick"):
        load(Campaign, tmp_path / "fast.yaml")


def test_a_missing_campaign_names_those_of_the_repository():
    some = r"there are: .*bridge, .*documents, .*quick.*fast\.yaml"
    with pytest.raises(ConfigurationError, match=some):
        campaigns.campaign("fast")


@pytest.mark.parametrize("name", ["../quick", "a;b", "$(touch x)", "", "Quick", "a" * 65, "a/b"])
def test_a_name_that_could_be_a_path_or_a_command_is_refused(tmp_path, name):
    with pytest.raises(ConfigurationError, match="is not a name"):
        named_file(tmp_path, name)


@pytest.mark.parametrize("name", ["quick", "rfc2544-full", "d10test", "a" * 64])
def test_a_name_is_a_file_of_its_folder(tmp_path, name):
    assert named_file(tmp_path, name) == tmp_path / f"{name}.yaml"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"seed: 1\nseed: 2\n", "key 'seed' twice, in line 2"),
        (b"loss: {repetitions: 1, repetitions: 1}", "key 'repetitions' twice, in line 1"),
        ("description: \u00e9".encode("latin-1"), "not UTF-8: .* in line 1"),
        ("description: a".encode("utf-16"), "not UTF-8: .* in line 1"),
        (b"seed: " + b"9" * 5000, "a value cannot be read: .* 5000 digits"),
        (b"[" * 2000 + b"]" * 2000, "nested deeper than 32 levels in line 1"),
        (b"{a: " * 100_000, "nested deeper than 32 levels in line 1"),
        (b"day: 2026-02-30", "a value cannot be read: day is out of range"),
        (b"description: \x00", "not YAML: unacceptable character"),
        (b"a: 1\n---\nb: 2", "not YAML: .* another document in line 2"),
        (b"? [a, b]\n: 1", "not YAML: found unhashable key in line 1"),
        (b"!!python/object:os.system x", "tag '!!python/object:os.system' in line 1"),
        (b"loss: &again [*again]", "an alias of itself in line 1"),
    ],
)
def test_yaml_that_other_programs_stumble_over(tmp_path, content, says):
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=says) as error:
        load(Campaign, path)
    assert error.value.where == str(path)
    assert "\n" not in str(error.value)


def test_merged_keys_may_be_set_again():
    text = b"a: &a {x: 1, y: 2}\nb: &b {<<: *a, y: 3}\nc: {<<: *b, x: 4}"
    assert parse_yaml(text, "a file")["c"] == {"x": 4, "y": 3}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_as_python_writes_it(number):
    assert parse_yaml(f"a: {number!r}".encode(), "a file") == {"a": number}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_in_one_sentence(content):
    refused = ""
    try:
        parse_yaml(content, "a file")
    except ConfigurationError as error:
        refused = str(error)
    assert "\n" not in refused


@pytest.mark.parametrize("kind", [["model"], {"model": 1}, None, 3, "switch"])
def test_a_kind_of_testbed_that_is_none(tmp_path, kind):
    path = written(tmp_path, {"kind": kind})
    with pytest.raises(ConfigurationError, match="unknown kind of testbed"):
        load_testbed(path)


def test_a_file_that_is_no_yaml_says_where(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("loss:\n  parts: [1, 2\nrates: }\n")
    with pytest.raises(ConfigurationError, match=r"not YAML: .* in line 3, .*broken\.yaml"):
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


# --- papers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optional", "says"),
    [
        ({"simulated": "guest"}, "columns and optional_columns both have simulated"),
        ({"guest": "selected"}, "the selected testbed is always measured.*guest"),
    ],
)
def test_an_optional_column_is_another_of_another_testbed(optional, says):
    columns = {"measured": "selected", "simulated": "model"}
    values = {"document": "tas-i210-i225", "experiments": ["shaping"], "columns": columns}
    assert parse(
        Sources, values | {"optional_columns": {"guest": "guest"}}, "a file"
    ).optional_columns
    with pytest.raises(ConfigurationError, match=says):
        parse(Sources, values | {"optional_columns": optional}, "a file")


def test_an_unknown_experiment_of_a_paper_is_refused_with_near_ones():
    values = {"experiments": ["tcp", "latancy"], "columns": {"measured": "selected"}}
    with pytest.raises(ConfigurationError, match=r"'latancy' \(near: latency\)"):
        parse(Sources, values, "a file")
    assert parse(Sources, values | {"experiments": ["tcp"]}, "a file").document is None


# --- experiments ----------------------------------------------------------------------------------


def test_an_unknown_experiment_names_those_there_are():
    with pytest.raises(
        ConfigurationError, match=r"unknown experiment 'no-such'.*loss, tcp, latency"
    ):
        measuring.run_experiment("no-such", "emulated", "smoke")


def test_an_experiment_that_a_campaign_leaves_out(monkeypatch):
    monkeypatch.setattr(planning, "campaign", lambda _: Campaign(description="only words"))
    with pytest.raises(ConfigurationError, match="campaign 'quick' has no experiment 'tcp'"):
        measuring.run_experiment("tcp", "emulated", "quick")


def test_a_part_that_stands_twice_is_named_by_its_place():
    values = changed(CAMPAIGN, ("loss", "parts"), [LOSS["parts"][0]] * 2)
    with pytest.raises(ConfigurationError, match=r"loss\.parts: items 0 and 1 are the same"):
        parse(Campaign, values, "a file")


def test_a_deadline_comes_after_the_end():
    values = {"repetitions": 1, "frames_bytes": [64], "loads_percent": [1]}
    with pytest.raises(ConfigurationError, match="deadline_s of 1 is below duration_s of 2"):
        parse(MausezahnSettings, values | {"duration_s": 2, "deadline_s": 1}, "a file")
