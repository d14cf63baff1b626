"""The schemas that set-up writes say what the models say, and every file names its own."""

import copy
import json
import os
import re
from functools import cache

import pytest
from jsonschema import Draft202012Validator
from tracked_files import tracked

from tsnrepro.cli import schemas
from tsnrepro.common.repository import root
from tsnrepro.config.yaml_files import read_yaml

FILES = [(name, path) for name, (_, files) in schemas.SCHEMAS.items() for path in tracked(files)]
by_file = pytest.mark.parametrize(("name", "path"), FILES, ids=[path.stem for _, path in FILES])


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schemas.schema(name))


def problems(name: str, values: object) -> list[str]:
    return [e.json_path for e in validator(name).iter_errors(values)]


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_a_schema_is_valid_and_describes_files(name):
    Draft202012Validator.check_schema(schemas.schema(name))
    assert schemas.described_by(name)


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_every_key_is_described(name):
    made = schemas.schema(name)
    models = [made, *made.get("$defs", {}).values()]
    keys = [(key, value) for model in models for key, value in model.get("properties", {}).items()]
    # A key that refers to a model is described there; of a union's kinds each names itself.
    referring = {"description", "$ref", "anyOf", "const"}
    assert [key for key, value in keys if not referring & {*value}] == []


def test_set_up_writes_the_schemas_that_files_name(tmp_path, monkeypatch):
    monkeypatch.setattr(schemas, "folder", lambda: tmp_path)
    schemas.write_schemas()
    for name in schemas.SCHEMAS:
        text = (tmp_path / f"{name}.json").read_text(encoding="utf-8")
        assert json.loads(text) == schemas.schema(name)
    assert "tsnrepro schemas" in (root() / "scripts/setup").read_text(encoding="utf-8")
    for folder in ("config", "paper"):
        for path in (root() / folder).rglob("*.yaml"):
            named = re.search(r"\$schema=\S*?(\w+)\.json", path.read_text(encoding="utf-8"))
            assert named is None or named[1] in schemas.SCHEMAS, path


@by_file
def test_every_file_names_its_schema_where_editors_look(name, path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    target = os.path.relpath(schemas.folder() / f"{name}.json", path.parent)
    assert first == f"# yaml-language-server: $schema={target}"


@by_file
def test_every_file_fits_its_schema(name, path):
    assert problems(name, read_yaml(path)) == []


@by_file
def test_an_unknown_key_does_not_fit(name, path):
    values = read_yaml(path)
    assert problems(name, values | {"unheard_of": 1})


@pytest.mark.parametrize(
    ("name", "file", "keys", "value"),
    [
        ("campaign", "quick", ("loss", "parts", 0, "payload_bytes"), "1472"),
        ("campaign", "quick", ("loss", "parts", 0, "rates_mbps"), []),
        ("campaign", "quick", ("loss", "part"), []),
        ("testbed", "emulated", ("frer", "algorithm"), "best"),
        ("testbed", "emulated", ("frer", "history_length"), 4096),
        ("testbed", "emulated", ("kind",), "model"),
        ("testbed", "emulated", ("kind",), None),
        ("testbed", "model", ("forwarding_delay_us",), {"low": 1}),
        ("study", "threshold", ("measure", "precision"), 2),
        ("study", "threshold", ("base", "stall"), 2),
        ("import", "d10test", ("tables", "search", "format"), "xml"),
        ("import", "d10test", ("tables", "search", "fields", "configuration"), []),
    ],
)
def test_what_the_model_refuses_the_schema_marks(name, file, keys, value):
    [path] = [path for path in schemas.described_by(name) if path.stem == file]
    values = copy.deepcopy(read_yaml(path))
    node = values
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    assert problems(name, values)


def test_keys_are_explained():
    """What stands below a key in its model is what an editor shows."""
    parts = schemas.schema("testbed")["$defs"]["EmulatedSettings"]["properties"]
    assert re.search("egress queue", parts["queue_bytes"]["description"])
