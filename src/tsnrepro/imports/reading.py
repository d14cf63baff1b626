"""Reading of files by the tables of a mapping: each row becomes a trial or a reason why not."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.imports import plausibility
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.manifest import ORIGINALS
from tsnrepro.imports.mapping import MappedTable, match_names
from tsnrepro.imports.readers import read_observations, read_rows
from tsnrepro.imports.readers.row import DataRow, numbers_of, statistics
from tsnrepro.imports.screening import NoMeasurementError, check_has_data
from tsnrepro.imports.trials import (
    ConvertedRow,
    ImportedTrial,
    check_and_complete,
    convert,
    matches,
    matching_reason,
    trial_of,
)
from tsnrepro.records.files import canonical_json

_BRACES = re.compile(r"\{([^{}]+)\}")
_UNITS_REMEDY = (
    "Correct its unit or leave the column out; if it is right, explain it under implausible"
)
_COLUMNS_REMEDY = "Correct the columns or their units, or name wrong ones in ignored_columns"
_TOOL_REMEDY = "If it is right, explain it under implausible in the mapping"
# Characters have up to four bytes, and a file name at most 255.
_MAX_NAME_CHARACTERS = 60


@dataclass
class TableReading:
    """The trials that one table finds in one file, and the rows that are none."""

    trials: list[ImportedTrial] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    """Checksum of the row or file that each trial came from; copies have equal ones."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    skipped_rows: int = 0
    notes: list[str] = field(default_factory=list)
    """What limits the results of the file."""
    excluded: int = 0
    """Rows that the table's ``where`` excludes."""


class DataFolder:
    """The files of a data set, each read once and kept while it is used."""

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


def original_path(file: SourceFile) -> str:
    """Return the path of a file's copy in the store, relative to the testbed's folder."""
    return f"{ORIGINALS}/{file.sha256}/{file.path.name[-_MAX_NAME_CHARACTERS:]}"


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
        The link rate, if the mapping states it.

    Raises
    ------
    NoMeasurementError
        The file is not a measurement; or it is a tool's output that contradicts itself or the
        mapping, which is no reason to refuse the others.
    RecordError
        The mapping does not fit the file, or a row contradicts itself; ``where`` is file and row.
    """
    try:
        return _read(folder, file, name, table, link_mbps)
    except RecordError as error:
        where = file.relative
        if not table.has_columns and error.where != where:
            raise NoMeasurementError(error.what, "", error.remedy) from error
        if error.where and error.where != where:
            where = f"{where}, {error.where}"
        raise RecordError(error.what, where, error.remedy) from error


def _read(
    folder: DataFolder, file: SourceFile, name: str, table: MappedTable, link_mbps: float | None
) -> TableReading:
    check_has_data(file.head, file.relative)
    groups = _groups(file, table)
    if table.generated is None and (mark := file.generated_mark):
        raise NoMeasurementError(
            f"it declares that it was not measured: '{mark}'",
            "",
            "Set generated: true to label it so, or false if it was measured",
        )
    listener = _listener(folder, table, groups)
    found = read_rows(file, table, listener)
    outcome = TableReading(
        skipped=list(found.skipped), skipped_rows=found.skipped_rows, notes=found.notes
    )
    measured: list[tuple[DataRow, ConvertedRow, dict[str, Any]]] = []
    for row in found.rows:
        if not matches(row, table.where):
            outcome.excluded += 1
        elif reason := matching_reason(row, table.skip):
            outcome.skipped.append((row.location, reason))
            outcome.skipped_rows += 1
        else:
            source: dict[str, Any] = {"file": file.relative, "sha256": file.sha256}
            source |= {"original": original_path(file), "table": name, "row": row.location}
            converted = convert(row, table, groups)
            if reason := matching_reason(row, table.failed):
                _add(outcome, trial_of(converted, table, source, reason), row, file, table)
                continue
            if found.has_observations:
                source["observations"] = _observations_source(file, table.format, table, listener)
            elif table.observations:
                source["observations"] = _add_statistics(folder, row, converted, table, groups)
            check_and_complete(converted, table)
            measured.append((row, converted, source))
    _check_plausible([converted for _, converted, _ in measured], table, link_mbps)
    for row, converted, source in measured:
        _add(outcome, trial_of(converted, table, source), row, file, table)
    return outcome


def _add(
    outcome: TableReading, trial: ImportedTrial, row: DataRow, file: SourceFile, table: MappedTable
) -> None:
    # Rows of tables are copies if their cells are equal, outputs of tools if the files are.
    content = file.sha256 + row.location
    if table.format in ("csv", "json"):
        content = hashlib.sha256(repr(sorted(row.cells.items())).encode("utf-8", "replace"))
        content = content.hexdigest()
    identity = [trial.experiment, trial.factors, trial.result, trial.started]
    identity += [trial.failure, content]
    outcome.trials.append(trial)
    outcome.contents.append(hashlib.sha256(canonical_json(identity)).hexdigest())


def _groups(file: SourceFile, table: MappedTable) -> dict[str, str | None]:
    if table.name_pattern is None:
        return {}
    (groups,) = match_names(table.name_pattern, [file.relative])
    if groups is None:
        raise NoMeasurementError("its name does not fit the table's name_pattern")
    return dict(groups)


def _check_plausible(rows: list[ConvertedRow], table: MappedTable, link_mbps: float | None) -> None:
    """Raise for numbers that were not measured, or not in the units that the mapping states."""
    numbers = [row.numbers() for row in rows]
    remedy = _UNITS_REMEDY if table.has_columns else _TOOL_REMEDY
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
                raise RecordError(wrong, row.location, _COLUMNS_REMEDY if table.has_columns else "")
    elif not table.implausible:
        for row in rows:
            if wrong := next(plausibility.wrong_rates(row.plausible_numbers(), link_mbps), None):
                raise RecordError(wrong, row.location, remedy)
        if wrong := plausibility.wrong_rates_of_all(numbers, link_mbps):
            raise RecordError(wrong, "", remedy)


def _listener(
    folder: DataFolder, table: MappedTable, groups: Mapping[str, str | None]
) -> SourceFile | None:
    """Return the listener's file with the times of receipt, if talker and listener have each one.

    Raises
    ------
    RecordError
        There is no such file.
    NoMeasurementError
        It is not data of some kind.
    """
    if table.times is None or table.times.listener is None:
        return None
    relative = _filled(table.times.listener, DataRow(""), groups)
    if relative not in folder.paths:
        remedy = "Correct listener under times in the mapping"
        raise RecordError(f"there is no file of the listener, {relative}", "", remedy)
    file = folder.file(relative)
    try:
        check_has_data(file.head, relative)
    except NoMeasurementError as error:
        what = f"of the listener's {relative}: {error.what}"
        raise NoMeasurementError(what, "", error.remedy) from error
    return file


def _observations_source(
    file: SourceFile, kind: str, table: MappedTable, listener: SourceFile | None = None
) -> dict[str, Any]:
    """Return where and how a trial's observations can be read again."""
    times = table.observations.times if table.observations else table.times
    heard = {"listener": _identity(listener)} if listener else {}
    return {
        **_identity(file),
        "format": kind,
        "times": times.recorded() if times else None,
        "row_range": table.row_range if table.format == "times" else None,
        # A log of sockperf states whether it has whole round trips.
        "halve": kind == "times" and table.latency_quantity == "round trip",
        **heard,
    }


def _identity(file: SourceFile) -> dict[str, Any]:
    return {"file": file.relative, "sha256": file.sha256, "original": original_path(file)}


def _add_statistics(
    folder: DataFolder,
    row: DataRow,
    converted: ConvertedRow,
    table: MappedTable,
    groups: Mapping[str, str | None],
) -> dict[str, Any]:
    """Read a row's observations, add the statistics that it lacks, and return their source."""
    assert table.observations is not None
    relative = _filled(table.observations.file, row, groups)
    if relative not in folder.paths:
        raise RecordError(f"there is no file of its observations, {relative}", row.location)
    file = folder.file(relative)
    source = _observations_source(file, table.observations.format, table)
    known = statistics(read_observations(file, source))
    file.release()  # logs are large, and the next row has another one
    problems = plausibility.against_log(converted.numbers(), numbers_of(known), converted.digits)
    if problem := next(problems, None):
        raise RecordError(
            f"{relative}: {problem}", row.location, "Correct the row, or leave it out"
        )
    converted.values = known | converted.values
    return source


def _filled(template: str, row: DataRow, groups: Mapping[str, str | None]) -> str:
    def value(match: re.Match) -> str:
        name = match[1]
        return str(groups[name] if name in groups else row.cell(name))

    filled = _BRACES.sub(value, template)
    if ".." in PurePosixPath(filled).parts or PurePosixPath(filled).is_absolute():
        raise RecordError(f"'{filled}' leaves the data set's folder"[:200], row.location)
    return filled
