"""Files of a data set read by the tables of a mapping: rows become trials, or reasons why not."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.imports import plausibility
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.imported import ORIGINALS
from tsnrepro.imports.mapping import MappedTable, Observations, match_names
from tsnrepro.imports.readers.row import DataRow, FileRows, numbers_of, one_row, statistics
from tsnrepro.imports.refusal import NoMeasurementError, refuse_empty
from tsnrepro.imports.rows import (
    Converted,
    ImportedTrial,
    chosen,
    complete,
    convert,
    reason_for,
    trial_of,
)
from tsnrepro.records.store import canonical

_BRACES = re.compile(r"\{([^{}]+)\}")
_READERS = {
    "csv": "csv_rows",
    "json": "json_rows",
    "iperf3": "iperf3_rows",
    "mausezahn": "mausezahn",
    "sockperf": "sockperf_rows",
}
_UNITS_REMEDY = (
    "Correct its unit or leave the column out; if it is right, say why under implausible"
)
# In letters of up to four bytes; a file name has at most 255.
_LONGEST_NAME = 60


@dataclass
class TableReading:
    """What one file gave by one table."""

    trials: list[ImportedTrial] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    """A checksum of the row or file that each trial came from: those of copies are equal."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    skipped_rows: int = 0
    elsewhere: int = 0
    """Rows that the table's ``where`` leaves to others."""


class DataFolder:
    """The files of a data set, each read once; what was read stays while its file is used."""

    def __init__(self, root: Path, paths: list[str]) -> None:
        self.root = root
        self.paths = set(paths)
        self.used: dict[str, SourceFile] = {}
        """Files that were read, by path below the folder."""

    def file(self, relative: str) -> SourceFile:
        """Return a file.

        Raises
        ------
        RecordError
            It cannot be read.
        """
        if relative not in self.used:
            self.used[relative] = SourceFile(self.root / relative, relative)
        return self.used[relative]


def original_of(file: SourceFile) -> str:
    """Return where the store keeps a file, below the testbed's folder."""
    return f"{ORIGINALS}/{file.sha256}/{file.path.name[-_LONGEST_NAME:]}"


def read_file(
    folder: DataFolder, file: SourceFile, name: str, table: MappedTable, link_mbps: float | None
) -> TableReading:
    """Return the trials that one table of a mapping finds in a file.

    Parameters
    ----------
    folder
        The data set's folder.
    file
        One of its files.
    name, table
        The table and its name in the mapping.
    link_mbps
        The line's rate where the mapping says it.

    Raises
    ------
    NoMeasurementError
        The file is to be refused, and why.
    RecordError
        The mapping does not fit the file, or a row contradicts itself: file, row, what, remedy.
    """
    try:
        return _read(folder, file, name, table, link_mbps)
    except RecordError as error:
        place = file.relative
        if error.where and error.where != place:
            place = f"{place}, {error.where}"
        raise RecordError(error.what, place, error.remedy) from error


def _read(
    folder: DataFolder, file: SourceFile, name: str, table: MappedTable, link_mbps: float | None
) -> TableReading:
    refuse_empty(file.head)
    groups = _groups(file, table)
    if table.generated is None and (words := file.says_generated):
        raise NoMeasurementError(
            f"it says that it was not measured: '{words}'",
            "",
            "Set generated: true, and it is labelled so; or false, if it was measured all the same",
        )
    found = _rows(file, table)
    outcome = TableReading(skipped=list(found.skipped), skipped_rows=found.skipped_rows)
    measured: list[tuple[DataRow, Converted, dict[str, Any]]] = []
    for row in found.rows:
        if not chosen(row, table.where):
            outcome.elsewhere += 1
        elif reason := reason_for(row, table.skip):
            outcome.skipped.append((row.place, reason))
            outcome.skipped_rows += 1
        else:
            of_row: dict[str, Any] = {"file": file.relative, "sha256": file.sha256}
            of_row |= {"original": original_of(file), "table": name, "row": row.place}
            converted = convert(row, table, groups)
            if reason := reason_for(row, table.failed):
                _add(outcome, trial_of(converted, table, of_row, reason), row, file, table)
                continue
            if found.has_observations:
                of_row["observations"] = _how(file, table.format, table)
            elif table.observations:
                of_row["observations"] = _attach(folder, row, converted, table, groups)
            complete(converted, table)
            measured.append((row, converted, of_row))
    _refuse([converted for _, converted, _ in measured], table, link_mbps)
    for row, converted, of_row in measured:
        _add(outcome, trial_of(converted, table, of_row), row, file, table)
    return outcome


def _add(
    outcome: TableReading, trial: ImportedTrial, row: DataRow, file: SourceFile, table: MappedTable
) -> None:
    # Of a table the row's own cells count, wherever it stands; of a tool's output the whole file.
    content = file.sha256 + row.place
    if table.format in ("csv", "json"):
        content = hashlib.sha256(repr(sorted(row.cells.items())).encode("utf-8", "replace"))
        content = content.hexdigest()
    said = [trial.experiment, trial.factors, trial.result, trial.started, trial.failure, content]
    outcome.trials.append(trial)
    outcome.contents.append(hashlib.sha256(canonical(said)).hexdigest())


def _groups(file: SourceFile, table: MappedTable) -> dict[str, str | None]:
    if table.name_pattern is None:
        return {}
    (groups,) = match_names(table.name_pattern, [file.relative])
    if groups is None:
        raise NoMeasurementError("its name does not fit the table's name_pattern")
    return dict(groups)


def _rows(file: SourceFile, table: MappedTable) -> FileRows:
    if table.times is None:
        # A module a format: most imports need neither NumPy nor pyarrow.
        reader = import_module(f"tsnrepro.imports.readers.{_READERS[table.format]}")
        return reader.read(file, table)
    from tsnrepro.imports.readers import packet_times  # noqa: PLC0415

    found = packet_times.read(file, table.times, table.row_range)
    known = statistics(found.latencies_us) | {"sent": found.sent, "received": found.received}
    if found.span_s > 0:
        known["valid_seconds"] = found.span_s
    skipped = {"skipped": found.skipped, "skipped_rows": found.skipped_rows}
    return one_row(known, has_observations=True, **skipped)


def _refuse(rows: list[Converted], table: MappedTable, link_mbps: float | None) -> None:
    """Refuse numbers that were not measured, or not in the units that the mapping says."""
    numbers = [row.numbers() for row in rows]
    if reason := plausibility.zeros_against_counts(numbers):
        raise NoMeasurementError(reason)
    if table.generated:
        return
    if table.experiment == "latency":
        if found := plausibility.computed_statistics(numbers):
            raise NoMeasurementError(
                f"a program computed it: {'; '.join(found)}",
                "",
                "Name the columns that were not measured in ignored_columns, or set generated",
            )
        for row in rows:
            if wrong := next(plausibility.wrong_statistics(row.numbers(), row.digits), None):
                remedy = "Correct the columns or their units, or name wrong ones in ignored_columns"
                raise RecordError(wrong, row.place, remedy)
    elif not table.implausible:
        for row in rows:
            if wrong := next(plausibility.wrong_rates(row.numbers(), link_mbps), None):
                raise RecordError(wrong, row.place, _UNITS_REMEDY)
        if wrong := plausibility.wrong_rates_of_all(numbers, link_mbps):
            raise RecordError(wrong, "", _UNITS_REMEDY)


def _how(file: SourceFile, kind: str, table: MappedTable) -> dict[str, Any]:
    """Return what is needed to read a trial's observations again, years later."""
    times = table.observations.times if table.observations else table.times
    return {
        "file": file.relative,
        "sha256": file.sha256,
        "original": original_of(file),
        "format": kind,
        "times": times.model_dump() if times else None,
        "row_range": table.row_range if table.format == "times" else None,
        # sockperf says itself whether it logged whole round trips.
        "halve": kind == "times" and table.latency_quantity == "round trip",
    }


def _attach(
    folder: DataFolder,
    row: DataRow,
    converted: Converted,
    table: MappedTable,
    groups: Mapping[str, str | None],
) -> dict[str, Any]:
    """Read the file of a row's observations and fill in the statistics that the row lacks."""
    from tsnrepro.imports.observations import read_observations  # noqa: PLC0415

    assert table.observations is not None
    relative = _filled(table.observations, row, groups)
    if relative not in folder.paths:
        raise RecordError(f"there is no file of its observations, {relative}", row.place)
    file = folder.file(relative)
    how = _how(file, table.observations.format, table)
    known = statistics(read_observations(file, how))
    file.release()  # a log of observations is large, and the next row has its own
    wrong = plausibility.against_log(converted.numbers(), numbers_of(known), converted.digits)
    if said := next(wrong, None):
        raise RecordError(f"{relative}: {said}", row.place, "Correct the row, or leave it out")
    converted.values = known | converted.values
    return how


def _filled(observations: Observations, row: DataRow, groups: Mapping[str, str | None]) -> str:
    def value(match: re.Match) -> str:
        name = match[1]
        return str(groups[name] if name in groups else row.cell(name))

    filled = _BRACES.sub(value, observations.file)
    if ".." in PurePosixPath(filled).parts or PurePosixPath(filled).is_absolute():
        raise RecordError(f"'{filled}' leaves the data set's folder"[:200], row.place)
    return filled
