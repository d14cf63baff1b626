"""From a row of theirs to a trial of ours: values with units, what follows from them, its name."""

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
from tsnrepro.imports.mapping import NEEDED, NOTHING, FieldSource, MappedTable, RowRule, Scalar
from tsnrepro.imports.readers.row import DataRow, numbers_of
from tsnrepro.records.columns import STATISTICS, NumberColumn, column_of
from tsnrepro.records.store import canonical

FACTORS = ("configuration", "payload_bytes", "target_mbps", "duration_s")
"""Fields that say what was measured; the others, but for those below, what came out."""
_NUMBERING = ("repetition", "order", "started")
_OUTCOMES = {
    "loss": ("loss_percent", "offered_mbps", "delivered_mbps"),
    "tcp": ("goodput_mbps",),
    "latency": STATISTICS,
}
_FACTOR = {"target_mbps": "rate_mbps"}
# A tool's own statement and the mapping's may differ by what a name or a display rounds off.
_AGREEMENT = 0.005
# A printed percentage may be off by half of its last digit, and a little for double rounding.
_LAST_DIGIT = 0.6
# Nanoseconds since 1970 are below 1e19; what is beyond is a mistake.
_LARGEST = 1e19


@dataclass(frozen=True)
class ImportedTrial:
    """A trial that others measured.

    Its name carries a digest of all that the record says of it: the same row of the same file gives
    the same trial at every import, and a changed file or mapping gives another beside it.
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
        return hashlib.sha256(canonical(identity)).hexdigest()[:10]

    @property
    def label(self) -> str:
        """Short and readable, as those of our own trials: ``frer-1472B-500M``."""
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
class Converted:
    """The values of one row in our units, before and after they are checked."""

    place: str
    values: dict[str, Any] = field(default_factory=dict)
    digits: dict[str, float] = field(default_factory=dict)
    """The unit of the last digit that was written, in our units."""

    def numbers(self) -> dict[str, float]:
        """Return the values that are numbers."""
        return numbers_of(self.values)


def chosen(row: DataRow, where: Mapping[str, Scalar]) -> bool:
    """Tell whether all columns of a row have the given values."""
    return all(_same(row.cell(name), wanted) for name, wanted in where.items())


def reason_for(row: DataRow, rules: list[RowRule]) -> str | None:
    """Return the reason of the first rule that chooses a row, else None."""
    return next((rule.reason for rule in rules if chosen(row, rule.where)), None)


def convert(row: DataRow, table: MappedTable, groups: Mapping[str, str | None]) -> Converted:
    """Return the values that a mapping takes from a row, in our units; what is missing is absent.

    Parameters
    ----------
    row
        As the reader gave it.
    table
        The part of the mapping that it belongs to.
    groups
        The parts of the file's name, by the groups of ``name_pattern``.

    Raises
    ------
    RecordError
        A cell is not a number, word or time of its field, or contradicts what the tool printed.
        The message names the row, the cell and the remedy; the caller knows the file.
    """
    converted = Converted(row.place, dict(row.known))
    for name, source in table.fields.items():
        column = column_of(table.experiment, name)
        if column is None:
            continue
        cell = _cell(row, source, groups)
        if _is_missing(cell, source):
            continue
        value = _value(cell, column, name, source, row.place)
        if column.quantity in ("share", "time") and isinstance(value, int | float):
            converted.digits[name] = _last_digit(cell, column, source)
        if name in row.known:
            _check_agreement(name, row.known[name], value, row.place)
        else:
            converted.values[name] = value
    _to_payload_layer(converted.values, table)
    if table.latency_quantity == "round trip":
        for name in STATISTICS:
            if name in converted.values:
                converted.values[name] = converted.values[name] / 2
    return converted


def trial_of(
    converted: Converted, table: MappedTable, source: dict[str, Any], failure: str | None = None
) -> ImportedTrial:
    """Return the trial of a converted row, completed by what follows from its numbers.

    Raises
    ------
    RecordError
        A needed field is missing, a number is out of its range, or numbers contradict each other.
    """
    values, place = converted.values, converted.place
    if absent := [name for name in NEEDED[table.experiment] if name not in values]:
        raise RecordError(
            f"the row says no {absent[0]}", place, "Give a constant, or skip such rows"
        )
    if values["configuration"] not in CONFIGURATIONS:
        raise RecordError(
            f"the configuration '{values['configuration']}'"[:100] + " is neither control nor frer",
            place,
            "Translate it under values, or skip such rows",
        )
    if failure is None:
        complete(converted, table)
        if not any(name in values for name in _OUTCOMES[table.experiment]):
            raise RecordError(
                f"the row measures nothing: none of {', '.join(_OUTCOMES[table.experiment])}",
                place,
                "Name its columns under fields, or skip such rows; failed keeps them as failed",
            )
    factors = {_FACTOR.get(name, name): values[name] for name in FACTORS if name in values}
    outside = (*FACTORS, *_NUMBERING)
    result = {} if failure else {k: v for k, v in values.items() if k not in outside}
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


def complete(converted: Converted, table: MappedTable) -> None:
    """Check a measured row's numbers against their limits, and add those that others determine.

    Raises
    ------
    RecordError
        A number is out of its range, or counts contradict each other.
    """
    for name, value in converted.numbers().items():
        column = column_of(table.experiment, name)
        if column and (trouble := column.trouble(value)):
            raise RecordError(
                f"{name}: {trouble}",
                converted.place,
                "Correct its unit, list what stands for nothing under missing, or skip such rows",
            )
    if table.experiment == "loss":
        _complete_loss(converted)


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
    if isinstance(cell, str) and cell.strip() in NOTHING:
        return True
    return any(_same(cell, nothing) for nothing in source.missing)


def _same(cell: Any, wanted: Scalar) -> bool:
    """Tell whether a cell has a value; 1, 1.0 and "1" are the same, and so are true and "TRUE"."""
    if isinstance(cell, bool) or isinstance(wanted, bool):
        return str(cell).lower() == str(wanted).lower()
    if cell == wanted or str(cell).strip() == str(wanted):
        return True
    try:
        return float(cell) == float(wanted)
    except (TypeError, ValueError, OverflowError):
        return False


def _value(cell: Any, column: NumberColumn, name: str, source: FieldSource, place: str) -> Any:
    if source.values:
        translated = [ours for word, ours in source.values.items() if _same(cell, word)]
        if translated and (column.quantity == "word" or isinstance(translated[0], int | float)):
            return translated[0]
        if column.quantity == "word" or translated:
            said = f"'{translated[0]}' is not a number" if translated else "no value is given"
            known = ", ".join(source.values)
            raise RecordError(f"{name}: {said} for '{cell}'"[:200], place, f"values has: {known}")
    if column.quantity == "word":
        return str(cell)
    if column.quantity == "moment":
        return _moment(cell, name, source, place)
    by = units.factor(column.quantity, source.unit or column.unit, column.unit)
    value = units.scaled(_number(cell, name, place), by)
    return int(value) if column.whole and value == int(value) else value


def _number(cell: Any, name: str, place: str) -> int | float:
    text = str(cell).strip()
    try:
        if isinstance(cell, int | float) and not isinstance(cell, bool):
            number = cell
        else:
            number = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise RecordError(
            f"{name}: '{text[:60]}' is not a number",
            place,
            "If it stands for nothing, list it under missing; else skip such rows",
        ) from None
    if not -_LARGEST <= number <= _LARGEST:
        raise RecordError(
            f"{name}: {text[:60]} is beyond {_LARGEST:g}", place, "List it under missing"
        )
    return number


def _moment(cell: Any, name: str, source: FieldSource, place: str) -> str:
    """Return a time of day as ISO 8601 in UTC; with a unit, a number since 1970."""
    try:
        if source.unit:
            scale = units.factor("time", source.unit, "us")
            since = int(units.scaled(_number(cell, name, place), scale))
            return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since)).isoformat()
        moment = datetime.fromisoformat(str(cell).strip())
        if moment.tzinfo is None:
            if source.timezone is None:
                raise RecordError(
                    f"{name}: '{cell}' names no time zone", place, "Add timezone: UTC or another"
                )
            moment = moment.replace(tzinfo=ZoneInfo(source.timezone))
        return moment.astimezone(UTC).isoformat()
    # Time zones are looked up as files: what is none of them may be a folder.
    except (ValueError, KeyError, OverflowError, OSError) as error:
        raise RecordError(f"{name}: {error}"[:200], place, "Write times as in ISO 8601") from error


def _last_digit(cell: Any, column: NumberColumn, source: FieldSource) -> float:
    """Return what one unit of the last written digit is, in our unit."""
    digits, _, exponent = str(cell).strip().lower().partition("e")
    power = (int(exponent) if exponent else 0) - len(digits.partition(".")[2])
    own = units.factor(column.quantity, source.unit or column.unit, column.unit)
    return float(own) * 10.0 ** min(max(power, -300), 300)


def _check_agreement(name: str, known: Any, given: Any, place: str) -> None:
    agree = known == given or (
        isinstance(known, int | float)
        and isinstance(given, int | float)
        and abs(known - given) <= _AGREEMENT * max(abs(known), abs(given))
    )
    if not agree:
        raise RecordError(
            f"{name}: the mapping says {given}, the tool printed {known}",
            place,
            f"Correct the mapping, or leave {name} to the tool",
        )


# --- what follows from the numbers --------------------------------------------------------------


def _to_payload_layer(values: dict[str, Any], table: MappedTable) -> None:
    """Turn rates of frames or of the wire into rates of UDP payload."""
    payload = values.get("payload_bytes")
    # A payload that is missing or cannot be is reported with the row's other fields.
    if not isinstance(payload, int | float) or not 1 <= payload <= 65507:
        return
    for name, source in table.fields.items():
        if source.layer != "payload" and name in values:
            frames = udp_frames(int(payload))
            occupied = map(wire_bytes, frames) if source.layer == "wire" else frames
            values[name] = values[name] * payload / sum(occupied)


def _complete_loss(converted: Converted) -> None:
    """Add counts and the loss where others determine them, and refuse those that disagree."""
    values, place = converted.values, converted.place
    sent, received, lost = (values.get(name) for name in ("sent", "received", "lost"))
    if sent is not None:
        if lost is None and received is not None:
            lost = values["lost"] = sent - received
        elif received is None and lost is not None:
            received = values["received"] = sent - lost
        if lost is not None and not 0 <= lost <= sent:
            raise RecordError(f"{lost} of {sent} datagrams cannot be lost", place, _COUNTS)
        if received is not None and lost is not None and received + lost != sent:
            raise RecordError(
                f"{received} received and {lost} lost are not {sent} sent", place, _COUNTS
            )
    if sent and lost is not None:
        exact = 100 * lost / sent
        if "loss_percent" in values:
            _check_loss(converted, exact)
        values["loss_percent"] = exact
    seconds, payload = values.get("send_seconds"), values.get("payload_bytes")
    if "offered_mbps" not in values and sent and seconds and payload:
        values["offered_mbps"] = sent * payload * 8 / seconds / 1e6


_COUNTS = "Correct the columns of the counts, or leave out the one that is wrong"


def _check_loss(converted: Converted, exact: float) -> None:
    written = converted.values["loss_percent"]
    tolerance = _LAST_DIGIT * converted.digits.get("loss_percent", 0.0) + 1e-9 * exact
    if abs(written - exact) > tolerance:
        raise RecordError(
            f"loss_percent: {written:g} is written, the counts give {exact:.6g}",
            converted.place,
            "Take only one of them: leave out the column that is wrong",
        )
