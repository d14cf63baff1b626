"""A run: the list of trials that an experiment on one testbed under one campaign came to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.records.documents import is_file_name, read_object
from tsnrepro.records.store import RawStore

_AGAIN = "Remove it, and it is written again from the record"


def open_run(manifest_path: str | Path) -> tuple[RawStore, dict[str, Any]]:
    """Return the store and the manifest of a run.

    Raises
    ------
    RecordError
        There is no such manifest, or it is none.
    """
    path = Path(manifest_path)
    no_list, remedy = "this is no run's list of trials", _AGAIN
    if not path.is_file():
        raise RecordError("no such run", str(path), "Measure it first: snakemake --cores 4")
    manifest = read_object(path, no_list, remedy)
    try:
        root = (path.parent / manifest["folder"]).resolve().parents[2]
        names = [manifest[key] for key in ("testbed", "campaign", "experiment")]
        places = root.parts[1:]
        trials = [manifest["trials"], manifest.get("failed_attempts", [])]
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        raise RecordError(f"{no_list}: {error!r}", str(path), remedy) from error
    environment = manifest.get("environment")
    if environment is not None:
        names.append(environment)
    if strange := [name for name in (*names, *places) if not is_file_name(name)]:
        raise RecordError(f"{no_list}: {strange[0]!r:.40} is no name", str(path), remedy)
    if not all(isinstance(listed, list) for listed in trials):
        raise RecordError(f"{no_list}: its trials are no list", str(path), remedy)
    if not all(_is_named(entry) for listed in trials for entry in listed) or not all(
        isinstance(entry.get("sha256"), str) for entry in trials[0]
    ):
        raise RecordError("a trial of the run has no name or no checksum", str(path), remedy)
    return RawStore(root, *names[:3]), manifest


def _is_named(entry: object) -> bool:
    return isinstance(entry, dict) and is_file_name(entry.get("trial"))


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
