"""Every byte of the record and of the results held against checksums, run by run."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.records.runs import open_run
from tsnrepro.records.seal import (
    RUN_FILE,
    made_problems,
    refuse,
    seal_of,
    sha256_of,
    trial_problems,
)
from tsnrepro.records.store import PARTIAL_PREFIX, RawStore, Trial


def verify(results: Path) -> None:
    """Check all runs below a folder and print what became of each.

    Raises
    ------
    RecordError
        There is no run, or something is wrong with one; everything that is was printed.
    """
    runs = sorted(path.parent for path in results.rglob(RUN_FILE))
    if not runs:
        raise RecordError("there is no run", str(results), "Measure first: snakemake --cores 4")
    found = []
    for folder in runs:
        problems = list(verified(folder))
        trials = len(open_run(folder / RUN_FILE)[1]["trials"])
        print(
            f"{folder}: {trials} trials, " + (f"{len(problems)} problems" if problems else "sound")
        )
        for problem in problems:
            print(f"  {problem}")
        found += problems
    refuse(found)


def verified(folder: Path, root: Path | None = None) -> Iterator[RecordError]:
    """Yield what is wrong with a run, reading every byte of its record and its results.

    That is: trials that are missing, altered, listed twice, copies of another or of another run;
    facts of the machines that are not those of the record; results that no analysis wrote.

    Parameters
    ----------
    folder
        The run's.
    root
        Folder of the raw store, where it does not lie where the run was measured.
    """
    store, manifest = open_run(folder / RUN_FILE)
    if root is not None:
        store = RawStore(root, store.testbed, store.campaign, store.experiment)
    listed = Counter(entry["trial"] for entry in manifest["trials"])
    for trial, times in listed.items():
        if times > 1:
            yield RecordError(f"the run lists trial {trial} {times} times", str(folder / RUN_FILE))
    yield from _stored_problems(store)
    for entry in manifest["trials"]:
        if not (store.folder / entry["trial"]).is_dir() or _other(store, entry):
            yield from trial_problems(store, entry, folder)
    yield from _environment_problems(store, manifest)
    seal = seal_of(folder)
    if seal is None:
        return
    if sha256_of(folder / RUN_FILE) != seal["run"]:
        yield RecordError(
            "the run is not the one that was analysed", str(folder / RUN_FILE), "Analyse it again"
        )
    for name, (_, expected) in seal["made"].items():
        yield from made_problems(folder, name, expected)


def _other(store: RawStore, entry: dict[str, Any]) -> bool:
    """Return whether a trial has other checksums than the run lists; what it holds aside."""
    try:
        return store.sha256(store.folder / entry["trial"]) != entry["sha256"]
    except OSError:
        return False  # told by the look at everything stored


def _stored_problems(store: RawStore) -> Iterator[RecordError]:
    """Yield which trials in a run's folder are altered, not its own, or there twice."""
    seen: dict[str, str] = {}
    for folder in sorted(store.folder.iterdir()) if store.folder.is_dir() else []:
        if folder.name.startswith(PARTIAL_PREFIX) or not folder.is_dir():
            continue
        try:
            document = store.read(folder)
        except RecordError as error:
            yield error
            continue
        try:
            words = _strange(document, store)
        except (KeyError, TypeError) as error:
            words = f"it does not say what it is ({error!r})"
        if words:
            yield RecordError(f"a foreign trial: {words}", str(folder), "Remove it")
        if other := seen.get(document["sha256"]):
            yield RecordError(f"a copy of trial {other}", str(folder), "Remove it")
        seen[document["sha256"]] = folder.name


def _strange(document: dict[str, Any], store: RawStore) -> str:
    """Return what about a trial is not as its place in the store says; nothing where all is."""
    for name in ("testbed", "campaign", "experiment"):
        if document[name] != getattr(store, name):
            return f"it was measured as {name} {document[name]}"
    if "source" in document:
        return ""  # an imported trial is named by its source
    trial = Trial(
        document["experiment"],
        document["label"],
        document["factors"],
        document["repetition"],
        document.get("code", ""),
    )
    name = trial.name(document["attempt"])
    return "" if name == document["trial"] else f"its factors belong to {name}"


def _environment_problems(store: RawStore, manifest: dict[str, Any]) -> Iterator[RecordError]:
    if digest := manifest.get("environment"):
        try:
            store.environment(digest)
        except RecordError as error:
            yield error
