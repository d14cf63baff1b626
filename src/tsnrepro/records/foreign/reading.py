"""Files of a data set read by the tables of a mapping: rows become trials, or reasons why not."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.imported import ORIGINALS
from tsnrepro.records.foreign.mapping import Observations, Table
from tsnrepro.records.foreign.readers import csv_rows, iperf3_output, json_rows, mausezahn
from tsnrepro.records.foreign.readers.row import Reading, Row
from tsnrepro.records.foreign.refusal import (
    NoMeasurementError,
    constant_ratios,
    refuse_empty,
    zeros_against_counts,
)
from tsnrepro.records.foreign.rows import (
    Converted,
    ForeignTrial,
    chosen,
    convert,
    reason_for,
    trial_of,
)
from tsnrepro.records.foreign.source import SourceFile

_BRACES = re.compile(r"\{([^{}]+)\}")
_GENERATED_REMEDY = "If the data set offers it as such, set generated: true; it is then labelled so"


@dataclass
class Outcome:
    """What one file gave by one table."""

    trials: list[ForeignTrial] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    skipped_rows: int = 0


class Folder:
    """The files of a data set, each read once; what was read stays while its file is used."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.used: dict[str, SourceFile] = {}
        """Files that were read, by path below the folder."""
        self._documents: dict[str, Any] = {}

    def file(self, relative: str) -> SourceFile:
        """Return a file.

        Raises
        ------
        RecordError
            It cannot be read.
        """
        if relative not in self.used:
            path = self.root / relative
            try:
                self.used[relative] = SourceFile(path, relative, path.read_bytes())
            except OSError as error:
                raise RecordError(f"cannot be read: {error.strerror}", relative) from error
        return self.used[relative]

    def document(self, file: SourceFile) -> Any:
        """Return the JSON document that a file holds."""
        if file.relative not in self._documents:
            self._documents[file.relative] = json_rows.load(file.text())
        return self._documents[file.relative]


def original_of(file: SourceFile) -> str:
    """Return where the store keeps a file, below the testbed's folder."""
    return f"{ORIGINALS}/{file.sha256}/{file.path.name}"


def read_file(folder: Folder, file: SourceFile, name: str, table: Table) -> Outcome:
    """Return the trials that one table of a mapping finds in a file.

    Raises
    ------
    NoMeasurementError
        The file is to be refused, and why.
    RecordError
        The mapping does not fit the file, or a row contradicts itself: file, row, what, remedy.
    """
    try:
        return _read(folder, file, name, table)
    except RecordError as error:
        place = f"{file.relative}, {error.where}" if error.where else file.relative
        raise RecordError(error.what, place, error.remedy) from error


def _read(folder: Folder, file: SourceFile, name: str, table: Table) -> Outcome:
    refuse_empty(file.data)
    groups = _groups(file, table)
    _refuse_generated(file, table)
    source = {
        "file": file.relative,
        "sha256": file.sha256,
        "original": original_of(file),
        "table": name,
    }
    reading, own_observations = _rows(folder, file, table)
    outcome = Outcome(skipped=list(reading.skipped), skipped_rows=reading.skipped_rows)
    measured: list[tuple[Row, Converted]] = []
    for row in reading.rows:
        if not chosen(row, table.where):
            continue
        if reason := reason_for(row, table.skip):
            outcome.skipped.append((row.place, reason))
            outcome.skipped_rows += 1
            continue
        converted = convert(row, table, groups)
        if reason := reason_for(row, table.failed):
            of_row = source | {"row": row.place}
            outcome.trials.append(trial_of(converted, table, of_row, failure=reason))
        else:
            measured.append((row, converted))
    _refuse_rows([converted for _, converted in measured], table)
    for row, converted in measured:
        of_row: dict[str, Any] = source | {"row": row.place}
        how = own_observations or _attach(folder, row, converted, table, groups)
        if how:
            of_row["observations"] = how
        outcome.trials.append(trial_of(converted, table, of_row))
    return outcome


def _groups(file: SourceFile, table: Table) -> dict[str, str | None]:
    if table.name_pattern is None:
        return {}
    match = re.search(table.name_pattern, file.relative)
    if match is None:
        raise NoMeasurementError("its name does not fit the table's name_pattern")
    return match.groupdict()


def _refuse_generated(file: SourceFile, table: Table) -> None:
    if not table.generated and (words := file.says_generated):
        raise NoMeasurementError(
            f"it says that it was not measured: '{words}'", "", _GENERATED_REMEDY
        )


def _refuse_rows(rows: list[Converted], table: Table) -> None:
    numbers = [row.numbers() for row in rows]
    if reason := zeros_against_counts(numbers):
        raise NoMeasurementError(reason)
    if (
        table.experiment == "latency"
        and not table.generated
        and (found := constant_ratios(numbers))
    ):
        raise NoMeasurementError(
            f"a program computed it: {'; '.join(found)}",
            "",
            "Leave out the columns that were not measured (left_out), or set generated: true",
        )


def _rows(folder: Folder, file: SourceFile, table: Table) -> tuple[Reading, dict[str, Any] | None]:
    """Return the file's rows, and how to find its observations where it holds them itself."""
    if table.format == "json":
        return json_rows.read(folder.document(file), table.rows), None
    if table.format == "csv":
        options = table.csv
        needed = [source.column for source in table.fields.values() if source.column]
        text = file.text(options.encoding)
        return csv_rows.read(
            text, needed, options.delimiter, options.columns, options.comment
        ), None
    if table.format == "iperf3":
        return iperf3_output.read(file.said(), table.experiment), None
    if table.format == "mausezahn":
        return mausezahn.read(file.said()), None
    return _observed_rows(file, table)


def _observed_rows(file: SourceFile, table: Table) -> tuple[Reading, dict[str, Any] | None]:
    if table.format == "sockperf":
        from tsnrepro.records.foreign.readers import sockperf_output  # noqa: PLC0415

        reading, observed = sockperf_output.read(file.clean)
        return reading, _how(file, "sockperf", table) if observed is not None else None
    from tsnrepro.records.foreign.observations import statistics  # noqa: PLC0415
    from tsnrepro.records.foreign.readers import times_csv  # noqa: PLC0415

    assert table.times is not None  # the model of the mapping sees to it
    found = times_csv.read(file.clean, table.times)
    known = statistics(found.latencies_us) | {"sent": found.sent, "received": found.received}
    if found.span_s > 0:
        known["valid_seconds"] = found.span_s
    reading = Reading([Row("", dict(known), known)], found.skipped, found.skipped_rows)
    return reading, _how(file, "times", table)


def _how(file: SourceFile, kind: str, table: Table) -> dict[str, Any]:
    """Return what is needed to read a trial's observations again, years later."""
    observations = table.observations
    times = observations.times if observations else table.times
    return {
        "file": file.relative,
        "sha256": file.sha256,
        "original": original_of(file),
        "format": kind,
        "times": times.model_dump() if times else None,
        # sockperf says itself whether it logged whole round trips.
        "halve": kind == "times" and table.latency_is == "round trip",
    }


def _attach(
    folder: Folder,
    row: Row,
    converted: Converted,
    table: Table,
    groups: dict[str, str | None],
) -> dict[str, Any] | None:
    """Read the file of a row's observations and fill in the statistics that the row lacks."""
    if table.observations is None:
        return None
    from tsnrepro.records.foreign.observations import (  # noqa: PLC0415
        read_observations,
        statistics,
    )

    relative = _filled(table.observations, row, groups)
    if not (folder.root / relative).is_file():
        raise RecordError(f"there is no file of its observations, {relative}", row.place)
    file = folder.file(relative)
    how = _how(file, table.observations.format, table)
    known = statistics(read_observations(file, how))
    file.release()  # a log of observations is large, and the next row has its own
    counted = converted.values.get("observations")
    if counted is not None and counted != known["observations"]:
        raise RecordError(
            f"{relative} holds {known['observations']} of {counted} observations", row.place
        )
    converted.values = known | converted.values
    return how


def _filled(observations: Observations, row: Row, groups: dict[str, str | None]) -> str:
    def value(match: re.Match) -> str:
        name = match[1]
        return str(groups[name] if name in groups else row.cell(name))

    filled = _BRACES.sub(value, observations.file)
    if ".." in Path(filled).parts or Path(filled).is_absolute():
        raise RecordError(f"'{filled}' leaves the data set's folder", row.place)
    return filled
