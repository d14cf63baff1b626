"""Rules on consistency: one quantity or name in several places, and circular arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field

from tsnrepro.published.audit_findings import ComparedValue, Finding, Severity
from tsnrepro.published.intervals import Interval
from tsnrepro.published.rules.base import (
    Check,
    CheckError,
    Formula,
    RowsOrPlace,
    TableRows,
    bare_value,
    complete_rows,
    formatted,
)
from tsnrepro.published.tables import Catalog, Cell


class SameQuantity(Check):
    """One quantity has one value, as far as its digits go."""

    default_severity = Severity.CONTRADICTION
    quantity: str
    places: list[str] = Field(min_length=2)
    tolerance_percent: float = Field(default=0.0, ge=0)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        cells = [data.cell(path) for path in self.places]
        distinct: list[Cell] = cells[:1]
        for cell in cells[1:]:
            tolerance = self.tolerance_percent / 100
            if any(_number(one).overlaps(_number(cell), tolerance) for one in distinct):
                continue  # it agrees with an earlier value: no new conflict
            distinct.append(cell)
            where = _where(distinct[0], cell)
            first = ComparedValue.from_cell(distinct[0], where)
            here = ComparedValue.from_cell(cell, "here")
            yield self.finding_at(
                cell,
                first,
                here,
                f"one value for the {self.quantity}",
                f"The {self.quantity} is {first.text} in {where}, and {here.text} here.",
            )


class SameColumn(Check):
    """A quantity that stands in two tables is the same in both, row by row."""

    default_severity = Severity.CONTRADICTION
    quantity: str
    first: TableRows
    first_value: Formula
    first_key: list[Formula] = Field(min_length=1)
    second: TableRows
    second_value: Formula
    second_key: list[Formula] = Field(min_length=1)

    def _find(self, data: Catalog) -> Iterator[Finding]:
        by_key = {
            tuple(map(bare_value, key)): (row, value)
            for row, value, *key in complete_rows(
                data, self.first, self.first_value, *self.first_key, numbers=False
            )
        }
        for row, value, *key in complete_rows(
            data, self.second, self.second_value, *self.second_key, numbers=False
        ):
            before, expected = by_key.get(tuple(map(bare_value, key)), (row, value))
            if value.overlaps(expected):
                continue
            original = before.at(self.first_value)
            cell = row.at(self.second_value)
            yield self.finding_at(
                cell,
                before.side(self.first_value, _where(original, cell), original.unit),
                row.side(self.second_value, "here", cell.unit),
                f"one value for the {self.quantity}",
                f"The {self.quantity} differs from that in {_where(original, cell)}.",
            )


class SameThing(Check):
    """One thing has one name: model, version, port, place."""

    default_severity = Severity.CONTRADICTION
    thing: str
    places: list[str] = Field(min_length=2)
    pattern: str | None = None
    """Regular expression for the name in the text; its first group, if any."""
    classes: dict[str, str] = Field(default_factory=dict)
    """Names by a word that the text contains."""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        cells: dict[str, Cell] = {}
        for cell in map(data.cell, self.places):
            name = self._name(cell)
            if name in cells:
                continue
            cells[name] = cell
            first_name, first = next(iter(cells.items()))
            if first is not cell:
                yield self.finding_at(
                    cell,
                    ComparedValue(_where(first, cell), first_name),
                    ComparedValue("here", name),
                    f"one name for the {self.thing}",
                    f"The {self.thing} is {first_name} in {_where(first, cell)}, and {name} here.",
                )

    def _name(self, cell: Cell) -> str:
        text = cell.printed
        for word, name in self.classes.items():
            if word.lower() in text.lower():
                return name
        if self.classes:
            known = ", ".join(self.classes)
            raise CheckError(f"{text!r} is in none of the classes {known}", cell.path)
        if self.pattern is None:
            return text.strip()
        match = re.search(self.pattern, text)
        if match is None:
            raise CheckError(f"{text!r} does not contain {self.pattern!r}", cell.path)
        return match[1] if match.groups() else match[0]


class ValueUnderTwoLabels(Check):
    """A measured value belongs to one condition; the same digits under two are one misplaced."""

    default_severity = Severity.CONTRADICTION
    places: list[str] = Field(min_length=2, max_length=2)
    labels: list[Formula] = Field(min_length=2, max_length=2)
    label: str
    unit: str = ""

    def _find(self, data: Catalog) -> Iterator[Finding]:
        cells = [data.cell(path) for path in self.places]
        labels = []
        for path, formula in zip(self.places, self.labels, strict=True):
            selection = RowsOrPlace(table="/".join(path.split("/")[:2]), rows=[path.split("/")[2]])
            ((_, label),) = complete_rows(data, selection, formula, numbers=False)
            labels.append(label)
        if cells[0].value != cells[1].value or bare_value(labels[0]) == bare_value(labels[1]):
            return
        first, second = (
            ComparedValue(f"{self.label} in {_where(cell, cells[0])}", formatted(label), self.unit)
            for cell, label in zip(cells, labels, strict=True)
        )
        yield self.finding_at(
            cells[0],
            first,
            second,
            f"{cells[0].printed} at one {self.label}",
            f"{ComparedValue.from_cell(cells[0]).text} is at {self.label} {formatted(labels[0])} "
            f"here and at {formatted(labels[1])} in {_where(cells[1], cells[0])}.",
        )


class CircularInput(Check, RowsOrPlace):
    """A model whose input is the result it explains explains nothing."""

    default_severity = Severity.UNSUPPORTED
    input: Formula
    result: Formula
    input_label: str
    unit: str

    def _find(self, data: Catalog) -> Iterator[Finding]:
        for row, given, result in complete_rows(data, self, self.input, self.result):
            if given.overlaps(result, tolerance=0.01):
                yield self.finding_at(
                    row.at(self.input),
                    ComparedValue.from_number(self.input_label, given, self.unit),
                    row.side(self.result, "result to be explained", self.unit),
                    f"{self.input} = {self.result}",
                    "The model's input is the measured result itself.",
                )


def _where(cell: Cell, seen_from: Cell) -> str:
    """Return the place of a cell, with its document where that is another one."""
    return cell.origin if cell.source == seen_from.source else f"{cell.source}, {cell.origin}"


def _number(cell: Cell) -> Interval:
    """Return the number of a cell; a bound counts as its number."""
    if cell.rounded and cell.qualifier != "approximately":
        return Interval.printed(cell.printed)
    return cell.interval
