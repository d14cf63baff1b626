"""JSON Schemas of the configuration files, generated from the models that check them, for editors.

``tsnrepro schemas`` writes them to config/schemas/. The first line of each YAML file names its
schema, so that an editor with a YAML language server completes and explains keys and marks errors.
Constraints across keys are in the models only.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from tsnrepro.common.repository import root
from tsnrepro.config import TestbedSettings
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.papers import Sources
from tsnrepro.experiments.studies.study import Study
from tsnrepro.imports.mapping import ImportMapping
from tsnrepro.papers.glossary import Glossary

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# By name: the model of a schema and the files that it describes.
SCHEMAS: dict[str, tuple[Any, str]] = {
    "selection": (Selection, "config/config.yaml"),
    "testbed": (Annotated[TestbedSettings, Field(discriminator="kind")], "config/testbeds/*.yaml"),
    "campaign": (Campaign, "config/campaigns/*.yaml"),
    "study": (Study, "config/studies/*.yaml"),
    "import": (ImportMapping, "config/imports/*.yaml"),
    "sources": (Sources, "paper/*/sources.yaml"),
    "glossary": (Glossary, "paper/glossary.yaml"),
}


def folder() -> Path:
    """Return the folder of the generated schemas."""
    return root() / "config" / "schemas"


def described_by(name: str) -> list[Path]:
    """Return the files of the repository that a schema describes."""
    return sorted(root().glob(SCHEMAS[name][1]))


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one kind of configuration file."""
    made = TypeAdapter(SCHEMAS[name][0]).json_schema()
    for part in made.get("oneOf", []):
        # The kind has a default in each model, but is what tells them apart in a file.
        made["$defs"][part["$ref"].rsplit("/", 1)[1]].setdefault("required", []).append("kind")
    return {"$schema": _DIALECT, **_without_titles(made)}


def _without_titles(node: Any) -> Any:
    """Drop titles, which repeat the names of keys."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_titles(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }


def write_schemas() -> None:
    """Write all schemas."""
    folder().mkdir(exist_ok=True)
    for each in SCHEMAS:
        text = json.dumps(schema(each), indent=1, ensure_ascii=False)
        (folder() / f"{each}.json").write_text(f"{text}\n", encoding="utf-8")
