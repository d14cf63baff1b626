"""The statistics of documents 003 and 004 with the measured ones beside.

Published and measured latencies come from different media (a network card pair, a software bridge,
a model, virtual links), so no ratio of them is formed: they stand in neighbouring columns.
"""

from pathlib import Path

import pandas as pd

from tsnrepro.experiments.shaping.analysis import IDLE, LATENCY, LOADED
from tsnrepro.published.documents import load_table

_MODES_003 = {"TAS": "tas", "No-TAS": "fifo", "Prio": "prio"}
_TABLES_003 = {"table-idle": IDLE, "table-load": LOADED, "table-prio": LOADED}
_STATISTICS_003 = {"mean": "mean", "p50": "p50", "p95": "p95", "p99": "p99", "max": "max"}

_MODES_004 = {"direct": "direct", "TAS": "tas", "CBS": "cbs", "BE": "fifo"}
_STATISTICS_004 = {"mean": "mean", "p90": "p90", "p99": "p99", "p99.9": "p99_9"}

_ORDER = ("direct", "tas", "cbs", "prio", "mqprio", "etf", "fifo")

_MEDIA = {
    "tas-i210-i225": "Intel i210/i225 network cards",
    "software-bridge": "software bridge with i210 ports",
}
DOCUMENT_OF = {"end-station": "tas-i210-i225", "bridge": "software-bridge"}


def published_statistics(document: str, root: Path | None = None) -> pd.DataFrame:
    """Return what a document prints: columns mode, load, statistic, published_us, origin.

    Raises KeyError if the document has no statistics of shaping.
    """
    readers = {"tas-i210-i225": _end_station, "software-bridge": _bridge}
    return readers[document](root)


def _end_station(root: Path | None) -> pd.DataFrame:
    rows = []
    for table, load in _TABLES_003.items():
        for row in load_table("tas-i210-i225", table, root).to_dict("records"):
            for printed, statistic in _STATISTICS_003.items():
                rows.append(
                    {
                        "mode": _MODES_003[row["mode"]],
                        "load": load,
                        "statistic": statistic,
                        "published_us": row[f"{printed}_latency_ns"] / 1000,
                        "origin": row["origin"],
                    }
                )
    # The table of Prio repeats the row of No-TAS.
    return pd.DataFrame(rows).drop_duplicates(["mode", "load", "statistic"], ignore_index=True)


def _bridge(root: Path | None) -> pd.DataFrame:
    table = load_table("software-bridge", "figure-4", root)
    return pd.DataFrame(
        {
            "mode": table["shaper"].map(_MODES_004),
            "load": table["loaded"].map({True: LOADED, False: IDLE}),
            "statistic": table["statistic"].map(_STATISTICS_004),
            "published_us": table["latency_us"],
            "origin": table["origin"],
        }
    )


def beside_published(
    statistics: pd.DataFrame, document: str, root: Path | None = None
) -> pd.DataFrame:
    """Return the measured statistics of a part with the document's beside, one row a statistic.

    ``statistics`` is that of :func:`tsnrepro.experiments.shaping.analysis.statistics_table`;
    rows that only one side has stay, with the other side empty. ``published_medium`` and
    ``medium`` name what each is of.
    """
    published = published_statistics(document, root)
    keys = ["mode", "load", "statistic"]
    # A time since the launch is no latency.
    latencies = statistics[statistics["quantity"] == LATENCY]
    joined = latencies.merge(published, on=keys, how="outer", sort=False)
    return joined.assign(published_medium=_MEDIA[document])


def percentile_table(beside: pd.DataFrame, statistics: list[str]) -> pd.DataFrame:
    """Return a table to print: rows mode and load, columns published and here by statistic.

    A cell of ours reads ``value [low, high]``; an empty one was not taken or not printed.
    """
    rows = {}
    for row in beside.to_dict("records"):
        if row["statistic"] not in statistics:
            continue
        cells = rows.setdefault((row["load"], row["mode"]), {})
        cells[row["statistic"], "published"] = _number(row["published_us"])
        cells[row["statistic"], "here"] = _interval(row["value_us"], row["low_us"], row["high_us"])
    columns = pd.MultiIndex.from_product([statistics, ["published", "here"]])
    ordered = sorted(rows, key=lambda key: (key[0] != IDLE, key[0], _ORDER.index(key[1])))
    index = pd.MultiIndex.from_tuples(ordered, names=["load", "mode"])
    cells = [rows[key] for key in ordered]
    return pd.DataFrame(cells, index=index, columns=columns).fillna("")


def _number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:,.1f}"


def _interval(value: float, low: float, high: float) -> str:
    if pd.isna(value):
        return ""
    if pd.isna(low) or pd.isna(high):
        return _number(value)
    return f"{_number(value)} [{_number(low)}, {_number(high)}]"
