"""JSON Schema of every configuration file, from the models that check them, for editors.

``python -m tsnrepro.cli.schemas`` writes config/schemas/, and the glossary's page. A comment at the
head of each YAML file names its schema, so that an editor with a YAML language server completes
keys, shows what they mean and marks what is wrong. A schema knows less than its model: what several
keys must agree on is checked when the file is read.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from tsnrepro.common.repository import root
from tsnrepro.config import TestbedSettings
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.papers import Sources
from tsnrepro.imports.mapping import ImportMapping
from tsnrepro.papers.glossary import PRINTED, Glossary, as_page, glossary
from tsnrepro.studies.study import Study

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# By the schema's name: its model and the files that it describes.
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
        # A default tells the model what it is; in a file the kind is what tells the models apart.
        made["$defs"][part["$ref"].rsplit("/", 1)[1]].setdefault("required", []).append("kind")
    return {"$schema": _DIALECT, **_without_titles(made)}


def text(name: str) -> str:
    """Return a schema as it stands in its file."""
    return json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"


def _without_titles(node: Any) -> Any:
    """Drop titles that only say a key's name again."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_titles(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }


if __name__ == "__main__":
    folder().mkdir(exist_ok=True)
    for each in SCHEMAS:
        (folder() / f"{each}.json").write_text(text(each), encoding="utf-8")
    (root() / PRINTED).write_text(as_page(glossary()), encoding="utf-8")
