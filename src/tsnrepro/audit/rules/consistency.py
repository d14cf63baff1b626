"""One thing said in several places: quantities, names, records and what is read into them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field

from tsnrepro.audit.findings import Observation, Severity, Side
from tsnrepro.audit.intervals import Interval
from tsnrepro.audit.rules.base import (
    CheckError,
    Formula,
    RowsOrPlace,
    RuleParameters,
    TableRows,
    first_cell,
    known_rows,
    place_of,
    plain,
    rule,
    shown,
)
from tsnrepro.audit.tables import Catalog, Cell


class SameQuantity(RuleParameters):
    """Places that give one and the same quantity."""

    quantity: str
    places: list[str] = Field(min_length=2)
    tolerance_percent: float = Field(default=0.0, ge=0)


@rule(Severity.CONTRADICTION, "One quantity has one value, as far as its digits go.")
def same_quantity(data: Catalog, p: SameQuantity) -> Iterator[Observation]:
    """Find places that give one quantity different values."""
    cells = [data.cell(path) for path in p.places]
    settled: list[Cell] = cells[:1]
    for cell in cells[1:]:
        disagreeing = [c for c in settled if not _alike(c, cell, p.tolerance_percent / 100)]
        if len(disagreeing) < len(settled):
            continue  # it agrees with one value already met: no new conflict
        settled.append(cell)
        first = disagreeing[0]
        yield Observation(
            cell,
            Side.of_cell(first, _where(first, cell)),
            Side.of_cell(cell, "here"),
            f"one value for the {p.quantity}",
            f"The {p.quantity} is {Side.of_cell(first).text} in {_where(first, cell)}, "
            f"and {Side.of_cell(cell).text} here.",
        )


class SameColumn(RuleParameters):
    """Two tables that give one quantity by the same key."""

    quantity: str
    first: TableRows
    first_value: Formula
    first_key: list[Formula] = Field(min_length=1)
    second: TableRows
    second_value: Formula
    second_key: list[Formula] = Field(min_length=1)
    tolerance_percent: float = Field(default=0.0, ge=0)


@rule(
    Severity.CONTRADICTION, "A quantity that stands in two tables is the same in both, row by row."
)
def same_column(data: Catalog, p: SameColumn) -> Iterator[Observation]:
    """Find rows in which two tables disagree on one quantity."""
    by_key = {
        tuple(plain(key) for key in keys): (row, value)
        for row, value, *keys in known_rows(data, p.first, p.first_value, *p.first_key)
    }
    for row, value, *keys in known_rows(data, p.second, p.second_value, *p.second_key):
        found = by_key.get(tuple(plain(key) for key in keys))
        if found is None or value.overlaps(found[1], p.tolerance_percent / 100):
            continue
        original = first_cell(found[0], p.first_value)
        cell = first_cell(row, p.second_value)
        yield Observation(
            cell,
            found[0].side(p.first_value, _where(original, cell), original.unit),
            row.side(p.second_value, "here", cell.unit),
            f"one value for the {p.quantity}",
            f"The {p.quantity} differs from that in {_where(original, cell)}.",
        )


class SameThing(RuleParameters):
    """Places that name one and the same physical thing."""

    thing: str
    places: list[str] = Field(min_length=2)
    pattern: str | None = None
    """Regular expression for the part of the text that names it; its first group, if any."""
    classes: dict[str, str] = Field(default_factory=dict)
    """What a text means, by a word that it contains."""


@rule(Severity.CONTRADICTION, "One thing has one name: model, version, port, place.")
def same_thing(data: Catalog, p: SameThing) -> Iterator[Observation]:
    """Find places that name one thing differently."""
    named = [(data.cell(path), _meaning(data.cell(path), p)) for path in p.places]
    met: list[tuple[Cell, str]] = []
    for cell, meaning in named:
        if not met or meaning in [other for _, other in met]:
            met = met or [(cell, meaning)]
            continue
        first, first_meaning = met[0]
        met.append((cell, meaning))
        yield Observation(
            cell,
            Side(_where(first, cell), first_meaning),
            Side("here", meaning),
            f"one name for the {p.thing}",
            f"The {p.thing} is {first_meaning} in {_where(first, cell)}, and {meaning} here.",
        )


class ValueUnderTwoLabels(RuleParameters):
    """One value that two places give to different conditions."""

    places: list[str] = Field(min_length=2, max_length=2)
    labels: list[Formula] = Field(min_length=2, max_length=2)
    label: str
    unit: str = ""


@rule(
    Severity.CONTRADICTION,
    "A measured value belongs to one condition; the same digits under two are one misplaced.",
)
def value_under_two_labels(data: Catalog, p: ValueUnderTwoLabels) -> Iterator[Observation]:
    """Find one value that stands under two conditions."""
    cells = [data.cell(path) for path in p.places]
    labels = []
    for path, formula in zip(p.places, p.labels, strict=True):
        selection = RowsOrPlace(table="/".join(path.split("/")[:2]), rows=[path.split("/")[2]])
        labels.append(next(value for _, value in known_rows(data, selection, formula)))
    if cells[0].value != cells[1].value or plain(labels[0]) == plain(labels[1]):
        return
    first, second = (
        Side(f"{p.label} in {_where(cell, cells[0])}", shown(label), p.unit)
        for cell, label in zip(cells, labels, strict=True)
    )
    yield Observation(
        cells[0],
        first,
        second,
        f"{cells[0].printed} at one {p.label}",
        f"{Side.of_cell(cells[0]).text} stands at {p.label} {shown(labels[0])} here and at "
        f"{shown(labels[1])} in {_where(cells[1], cells[0])}.",
    )


class CircularInput(RowsOrPlace):
    """A model's input and the measured result that the model is to explain."""

    input: Formula
    result: Formula
    input_label: str
    unit: str
    tolerance_percent: float = Field(default=1.0, gt=0)


@rule(Severity.UNSUPPORTED, "A model whose input is the result it explains explains nothing.")
def circular_input(data: Catalog, p: CircularInput) -> Iterator[Observation]:
    """Find model inputs that are the result to be explained."""
    for row, given, result in known_rows(data, p, p.input, p.result):
        if not given.overlaps(result, p.tolerance_percent / 100):
            continue
        yield Observation(
            place_of(row, p, p.input),
            Side.of_number(p.input_label, given, p.unit),
            row.side(p.result, "result to be explained", p.unit),
            f"{p.input} = {p.result}",
            "The model's input is the measured result itself.",
        )


def _alike(a: Cell, b: Cell, tolerance: float) -> bool:
    """Tell whether two cells give one number; a bound counts as the number it names."""
    return _bare(a).overlaps(_bare(b), tolerance)


def _where(cell: Cell, seen_from: Cell) -> str:
    """Return a cell's place, with its document where that is another one."""
    return cell.origin if cell.source == seen_from.source else f"{cell.source}, {cell.origin}"


def _bare(cell: Cell) -> Interval:
    if cell.rounded and cell.qualifier != "approximately":
        return Interval.printed(cell.printed)
    return cell.interval


def _meaning(cell: Cell, p: SameThing) -> str:
    text = cell.printed
    for word, meaning in p.classes.items():
        if word.lower() in text.lower():
            return meaning
    if p.classes:
        raise CheckError(f"{text!r} is in none of the classes {', '.join(p.classes)}", cell.path)
    if p.pattern is None:
        return text.strip()
    match = re.search(p.pattern, text)
    if match is None:
        raise CheckError(f"{text!r} does not contain {p.pattern!r}", cell.path)
    return match[1] if match.groups() else match[0]
