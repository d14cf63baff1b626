"""What sequence numbers and gate schedules can do, given their numbers."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from tsnrepro.audit.findings import Observation, Severity, Side, format_number
from tsnrepro.audit.rules.base import (
    Formula,
    RowsOrPlace,
    TableRows,
    first_cell,
    known_rows,
    place_of,
    rule,
)
from tsnrepro.audit.tables import Catalog

R_TAG_NUMBERS = 65_536
"""Sequence numbers of an R-TAG: 16 bits (IEEE Std 802.1CB-2017, 7.8)."""


class NumberSpaceWrap(RowsOrPlace):
    """A memory of seen sequence numbers, and the packet rate that fills it."""

    packets_per_second: Formula
    duration_s: Formula
    memory_entries: Formula | None = None
    """Numbers remembered at a time; left out where nothing is ever forgotten."""
    numbers: int = Field(default=R_TAG_NUMBERS, gt=1)


@rule(
    Severity.IMPOSSIBLE,
    "A memory that holds every number of a finite space drops everything after the wrap.",
)
def number_space_wrap(data: Catalog, p: NumberSpaceWrap) -> Iterator[Observation]:
    """Find memories of sequence numbers that block after the first wrap."""
    for row, rate, duration in known_rows(data, p, p.packets_per_second, p.duration_s):
        if p.memory_entries is not None:
            entries = row.number(p.memory_entries).value
            if entries < p.numbers:
                continue
        wrap = p.numbers / rate.value
        if wrap >= duration.value:
            continue
        yield Observation(
            place_of(row, p, p.packets_per_second),
            Side.of_number("time until the numbers start again", wrap, "s"),
            row.side(p.duration_s, "time that packets are sent", "s"),
            f"{p.numbers} / ({p.packets_per_second})",
            f"After {format_number(wrap, 4)} s every number is known and every packet dropped.",
        )


class StuckAfterWrap(TableRows):
    """Counts of trials with elimination."""

    sent: Formula
    received: Formula
    numbers: int = Field(default=R_TAG_NUMBERS, gt=1)
    # Numbers lost before the wrap pass after it, so the count ends at the very number of them.
    tolerance_percent: float = Field(default=0.01, gt=0)
    least_excess_percent: float = Field(default=5.0, gt=0)
    """How many packets more than numbers were sent, at least."""


@rule(
    Severity.IMPOSSIBLE,
    "A receiver that gets as many packets as there are numbers stopped at the wrap.",
)
def stuck_after_wrap(data: Catalog, p: StuckAfterWrap) -> Iterator[Observation]:
    """Find receivers that stopped after as many packets as there are numbers."""
    for row, sent, received in known_rows(data, p, p.sent, p.received):
        near = abs(received.value - p.numbers) <= p.numbers * p.tolerance_percent / 100
        if not near or sent.value < p.numbers * (1 + p.least_excess_percent / 100):
            continue
        yield Observation(
            first_cell(row, p.received),
            row.side(p.received),
            Side.of_number("sequence numbers there are", p.numbers, "packets"),
            f"{p.received} = {p.numbers} while {p.sent} > {p.numbers}",
            f"Of {format_number(sent.value)} packets as many arrived as there are numbers: "
            "elimination never forgot.",
        )


class GateWindow(TableRows):
    """An open gate and the frame that has to pass it."""

    window_us: Formula
    frame_bytes: Formula
    line_mbps: float = Field(default=1000.0, gt=0)


@rule(
    Severity.IMPOSSIBLE,
    "A frame starts only if it ends before the gate closes (IEEE Std 802.1Q-2022, 8.6.8.4).",
)
def gate_window(data: Catalog, p: GateWindow) -> Iterator[Observation]:
    """Find frames that are too long for the open gate."""
    for row, window, frame in known_rows(data, p, p.window_us, p.frame_bytes):
        capacity = window.value * p.line_mbps / 8
        if capacity >= frame.value:
            continue
        yield Observation(
            first_cell(row, p.window_us),
            Side.of_number("bytes that pass an open gate", capacity, "B"),
            row.side(p.frame_bytes, "frame", "B"),
            f"{p.window_us} * {p.line_mbps:g} / 8",
            "The frame does not fit into the open window, so it never passes.",
        )


class RangeByDefinition(TableRows):
    """A range that is shown as a result, and the range that the definition leaves."""

    low: Formula
    high: Formula
    defined_low: Formula
    defined_high: Formula
    quantity: str


@rule(Severity.UNSUPPORTED, "A range that holds by definition is no evidence for anything.")
def range_by_definition(data: Catalog, p: RangeByDefinition) -> Iterator[Observation]:
    """Find ranges shown as results that the definition fixes."""
    formulas = (p.low, p.high, p.defined_low, p.defined_high)
    for row, low, high, least, most in known_rows(data, p, *formulas):
        if not (low.overlaps(least) and high.overlaps(most)):
            continue
        cell = first_cell(row, p.high)
        yield Observation(
            cell,
            row.side(p.high, cell.title),
            Side.of_number("upper end by definition", most, cell.unit),
            f"{format_number(least.value)} <= {p.quantity} < {format_number(most.value)}",
            f"{p.quantity.capitalize()} lies in this range whatever the gates do.",
        )
