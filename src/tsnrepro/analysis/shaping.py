"""Shaping: trials and logs of a run, their statistics, and modes held against each other."""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa
from statsmodels.stats.weightstats import DescrStatsW

from tsnrepro.analysis.results import Results
from tsnrepro.analysis.shaping_phase import Gate, Held, held
from tsnrepro.audit.media import refuse_across_media
from tsnrepro.errors import RecordError
from tsnrepro.experiments.shaping.factors import part_of
from tsnrepro.experiments.shaping.log import (
    DEPARTURES,
    LOG,
    Records,
    decompress,
    latency_us,
    network_latency_us,
)
from tsnrepro.records.tables import COUNT, open_run
from tsnrepro.settings.shaping import GATED, ShapingPart
from tsnrepro.stats.checks import ROUNDING
from tsnrepro.stats.comparisons import Comparison, difference_of_means, holm, relative_difference
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.quantiles import replicated_quantile, sample_quantile
from tsnrepro.stats.replication import mean_over_runs

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
COMPARED = ("mean", "p50", "p99", "p99_9")
SIGNIFICANCE = 0.05
IDLE, LOADED = "idle", "loaded"

_RATE = pa.Column(float, pa.Check.ge(0), coerce=True)
_LATENCY = pa.Column(float, nullable=True)
SCHEMA = pa.DataFrameSchema(
    {
        "trial": pa.Column(str, unique=True),
        "sha256": pa.Column(str, pa.Check.str_length(64, 64)),
        "repetition": pa.Column(int, pa.Check.ge(1)),
        "order": COUNT,
        "started": pa.Column("datetime64[us, UTC]", coerce=True),
        "part": pa.Column(str),
        "kind": pa.Column(str),
        "mode": pa.Column(str),
        "medium": pa.Column(str),
        "load_mbps": _RATE,
        "load": pa.Column(str),
        "payload_bytes": pa.Column(int, pa.Check.ge(12)),
        "link_rate_mbps": _RATE,
        "cycle_ns": pa.Column(float, nullable=True),
        "sent": COUNT,
        "received": COUNT,
        "lost": COUNT,
        "out_of_order": COUNT,
        "load_offered_mbps": _RATE,
        "load_delivered_mbps": _RATE,
        **{f"{name}_us": _LATENCY for name in ("mean", "sd", "min", *QUANTILES, "max")},
        "network_max_us": _LATENCY,
    },
    strict=True,
    name="shaping",
)


@dataclass(frozen=True)
class Run:
    """The trials of one run, a row each, with the log and the record of each by its name.

    ``departures`` has those of trials whose listener does not hear the shaped ports directly.
    """

    trials: pd.DataFrame
    logs: dict[str, Records]
    documents: dict[str, dict[str, Any]]
    departures: dict[str, Records] = field(default_factory=dict)

    def egress(self, trial: str) -> Records:
        """Return the log whose stamps tell when frames left the shaped port."""
        return self.departures.get(trial, self.logs[trial])

    @property
    def virtual_time(self) -> bool:
        """Whether any trial's clock was virtual: good for order and shaping, not for latency."""
        guests = (document["values"].get("guest") for document in self.documents.values())
        return any(guest and guest["virtual_time"] for guest in guests)

    def label(self, testbed: str) -> str:
        """Return a testbed's label, with a word on its clock where that is virtual."""
        said = "virtual time" in testbed or not self.virtual_time
        return testbed if said else f"{testbed}, virtual time"

    def part(self, name: str) -> ShapingPart:
        """Return a part's settings, with the modes and loads that were measured."""
        rows = self.trials[self.trials["part"] == name]
        first = part_of(self.documents[rows["trial"].iloc[0]]["factors"])
        modes = list(dict.fromkeys(rows["mode"]))
        loads = sorted(set(rows["load_mbps"]))
        return first.model_copy(update={"modes": modes, "loads_mbps": loads})

    def parts(self, kind: str | None = None) -> list[ShapingPart]:
        """Return the parts of a kind, or all, in the order of their names."""
        rows = self.trials if kind is None else self.trials[self.trials["kind"] == kind]
        return [self.part(name) for name in sorted(set(rows["part"]))]

    def rows(self, part: str, mode: str | None = None, load: str | None = None) -> pd.DataFrame:
        """Return the trials of a part, of one mode and load where given, by repetition."""
        chosen = self.trials["part"] == part
        if mode is not None:
            chosen &= self.trials["mode"] == mode
        if load is not None:
            chosen &= self.trials["load"] == load
        return self.trials[chosen].sort_values("repetition")

    def logs_of(self, rows: pd.DataFrame) -> list[Records]:
        """Return the logs of some trials."""
        return [self.logs[trial] for trial in rows["trial"]]

    def groups(self, part: ShapingPart) -> list[tuple[str, str]]:
        """Return the (mode, load) of a part that were measured, in the part's order."""
        pairs = [(mode, load) for load in loads_of(part) for mode in part.modes]
        return [(mode, load) for mode, load in pairs if len(self.rows(part.name, mode, load))]


def loads_of(part: ShapingPart) -> list[str]:
    """Return the names of a part's loads, in order."""
    return [load_name(part.loads_mbps, load) for load in part.loads_mbps]


def load_name(loads: Iterable[float], load: float) -> str:
    """Return ``idle``, ``loaded``, or the rate where there are several loads."""
    if load == 0:
        return IDLE
    return LOADED if sum(other > 0 for other in set(loads)) == 1 else f"{load:g}mbps"


def read(manifest_path: str | Path) -> Run:
    """Read a run of the experiment ``shaping``, checked against its checksums and its schema.

    Raises
    ------
    RecordError
        A trial is missing, was altered, or does not fit the schema.
    """
    store, manifest = open_run(manifest_path)
    logs, departures, documents = {}, {}, {}
    for entry in manifest["trials"]:
        document = store.read(store.folder / entry["trial"])
        if document["sha256"] != entry["sha256"]:
            raise RecordError("the trial is not the one the manifest lists", entry["trial"])
        documents[entry["trial"]] = document
        logs[entry["trial"]] = decompress(store.output_bytes(entry["trial"], LOG))
        if (store.folder / entry["trial"] / DEPARTURES).is_file():
            departures[entry["trial"]] = decompress(store.output_bytes(entry["trial"], DEPARTURES))
    return assemble(documents, logs, departures)


def assemble(
    documents: dict[str, dict[str, Any]],
    logs: dict[str, Records],
    departures: dict[str, Records] | None = None,
) -> Run:
    """Return a run of records, logs and departures, by the trial's name.

    Raises
    ------
    RecordError
        A record does not fit the schema.
    """
    loads: dict[str, set[float]] = {}
    for document in documents.values():
        factors = document["factors"]
        loads.setdefault(factors["part"], set()).add(factors["load_mbps"])
    rows = [
        _row(document, loads[document["factors"]["part"]], logs[name])
        for name, document in documents.items()
    ]
    try:
        table = SCHEMA.validate(pd.DataFrame(rows))
        return Run(table, logs, documents, departures or {})
    except pa.errors.SchemaError as error:
        raise RecordError(f"the trials do not fit their schema: {error}", "shaping") from error


def _row(document: dict[str, Any], loads: set[float], log: Records) -> dict[str, Any]:
    factors, values = document["factors"], document["values"]
    part = part_of(factors)
    counts = ("sent", "received", "lost", "out_of_order")
    rates = ("load_offered_mbps", "load_delivered_mbps")
    return {
        **{key: document[key] for key in ("trial", "sha256", "repetition", "order", "started")},
        **{key: factors[key] for key in ("part", "kind", "mode", "payload_bytes")},
        **{key: factors[key] for key in ("link_rate_mbps", "load_mbps")},
        "load": load_name(loads, factors["load_mbps"]),
        "medium": values["medium"],
        "cycle_ns": float(part.gates.cycle) if part.gates else np.nan,
        **{key: values["result"][key] for key in (*counts, *rates)},
        **_statistics(log),
    }


def _statistics(log: Records) -> dict[str, float]:
    names = ("mean", "sd", "min", *QUANTILES, "max")
    if not len(log):
        return dict.fromkeys((*(f"{name}_us" for name in names), "network_max_us"), np.nan)
    latencies = latency_us(log)
    network = network_latency_us(log)
    return {
        "mean_us": float(latencies.mean()),
        "sd_us": float(latencies.std(ddof=1)) if len(latencies) > 1 else np.nan,
        "min_us": float(latencies.min()),
        **{f"{name}_us": sample_quantile(latencies, q) for name, q in QUANTILES.items()},
        "max_us": float(latencies.max()),
        "network_max_us": float(network.max()) if len(network) else np.nan,
    }


# --- estimates --------------------------------------------------------------------------------


def statistics_table(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return mean, quantiles and maximum of every mode and load of a part, with intervals.

    One row a mode, load and statistic: ``value_us``, ``low_us``, ``high_us`` (95 %), ``method``,
    ``runs`` and ``frames``. From two runs on, the run is the unit; within one run the interval
    is that of order statistics. The largest latency is what was seen and has no interval.
    """
    rows = []
    for mode, load in run.groups(part):
        group = run.rows(part.name, mode, load)
        logs = [log for log in run.logs_of(group) if len(log) > 1]
        common = {
            "part": part.name,
            "mode": mode,
            "load": load,
            "medium": group["medium"].iloc[0],
            "runs": len(group),
            "frames": int(group["received"].sum()),
            "lost": int(group["lost"].sum()),
        }
        for name, estimate in _estimates(logs).items():
            rows.append(
                common
                | {
                    "statistic": name,
                    "value_us": estimate.value,
                    "low_us": estimate.low,
                    "high_us": estimate.high,
                    "method": estimate.method,
                }
            )
    return pd.DataFrame(rows)


def _estimates(logs: list[Records]) -> dict[str, Estimate]:
    runs = [latency_us(log) for log in logs]
    if not runs:
        return {}
    largest = max(float(run.max()) for run in runs)
    return {
        "mean": mean_over_runs([float(run.mean()) for run in runs], unit="us"),
        **{name: replicated_quantile(runs, q, unit="us") for name, q in QUANTILES.items()},
        "max": Estimate(largest, np.nan, np.nan, 0.95, "largest seen", len(runs), "us"),
    }


def gate_of(run: Run, trial: str) -> Gate | None:
    """Return the gate that a trial's phases belong to; None without a schedule or egress times."""
    document = run.documents[trial]
    part = part_of(document["factors"])
    if part.gates is None or document["values"].get("egress") is None:
        return None
    return Gate.of(document, part.gates, part.priority)


def held_table(run: Run) -> pd.DataFrame:
    """Return how the gate held, one row a gated mode, load and part over all its runs.

    ``outside_percent`` has the exact binomial interval. Modes without a gate are left out: what
    they send outside a window is no miss.
    """
    rows = []
    for part in run.parts():
        for mode, load in run.groups(part):
            counts = _held(run, run.rows(part.name, mode, load)) if mode in GATED else None
            if counts is None:
                continue
            share = counts.outside_percent
            rows.append(
                {
                    "part": part.name,
                    "mode": mode,
                    "load": load,
                    "cycle_ns": part.gates.cycle if part.gates else None,
                    "frames": counts.frames,
                    "without_stamp": counts.without_stamp,
                    "outside": counts.outside,
                    "outside_percent": share.value,
                    "outside_low_percent": share.low,
                    "outside_high_percent": share.high,
                    "early": counts.early,
                    "late": counts.late,
                    "worst_early_ns": counts.worst_early_ns,
                    "worst_late_ns": counts.worst_late_ns,
                }
            )
    return pd.DataFrame(rows)


def _held(run: Run, group: pd.DataFrame) -> Held | None:
    total: Held | None = None
    for trial in group["trial"]:
        gate = gate_of(run, trial)
        if gate is None:
            return None
        one = held(gate, run.egress(trial))
        total = one if total is None else total + one
    return total if total and total.frames else None


# --- comparisons ------------------------------------------------------------------------------


def reference_mode(part: ShapingPart) -> str:
    """Return what a part's modes are held against: no shaping where that was measured."""
    return next((mode for mode in ("fifo", "prio", "direct") if mode in part.modes), part.modes[0])


def comparisons(run: Run, part: ShapingPart, *, across_media: bool = False) -> pd.DataFrame:
    """Return each mode against the reference under the same load, one row a statistic.

    The unit is the run. ``p_adjusted`` is Holm's over the part; ``verdict`` is lower, higher or
    cannot tell at 5 %.

    Raises
    ------
    DifferentMediaError
        The two modes were measured on different media, unless ``across_media`` asks for it.
    """
    reference, rows = reference_mode(part), []
    for mode, load in run.groups(part):
        control = run.rows(part.name, reference, load)
        group = run.rows(part.name, mode, load)
        if mode == reference or control.empty:
            continue
        note = refuse_across_media(
            {mode: _medium(group), reference: _medium(control)}, asked=across_media
        )
        for name in COMPARED:
            found = _relative(group, control, f"{name}_us")
            if found is None:
                continue
            rows.append(
                {
                    "part": part.name,
                    "load": load,
                    "mode": mode,
                    "reference": reference,
                    "statistic": name,
                    "difference_percent": found.estimate.value,
                    "low_percent": found.estimate.low,
                    "high_percent": found.estimate.high,
                    "p_value": found.p_value,
                    "method": found.estimate.method,
                    "note": note,
                }
            )
    return _with_verdicts(pd.DataFrame(rows))


def _medium(group: pd.DataFrame) -> str | None:
    media = sorted(set(group["medium"]))
    return " and ".join(media) if media else None


def _relative(group: pd.DataFrame, control: pd.DataFrame, column: str) -> Comparison | None:
    """Return the change in percent; by repetition where both were measured in the same ones.

    A repetition is a block of the campaign's random order: what drifts, or what is uncertain of a
    model, falls on both sides of a pair alike.
    """
    first = group.set_index("repetition")[column].dropna()
    second = control.set_index("repetition")[column].dropna()
    if first.empty or second.empty or first.min() <= 0 or second.min() <= 0:
        return None
    if len(first) < 2 or set(first.index) != set(second.index):
        return relative_difference(first, second)
    ratios = np.log((first / second.reindex(first.index)).to_numpy(float))
    mean = mean_over_runs(ratios)
    value, low, high = (100 * math.expm1(number) for number in (mean.value, mean.low, mean.high))
    method = "Student t of the log ratio, paired by repetition"
    estimate = Estimate(value, low, high, mean.level, method, mean.n, "%")
    return Comparison(estimate, _p_of_none(ratios))


def _p_of_none(differences: npt.NDArray[np.float64]) -> float:
    """Return the p value of a mean of zero; 0 or 1 where nothing varies."""
    if np.ptp(differences) <= ROUNDING * max(1.0, float(np.abs(differences).max())):
        return float(np.abs(differences).max() <= ROUNDING)
    return float(DescrStatsW(differences).ttest_mean(0)[1])


def _with_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Add Holm's adjusted p values over the whole table, and what they say."""
    if table.empty:
        return table
    tested = table["p_value"].notna()
    adjusted = pd.Series(np.nan, index=table.index)
    if tested.any():
        adjusted[tested] = holm(table.loc[tested, "p_value"])
    words = np.where(table["difference_percent"] < 0, "lower", "higher")
    verdict = np.where(adjusted < SIGNIFICANCE, words, "cannot tell")
    return table.assign(p_adjusted=adjusted, verdict=verdict)


def load_effect(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return what the load adds to each mode's latency, in microseconds, one row a statistic."""
    rows = []
    for mode, load in run.groups(part):
        idle, group = run.rows(part.name, mode, IDLE), run.rows(part.name, mode, load)
        if load == IDLE or idle.empty:
            continue
        for name in COMPARED:
            found = _difference(group, idle, f"{name}_us")
            rows.append({"part": part.name, "mode": mode, "load": load, "statistic": name, **found})
    return pd.DataFrame(rows)


def bridge_cost(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return what the switch adds to the direct link's mean latency, idle, one row a mode."""
    direct = run.rows(part.name, "direct", IDLE)
    modes = [mode for mode, load in run.groups(part) if load == IDLE and mode != "direct"]
    if direct.empty:
        return pd.DataFrame()
    return pd.DataFrame(
        [
            {
                "part": part.name,
                "mode": mode,
                **_difference(run.rows(part.name, mode, IDLE), direct, "mean_us"),
            }
            for mode in modes
        ]
    )


def _difference(group: pd.DataFrame, control: pd.DataFrame, column: str) -> dict[str, float]:
    """Return the difference in microseconds, paired as in :func:`_relative`."""
    refuse_across_media({"a": _medium(group), "b": _medium(control)})
    first = group.set_index("repetition")[column].dropna()
    second = control.set_index("repetition")[column].dropna()
    names = ("difference_us", "low_us", "high_us", "p_value")
    if first.empty or second.empty:
        return dict.fromkeys(names, np.nan)
    if len(first) < 2 or set(first.index) != set(second.index):
        found = difference_of_means(first, second, unit="us")
        limits, p_value = found.estimate, found.p_value
    else:
        differences = (first - second.reindex(first.index)).to_numpy(float)
        limits, p_value = mean_over_runs(differences, unit="us"), _p_of_none(differences)
    return dict(zip(names, (limits.value, limits.low, limits.high, p_value), strict=True))


# --- results ----------------------------------------------------------------------------------


def analyse(run: Run) -> Results:
    """Return all results of the experiment ``shaping``, keyed part, mode, load and statistic."""
    results = Results("shaping", run.trials)
    for part in run.parts():
        for mode, load in run.groups(part):
            _results_of(results, run, part, mode, load)
        for row in comparisons(run, part).to_dict("records"):
            _comparison(results, run, row)
    media = sorted(set(run.trials["medium"]))
    method = "environment of the run"
    results.value("shaping.medium", " and ".join(media), run.trials["trial"], method=method)
    return results


def _results_of(results: Results, run: Run, part: ShapingPart, mode: str, load: str) -> None:
    group = run.rows(part.name, mode, load)
    key, names = f"shaping.{_word(part.name)}.{mode}.{load}", group["trial"]
    logs = [log for log in run.logs_of(group) if len(log) > 1]
    for name, estimate in _estimates(logs).items():
        results.estimate(f"{key}.{name}.us", estimate, 2, names)
    results.value(f"{key}.sent.count", int(group["sent"].sum()), names)
    results.value(f"{key}.lost.count", int(group["lost"].sum()), names)
    results.value(
        f"{key}.load.mbps",
        float(group["load_delivered_mbps"].mean()),
        names,
        unit="Mb/s",
        digits=1,
        method="mean over runs, delivered payload",
    )
    counts = _held(run, group) if mode in GATED else None
    if counts is not None:
        results.value(f"{key}.outside.count", counts.outside, names)
        results.estimate(f"{key}.outside.percent", counts.outside_percent, 4, names)


def _comparison(results: Results, run: Run, row: Mapping[Hashable, Any]) -> None:
    key = f"shaping.{_word(row['part'])}.{row['mode']}.{row['load']}.{row['statistic']}"
    both = [row["mode"], row["reference"]]
    rows = run.rows(row["part"], load=row["load"])
    names = rows[rows["mode"].isin(both)]["trial"]
    estimate = Estimate(
        row["difference_percent"],
        row["low_percent"],
        row["high_percent"],
        0.95,
        f"against {row['reference']}, {row['method']}",
        len(names),
        "%",
    )
    results.estimate(f"{key}.difference.percent", estimate, 1, names)
    method = f"Holm over the part at {SIGNIFICANCE:g}"
    results.value(f"{key}.verdict", row["verdict"], names, method=method)


def _word(name: str) -> str:
    """Return a part's name as it may stand in a key."""
    return name.replace("-", "_")
