"""Manifests of imported testbeds: which trials the last import of each contains.

    ROOT/<testbed>/import.json           all imports, the last one counts
                  /originals/<sha256>/   every file that a trial came from, unchanged

Trials of earlier imports stay in the store; only those of the last one are listed.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.records.columns import EXPERIMENTS
from tsnrepro.records.files import read_json_object, write_atomically

_MANIFEST = "import.json"
CAMPAIGN = "imported"
ORIGINALS = "originals"


class _Import(BaseModel):
    """The fields of an import that are checked; further ones are for display."""

    model_config = ConfigDict(extra="allow", strict=True)

    generated: bool
    environment: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    trials: dict[str, list[dict[str, Any]]]
    failed: dict[str, list[dict[str, Any]]]


class _Manifest(BaseModel):
    imports: list[_Import]


def is_imported(raw_root: Path, testbed: str) -> bool:
    """Return whether a testbed's trials were imported, so that nothing can be measured on it."""
    return (raw_root / testbed / _MANIFEST).is_file()


def imported_testbeds(raw_root: Path) -> list[str]:
    """Return the names of all imported testbeds."""
    return sorted(path.parent.name for path in raw_root.glob(f"*/{_MANIFEST}"))


def imports_of(raw_root: Path, testbed: str) -> list[dict[str, Any]]:
    """Return the imports of a testbed, oldest first; none if it is not an imported one.

    Raises
    ------
    RecordError
        The manifest cannot be read.
    """
    path = raw_root / testbed / _MANIFEST
    if not path.is_file():
        return []
    what = "the list of imports cannot be read"
    remedy = "Remove this file and import the data set again; no trial is lost"
    try:
        document = read_json_object(path, what, remedy)
        return [entry.model_dump() for entry in _Manifest.model_validate(document).imports]
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False, include_input=False)
        key = ".".join(map(str, first["loc"]))[:200]
        raise RecordError(f"{what}: {key}: {first['msg']}", str(path), remedy) from error


def add_import(raw_root: Path, testbed: str, entry: dict[str, Any]) -> None:
    """Add an import to the manifest of a testbed, atomically."""
    imports = [*imports_of(raw_root, testbed), entry]
    path = raw_root / testbed / _MANIFEST
    document = {"testbed": testbed, "imports": imports}
    write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False).encode())


def imported_experiments(raw_root: Path, testbed: str) -> list[str]:
    """Return the experiments that an imported testbed has measured trials of."""
    imports = imports_of(raw_root, testbed)
    return [name for name in EXPERIMENTS if imports and imports[-1]["trials"].get(name)]


def imported_manifest(
    raw_root: Path, testbed: str, experiment: str, campaign: str = CAMPAIGN
) -> dict[str, Any]:
    """Return the manifest of one experiment of an imported testbed: its trials and their checksums.

    Raises
    ------
    ConfigurationError
        The testbed was not imported, the campaign is not ``imported``, or the data set has no
        trial of the experiment.
    """
    imports = imports_of(raw_root, testbed)
    if not imports:
        raise ConfigurationError(
            f"'{testbed}' is not an imported testbed",
            str(raw_root / testbed),
            f"There are: {', '.join(imported_testbeds(raw_root)) or 'none'}",
        )
    if campaign != CAMPAIGN:
        raise ConfigurationError(
            f"testbed '{testbed}' was imported, and nothing can be measured on it",
            f"campaign {campaign}",
            f"Choose its campaign: --config testbed={testbed} campaign={CAMPAIGN}",
        )
    last = imports[-1]
    if not last["trials"].get(experiment):
        raise ConfigurationError(
            f"the data set of testbed '{testbed}' has no trial of {experiment}",
            str(raw_root / testbed / _MANIFEST),
            f"It has trials of: {', '.join(imported_experiments(raw_root, testbed)) or 'nothing'}",
        )
    return {
        "testbed": testbed,
        "campaign": CAMPAIGN,
        "experiment": experiment,
        "folder": str(raw_root / testbed / CAMPAIGN / experiment),
        "imported": True,
        "generated": last["generated"],
        "environment": last["environment"],
        "trials": last["trials"][experiment],
        "failed_attempts": last["failed"].get(experiment, []),
    }
