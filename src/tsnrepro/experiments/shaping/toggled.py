"""Gates toggled within a trial: latency while they were enabled, and while they were disabled.

A phase's first tenth is left out: what was queued when the gates were toggled still leaves
under the other state's rule. The unit is the run, whose phases of one state count together.
"""

import numpy as np
import pandas as pd

from tsnrepro.experiments.shaping.analysis import QUANTILES, Run, loads_of
from tsnrepro.experiments.shaping.log import Records, latency_us, timed
from tsnrepro.experiments.shaping.settings import TOGGLED
from tsnrepro.experiments.shaping.toggles import GatePhase, phases_of
from tsnrepro.stats.comparisons import median_difference
from tsnrepro.stats.estimate import Estimate, without_interval
from tsnrepro.stats.quantiles import replicated_quantile, sample_quantile

SETTLING = 0.1
STATES = {"enabled": True, "disabled": False}
_QUANTILES = {name: QUANTILES[name] for name in ("p50", "p99")}


def gate_phases(run: Run, trial: str) -> list[GatePhase]:
    """Return a trial's phases, in order."""
    return phases_of(run.documents[trial]["values"])


def _by_state(run: Run, trial: str) -> dict[str, Records]:
    found, log = gate_phases(run, trial), run.logs[trial]
    return {
        state: np.concatenate(
            [log[:0], *(phase.of(log, SETTLING) for phase in found if phase.enabled == enabled)]
        )
        for state, enabled in STATES.items()
    }


def _latencies(run: Run, part: str, load: str) -> dict[str, list[np.ndarray]]:
    """Return each run's latencies by state, of the runs that have some in both."""
    found: dict[str, list[np.ndarray]] = {state: [] for state in STATES}
    for trial in run.rows(part, TOGGLED, load)["trial"]:
        logs = {state: timed(log) for state, log in _by_state(run, trial).items()}
        if all(len(log) for log in logs.values()):
            for state, log in logs.items():
                found[state].append(latency_us(log))
    return found


def estimates(run: Run, part: str, load: str) -> dict[tuple[str, str], Estimate]:
    """Return P50, P99 and the largest latency of each state, in microseconds, by both names."""
    found = {}
    for state, latencies in _latencies(run, part, load).items():
        if not latencies:
            continue
        for name, q in _QUANTILES.items():
            found[state, name] = replicated_quantile(latencies, q, unit="us")
        largest = max(float(values.max()) for values in latencies)
        found[state, "max"] = without_interval(largest, "the largest seen", len(latencies), "us")
    return found


def differences(run: Run, part: str, load: str) -> dict[str, Estimate]:
    """Return what enabled gates add to each quantile, in microseconds, paired by run."""
    latencies = _latencies(run, part, load)
    if not latencies["enabled"]:
        return {}
    found = {}
    for name, q in _QUANTILES.items():
        enabled, disabled = (
            [sample_quantile(values, q) for values in latencies[state]] for state in STATES
        )
        found[name] = median_difference(enabled, disabled, unit="us", paired=True)
    return found


def table(run: Run) -> pd.DataFrame:
    """Return P50, P99 and the largest latency of each toggled part, load and state, a row each."""
    rows = []
    for part in run.toggled_parts():
        for load in loads_of(part):
            runs = len(_latencies(run, part.name, load)["enabled"])
            rows += [
                {
                    **{"part": part.name, "load": load, "gates": state, "statistic": name},
                    "value_us": estimate.value,
                    "low_us": estimate.low,
                    "high_us": estimate.high,
                    "method": estimate.method,
                    "runs": runs,
                    "phases": (part.toggles or 0) + 1,
                }
                for (state, name), estimate in estimates(run, part.name, load).items()
            ]
    return pd.DataFrame(rows)
