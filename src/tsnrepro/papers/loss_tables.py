"""The generated tables of loss, with one row per load."""

import csv
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tsnrepro.common.errors import PublishError
from tsnrepro.common.ethernet import main_payload_bytes
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.published import documents as published
from tsnrepro.results.numbers import TEX, limits, number
from tsnrepro.stats.estimate import Limits

SUMMARY = "tables/summary.csv"
PHASES = "tables/by-phase.csv"
PAYLOADS = "tables/by-payload.csv"
GENERATED = LOSS_ROWS, SWEEP_ROWS, PAYLOAD_ROWS = (
    "tables/loss-rows.tex",
    "tables/sweep-rows.tex",
    "tables/payload-rows.tex",
)
_PUBLISHED_TABLE, _SWEEP_TABLE = "table-a-2", "table-6"
_PUBLISHED_CONFIGURATIONS = {"Single-Path": "control", "FRER Dual-Path": "frer"}
_LOSS_DIGITS = 3
# The document prints three or four decimals; the column is aligned at four.
_PUBLISHED_DIGITS = 4
# The number of the sweep itself, which is not a phase.
_SWEEP = 0
# The duration of the sweep's trials; that of a phase is in its table.
_SWEEP_SECONDS = r"\val{loss.duration_s}"


class LossPoint(BaseModel):
    """One configuration at one load: number of trials, loss in percent with its interval."""

    configuration: str
    target_mbps: float
    offered_mbps: float
    trials: int
    trials_with_loss: int
    loss_percent: float
    loss_low_percent: float | None
    loss_high_percent: float | None
    loss_limits: Limits


class PhasePoint(LossPoint):
    """A point in a phase of the sweep, whose trials are not pooled with others.

    ``duration_s`` is the duration of its trials in seconds, ``published_duration_s`` that of the
    document's phase with this number.
    """

    phase: int
    duration_s: float
    published_duration_s: float | None


class PayloadPoint(LossPoint):
    """A point of one payload of the sweep, with its frame size."""

    payload_bytes: int
    frame_bytes: int


_Point = TypeVar("_Point", bound=LossPoint)
# By configuration, load and phase.
_Points = dict[tuple[str, float, int], LossPoint]


def load_summary(run: Path) -> list[LossPoint]:
    """Return the rows of the summary table of the loss experiment.

    Raises
    ------
    PublishError
        The file is missing or a column in it.
    """
    return _load(run / SUMMARY, LossPoint)


def load_phases(run: Path) -> list[PhasePoint]:
    """Return the points of the phases of the sweep; none where it had no phases.

    Raises
    ------
    PublishError
        A column is missing.
    """
    path = run / PHASES
    return _load(path, PhasePoint) if path.is_file() else []


def load_payloads(run: Path) -> list[PayloadPoint]:
    """Return the points of all payloads of the sweep.

    Raises
    ------
    PublishError
        The file is missing or a column in it.
    """
    return _load(run / PAYLOADS, PayloadPoint)


def _load(path: Path, kind: type[_Point]) -> list[_Point]:
    if not path.is_file():
        raise PublishError("a table of the analysis is missing", str(path), "Run the analysis")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := [n for n in kind.model_fields if n not in (reader.fieldnames or ())]:
            raise PublishError(f"columns are missing: {', '.join(missing)}", str(path))
        rows = [{name: text or None for name, text in row.items()} for row in reader]
    # Rows without a configuration have published numbers only.
    measured = [row for row in rows if row.get("configuration")]
    try:
        return [kind.model_validate(row) for row in measured]
    except ValidationError as error:
        raise PublishError(f"invalid number: {error}", str(path)) from error


def published_loss(document: str) -> dict[tuple[str, float], str]:
    """Return the published loss as LaTeX, by configuration and load in Mb/s.

    A failed connection has no loss and is printed as such.
    """
    table = published.load_table(document, _PUBLISHED_TABLE)
    cells = {}
    for row in table.itertuples():
        loss, outcome = (f"{_PUBLISHED_TABLE}/{row.row}/{c}" for c in ("loss_percent", "outcome"))
        failed = rf"\publink{{{outcome}}}{{failed}}"
        percent = rf"\pubto{{{_PUBLISHED_DIGITS}}}{{{loss}}}"
        key = _PUBLISHED_CONFIGURATIONS[str(row.configuration)], float(str(row.rate_mbps))
        cells[key] = failed if row.outcome == "connection-failure" else percent
    return cells


def published_durations(document: str) -> dict[float, float]:
    """Return the published durations of trials, in seconds, by load in Mb/s."""
    table = published.load_table(document, _PUBLISHED_TABLE)
    rows = table[table["duration_s"].notna()].itertuples()
    return {float(str(row.rate_mbps)): float(str(row.duration_s)) for row in rows}


def loss_rows(
    points: Sequence[LossPoint],
    cells: dict[tuple[str, float], str],
    phases: Sequence[PhasePoint] = (),
    durations: dict[float, float] | None = None,
) -> str:
    """Return the rows of the loss table by load, with published and measured loss.

    Columns: load; phase and duration of the measured trials; published loss on the single path and
    with FRER; for either configuration the offered load, the trials with loss of all, the loss and
    its interval. A published load that is not in the sweep has one row per phase that measured it.
    The published loss is in the row of the phase with the published duration (``durations``), if
    any.
    """
    measured = _by_point([*points, *phases])
    printed = {load for _, load in cells}
    rows = []
    for load in sorted({*printed, *(point.target_mbps for point in points)}):
        series, beside = _series_at(load, measured, phases, printed, (durations or {}).get(load))
        for phase in series:
            texts = [
                cells.get((name, load), TEX.unknown) if phase == beside else TEX.unknown
                for name in CONFIGURATIONS
            ]
            found = [measured.get((name, load, phase)) for name in CONFIGURATIONS]
            numbers = [text for point in found for text in _measured(point)]
            rows.append([f"{load:g}", *_duration(found), *texts, *numbers])
    return _lines(rows)


def sweep_rows(
    measured: Sequence[LossPoint],
    simulated: Sequence[LossPoint] | None,
    document: str,
    phases: Sequence[PhasePoint] = (),
    simulated_phases: Sequence[PhasePoint] = (),
) -> str:
    """Return the rows of the sweep with FRER by load: published, measured and simulated loss.

    Columns: load; phase and duration of the trials; published actual rate, loss and zone; offered
    load, trials with loss of all, loss and its interval; simulated loss and its interval, unless
    ``simulated`` is None. Phases have rows as in :func:`loss_rows`.
    """
    table = published.load_table(document, _SWEEP_TABLE)
    printed = {float(str(row.target_mbps)): str(row.row) for row in table.itertuples()}
    duration = _sweep_duration(document)
    by_point = _by_point([*measured, *phases])
    simulated_by_point = _by_point([*(simulated or ()), *simulated_phases])
    loads = {p.target_mbps for p in (*measured, *(simulated or ())) if p.configuration == "frer"}
    all_phases = [*phases, *simulated_phases]
    rows = []
    for load in sorted({*printed, *loads}):
        series, beside = _series_at(
            load, by_point | simulated_by_point, all_phases, printed, duration
        )
        for phase in series:
            point = ("frer", load, phase)
            found, model = by_point.get(point), simulated_by_point.get(point)
            row = printed.get(load) if phase == beside else None
            cells = [f"{load:g}", *_duration([found, model]), *_printed_sweep(row)]
            cells += _measured(found)
            if simulated is not None:
                cells += _measured(model)[2:]
            rows.append(cells)
    return _lines(rows)


def payload_rows(points: Sequence[PayloadPoint]) -> str:
    """Return the rows of the loss by frame size and load, for payloads measured at several loads.

    The payload of the main sweep, which has another table, is omitted.

    Columns: frame size with FCS; load; for either configuration the offered load, the trials with
    loss of all, the loss and its interval.
    """
    loads: dict[int, set[float]] = {}
    main = main_payload_bytes(point.payload_bytes for point in points)
    for point in points:
        loads.setdefault(point.payload_bytes, set()).add(point.target_mbps)
    at = {(p.configuration, p.target_mbps, p.payload_bytes): p for p in points}
    frames = {point.payload_bytes: point.frame_bytes for point in points}
    rows = []
    for payload in sorted(loads):
        if payload == main or len(loads[payload]) == 1:
            continue
        for load in sorted(loads[payload]):
            found = [at.get((name, load, payload)) for name in CONFIGURATIONS]
            numbers = [text for point in found for text in _measured(point)]
            rows.append([str(frames[payload]), f"{load:g}", *numbers])
    return _lines(rows)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of LaTeX; what is unknown is blank: columns of dashes show nothing."""
    blank = [["" if text == TEX.unknown else text for text in row] for row in rows]
    return "".join(f"{' & '.join(row)} \\\\\n" for row in blank)


def _phase(point: LossPoint) -> int:
    return point.phase if isinstance(point, PhasePoint) else _SWEEP


def _by_point(points: Iterable[LossPoint]) -> _Points:
    """Return points by configuration, load and phase."""
    return {(p.configuration, p.target_mbps, _phase(p)): p for p in points}


def _series_at(
    load: float,
    measured: _Points,
    phases: Iterable[PhasePoint],
    printed: Container[float],
    duration: float | None,
) -> tuple[list[int], int]:
    """Return the phases that have a row at a load, and the one with the published numbers.

    That is the first phase of the published duration, or else the first of all.
    """
    at_load = {phase for _, at, phase in measured if at == load}
    rows = {_SWEEP} if _SWEEP in at_load or load not in printed else at_load
    matching = set()
    if duration is not None and load in printed:
        points = [point for point in phases if point.target_mbps == load]
        matching = {point.phase for point in points if point.published_duration_s == duration}
    series = sorted(rows | matching) or [_SWEEP]
    return series, min(matching, default=series[0])


def _duration(points: Iterable[LossPoint | None]) -> list[str]:
    """Return phase and duration of trials in seconds; dashes without trials."""
    found = next((point for point in points if point is not None), None)
    if isinstance(found, PhasePoint):
        return [str(found.phase), f"{found.duration_s:g}"]
    return [TEX.unknown, TEX.unknown if found is None else _SWEEP_SECONDS]


def _sweep_duration(document: str) -> float:
    """Return the published duration of the trials of the sweep, in seconds."""
    texts = published.load_table(document, "text-values")
    return float(texts.loc[texts["row"] == "sweep-duration", "value"].iloc[0])


def _printed_sweep(row: str | None) -> list[str]:
    """Return the published rate, loss and zone of a load; dashes where there are none."""
    if row is None:
        return [TEX.unknown] * 3
    cell = f"{_SWEEP_TABLE}/{row}"
    ranges = [
        rf"\pubrange{{{cell}/{name}_low_{unit}}}{{{cell}/{name}_high_{unit}}}"
        for name, unit in (("actual", "mbps"), ("loss", "percent"))
    ]
    return [*ranges, rf"\wordpub{{{cell}/zone}}"]


def _measured(point: LossPoint | None) -> list[str]:
    if point is None:
        return [TEX.unknown] * 4
    low, high = point.loss_low_percent, point.loss_high_percent
    return [
        number(point.offered_mbps, 1, TEX),
        f"{point.trials_with_loss}/{point.trials}",
        number(point.loss_percent, _LOSS_DIGITS, TEX),
        limits(low, high, _LOSS_DIGITS, TEX, seen=point.loss_limits == Limits.RANGE),
    ]
