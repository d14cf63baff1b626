"""Shaping: trials and logs of a run, their statistics, and how the gates were kept."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from tsnrepro.common.errors import RecordError
from tsnrepro.experiments.shaping.log import (
    DEPARTURES,
    LOG,
    Records,
    decompress,
    latency_us,
    listener_wait_us,
    talker_wait_us,
)
from tsnrepro.experiments.shaping.phase import Adherence, Gate, adherence
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.settings import GATED, LAUNCHED, TOGGLED, ShapingPart
from tsnrepro.records.store import open_run, recorded_trials
from tsnrepro.records.tables import COUNT
from tsnrepro.results.estimates import unknown
from tsnrepro.stats.estimate import Estimate, without_interval
from tsnrepro.stats.long_series import Series
from tsnrepro.stats.proportions import share
from tsnrepro.stats.quantiles import (
    replicated_quantile,
    sample_quantile,
    samples_beyond,
    too_few_beyond,
)
from tsnrepro.stats.replication import median_over_runs, range_over_runs

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
STATISTICS = ("mean", *QUANTILES, "max", "jitter")
"""Statistics of every mode and load. Jitter is P99 above the smallest latency of the run, the
packet delay variation of RFC 5481, section 4.2."""
_QUANTILE_OF = QUANTILES | {"jitter": QUANTILES["p99"]}
HOSTS = {"talker": talker_wait_us, "listener": listener_wait_us}
"""What the programs at both ends wait for, beside a frame's latency."""
WAITS = {"p50": 0.5, "p99": 0.99}
IDLE, LOADED = "idle", "loaded"
LATENCY, _DEVIATION = "latency", "deviation from the launch time"

_RATE = pa.Column(float, pa.Check.ge(0), coerce=True)
_LATENCY = pa.Column(float, nullable=True)
_SCHEMA = pa.DataFrameSchema(
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
        "quantity": pa.Column(str, pa.Check.isin([LATENCY, _DEVIATION])),
        **{f"{name}_us": _LATENCY for name in ("sd", "min", *STATISTICS)},
        **{f"{host}_wait_{name}_us": _LATENCY for host in HOSTS for name in WAITS},
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
        """Return the log whose stamps are when frames left the shaped port."""
        return self.departures.get(trial, self.logs[trial])

    @property
    def virtual_time(self) -> bool:
        """Whether any trial's clock was virtual: good for order and shaping, not for latency."""
        guests = (document["values"].get("guest") for document in self.documents.values())
        return any(guest and guest["virtual_time"] for guest in guests)

    def label(self, testbed: str) -> str:
        """Return a testbed's label, with a word on its clock where that is virtual."""
        labelled = "virtual time" in testbed or not self.virtual_time
        return testbed if labelled else f"{testbed}, virtual time"

    def part(self, name: str) -> ShapingPart:
        """Return a part's settings, with the modes and loads that were measured."""
        rows = self.trials[self.trials["part"] == name]
        first = Factors.read(self.documents[rows["trial"].iloc[0]]["factors"]).part
        modes = list(dict.fromkeys(rows["mode"]))
        loads = sorted(set(rows["load_mbps"]))
        return first.model_copy(update={"modes": modes, "loads_mbps": loads})

    def parts(self, kind: str | None = None) -> list[ShapingPart]:
        """Return the parts of a kind, or all, that hold modes against each other, by their names.

        Those whose gates are toggled within each trial are :meth:`toggled_parts`.
        """
        chosen = self.trials["mode"] != TOGGLED
        if kind is not None:
            chosen &= self.trials["kind"] == kind
        return self._parts_of(self.trials[chosen])

    def toggled_parts(self) -> list[ShapingPart]:
        """Return the parts whose gates are toggled within each trial, by their names."""
        return self._parts_of(self.trials[self.trials["mode"] == TOGGLED])

    def _parts_of(self, rows: pd.DataFrame) -> list[ShapingPart]:
        return [self.part(name) for name in sorted(set(rows["part"]))]

    def rows(self, part: str, mode: str | None = None, load: str | None = None) -> pd.DataFrame:
        """Return the trials of a part, of one mode and load where given, by repetition."""
        cell = part, mode, load
        if cell not in self._cells:
            chosen = self.trials["part"] == part
            if mode is not None:
                chosen &= self.trials["mode"] == mode
            if load is not None:
                chosen &= self.trials["load"] == load
            self._cells[cell] = self.trials[chosen].sort_values("repetition")
        return self._cells[cell]

    @cached_property
    def _cells(self) -> dict[tuple[str, str | None, str | None], pd.DataFrame]:
        """The rows that were chosen before: every result of a cell asks for them."""
        return {}

    def logs_of(self, rows: pd.DataFrame) -> list[Records]:
        """Return the logs of some trials."""
        return [self.logs[trial] for trial in rows["trial"]]

    def groups(self, part: ShapingPart) -> list[tuple[str, str]]:
        """Return the (mode, load) of a part that were measured, in the part's order."""
        rows = self.rows(part.name)
        measured = set(zip(rows["mode"], rows["load"], strict=True))
        pairs = [(mode, load) for load in loads_of(part) for mode in part.modes]
        return [pair for pair in pairs if pair in measured]


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

    Raises RecordError if a trial is missing, was altered, or does not fit the schema.
    """
    store, _ = open_run(manifest_path)
    documents = {document["trial"]: document for document in recorded_trials(manifest_path)}
    logs = {trial: decompress(store.output_bytes(trial, LOG)) for trial in documents}
    departures = {
        trial: decompress(store.output_bytes(trial, DEPARTURES))
        for trial in documents
        if (store.folder / trial / DEPARTURES).is_file()
    }
    return assemble(documents, logs, departures)


def series(manifest_path: str | Path) -> dict[str, Series]:
    """Return the one-way latency of every frame in microseconds, in order, by trial."""
    return {trial: latency_us(log) for trial, log in read(manifest_path).logs.items()}


def assemble(
    documents: dict[str, dict[str, Any]],
    logs: dict[str, Records],
    departures: dict[str, Records] | None = None,
) -> Run:
    """Return a run of records, logs and departures, by the trial's name.

    Raises RecordError if a record does not fit the schema.
    """
    factors = {name: Factors.read(each["factors"]) for name, each in documents.items()}
    loads: dict[str, set[float]] = {}
    for each in factors.values():
        loads.setdefault(each.part.name, set()).add(each.load_mbps)
    rows = [
        _row(document, factors[name], loads[factors[name].part.name], logs[name])
        for name, document in documents.items()
    ]
    try:
        table = _SCHEMA.validate(pd.DataFrame(rows))
        return Run(table, logs, documents, departures or {})
    except pa.errors.SchemaError as error:
        raise RecordError(f"the trials do not fit their schema: {error}", "shaping") from error


def _row(
    document: dict[str, Any], factors: Factors, loads: set[float], log: Records
) -> dict[str, Any]:
    part, values = factors.part, document["values"]
    counts = ("sent", "received", "lost", "out_of_order")
    rates = ("load_offered_mbps", "load_delivered_mbps")
    return {
        **{key: document[key] for key in ("trial", "sha256", "repetition", "order", "started")},
        **{"part": part.name, "kind": part.kind, "mode": factors.mode},
        "payload_bytes": part.payload_bytes,
        **{"link_rate_mbps": part.link_rate_mbps, "load_mbps": factors.load_mbps},
        "load": load_name(loads, factors.load_mbps),
        "medium": values["medium"],
        "cycle_ns": float(part.gates.cycle) if part.gates else np.nan,
        **{key: values["result"][key] for key in (*counts, *rates)},
        "quantity": _DEVIATION if factors.mode in LAUNCHED else LATENCY,
        **_statistics(log),
    }


def _statistics(log: Records) -> dict[str, float]:
    latencies = latency_us(log)
    if not len(latencies):
        waits = (f"{host}_wait_{name}" for host in HOSTS for name in WAITS)
        return {f"{name}_us": np.nan for name in ("sd", "min", *STATISTICS, *waits)}
    smallest = float(latencies.min())
    quantiles = {name: _quantile(latencies, q) for name, q in QUANTILES.items()}
    return {
        "mean_us": float(latencies.mean()),
        "sd_us": float(latencies.std(ddof=1)) if len(latencies) > 1 else np.nan,
        "min_us": smallest,
        **{f"{name}_us": value for name, value in quantiles.items()},
        "max_us": float(latencies.max()),
        "jitter_us": quantiles["p99"] - smallest,
        **{
            f"{host}_wait_{name}_us": _quantile(times(log), q)
            for host, times in HOSTS.items()
            for name, q in WAITS.items()
        },
    }


def _quantile(latencies: np.ndarray, q: float) -> float:
    """Return a run's quantile; nan where it would be the run's largest latency."""
    return sample_quantile(latencies, q) if samples_beyond(len(latencies), q) else np.nan


# --- estimates --------------------------------------------------------------------------------


def statistics_table(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return :data:`STATISTICS` of every mode and load of a part, a row each, with limits.

    ``value_us``, ``low_us``, ``high_us`` (95 %), ``quantity``, ``method``, ``runs`` and
    ``frames``. From two runs on, the run is the unit; within one run the interval is that of
    order statistics. The largest latency is what was seen and has no interval.
    """
    rows = []
    for mode, load in run.groups(part):
        group = run.rows(part.name, mode, load)
        common = {
            **{"part": part.name, "mode": mode, "load": load},
            "quantity": group["quantity"].iloc[0],
            "medium": group["medium"].iloc[0],
            "runs": len(group),
            "frames": int(group["received"].sum()),
            "lost": int(group["lost"].sum()),
        }
        rows += [
            common
            | {
                "statistic": name,
                "value_us": estimate.value,
                "low_us": estimate.low,
                "high_us": estimate.high,
                "method": estimate.method,
            }
            for name, estimate in estimates(run, part.name, mode, load).items()
        ]
    return pd.DataFrame(rows)


def estimates(run: Run, part: str, mode: str, load: str) -> dict[str, Estimate]:
    """Return :data:`STATISTICS` of a mode under a load, in microseconds, the run as the unit.

    What too few frames lie beyond is unknown, as its method has it.
    """
    group = _with_latencies(run.rows(part, mode, load))
    if group.empty:
        return {}
    latencies = [latency_us(log) for log in run.logs_of(group)]
    largest = float(group["max_us"].max())
    found = {"mean": median_over_runs(group["mean_us"], unit="us")}
    for name, q in QUANTILES.items():
        why = not_located(group, name)
        quantile = unknown("us", why) if why else replicated_quantile(latencies, q, unit="us")
        found[name] = quantile
    found["max"] = without_interval(largest, "the largest seen", len(group), "us")
    why = not_located(group, "jitter")
    jitter = unknown("us", why) if why else median_over_runs(group["jitter_us"], unit="us")
    return found | {"jitter": jitter}


def not_located(rows: pd.DataFrame, statistic: str) -> str:
    """Return why trials do not locate one of :data:`STATISTICS`; empty where they do, or have none.

    The tail of few frames is its largest one, see
    :func:`tsnrepro.stats.quantiles.too_few_beyond`.
    """
    q = _QUANTILE_OF.get(statistic)
    counts = rows["received"].to_numpy()[_has_latencies(rows)] if q is not None else ()
    return too_few_beyond(counts, q) if q is not None and len(counts) else ""


def _with_latencies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that received and stamped frames enough for a spread."""
    return rows[_has_latencies(rows)]


def _has_latencies(rows: pd.DataFrame) -> np.ndarray:
    return (rows["received"].to_numpy() > 1) & rows["mean_us"].notna().to_numpy()


def gate_of(run: Run, trial: str) -> Gate | None:
    """Return the gate that a trial's phases belong to; None without a schedule or egress times."""
    document = run.documents[trial]
    part = Factors.read(document["factors"]).part
    if part.gates is None or document["values"].get("egress") is None:
        return None
    return Gate.of(document, part.gates, part.priority)


@dataclass(frozen=True)
class AdherenceOverRuns:
    """How a gate held in several runs. Frames of one run leave by one schedule: the run counts."""

    runs: list[Adherence]

    def sum(self, name: str) -> int:
        """Return a count of frames over all runs."""
        return sum(getattr(one, name) for one in self.runs)

    @property
    def outside_percent(self) -> Estimate:
        """The share of a run's frames outside, mean and range over runs."""
        shares = [100 * one.outside / one.frames for one in self.runs]
        return range_over_runs(shares, "frames outside come together", unit="%")

    @property
    def runs_percent(self) -> Estimate:
        """The share of runs with any frame outside, with the exact binomial interval."""
        return share(sum(one.outside > 0 for one in self.runs), len(self.runs)).scaled(100, "%")


def adherence_over_runs(run: Run, part: str, mode: str, load: str) -> AdherenceOverRuns | None:
    """Return how a gated mode's gate held under a load; None where that is unknown.

    Modes without a gate are left out: what they send outside a window is no miss.
    """
    found = []
    for trial in run.rows(part, mode, load)["trial"] if mode in GATED else ():
        gate = gate_of(run, trial)
        if gate is not None:
            found.append(adherence(gate, run.egress(trial)))
    found = [one for one in found if one.frames]
    return AdherenceOverRuns(found) if found else None


def adherence_table(run: Run) -> pd.DataFrame:
    """Return how the gates held, one row a gated mode, load and part."""
    rows = []
    for part in run.parts():
        for mode, load in run.groups(part):
            found = adherence_over_runs(run, part.name, mode, load)
            if found is None:
                continue
            outside, runs = found.outside_percent, found.runs_percent
            counts = ("frames", "without_stamp", "outside", "early", "late")
            rows.append(
                {
                    **{"part": part.name, "mode": mode, "load": load},
                    "cycle_ns": part.gates.cycle if part.gates else None,
                    **{name: found.sum(name) for name in counts},
                    "runs": len(found.runs),
                    "outside_percent": outside.value,
                    "outside_least_percent": outside.low,
                    "outside_most_percent": outside.high,
                    "runs_outside_percent": runs.value,
                    "runs_outside_low_percent": runs.low,
                    "runs_outside_high_percent": runs.high,
                    "worst_early_ns": max(one.worst_early_ns for one in found.runs),
                    "worst_late_ns": max(one.worst_late_ns for one in found.runs),
                }
            )
    return pd.DataFrame(rows)
