"""Conversion of a data set's rows to trials: units, derived values, names."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from tsnrepro.common.errors import RecordError
from tsnrepro.common.ethernet import udp_frames, wire_bytes
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.imports import units
from tsnrepro.imports.mapping import (
    MISSING_VALUES,
    REQUIRED_FIELDS,
    FieldSource,
    MappedTable,
    RowRule,
    Scalar,
)
from tsnrepro.imports.readers.row import DECIMAL_COMMA, GROUPED, WITH_UNIT, DataRow, numbers_of
from tsnrepro.records.columns import STATISTICS, Column, column_of
from tsnrepro.records.files import canonical_json

FACTORS = ("configuration", "payload_bytes", "target_mbps", "duration_s")
"""Fields that are factors of a trial; the others, except those below, are its result."""
_NUMBERING = ("repetition", "order", "started")
_OUTCOMES = {
    "loss": ("loss_percent", "offered_mbps", "delivered_mbps"),
    "tcp": ("goodput_mbps",),
    "latency": STATISTICS,
}
_FACTOR = {"target_mbps": "rate_mbps"}
# Values of a tool and of the mapping may differ by the rounding of a name or a display.
_AGREEMENT = 0.005
# A printed percentage may be off by half of its last digit, and more after double rounding.
_LAST_DIGIT = 0.6
# Nanoseconds since 1970 are below 1e19; larger numbers are errors.
_MAX_NUMBER = 1e19


@dataclass(frozen=True)
class ImportedTrial:
    """A trial of an imported data set.

    Its name includes a digest of its whole record, so that the same row of the same file is the
    same trial in every import, and a changed file or mapping adds another.
    """

    experiment: str
    factors: dict[str, Any]
    result: dict[str, Any]
    source: dict[str, Any]
    repetition: int | None = None
    order: int | None = None
    started: str | None = None
    generated: bool = False
    failure: str | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 (10 hex digits) of everything in the trial."""
        identity = [getattr(self, each.name) for each in fields(self)]
        return hashlib.sha256(canonical_json(identity)).hexdigest()[:10]

    @property
    def label(self) -> str:
        """Short and readable, as for measured trials: ``frer-1472B-500M``."""
        parts = [self.factors["configuration"]]
        for name, suffix in (("payload_bytes", "B"), ("rate_mbps", "M")):
            if self.factors.get(name) is not None:
                parts.append(f"{self.factors[name]:g}{suffix}")
        if self.experiment == "tcp" and self.factors.get("duration_s") is not None:
            parts.append(f"{self.factors['duration_s']:g}s")
        return "-".join(parts)

    def name(self, attempt: int) -> str:
        """Return the folder name of the given attempt, counted from 1."""
        numbered = f"-r{self.repetition}" if self.repetition is not None else ""
        return f"{self.label}{numbered}-{self.digest}-a{attempt}"


@dataclass
class ConvertedRow:
    """The values of one row in the units of the fields."""

    location: str
    values: dict[str, Any] = field(default_factory=dict)
    digits: dict[str, float] = field(default_factory=dict)
    """The unit in the last place of each value, in the unit of its field."""
    checks: Mapping[str, Any] = field(default_factory=dict)
    """Numbers that are no fields, against which the values are checked."""

    def numbers(self) -> dict[str, float]:
        """Return the values that are numbers."""
        return numbers_of(self.values)

    def plausible_numbers(self) -> dict[str, float]:
        """Return the values that are numbers, and those that they are checked against."""
        return numbers_of({**self.checks, **self.values})


def matches(row: DataRow, where: Mapping[str, Scalar]) -> bool:
    """Return whether all columns of a row have the given values."""
    return all(_equal(row.cell(name), wanted) for name, wanted in where.items())


def matching_reason(row: DataRow, rules: list[RowRule]) -> str | None:
    """Return the reason of the first rule that a row matches, else None."""
    return next((rule.reason for rule in rules if matches(row, rule.where)), None)


def convert(row: DataRow, table: MappedTable, groups: Mapping[str, str | None]) -> ConvertedRow:
    """Return the fields of a row in their units, without missing ones.

    Parameters
    ----------
    row
        The row, as read.
    table
        The table of the mapping.
    groups
        The groups of ``name_pattern`` in the file's name.

    Raises
    ------
    RecordError
        A cell is not a number, text or time of its field, or contradicts the tool's output; the
        caller adds the file.
    """
    converted = ConvertedRow(row.location, dict(row.known), checks=row.checks)
    for name, source in table.fields.items():
        column = column_of(table.experiment, name)
        if column is None:
            continue
        cell = _cell(row, source, groups)
        if _is_missing(cell, source):
            continue
        if column.quantity not in ("text", "timestamp"):
            cell = _plain_number(cell, name, source, table.csv.decimal, row.location)
            if _is_missing(cell, source):
                continue
        value = _value(cell, column, name, source, row.location)
        if column.quantity in ("share", "time") and isinstance(value, int | float):
            converted.digits[name] = _last_digit(cell, column, source)
        if name in row.known:
            _check_agreement(name, row.known[name], value, row.location)
        else:
            converted.values[name] = value
    _to_payload_layer(converted.values, table)
    if table.latency_quantity == "round trip":
        for name in STATISTICS:
            if name in converted.values:
                converted.values[name] = converted.values[name] / 2
    return converted


def trial_of(
    converted: ConvertedRow, table: MappedTable, source: dict[str, Any], failure: str | None = None
) -> ImportedTrial:
    """Return the trial of a converted row, completed by derived values.

    Raises
    ------
    RecordError
        A required field is missing, a number is out of range, or numbers contradict each other.
    """
    values, location = converted.values, converted.location
    if absent := [name for name in REQUIRED_FIELDS[table.experiment] if name not in values]:
        raise RecordError(
            f"the row has no {absent[0]}" if table.has_columns else f"it has no {absent[0]}",
            location,
            "Give a constant, or skip such rows" if table.has_columns else _NO_COLUMNS,
        )
    if values["configuration"] not in CONFIGURATIONS:
        raise RecordError(
            f"the configuration '{values['configuration']}'"[:100] + " is neither control nor frer",
            location,
            "Translate it under values" + (", or skip such rows" if table.has_columns else ""),
        )
    if failure is None:
        check_and_complete(converted, table)
        if not any(name in values for name in _OUTCOMES[table.experiment]):
            raise RecordError(
                f"the row has no measured value: none of {', '.join(_OUTCOMES[table.experiment])}",
                location,
                "Add its columns to fields, or select such rows by skip or failed",
            )
    factors = {_FACTOR.get(name, name): values[name] for name in FACTORS if name in values}
    excluded = (*FACTORS, *_NUMBERING)
    result = {} if failure else {k: v for k, v in values.items() if k not in excluded}
    if table.experiment == "latency" and not failure:
        result["quantity"] = "one way" if table.latency_quantity == "one way" else "half round trip"
    return ImportedTrial(
        table.experiment,
        factors,
        result,
        source,
        **{name: values.get(name) for name in _NUMBERING},
        generated=bool(table.generated),
        failure=failure,
    )


def check_and_complete(converted: ConvertedRow, table: MappedTable) -> None:
    """Check a measured row's numbers against their limits, and add derived ones.

    Raises
    ------
    RecordError
        A number is out of range, or counts contradict each other.
    """
    for name, value in converted.numbers().items():
        column = column_of(table.experiment, name)
        if column and (problem := column.problem_of(value)):
            raise RecordError(
                f"{name}: {problem}", converted.location, _NUMBERS if table.has_columns else ""
            )
    if table.experiment == "loss":
        _complete_loss(converted, _COUNTS if table.has_columns else "")


# --- cells ------------------------------------------------------------------------------------


def _cell(row: DataRow, source: FieldSource, groups: Mapping[str, str | None]) -> Any:
    if source.constant is not None:
        return source.constant
    if source.from_name is not None:
        return groups[source.from_name]
    return row.cell(source.column or "")


def _is_missing(cell: Any, source: FieldSource) -> bool:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return True
    if isinstance(cell, str) and cell.strip() in MISSING_VALUES:
        return True
    return any(_equal(cell, mark) for mark in source.missing)


def _equal(cell: Any, wanted: Scalar) -> bool:
    """Return whether a cell has a value; 1, 1.0 and "1" are equal, and so are true and "TRUE"."""
    if isinstance(cell, bool) or isinstance(wanted, bool):
        return str(cell).lower() == str(wanted).lower()
    if cell == wanted or str(cell).strip() == str(wanted):
        return True
    try:
        return float(cell) == float(wanted)
    except (TypeError, ValueError, OverflowError):
        return False


def _value(cell: Any, column: Column, name: str, source: FieldSource, location: str) -> Any:
    if source.values:
        translated = [value for key, value in source.values.items() if _equal(cell, key)]
        if translated and (column.quantity == "text" or isinstance(translated[0], int | float)):
            return translated[0]
        if column.quantity == "text" or translated:
            what = f"'{translated[0]}' is not a number" if translated else "no value is given"
            known = ", ".join(source.values)
            where, remedy = location, f"values has: {known}"
            raise RecordError(f"{name}: {what} for '{cell}'"[:200], where, remedy)
    if column.quantity == "text":
        return str(cell)
    if column.quantity == "timestamp":
        return _timestamp(cell, name, source, location)
    by = units.factor(column.quantity, source.unit or column.unit, column.unit)
    value = units.scaled(_number(cell, name, location), by)
    return int(value) if column.integer and value == int(value) else value


def _plain_number(cell: Any, name: str, source: FieldSource, decimal: str, location: str) -> Any:
    """Return the text of a number with a decimal point and without a percent sign."""
    if not isinstance(cell, str) or any(_equal(cell, key) for key in source.values):
        return cell
    text = cell.strip()
    if text.endswith("%"):
        if source.unit not in ("percent", "%"):
            raise RecordError(
                f"{name}: '{text[:60]}' is in percent", location, "Correct its unit: percent"
            )
        text = text[:-1].rstrip()
    if decimal == "." or source.column is None:
        return text
    if "." in text:
        what = f"{name}: '{text[:60]}' has a point, and decimals are behind '{decimal}'"
        raise RecordError(what, location, "Correct decimal under csv in the mapping")
    return text.replace(decimal, ".")


def _number(cell: Any, name: str, location: str) -> int | float:
    text = str(cell).strip()
    try:
        if isinstance(cell, int | float) and not isinstance(cell, bool):
            number = cell
        else:
            number = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        what, remedy = "is not a number", _NOT_A_NUMBER
        if DECIMAL_COMMA.fullmatch(text):
            what, remedy = "has a decimal comma", _COMMA
        elif GROUPED.fullmatch(text):
            what, remedy = "has its thousands separated", "Remove what is between the digits"
        elif WITH_UNIT.fullmatch(text):
            what = "has a unit behind its number"
            remedy = "Remove it from the cells, and set it as the column's unit in the mapping"
        raise RecordError(f"{name}: '{text[:60]}' {what}", location, remedy) from None
    if not -_MAX_NUMBER <= number <= _MAX_NUMBER:
        raise RecordError(
            f"{name}: {text[:60]} is beyond {_MAX_NUMBER:g}", location, "List it under missing"
        )
    return number


def _timestamp(cell: Any, name: str, source: FieldSource, location: str) -> str:
    """Return a timestamp as ISO 8601 in UTC; with a unit, a cell is a number since 1970."""
    try:
        if source.unit:
            scale = units.factor("time", source.unit, "us")
            since = int(units.scaled(_number(cell, name, location), scale))
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since)).isoformat()
        moment = datetime.fromisoformat(str(cell).strip())
        if moment.tzinfo is None:
            if source.timezone is None:
                raise RecordError(
                    f"{name}: '{cell}' has no time zone", location, "Add timezone: UTC or another"
                )
            moment = moment.replace(tzinfo=ZoneInfo(source.timezone))
        return moment.astimezone(UTC).isoformat()
    # Time zones are looked up as files, and the name may be that of a folder.
    except (ValueError, KeyError, OverflowError, OSError) as error:
        raise RecordError(f"{name}: {error}"[:200], location, "Write times in ISO 8601") from error


def _last_digit(cell: Any, column: Column, source: FieldSource) -> float:
    """Return the unit in the last place of a cell, in the field's unit."""
    digits, _, exponent = str(cell).strip().lower().partition("e")
    # An exponent may have more digits than int() takes.
    power = float(exponent or 0) - len(digits.partition(".")[2])
    by = units.factor(column.quantity, source.unit or column.unit, column.unit)
    return float(by) * 10.0 ** min(max(power, -300), 300)


def _check_agreement(name: str, known: Any, given: Any, location: str) -> None:
    agree = known == given or (
        isinstance(known, int | float)
        and isinstance(given, int | float)
        and abs(known - given) <= _AGREEMENT * max(abs(known), abs(given))
    )
    if not agree:
        raise RecordError(
            f"{name}: {given} in the mapping, {known} in the tool's output",
            location,
            f"Correct the mapping, or leave {name} out of it",
        )


# --- derived values ---------------------------------------------------------------------------


def _to_payload_layer(values: dict[str, Any], table: MappedTable) -> None:
    """Convert frame rates and wire rates to payload rates."""
    payload = values.get("payload_bytes")
    # A missing or impossible payload is reported with the row's other fields.
    if not isinstance(payload, int | float) or not 1 <= payload <= 65507:
        return
    for name, source in table.fields.items():
        if source.layer != "payload" and name in values:
            frames = udp_frames(int(payload))
            occupied = map(wire_bytes, frames) if source.layer == "wire" else frames
            values[name] = values[name] * payload / sum(occupied)


def _complete_loss(converted: ConvertedRow, remedy: str) -> None:
    """Add counts and the loss if others determine them, and raise for contradictions."""
    values, location = converted.values, converted.location
    sent, received, lost = (values.get(name) for name in ("sent", "received", "lost"))
    if sent is not None:
        if lost is None and received is not None:
            lost = values["lost"] = sent - received
        elif received is None and lost is not None:
            received = values["received"] = sent - lost
        if lost is not None and not 0 <= lost <= sent:
            raise RecordError(f"{lost} of {sent} datagrams cannot be lost", location, remedy)
        if received is not None and lost is not None and received + lost != sent:
            raise RecordError(
                f"{received} received and {lost} lost are not {sent} sent", location, remedy
            )
    if sent and lost is not None:
        exact = 100 * lost / sent
        if "loss_percent" in values:
            _check_loss(converted, exact)
        values["loss_percent"] = exact
    seconds, payload = values.get("send_seconds"), values.get("payload_bytes")
    if "offered_mbps" not in values and sent and seconds and payload:
        values["offered_mbps"] = sent * payload * 8 / seconds / 1e6


_COMMA = "Set decimal: ',' under csv in the mapping, or remove the comma if it is between thousands"
_NO_COLUMNS = "Give a constant, or a part of the file's name (from_name)"
_NOT_A_NUMBER = "If it marks a missing value, list it under missing; else skip such rows"
_NUMBERS = "Correct its unit, list marks of missing values under missing, or skip such rows"
_COUNTS = "Correct the columns of the counts, or leave out the one that is wrong"


def _check_loss(converted: ConvertedRow, exact: float) -> None:
    written = converted.values["loss_percent"]
    tolerance = _LAST_DIGIT * converted.digits.get("loss_percent", 0.0) + 1e-9 * exact
    if abs(written - exact) > tolerance:
        raise RecordError(
            f"loss_percent is {written:g}, but {exact:.6g} by the counts",
            converted.location,
            "Leave out the column that is wrong",
        )
