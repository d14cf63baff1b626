"""The seal of an analysed run: the files its numbers rest on and the files that hold them.

An analysis checks every record that it reads. Its run is sealed afterwards, so that what happens to
these files later is noticed although nothing has to be made again: at every start of the workflow
by sizes and times, and whatever these tell of by checksums; by ``tsnrepro verify`` altogether.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from tsnrepro.common.errors import RecordError
from tsnrepro.records.documents import is_file_name, read_object
from tsnrepro.records.runs import listed_trial, open_run
from tsnrepro.records.store import RawStore, sha256_of, write_whole
from tsnrepro.records.values import FACTS_FILE, TABLES_FOLDER, VALUES_FILE

SEAL_FILE, RUN_FILE = "seal.json", "run.json"
_MADE_BY_ANALYSIS = (VALUES_FILE, FACTS_FILE, f"{TABLES_FOLDER}/*", "figures/*")


_Stamp = Annotated[list[int], Field(min_length=2, max_length=2)]


def _below(name: str) -> str:
    if not all(map(is_file_name, name.split("/"))):
        raise ValueError("no file of the run's folder")
    return name


class _Seal(BaseModel):
    """Sizes and times of a run's record, and of what its analysis made with checksums.

    ``analysis`` is the digest of the analysis and of what it reads beside the record.
    """

    run: str
    analysis: str = ""
    record: dict[str, dict[str, _Stamp]]
    made: dict[Annotated[str, AfterValidator(_below)], tuple[_Stamp, str]]


def write_seal(folder: Path, analysis: str = "") -> None:
    """Seal an analysed run.

    Parameters
    ----------
    folder
        The run's, with ``run.json`` and what its analysis wrote.
    analysis
        Digest of its analysis, see :meth:`tsnrepro.config.registry.Experiment.analysis_digest`.

    Raises
    ------
    RecordError
        A file of the record is missing.
    """
    store, manifest = open_run(folder / RUN_FILE)
    made = [path for pattern in _MADE_BY_ANALYSIS for path in sorted(folder.glob(pattern))]
    seal = {
        "run": sha256_of(folder / RUN_FILE),
        "analysis": analysis,
        "record": {
            entry["trial"]: _stamps(store.folder / entry["trial"]) for entry in manifest["trials"]
        },
        "made": {str(path.relative_to(folder)): [_stamp(path), sha256_of(path)] for path in made},
    }
    write_whole(folder / SEAL_FILE, json.dumps(seal, indent=0).encode())


def refuse_altered(folders: Iterable[str]) -> None:
    """Refuse runs whose files are not what they were when they were analysed.

    Raises
    ------
    RecordError
        It names the first such file and counts the others.
    """
    refuse([problem for folder in folders for problem in touched(Path(folder))])


def refuse(problems: list[RecordError]) -> None:
    """Raise the first of some problems, with their number; none is no error.

    Raises
    ------
    RecordError
        There is a problem.
    """
    if not problems:
        return
    first = problems[0]
    others = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    raise RecordError(first.what, f"{first.where}{others}", first.remedy)


def touched(folder: Path) -> Iterator[RecordError]:
    """Yield what is wrong with a run, looking only where sizes or times tell of a change.

    A run that was not analysed since it was last measured is left to its analysis.
    """
    seal, run = seal_of(folder), folder / RUN_FILE
    if seal is None:
        return
    if sha256_of(run) != seal["run"]:
        if run.stat().st_mtime_ns <= (folder / SEAL_FILE).stat().st_mtime_ns:
            yield RecordError(
                "the run is not the one that was analysed", str(run), f"Remove {folder / SEAL_FILE}"
            )
        return
    store, manifest = open_run(run)
    for entry in manifest["trials"]:
        trial = store.folder / entry["trial"]
        if not trial.is_dir() or _stamps(trial) != seal["record"].get(entry["trial"]):
            yield from trial_problems(store, entry, folder)
    for name, (stamp, expected) in seal["made"].items():
        if not (folder / name).is_file() or _stamp(folder / name) != stamp:
            yield from made_problems(folder, name, expected)


def seal_of(folder: Path) -> dict[str, Any] | None:
    """Return the seal of a run, None where it is not analysed.

    Raises
    ------
    RecordError
        The seal was altered.
    """
    path = folder / SEAL_FILE
    if not all((folder / name).is_file() for name in (RUN_FILE, VALUES_FILE, SEAL_FILE)):
        return None  # it is measured or analysed anew
    what, remedy = "the seal was altered", "Remove it, and the run is analysed again"
    try:
        return _Seal.model_validate(read_object(path, what, remedy)).model_dump()
    except ValidationError as error:
        raise RecordError(what, str(path), remedy) from error


def trial_problems(store: RawStore, entry: dict[str, Any], folder: Path) -> Iterator[RecordError]:
    """Yield what is wrong with a trial that the run of a folder lists, reading every byte."""
    try:
        listed_trial(store, entry)
    except RecordError as error:
        remedy = (
            "Restore it from a copy, or remove the trial's folder and "
            f"{folder / RUN_FILE} to measure it again"
        )
        yield RecordError(error.what, error.where, remedy)


def made_problems(folder: Path, name: str, expected: str) -> Iterator[RecordError]:
    """Yield what is wrong with a file that the analysis of a run wrote, reading every byte."""
    path = folder / name
    remedy = f"Remove {folder / VALUES_FILE}: all is made again from the record"
    if not path.is_file():
        yield RecordError("what the analysis wrote is missing", str(path), remedy)
    elif sha256_of(path) != expected:
        yield RecordError("the file is not what the analysis wrote", str(path), remedy)


def _stamps(folder: Path) -> dict[str, list[int]]:
    # Every start asks for those of thousands of trials: pathlib would take twice the time.
    with os.scandir(folder) as entries:
        return {entry.name: _stamp(entry) for entry in sorted(entries, key=lambda each: each.name)}


def _stamp(path: Path | os.DirEntry[str]) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
