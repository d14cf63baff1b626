"""Generated tables: those that are too long to write by hand, one row a load."""

import csv
from pathlib import Path

from pydantic import BaseModel, ValidationError

from tsnrepro.audit import published
from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.numbers import TEX, limits, number
from tsnrepro.records.columns import CONFIGURATIONS
from tsnrepro.stats.estimate import Limits

LOSS_SUMMARY = "tables/summary.csv"
LOSS_ROWS = "tables/loss-rows.tex"
SWEEP_ROWS = "tables/sweep-rows.tex"
_PUBLISHED_TABLE, _SWEEP_TABLE = "table-a-2", "table-6"
_PUBLISHED_CONFIGURATIONS = {"Single-Path": "control", "FRER Dual-Path": "frer"}
_LOSS_DIGITS = 3
# The document prints three or four decimals; the column is aligned at four.
_PUBLISHED_DIGITS = 4


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


def load_loss_summary(run: Path) -> list[LossPoint]:
    """Return the rows of the summary table of the loss experiment.

    Raises
    ------
    PublishError
        The file is missing or has other columns.

    """
    path = run / LOSS_SUMMARY
    if not path.is_file():
        raise PublishError("a table of the analysis is missing", str(path), "Run the analysis")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if lacking := [n for n in LossPoint.model_fields if n not in (reader.fieldnames or ())]:
            raise PublishError(f"columns are missing: {', '.join(lacking)}", str(path))
        rows = [{name: text or None for name, text in row.items()} for row in reader]
    try:
        return [LossPoint.model_validate(row) for row in rows]
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


def loss_rows(points: list[LossPoint], cells: dict[tuple[str, float], str]) -> str:
    """Return the rows of the loss table by load: published beside measured.

    Columns: load; published loss on the single path and with FRER; for either configuration
    the offered load, trials with loss of all, loss and its interval.
    """
    measured = {(point.configuration, point.target_mbps): point for point in points}
    loads = sorted({load for _, load in (*measured, *cells)})
    return "".join(f"{_row(load, measured, cells)} \\\\\n" for load in loads)


def sweep_rows(measured: list[LossPoint], simulated: list[LossPoint] | None, document: str) -> str:
    """Return the rows of the sweep with FRER by load: published, measured, and simulated.

    Columns: load; the document's actual rate, loss and zone; offered load, trials with loss of
    all, loss and its interval; simulated loss and its interval, which ``None`` leaves out.
    """
    table = published.load_table(document, _SWEEP_TABLE)
    printed = {float(str(row.target_mbps)): str(row.row) for row in table.itertuples()}
    ours = {p.target_mbps: p for p in measured if p.configuration == "frer"}
    model = {p.target_mbps: p for p in simulated or () if p.configuration == "frer"}
    rows = []
    for load in sorted({*printed, *ours, *model}):
        cells = [f"{load:g}", *_printed_sweep(printed.get(load)), *_measured(ours.get(load))]
        if simulated is not None:
            cells += _measured(model.get(load))[2:]
        rows.append(" & ".join(cells))
    return "".join(f"{row} \\\\\n" for row in rows)


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


def _row(
    load: float,
    measured: dict[tuple[str, float], LossPoint],
    cells: dict[tuple[str, float], str],
) -> str:
    printed = [cells.get((name, load), TEX.unknown) for name in CONFIGURATIONS]
    found = [text for name in CONFIGURATIONS for text in _measured(measured.get((name, load)))]
    return " & ".join([f"{load:g}", *printed, *found])


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
