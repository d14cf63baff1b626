"""Integrity of runs: whether records and results are still what was analysed.

An analysis verifies every trial that it reads. Afterwards its run is sealed: the seal lists sizes
and times of the record's files, and checksums of what the analysis wrote. Each start of the
workflow compares the record's sizes and times, checksums where these differ, and those of what the
analysis wrote; ``tsnrepro verify`` reads every byte. Other generated files, such as a paper's
values, are in lists of checksums in their folders (``.sha256``, in the format of ``sha256sum``).
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import RecordError, printable
from tsnrepro.records.files import (
    PARTIAL_PREFIX,
    is_file_name,
    read_json_object,
    sha256_of,
    write_atomically,
)
from tsnrepro.records.store import RUN_FILE, RawStore, Trial, open_run, read_listed_trial
from tsnrepro.records.tool_results import contradicted
from tsnrepro.records.values import (
    FACTS_FILE,
    FIGURES_FOLDER,
    KOREAN_FOLDER,
    TABLES_FOLDER,
    VALUES_FILE,
)

SEAL_FILE = "seal.json"
SUMS_SUFFIX = ".sha256"
_GENERATED = ("papers", "reports", "studies")
_FIGURES = (f"{FIGURES_FOLDER}/*.*", f"{FIGURES_FOLDER}/{KOREAN_FOLDER}/*")
_ANALYSIS_OUTPUTS = (VALUES_FILE, FACTS_FILE, f"{TABLES_FOLDER}/*", *_FIGURES)


_Stamp = Annotated[list[int], Field(min_length=2, max_length=2)]


def _is_inside(name: str) -> str:
    if not all(map(is_file_name, name.split("/"))):
        raise ValueError("not a file of the run's folder")
    return name


def _checksum(made: Any) -> Any:
    """Return the checksum of an output; older seals have its size and time first."""
    return made[-1] if isinstance(made, list) and made else made


class _Seal(BaseModel):
    """Size and time of each file of the record, and a checksum of each analysis output.

    ``analysis`` is the digest of the analysis and of its inputs other than the record.
    """

    run: str
    analysis: str = ""
    record: dict[str, dict[str, _Stamp]]
    made: dict[
        Annotated[str, AfterValidator(_is_inside)], Annotated[str, BeforeValidator(_checksum)]
    ]


def write_seal(folder: Path, analysis: str = "") -> None:
    """Seal an analysed run.

    Parameters
    ----------
    folder
        The run's, with ``run.json`` and the outputs of its analysis.
    analysis
        Digest of its analysis, see :meth:`tsnrepro.config.registry.Experiment.analysis_digest`.

    Raises
    ------
    RecordError
        A file of the record is missing.
    """
    store, manifest = open_run(folder / RUN_FILE)
    made = [path for pattern in _ANALYSIS_OUTPUTS for path in sorted(folder.glob(pattern))]
    seal = {
        "run": sha256_of(folder / RUN_FILE),
        "analysis": analysis,
        "record": {
            entry["trial"]: _stamps(store.folder / entry["trial"]) for entry in manifest["trials"]
        },
        "made": {str(path.relative_to(folder)): sha256_of(path) for path in made},
    }
    write_atomically(folder / SEAL_FILE, json.dumps(seal, indent=0).encode())


def read_seal(folder: Path) -> dict[str, Any] | None:
    """Return the seal of a run; None if the run is not analysed.

    Raises RecordError if the seal was altered.
    """
    path = folder / SEAL_FILE
    if not all((folder / name).is_file() for name in (RUN_FILE, VALUES_FILE, SEAL_FILE)):
        return None  # it is measured or analysed anew
    what, remedy = "the seal was altered", "Remove it, and the run is analysed again"
    try:
        return _Seal.model_validate(read_json_object(path, what, remedy)).model_dump()
    except ValidationError as error:
        raise RecordError(what, str(path), remedy) from error


def write_sums(output: Path, files: Iterable[Path]) -> None:
    """Write the checksums of generated files that are in the folder of the list or below it."""
    lines = [f"{sha256_of(path)}  {path.relative_to(output.parent)}\n" for path in sorted(files)]
    write_atomically(output, "".join(lines).encode())


def changed_outputs(folder: Path, *, missing: bool = True) -> Iterator[RecordError]:
    """Yield the problems of generated files in a folder or below it, by their lists of checksums.

    Parameters
    ----------
    folder
        Of a paper, a report or a study, or one that has several of them.
    missing
        Whether a listed file that is missing is a problem; a workflow makes it again.
    """
    for sums in sorted(folder.rglob(f"*{SUMS_SUFFIX}")):
        remedy = f"Remove {sums}: all that it lists is made again"
        for line in sums.read_text(encoding="utf-8", errors="replace").splitlines():
            expected, _, name = line.partition("  ")
            path = sums.parent / name
            if not all(map(is_file_name, name.split("/"))):
                yield RecordError("the list of checksums was altered", str(sums), "Remove it")
            elif not path.is_file():
                if missing:
                    yield RecordError("a generated file is missing", str(path), remedy)
            elif sha256_of(path) != expected:
                yield RecordError("the file is not what the workflow wrote", str(path), remedy)


def check_seals(folders: Iterable[str], generated: Iterable[str] = ()) -> None:
    """Check that the files of runs have not changed since they were analysed.

    Parameters
    ----------
    folders
        Those of the runs.
    generated
        Folders of papers, reports and studies, whose files may be missing but not altered.

    Raises
    ------
    RecordError
        A file has changed; further ones are counted.
    """
    problems = [problem for folder in folders for problem in changed_files(Path(folder))]
    for folder in generated:
        problems += changed_outputs(Path(folder), missing=False)
    raise_first(problems)


def verify(results: Path) -> None:
    """Verify all runs, papers, reports and studies in a folder; print the outcome of each run.

    Raises RecordError if there is no run, or one has a problem; all problems are printed.
    """
    runs = sorted(path.parent for path in results.rglob(RUN_FILE))
    if not runs:
        raise RecordError("there is no run", str(results), "Measure first: snakemake --cores 4")
    found = []
    for folder in runs:
        problems = list(verify_run(folder))
        trials = len(open_run(folder / RUN_FILE)[1]["trials"])
        outcome = plural(len(problems), "problem") if problems else "sound"
        print(printable(f"{folder}: {plural(trials, 'trial')}, {outcome}"))
        for problem in problems:
            print(f"  {problem}")
        found += problems
    for name in _GENERATED:
        problems = list(changed_outputs(results / name))
        for problem in problems:
            print(f"{results / name}: {problem}")
        found += problems
    raise_first(found)


def raise_first(problems: list[RecordError]) -> None:
    """Raise the first problem, with the number of further ones, if there is any."""
    if not problems:
        return
    first = problems[0]
    others = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    raise RecordError(first.what, f"{first.where}{others}", first.remedy)


def changed_files(folder: Path) -> Iterator[RecordError]:
    """Yield the problems of a run, reading its outputs, and trials whose size or time has changed.

    A run that was not analysed since it was last measured is left to its analysis.
    """
    seal, run = read_seal(folder), folder / RUN_FILE
    if seal is None:
        return
    if sha256_of(run) != seal["run"]:
        if run.stat().st_mtime_ns <= (folder / SEAL_FILE).stat().st_mtime_ns:
            yield _unlike_analysed(folder, f"Remove {folder / SEAL_FILE}")
        return
    store, manifest = open_run(run)
    for entry in manifest["trials"]:
        trial = store.folder / entry["trial"]
        if not trial.is_dir() or _stamps(trial) != seal["record"].get(entry["trial"]):
            yield from _trial_problems(store, entry, folder)
    for name, expected in seal["made"].items():
        yield from _output_problems(folder, name, expected)


def verify_run(folder: Path, root: Path | None = None) -> Iterator[RecordError]:
    """Yield the problems of a run, reading every byte of its record and its results.

    Problems are: trials that are missing, altered, listed twice, copies of another or of another
    run; values that the tools' recorded output contradicts; facts of the hosts that do not match
    their digest; results that no analysis wrote.

    Parameters
    ----------
    folder
        The run's.
    root
        Folder of the raw store, if not the one that the run was measured into.
    """
    store, manifest = open_run(folder / RUN_FILE)
    if root is not None:
        store = RawStore(root, store.testbed, store.campaign, store.experiment)
    listed = Counter(entry["trial"] for entry in manifest["trials"])
    for trial, times in listed.items():
        if times > 1:
            yield RecordError(f"the run lists trial {trial} {times} times", str(folder / RUN_FILE))
    yield from _stored_problems(store, manifest.get("environment"))
    for entry in manifest["trials"]:
        if not (store.folder / entry["trial"]).is_dir() or _differs(store, entry):
            yield from _trial_problems(store, entry, folder)
    seal = read_seal(folder)
    if seal is None:
        return
    if sha256_of(folder / RUN_FILE) != seal["run"]:
        yield _unlike_analysed(folder, "Analyse it again")
    for name, expected in seal["made"].items():
        yield from _output_problems(folder, name, expected)


def _unlike_analysed(folder: Path, remedy: str) -> RecordError:
    return RecordError("the run is not the one that was analysed", str(folder / RUN_FILE), remedy)


def _trial_problems(store: RawStore, entry: dict[str, Any], folder: Path) -> Iterator[RecordError]:
    """Yield the problems of a trial that a run lists, reading every byte."""
    try:
        read_listed_trial(store, entry)
    except RecordError as error:
        remedy = (
            "Restore it from a copy, or remove the trial's folder and "
            f"{folder / RUN_FILE} to measure it again"
        )
        yield RecordError(error.what, error.where, remedy)


def _output_problems(folder: Path, name: str, expected: str) -> Iterator[RecordError]:
    """Yield the problems of an output of a run's analysis, reading every byte."""
    path = folder / name
    remedy = f"Remove {folder / VALUES_FILE}: everything is made again from the record"
    if not path.is_file():
        yield RecordError("an output of the analysis is missing", str(path), remedy)
    elif sha256_of(path) != expected:
        yield RecordError("the file is not what the analysis wrote", str(path), remedy)


def _differs(store: RawStore, entry: dict[str, Any]) -> bool:
    """Return whether a trial's checksums are not those that the run lists."""
    try:
        return store.sha256(store.folder / entry["trial"]) != entry["sha256"]
    except OSError:
        return False  # reported by _stored_problems


def _stored_problems(store: RawStore, environment: str | None) -> Iterator[RecordError]:
    """Yield the trials in a run's folder that are altered, contradicted, of another run, or copies.

    Altered facts of the hosts are too: of each trial, and of the run's own ``environment``.
    """
    seen: dict[str, str] = {}
    environments = {environment}
    for folder in sorted(store.folder.iterdir()) if store.folder.is_dir() else []:
        if folder.name.startswith(PARTIAL_PREFIX) or not folder.is_dir():
            continue
        try:
            document = store.read(folder)
        except RecordError as error:
            yield error
            continue
        try:
            mismatch = _mismatch(document, store)
        except (KeyError, TypeError) as error:
            mismatch = f"its document is incomplete ({error!r})"
        if mismatch:
            yield RecordError(f"not a trial of this run: {mismatch}", str(folder), "Remove it")
        if other := seen.get(document["sha256"]):
            yield RecordError(f"a copy of trial {other}", str(folder), "Remove it")
        seen[document["sha256"]] = folder.name
        environments.add(str(document.get("environment") or ""))
        for what in () if mismatch else contradicted(folder, document):
            yield RecordError(
                f"the value is not that of the tool's output: {what}",
                str(folder),
                "Restore the trial from a copy, or remove its folder to measure it again",
            )
    for digest in sorted(filter(None, environments)):
        try:
            store.environment(digest)
        except RecordError as error:
            yield error


def _mismatch(document: dict[str, Any], store: RawStore) -> str:
    """Return what of a trial disagrees with its path in the store, or an empty text."""
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


def _stamps(folder: Path) -> dict[str, list[int]]:
    # Every start of the workflow reads those of thousands of trials; pathlib takes twice the time.
    with os.scandir(folder) as entries:
        statuses = {entry.name: entry.stat() for entry in entries}
    return {name: [s.st_size, s.st_mtime_ns] for name, s in sorted(statuses.items())}
