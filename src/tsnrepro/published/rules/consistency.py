"""One thing said in several places: quantities, names, records and what is read into them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import Field

from tsnrepro.published.findings import AuditFinding, Severity, Side
from tsnrepro.published.intervals import Interval
from tsnrepro.published.rules.base import (
    Check,
    CheckError,
    Formula,
    RowsOrPlace,
    TableRows,
    known_rows,
    plain,
    shown,
)
from tsnrepro.published.tables import Catalog, Cell


class SameQuantity(Check):
    """One quantity has one value, as far as its digits go."""

    weighs = Severity.CONTRADICTION
    quantity: str
    places: list[str] = Field(min_length=2)
    tolerance_percent: float = Field(default=0.0, ge=0)

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        cells = [data.cell(path) for path in self.places]
        settled: list[Cell] = cells[:1]
        for cell in cells[1:]:
            tolerance = self.tolerance_percent / 100
            if any(_bare(one).overlaps(_bare(cell), tolerance) for one in settled):
                continue  # it agrees with one value already met: no new conflict
            settled.append(cell)
            first = settled[0]
            yield self.found(
                cell,
                Side.of_cell(first, _where(first, cell)),
                Side.of_cell(cell, "here"),
                f"one value for the {self.quantity}",
                f"The {self.quantity} is {Side.of_cell(first).text} in {_where(first, cell)}, "
                f"and {Side.of_cell(cell).text} here.",
            )


class SameColumn(Check):
    """A quantity that stands in two tables is the same in both, row by row."""

    weighs = Severity.CONTRADICTION
    quantity: str
    first: TableRows
    first_value: Formula
    first_key: list[Formula] = Field(min_length=1)
    second: TableRows
    second_value: Formula
    second_key: list[Formula] = Field(min_length=1)

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        by_key = {
            tuple(map(plain, key)): (row, value)
            for row, value, *key in known_rows(
                data, self.first, self.first_value, *self.first_key, numbers=False
            )
        }
        for row, value, *key in known_rows(
            data, self.second, self.second_value, *self.second_key, numbers=False
        ):
            before, expected = by_key.get(tuple(map(plain, key)), (row, value))
            if value.overlaps(expected):
                continue
            original = before.at(self.first_value)
            cell = row.at(self.second_value)
            yield self.found(
                cell,
                before.side(self.first_value, _where(original, cell), original.unit),
                row.side(self.second_value, "here", cell.unit),
                f"one value for the {self.quantity}",
                f"The {self.quantity} differs from that in {_where(original, cell)}.",
            )


class SameThing(Check):
    """One thing has one name: model, version, port, place."""

    weighs = Severity.CONTRADICTION
    thing: str
    places: list[str] = Field(min_length=2)
    pattern: str | None = None
    """Regular expression for the part of the text that names it; its first group, if any."""
    classes: dict[str, str] = Field(default_factory=dict)
    """What a text means, by a word that it contains."""

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        named: dict[str, Cell] = {}
        for cell in map(data.cell, self.places):
            meaning = self._meaning(cell)
            if meaning in named:
                continue
            named[meaning] = cell
            said, first = next(iter(named.items()))
            if first is not cell:
                yield self.found(
                    cell,
                    Side(_where(first, cell), said),
                    Side("here", meaning),
                    f"one name for the {self.thing}",
                    f"The {self.thing} is {said} in {_where(first, cell)}, and {meaning} here.",
                )

    def _meaning(self, cell: Cell) -> str:
        text = cell.printed
        for word, meaning in self.classes.items():
            if word.lower() in text.lower():
                return meaning
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

    weighs = Severity.CONTRADICTION
    places: list[str] = Field(min_length=2, max_length=2)
    labels: list[Formula] = Field(min_length=2, max_length=2)
    label: str
    unit: str = ""

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        cells = [data.cell(path) for path in self.places]
        labels = []
        for path, formula in zip(self.places, self.labels, strict=True):
            selection = RowsOrPlace(table="/".join(path.split("/")[:2]), rows=[path.split("/")[2]])
            ((_, label),) = known_rows(data, selection, formula, numbers=False)
            labels.append(label)
        if cells[0].value != cells[1].value or plain(labels[0]) == plain(labels[1]):
            return
        first, second = (
            Side(f"{self.label} in {_where(cell, cells[0])}", shown(label), self.unit)
            for cell, label in zip(cells, labels, strict=True)
        )
        yield self.found(
            cells[0],
            first,
            second,
            f"{cells[0].printed} at one {self.label}",
            f"{Side.of_cell(cells[0]).text} stands at {self.label} {shown(labels[0])} here and at "
            f"{shown(labels[1])} in {_where(cells[1], cells[0])}.",
        )


class CircularInput(Check, RowsOrPlace):
    """A model whose input is the result it explains explains nothing."""

    weighs = Severity.UNSUPPORTED
    input: Formula
    result: Formula
    input_label: str
    unit: str

    def _find(self, data: Catalog) -> Iterator[AuditFinding]:
        for row, given, result in known_rows(data, self, self.input, self.result):
            if given.overlaps(result, tolerance=0.01):
                yield self.found(
                    row.at(self.input),
                    Side.of_number(self.input_label, given, self.unit),
                    row.side(self.result, "result to be explained", self.unit),
                    f"{self.input} = {self.result}",
                    "The model's input is the measured result itself.",
                )


def _where(cell: Cell, seen_from: Cell) -> str:
    """Return a cell's place, with its document where that is another one."""
    return cell.origin if cell.source == seen_from.source else f"{cell.source}, {cell.origin}"


def _bare(cell: Cell) -> Interval:
    """Return a cell's number; a bound counts as the number it names."""
    if cell.rounded and cell.qualifier != "approximately":
        return Interval.printed(cell.printed)
    return cell.interval
