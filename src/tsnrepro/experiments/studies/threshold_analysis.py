"""Analysis of studies of the zero-loss threshold: effects of factors and of replication.

Thresholds are compared by ratios, on logarithms. The unit of replication is the seed, which all
combinations of factors share, so that ratios are paired and intervals are Student's over seeds. A
search without loss up to the link's limit counts with that limit.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from tsnrepro.experiments.studies.study import FACTORS
from tsnrepro.experiments.studies.tables import results_of
from tsnrepro.results.results import Results
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.replication import median_over_runs

HOSTS, PATHS = "hosts", "paths"
# Ratio of thresholds that the documents attribute to replication.
CREDITED_RATIO = 4 / 3
HOST_FACTORS = (
    "payload_bytes",
    "receive_buffer_bytes",
    "stall_length_ms",
    "switch_queue_bytes",
    "configuration",
)
COLUMNS = ("threshold_mbps", "censored", *HOST_FACTORS)
"""Columns of a study's table that this analysis reads."""
_LINE_LIMIT = "line limit"


def pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per combination and seed: thresholds ``control``, ``frer``, and ``ratio``.

    The ratio is missing if a threshold is below the lowest load that was tried.
    """
    keys = ["part", "replication", *(name for name in FACTORS if name in table)]
    keys.remove("configuration")
    wide = table.pivot(index=keys, columns="configuration", values="threshold_mbps")
    wide = wide.reset_index().rename_axis(columns=None)
    return wide.assign(ratio=wide["frer"] / wide["control"])


def conditions(paired: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the pairs by the condition of their paths, from clean to lossy."""
    clean = (paired["path_loss_probability"] == 0) & (paired["background_mbps"] == 0)
    found = {"clean": paired[clean]}
    for rate in sorted(set(paired["background_mbps"]) - {0}):
        only = (paired["background_mbps"] == rate) & (paired["path_loss_probability"] == 0)
        found[f"background_{rate:.0f}"] = paired[only]
    for chance in sorted(set(paired["path_loss_probability"]) - {0}):
        only = (paired["path_loss_probability"] == chance) & (paired["background_mbps"] == 0)
        found[f"loss_1e{round(math.log10(chance))}".replace("-", "_")] = paired[only]
    return {name: rows for name, rows in found.items() if len(rows)}


def mean_ratio(paired: pd.DataFrame) -> Estimate:
    """Return FRER's threshold over control's: of a seed the geometric mean, of seeds the median."""
    logs = paired.assign(log=np.log(paired["ratio"])).groupby("replication")["log"].mean()
    return exponential(median_over_runs(logs))


def exponential(estimate: Estimate) -> Estimate:
    """Transform an estimate of a logarithm back."""
    value, low, high = (math.exp(x) for x in (estimate.value, estimate.low, estimate.high))
    method = f"{estimate.method} (seeds)"
    return replace(estimate, value=value, low=low, high=high, method=method)


def shares(table: pd.DataFrame, response: str) -> pd.DataFrame:
    """Return the share of the variance of log threshold that each factor explains, by seed.

    Within a seed the part ``hosts`` is one balanced factorial, so sums of squares of main effects
    add up, and the rest is interaction. Columns: the factors and ``interactions``, in percent; one
    row per seed.
    """
    rows = {}
    hosts = table[table["part"] == HOSTS]
    for seed, group in hosts.groupby("replication"):
        logs = group.assign(log=np.log(group[response]))
        grand = float(logs["log"].mean())
        total = float(((logs["log"] - grand) ** 2).sum())
        share = {}
        for factor in HOST_FACTORS:
            means = logs.groupby(factor)["log"].transform("mean")
            share[factor] = 100 * float(((means - grand) ** 2).sum()) / total
        rows[seed] = share | {"interactions": 100 - sum(share.values())}
    return pd.DataFrame.from_dict(rows, orient="index")


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Return by seed the exponents of buffer and stall length in the threshold.

    Least squares on logarithms over the part ``hosts``: threshold in datagrams per second against
    the listener's buffer in datagrams and the length of its stalls. The closed form for one stall,
    buffer / stall, has exponents of 1 and -1. Searches that ended at the link's limit are left out.
    """
    from tsnrepro.common.ethernet import udp_truesizes  # noqa: PLC0415 - only here

    chosen = table[(table["part"] == HOSTS) & (table["censored"] == "")]
    charge = np.array([sum(udp_truesizes(int(payload))) for payload in chosen["payload_bytes"]])
    datagrams = chosen["receive_buffer_bytes"].to_numpy() // charge + 1
    design = pd.DataFrame(
        {
            "constant": 1.0,
            "buffer": np.log(datagrams),
            "stall": np.log(chosen["stall_length_ms"].to_numpy()),
        },
        index=chosen.index,
    )
    rows = {}
    for seed, group in chosen.groupby("replication"):
        logs = np.log(group["threshold_kpps"].to_numpy())
        found, *_ = np.linalg.lstsq(design.loc[group.index].to_numpy(), logs, rcond=None)
        rows[seed] = dict(zip(design, found, strict=True))
    return pd.DataFrame.from_dict(rows, orient="index")[["buffer", "stall"]]


def analyse(table: pd.DataFrame, source: str | Path) -> Results:
    """Return all results of the study; ``source`` is the file of its table."""
    results, source_names = results_of(source)
    _Analysis(results, table, source_names).add_all()
    return results


class _Analysis:
    def __init__(self, results: Results, table: pd.DataFrame, source: Iterable[str]) -> None:
        self.results, self.table, self.source = results, table, list(source)

    def _estimate(self, key: str, estimate: Estimate, digits: int) -> None:
        self.results.estimate(f"study.{key}", estimate, digits, self.source)

    def _value(self, key: str, value: float | int | str | None, **fields: object) -> None:
        self.results.value(f"study.{key}", value, self.source, **fields)  # type: ignore[arg-type]

    def add_all(self) -> None:
        table = self.table
        self._value("points.count", len(table))
        self._value("seeds.count", int(table["replication"].nunique()))
        at_limit = int((table["censored"] == _LINE_LIMIT).sum())
        self._value("at_line_limit.count", at_limit, method="no loss up to the line's limit")
        paired = pairs(table)
        self._hosts(paired[paired["part"] == HOSTS])
        self._paths(paired[paired["part"] == PATHS])
        for response, name in (("threshold_mbps", "mbps"), ("threshold_kpps", "kpps")):
            for factor, column in shares(table, response).items():
                estimate = median_over_runs(column, unit="%")
                self._estimate(f"share.{name}.{_short(str(factor))}.percent", estimate, 1)
        for name, column in exponents(table).items():
            self._estimate(f"exponent.{name}", median_over_runs(column), 2)

    def _hosts(self, paired: pd.DataFrame) -> None:
        self._estimate("ratio.hosts", mean_ratio(paired), 3)
        cells = by_combination(paired)
        self._value("ratio.hosts.lowest", float(cells.min()), digits=3, method=_CELL)
        self._value("ratio.hosts.highest", float(cells.max()), digits=3, method=_CELL)
        self._value("combinations.hosts.count", len(cells))
        self._value("third.hosts.count", int((cells >= CREDITED_RATIO).sum()), method=_THIRD)
        self._value("third.hosts", _verdict(cells), method=_THIRD)

    def _paths(self, paired: pd.DataFrame) -> None:
        for name, rows in conditions(paired).items():
            known = rows[rows["ratio"].notna()]
            self._estimate(f"ratio.{name}", mean_ratio(known), 3)
            cells = by_combination(known)
            self._value(f"ratio.{name}.lowest", float(cells.min()), digits=3, method=_CELL)
            self._value(f"ratio.{name}.highest", float(cells.max()), digits=3, method=_CELL)
            self._value(f"third.{name}", _verdict(cells), method=_THIRD)


_CELL = "geometric mean over seeds of one combination"
_THIRD = "combinations whose geometric mean over seeds is a third or more"


def _short(factor: str) -> str:
    """Return a factor's name without its unit."""
    return factor.removesuffix("_bytes").removesuffix("_ms")


def by_combination(paired: pd.DataFrame, names: Iterable[str] = FACTORS) -> pd.Series:
    """Return the geometric mean ratio of each combination of some factors."""
    known = [name for name in names if name in paired and name != "configuration"]
    logs = paired.assign(log=np.log(paired["ratio"])).groupby(known)["log"].mean()
    return logs.map(math.exp)


def _verdict(cells: pd.Series) -> str:
    if (cells < CREDITED_RATIO).all():
        return "nowhere"
    return "everywhere" if (cells >= CREDITED_RATIO).all() else "in some combinations"
