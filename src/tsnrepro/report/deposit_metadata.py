"""The metadata of a deposit: an RO-Crate, a citation file, Zenodo's form, and its README.

The crate follows RO-Crate 1.1 and the profiles Workflow RO-Crate 1.0 and Workflow Run Crate 0.5
(Leo et al., PLoS ONE 19(9), 2024), which describe the workflow, its inputs, results and times.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tsnrepro.config.base import parse
from tsnrepro.config.yaml_files import read_yaml

METADATA = "ro-crate-metadata.json"
CITATION = "CITATION.cff"
README = "README.md"
ZENODO = ".zenodo.json"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_VERSION = "1.1"
_NAMES = ("name", "family-names", "given-names")
_LICENSES = {"MIT": "https://spdx.org/licenses/MIT"}
_FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".ipynb": "application/x-ipynb+json",
    ".json": "application/json",
    ".lock": "text/plain",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}


@dataclass(frozen=True)
class CratePart:
    """A file or folder of a deposit that its metadata describes.

    Attributes
    ----------
    place
        Path in the archive; that of a folder ends in a slash.
    name
        Description.
    size
        Size of a file in bytes; None for a folder.
    """

    place: str
    name: str
    size: int | None = None


@dataclass(frozen=True)
class Answer:
    """A question of the report, its answer in a record, and the key of the result behind it."""

    question: str
    answer: str
    key: str


@dataclass(frozen=True)
class Description:
    """The description of a deposit.

    Attributes
    ----------
    title, abstract
        For a catalogue.
    software
        The ``CITATION.cff`` of the repository.
    commit
        The commit of the repository in the record.
    began, ended
        The start of the first trial and the end of the last.
    inputs, results
        The inputs and results of the workflow.
    origins
        The origin of the numbers, one line per testbed.
    answers
        What the record answers.
    """

    title: str
    abstract: str
    software: Mapping[str, Any]
    commit: str
    began: datetime
    ended: datetime
    inputs: tuple[CratePart, ...]
    results: tuple[CratePart, ...]
    origins: tuple[str, ...]
    answers: tuple[Answer, ...] = ()

    @property
    def authors(self) -> list[str]:
        """The names of the authors, family names first where they have one."""
        return [_name(author) for author in self.software["authors"]]


class _Plain(yaml.SafeDumper):
    """A YAML dumper without aliases, which readers of citations may not support."""

    def ignore_aliases(self, data: Any) -> bool:
        """Use no alias."""
        return True


def _name(author: Mapping[str, str]) -> str:
    given = [author[part] for part in ("family-names", "given-names") if part in author]
    return author.get("name") or ", ".join(given)


def _known_license(name: str) -> str:
    if name not in _LICENSES:
        raise ValueError(f"unknown license {name} (known: {', '.join(_LICENSES)})")
    return name


def _with_name(author: dict[str, Any]) -> dict[str, Any]:
    names = [author[part] for part in _NAMES if part in author]
    if not any(names) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"an author has one of {', '.join(_NAMES)}")
    return author


class _Citation(BaseModel):
    """The fields of a citation file that a deposit uses."""

    model_config = ConfigDict(extra="allow", strict=True)

    title: str
    authors: Annotated[
        list[Annotated[dict[str, Any], AfterValidator(_with_name)]], Field(min_length=1)
    ]
    license: Annotated[str, AfterValidator(_known_license)]
    version: str
    keywords: list[str]


def load_citation(path: Path) -> dict[str, Any]:
    """Return the content of a citation file.

    Raises
    ------
    ConfigurationError
        The file or a field that a deposit uses is missing, or the file is invalid.
    """
    values = read_yaml(path)
    parse(_Citation, values, str(path))
    return cast(dict[str, Any], values)


def citation(described: Description) -> bytes:
    """Return the ``CITATION.cff`` of the deposit (Citation File Format 1.2.0)."""
    software = dict(described.software)
    content = software | {
        "title": described.title,
        "message": "If you use these data, please cite them.",
        "type": "dataset",
        "abstract": described.abstract,
        "date-released": described.ended.date().isoformat(),
        "references": [
            {
                "type": "software",
                **{name: software[name] for name in ("title", "authors", "version", "license")},
                "notes": f"commit {described.commit}",
            }
        ],
    }
    return yaml.dump(content, Dumper=_Plain, sort_keys=False, allow_unicode=True).encode()


def zenodo(described: Description) -> bytes:
    """Return the metadata for Zenodo (``.zenodo.json``)."""
    software = described.software
    content = {
        "title": described.title,
        "description": f"<p>{described.abstract}</p>",
        "upload_type": "dataset",
        "creators": [{"name": name} for name in described.authors],
        "license": str(software["license"]).lower(),
        "access_right": "open",
        "publication_date": described.ended.date().isoformat(),
        "version": str(software["version"]),
        "keywords": software["keywords"],
        "notes": f"Check it with: tsnrepro verify ARCHIVE. Commit {described.commit}.",
    }
    return _as_json(content)


_PREFACE = """\
# {title}

{abstract}

Commit `{commit}`, from {began:%Y-%m-%d} to {ended:%Y-%m-%d}. What a reader can do with it, in how
many minutes and with what outcome, is in [ARTIFACT.md](ARTIFACT.md). This checks each byte, and
makes every result again:

```sh
scripts/setup
.venv/bin/tsnrepro verify ../{archive}
```

"""
_CLAIMS = """\
| claim | answer of this record | result |
| --- | --- | --- |
{rows}

Each answer, with its numbers and the trials behind them, is in the report:
`results/reports/*/index.html`.

"""


def readme(described: Description, archive: str, own: str) -> bytes:
    """Return the ``README.md`` of the deposit: what it claims, before the repository's own.

    Parameters
    ----------
    described
        The deposit.
    archive
        Name of its file.
    own
        The README of the repository.
    """
    fields = ("title", "abstract", "commit", "began", "ended")
    text = _PREFACE.format(archive=archive, **{name: getattr(described, name) for name in fields})
    if described.answers:
        lines = (
            f"| {each.question} | {each.answer} | `{each.key}` |" for each in described.answers
        )
        text += _CLAIMS.format(rows="\n".join(lines))
    return f"{text}{own}".encode()


def ro_crate(described: Description) -> bytes:
    """Return ``ro-crate-metadata.json``."""
    from rocrate.model.contextentity import ContextEntity  # noqa: PLC0415 - half a second
    from rocrate.rocrate import ROCrate  # noqa: PLC0415

    crate = ROCrate(version=_VERSION)
    software = described.software
    crate.name, crate.description = described.title, described.abstract
    crate.datePublished = described.ended.replace(microsecond=0)
    crate.keywords = ", ".join(software["keywords"])

    def entity(identifier: str, kind: str, **properties: Any) -> Any:
        return crate.add(ContextEntity(crate, identifier, properties={"@type": kind, **properties}))

    address = _LICENSES[software["license"]]
    crate.license = entity(
        address, "CreativeWork", name=f"{software['license']} license", url=address
    )
    profiles = [
        entity(identifier, "CreativeWork", name=name, version=version)
        for identifier, (name, version) in _PROFILES.items()
    ]
    crate.root_dataset["conformsTo"] = profiles
    crate.add_file(
        dest_path=README,
        properties={
            "about": {"@id": "./"},
            "encodingFormat": "text/markdown",
            "name": "How to use it",
        },
    )
    authors = [
        entity(f"#author-{number}", "Organization", name=name)
        for number, name in enumerate(described.authors, start=1)
    ]
    author: Any = authors if len(authors) > 1 else authors[0]
    crate.root_dataset["author"] = author
    crate.root_dataset["publisher"] = authors[0]
    workflow = crate.add_workflow(dest_path="Snakefile", main=True, lang="snakemake")
    _describe_workflow(workflow, described, author, crate.license)
    inputs, results = (_add(crate, parts) for parts in (described.inputs, described.results))
    action = crate.add_action(
        workflow,
        identifier="#run",
        object=inputs,
        result=results,
        properties={
            "name": f"Run of the workflow: {'; '.join(described.origins)}",
            "description": described.abstract,
            "startTime": described.began.isoformat(timespec="seconds"),
            "endTime": described.ended.isoformat(timespec="seconds"),
            "actionStatus": "http://schema.org/CompletedActionStatus",
            "agent": {"@id": authors[0].id},
        },
    )
    crate.root_dataset["mentions"] = action
    return _as_json(crate.metadata.generate())


def _describe_workflow(workflow: Any, described: Description, author: Any, license: Any) -> None:
    software = described.software
    workflow["name"] = software["title"]
    workflow["version"] = described.commit
    workflow["author"] = workflow["creator"] = author
    workflow["license"] = license
    workflow["encodingFormat"] = "text/plain"
    workflow["description"] = "From a testbed to records, results and papers"


def _add(crate: Any, parts: Iterable[CratePart]) -> list[Any]:
    """Add described files and folders to a crate and return them."""
    entities = []
    for part in parts:
        properties: dict[str, Any] = {"name": part.name}
        if part.size is None:
            entities.append(crate.add_dataset(dest_path=part.place, properties=properties))
            continue
        properties |= {
            "contentSize": str(part.size),
            "encodingFormat": _FORMATS.get(Path(part.place).suffix, "text/plain"),
        }
        entities.append(crate.add_file(dest_path=part.place, properties=properties))
    return entities


def _as_json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()
