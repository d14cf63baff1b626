"""Mapping files: required keys, and errors of invalid ones."""

import copy

import pytest
import yaml

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.imports.mapping import REQUIRED_FIELDS, load_mapping, mapping_names
from tsnrepro.records.columns import COLUMNS, EXPERIMENTS
from tsnrepro.records.tables import SCHEMAS

SOUND = {
    "description": "a data set",
    "tables": {
        "loss": {
            "files": ["*.csv"],
            "format": "csv",
            "experiment": "loss",
            "name_pattern": r"(?P<size>\d+)\.csv",
            "fields": {
                "configuration": "frer",
                "payload_bytes": {"from_name": "size", "unit": "bytes"},
                "target_mbps": {"column": "target", "unit": "Mb/s"},
                "loss_percent": {"column": "loss", "unit": "percent"},
            },
        }
    },
}
LATENCY = {
    "files": ["*.csv"],
    "format": "csv",
    "experiment": "latency",
    "latency_quantity": "half round trip",
    "fields": {
        "configuration": "control",
        "payload_bytes": 64,
        "mean_us": {"column": "mean", "unit": "us"},
    },
}


def written(tmp_path, content):
    path = tmp_path / "some.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def changed(table=None, base=None, **fields):
    """Return a valid mapping with keys of its table replaced, and fields added."""
    content = copy.deepcopy(SOUND)
    one = content["tables"]["loss"] = copy.deepcopy(base or content["tables"]["loss"])
    one |= table or {}
    one["fields"] |= fields
    return content


def test_a_valid_mapping(tmp_path):
    loaded = load_mapping(written(tmp_path, SOUND))
    assert loaded.name == "some"
    assert loaded.mapping.tables["loss"].fields["configuration"].constant == "frer"
    assert len(loaded.sha256) == 64


def test_the_digest_is_of_the_text(tmp_path):
    path = written(tmp_path, SOUND)
    first = load_mapping(path).sha256
    path.write_text(path.read_text(encoding="utf-8") + "# a remark\n", encoding="utf-8")
    assert load_mapping(path).sha256 != first


@pytest.mark.parametrize("name", mapping_names())
def test_the_mappings_of_the_repository_are_valid_and_found_by_name(name):
    assert load_mapping(name).mapping.tables


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"no such mapping.*one of: .*d10test"):
        load_mapping("nosuch")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**SOUND, "colour": "red"}, "colour: Extra inputs"),
        (changed({"colum": 1}), "tables.loss.colum"),
        ({"description": "x", "tables": {}}, "tables"),
        (changed(speed={"column": "v", "unit": "Mb/s"}), "loss has no field 'speed'"),
        (
            changed(offered_mbps={"column": "v"}),
            "offered_mbps: unit is required; there are: .*kbps",
        ),
        (changed(offered_mbps={"column": "v", "unit": "mph"}), "'mph' is not a unit of a rate"),
        (changed(offered_mbps={"column": "v", "constant": 1}), "exactly one of column"),
        (changed(offered_mbps={"unit": "Mb/s"}), "exactly one of column"),
        (changed(payload_bytes={"from_name": "nope", "unit": "bytes"}), "no group 'nope'"),
        (changed({"name_pattern": "("}), "not a regular expression"),
        (changed({"files": ["../*.csv"]}), "leaves the data set's folder"),
        (changed({"files": ["/etc/*.csv"]}), "leaves the data set's folder"),
        (changed({"rows": "a.b"}), "rows needs the format json"),
        (changed({"format": "sockperf"}), "format sockperf does not support loss"),
        (changed({"latency_quantity": "one way"}), "need the experiment latency"),
        (
            changed({"ignored_columns": {"loss": "why"}}),
            "'loss' is in fields and in ignored_columns",
        ),
        (changed(sent={"column": "n", "layer": "wire"}), "layer is for rates"),
        (changed(sent={"column": "n", "timezone": "UTC"}), "timezone is for times of day"),
        (changed(configuration={"column": "c", "unit": "s"}), "configuration: it has no unit"),
        (changed({"latency_quantity": None}, LATENCY), "latency_quantity is required"),
        (changed({"format": "times"}, LATENCY), "times and the format times need each other"),
        (
            changed(
                {"format": "times", "times": {"sent": "a", "received": 1, "unit": "s"}}, LATENCY
            ),
            "name all columns or number all",
        ),
        (
            changed({"format": "times", "times": {"sent": 0, "received": 1, "unit": "B"}}, LATENCY),
            "'B' is not a unit of a time",
        ),
        (
            changed({"observations": {"file": "../{a}", "format": "sockperf"}}, LATENCY),
            "leaves the data set's folder",
        ),
    ],
)
def test_errors_name_what_is_wrong(tmp_path, content, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_mapping(written(tmp_path, content))
    assert "some.yaml" in caught.value.where


@pytest.mark.parametrize("name", ["configuration", "payload_bytes"])
def test_required_fields(tmp_path, name):
    content = copy.deepcopy(SOUND)
    del content["tables"]["loss"]["fields"][name]
    with pytest.raises(ConfigurationError, match=f"fields lacks {name}"):
        load_mapping(written(tmp_path, content))


def test_text_that_is_not_yaml(tmp_path):
    path = tmp_path / "some.yaml"
    path.write_text("a: [", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="not YAML"):
        load_mapping(path)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_column_can_be_mapped(experiment):
    columns = SCHEMAS[experiment].columns
    needed = {name for name, column in columns.items() if column.required and not column.regex}
    assert needed - {"trial", "sha256"} <= set(COLUMNS[experiment])
    assert set(REQUIRED_FIELDS[experiment]) <= set(COLUMNS[experiment])
