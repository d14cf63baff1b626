"""Generated tables: those that are too long to write by hand, one row a load."""

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

LOSS_SUMMARY = "tables/summary.csv"
LOSS_PHASES = "tables/by-phase.csv"
LOSS_PAYLOADS = "tables/by-payload.csv"
LOSS_ROWS = "tables/loss-rows.tex"
SWEEP_ROWS = "tables/sweep-rows.tex"
PAYLOAD_ROWS = "tables/payload-rows.tex"
_PUBLISHED_TABLE, _SWEEP_TABLE = "table-a-2", "table-6"
_PUBLISHED_CONFIGURATIONS = {"Single-Path": "control", "FRER Dual-Path": "frer"}
_LOSS_DIGITS = 3
# The document prints three or four decimals; the column is aligned at four.
_PUBLISHED_DIGITS = 4


# Of the sweep, which is no phase.
_SWEEP = 0
# The sweep's trials, whose length is a value of the record; that of a phase is in its table.
_SWEEP_SECONDS = r"\val{loss.duration_s}"


class LossPoint(BaseModel):
    """One configuration at one load: trials together, loss in percent with its interval."""

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
    """The same in a phase of the sweep, whose trials are never pooled with others.

    ``duration_s`` is the length of its trials in seconds, ``published_duration_s`` that of the
    document's phase of this number.
    """

    phase: int
    duration_s: float
    published_duration_s: float | None


class PayloadPoint(LossPoint):
    """The same at one payload in bytes of the sweep, and the frame that it makes."""

    payload_bytes: int
    frame_bytes: int


_Point = TypeVar("_Point", bound=LossPoint)
_ByPlace = dict[tuple[str, float, int], LossPoint]


def load_loss_summary(run: Path) -> list[LossPoint]:
    """Return the rows of the summary table of the loss experiment.

    Raises
    ------
    PublishError
        The file is missing or has other columns.
    """
    return _points(run / LOSS_SUMMARY, LossPoint)


def load_loss_phases(run: Path) -> list[PhasePoint]:
    """Return what was measured in phases of the sweep; nothing where it had none.

    Raises
    ------
    PublishError
        The file has other columns.
    """
    path = run / LOSS_PHASES
    return _points(path, PhasePoint) if path.is_file() else []


def load_loss_payloads(run: Path) -> list[PayloadPoint]:
    """Return the sweep's rows of every payload.

    Raises
    ------
    PublishError
        The file is missing or has other columns.
    """
    return _points(run / LOSS_PAYLOADS, PayloadPoint)


def _points(path: Path, kind: type[_Point]) -> list[_Point]:
    if not path.is_file():
        raise PublishError("a table of the analysis is missing", str(path), "Run the analysis")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if lacking := [n for n in kind.model_fields if n not in (reader.fieldnames or ())]:
            raise PublishError(f"columns are missing: {', '.join(lacking)}", str(path))
        rows = [{name: text or None for name, text in row.items()} for row in reader]
    # Rows without a configuration are the document's alone.
    ours = [row for row in rows if row.get("configuration")]
    try:
        return [kind.model_validate(row) for row in ours]
    except ValidationError as error:
        raise PublishError(f"no number: {error}", str(path)) from error


def published_loss(document: str) -> dict[tuple[str, float], str]:
    """Return the document's own loss cells as LaTeX, by configuration and load in Mb/s.

    Where the document prints no loss it prints why: the connection failed.
    """
    table = published.load_table(document, _PUBLISHED_TABLE)
    cells = {}
    for row in table.itertuples():
        loss, outcome = (f"{_PUBLISHED_TABLE}/{row.row}/{c}" for c in ("loss_percent", "outcome"))
        failed = rf"\publink{{{outcome}}}{{failed}}"
        found = rf"\pubto{{{_PUBLISHED_DIGITS}}}{{{loss}}}"
        key = _PUBLISHED_CONFIGURATIONS[str(row.configuration)], float(str(row.rate_mbps))
        cells[key] = failed if row.outcome == "connection-failure" else found
    return cells


def published_lengths(document: str) -> dict[float, float]:
    """Return how long the document's trials were, in seconds, by load in Mb/s, where it says so."""
    table = published.load_table(document, _PUBLISHED_TABLE)
    told = table[table["duration_s"].notna()]
    return {float(str(row.rate_mbps)): float(str(row.duration_s)) for row in told.itertuples()}


def loss_rows(
    points: Sequence[LossPoint],
    cells: dict[tuple[str, float], str],
    phases: Sequence[PhasePoint] = (),
    lengths: dict[float, float] | None = None,
) -> str:
    """Return the rows of the loss table by load: published beside measured.

    Columns: load; phase and length of our trials; published loss on the single path and with
    FRER; for either configuration the offered load, trials with loss of all, loss and its
    interval. A load that is published and not in the sweep has a row of each phase that tried it.
    Where a document says how long its trials were (``lengths``), the phase of that length has a
    row too, and the published cells stand in it.
    """
    measured = _by_place([*points, *phases])
    printed = {load for _, load in cells}
    rows = []
    for load in sorted({*printed, *(point.target_mbps for point in points)}):
        series, beside = _series_at(load, measured, phases, printed, (lengths or {}).get(load))
        for phase in series:
            texts = [
                cells.get((name, load), TEX.unknown) if phase == beside else TEX.unknown
                for name in CONFIGURATIONS
            ]
            found = [measured.get((name, load, phase)) for name in CONFIGURATIONS]
            ours = [text for point in found for text in _measured(point)]
            rows.append([f"{load:g}", *_length(found), *texts, *ours])
    return _lines(rows)


def sweep_rows(
    measured: Sequence[LossPoint],
    simulated: Sequence[LossPoint] | None,
    document: str,
    phases: Sequence[PhasePoint] = (),
    simulated_phases: Sequence[PhasePoint] = (),
) -> str:
    """Return the rows of the sweep with FRER by load: published, measured, and simulated.

    Columns: load; phase and length of our trials; the document's actual rate, loss and zone;
    offered load, trials with loss of all, loss and its interval; simulated loss and its interval,
    which ``None`` leaves out. Phases have rows as in :func:`loss_rows`.
    """
    table = published.load_table(document, _SWEEP_TABLE)
    printed = {float(str(row.target_mbps)): str(row.row) for row in table.itertuples()}
    length = _sweep_seconds(document)
    ours, model = (
        _by_place([*measured, *phases]),
        _by_place([*(simulated or ()), *simulated_phases]),
    )
    loads = {p.target_mbps for p in (*measured, *(simulated or ())) if p.configuration == "frer"}
    rows = []
    for load in sorted({*printed, *loads}):
        tried = [*phases, *simulated_phases]
        series, beside = _series_at(load, ours | model, tried, printed, length)
        for phase in series:
            own, other = (of.get(("frer", load, phase)) for of in (ours, model))
            row = printed.get(load) if phase == beside else None
            cells = [f"{load:g}", *_length([own, other]), *_printed_sweep(row), *_measured(own)]
            if simulated is not None:
                cells += _measured(other)[2:]
            rows.append(cells)
    return _lines(rows)


def payload_rows(points: Sequence[PayloadPoint]) -> str:
    """Return the rows of the loss by frame size and load, of payloads that were tried at several.

    The main sweep has a table of its own and none here.

    Columns: frame with FCS; load; for either configuration the offered load, trials with loss of
    all, loss and its interval.
    """
    loads: dict[int, set[float]] = {}
    main = main_payload_bytes(point.payload_bytes for point in points)
    for point in points:
        loads.setdefault(point.payload_bytes, set()).add(point.target_mbps)
    at = {(p.configuration, p.target_mbps, p.payload_bytes): p for p in points}
    frames = {point.payload_bytes: point.frame_bytes for point in points}
    rows = []
    for payload in sorted(loads):
        shown = payload != main and len(loads[payload]) > 1
        for load in sorted(loads[payload]) if shown else ():
            found = [at.get((name, load, payload)) for name in CONFIGURATIONS]
            ours = [text for point in found for text in _measured(point)]
            rows.append([str(frames[payload]), f"{load:g}", *ours])
    return _lines(rows)


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"{' & '.join(row)} \\\\\n" for row in rows)


def _phase(point: LossPoint) -> int:
    return point.phase if isinstance(point, PhasePoint) else _SWEEP


def _by_place(points: Iterable[LossPoint]) -> _ByPlace:
    """Return points by configuration, load and phase; of the sweep itself the phase is 0."""
    return {(p.configuration, p.target_mbps, _phase(p)): p for p in points}


def _series_at(
    load: float,
    measured: _ByPlace,
    phases: Iterable[PhasePoint],
    printed: Container[float],
    length: float | None,
) -> tuple[list[int], int]:
    """Return the series that have a row at a load, and which of them stands beside the document's.

    It is the phase whose trials the document gives this length, or else the first of them.
    """
    tried = {phase for _, at, phase in measured if at == load}
    rows = {_SWEEP} if _SWEEP in tried or load not in printed else tried
    alike = set()
    if length is not None and load in printed:
        at = [point for point in phases if point.target_mbps == load]
        alike = {point.phase for point in at if point.published_duration_s == length}
    series = sorted(rows | alike) or [_SWEEP]
    return series, min(alike, default=series[0])


def _length(points: Iterable[LossPoint | None]) -> list[str]:
    """Return phase and length of trials in seconds; dashes where nothing was tried."""
    found = next((point for point in points if point is not None), None)
    if isinstance(found, PhasePoint):
        return [str(found.phase), f"{found.duration_s:g}"]
    return [TEX.unknown, TEX.unknown if found is None else _SWEEP_SECONDS]


def _sweep_seconds(document: str) -> float:
    """Return how long the trials of the document's sweep were, in seconds."""
    texts = published.load_table(document, "text-values")
    return float(texts.loc[texts["row"] == "sweep-duration", "value"].iloc[0])


def _printed_sweep(row: str | None) -> list[str]:
    """Return the document's rate, loss and zone of a load; dashes where it has none."""
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
