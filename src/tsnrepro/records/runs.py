"""A run: the list of trials that an experiment on one testbed under one campaign came to."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tsnrepro.errors import RecordError
from tsnrepro.records.store import RawStore


def open_run(manifest_path: str | Path) -> tuple[RawStore, dict[str, Any]]:
    """Return the store and the manifest of a run.

    Raises
    ------
    RecordError
        There is no such manifest, or it is none.
    """
    path = Path(manifest_path)
    if not path.is_file():
        raise RecordError("no such run", str(path), "Measure it first: snakemake --cores 4")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        root = (path.parent / manifest["folder"]).resolve().parents[2]
        store = RawStore(root, *(manifest[key] for key in ("testbed", "campaign", "experiment")))
        complete = all({"trial", "sha256"} <= {*entry} for entry in manifest["trials"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        remedy = "Remove it, and it is written again from the record"
        raise RecordError(
            f"this is no run's list of trials: {error!r}", str(path), remedy
        ) from error
    if not complete:
        raise RecordError("a trial of the run has no name or no checksum", str(path))
    return store, manifest


def recorded_trials(manifest_path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the record of each trial that a manifest lists, checked against its checksums.

    Raises
    ------
    RecordError
        A trial is missing or was altered.
    """
    store, manifest = open_run(manifest_path)
    for entry in manifest["trials"]:
        yield listed_trial(store, entry)


def listed_trial(store: RawStore, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a trial that a run lists, checked against its checksums and the run's.

    Raises
    ------
    RecordError
        The trial is missing, was altered, or is another.
    """
    folder = store.folder / entry["trial"]
    document = store.read(folder)
    if document["sha256"] != entry["sha256"]:
        raise RecordError("the trial is not the one that the run lists", str(folder))
    return document
