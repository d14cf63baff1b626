"""The model's prediction of a machine's threshold from the stalls measured on it.

The stall meter of every trial records how often, and for how long, a program that had something
to do did not run. The model with these stalls, and otherwise with its own parameters, sweeps the
same loads. So the prediction knows nothing of any loss that was measured.
"""

import math

import numpy as np
import pandas as pd

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import ModelSettings
from tsnrepro.config.base import CONFIGURATIONS
from tsnrepro.config.files import testbed_settings
from tsnrepro.config.testbeds import ModelStalls
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.analysis import SWEEP, main_payload, trials_of_objective
from tsnrepro.experiments.loss.path_thresholds import load_mbps
from tsnrepro.records.store import Trial
from tsnrepro.results.estimates import recorded, unknown
from tsnrepro.results.results import Results
from tsnrepro.runner.measurement import Measurement
from tsnrepro.stats.thresholds import Sweep, threshold

REPETITIONS = 12
# No machine that measures is stalled all the time; a meter may show it in a trial or two.
_MOST = 0.9
_METERED = ["stall_checks", "stalls", "stalled_ms", "stall_least_ms"]


def stalls_of(trials: pd.DataFrame) -> ModelStalls | None:
    """Return the stalls of the metered machines, None where no meter saw any.

    Lengths are taken as exponential, so what is left of a stall at a check is as long on average
    as a whole one, and a share exp(-least / length) of the checks within stalls counts as late.
    """
    metered = recorded(trials, *_METERED)
    late = float(metered["stalls"].sum()) if len(metered) else 0.0
    if not late:
        return None
    least = float(metered["stall_least_ms"].max())
    length_ms = max(float(metered["stalled_ms"].sum()) / late - least, least / 10)
    late_share = late / float(metered["stall_checks"].sum())
    share = min(late_share * math.exp(least / length_ms), _MOST)
    return ModelStalls(interval_s=length_ms * (1 - share) / share / 1000, length_ms=length_ms)


def add(results: Results, trials: pd.DataFrame, link_rate_mbps: float) -> None:
    """Add how steady the machines were, and the prediction with its error."""
    sweep = trials_of_objective(trials, SWEEP)
    sweep = sweep[sweep["payload_bytes"] == main_payload(sweep)]
    names = sweep["trial"]
    longest = recorded(trials, "longest_stall_ms")
    for name, of in (("longest", np.max), ("median", np.median)):
        found = float(of(longest["longest_stall_ms"])) if len(longest) else None
        method = f"{name} over trials of the longest time that a processor kept a thread waiting"
        key = f"loss.stalls.{name}.ms"
        results.value(key, found, longest["trial"], unit="ms", digits=1, method=method)
    stalls = stalls_of(sweep)
    for name, unit in (("interval_s", "s"), ("length_ms", "ms")):
        found = getattr(stalls, name) if stalls else None
        method = "mean by the stall meter, lengths taken as exponential"
        results.value(f"loss.stalls.{name}", found, names, unit=unit, digits=3, method=method)
    for configuration in CONFIGURATIONS:
        group = sweep[sweep["configuration"] == configuration]
        predicted = unknown("Mb/s", "no stalls were metered")
        if stalls and len(group):
            predicted = _predicted(group, stalls, link_rate_mbps)
        key = f"loss.prediction.{configuration}"
        results.estimate(f"{key}.mbps", predicted, 0, group["trial"])
        measured = results.interval(f"loss.threshold.{configuration}.mbps")[0]
        error = 100 * (predicted.value / measured - 1) if measured else None
        method = "predicted against measured"
        results.value(f"{key}.error.percent", error, group["trial"], unit="%", method=method)


def _predicted(trials: pd.DataFrame, stalls: ModelStalls, link_rate_mbps: float):
    """Sweep the loads of some trials, all of one configuration, on the model."""
    # Compiled code, which takes a second to load: only for those who simulate.
    from tsnrepro.testbeds.model import ModelTestbed  # noqa: PLC0415

    settings = testbed_settings("model")
    if not isinstance(settings, ModelSettings):
        raise ConfigurationError("not the model", "config/testbeds/model.yaml", "kind: model")
    changes = {"stalls": stalls, "link_rate_mbps": round(link_rate_mbps)}
    model = ModelTestbed(settings.model_copy(update=changes))
    first = trials.iloc[0]
    sweeps = []
    for repetition in range(1, REPETITIONS + 1):
        lost = []
        for load in (loads := sorted(load_mbps(trials).groupby(trials["target_mbps"]).mean())):
            factors = {
                "configuration": first["configuration"],
                "payload_bytes": int(first["payload_bytes"]),
                "rate_mbps": float(load),
                "duration_s": float(first["duration_s"]),
                "generator": first.get("generator", "iperf3"),
            }
            measured = Measurement()
            loss.measure(model, Trial("loss", "prediction", factors, repetition), measured)
            lost.append(measured.values["result"]["lost"] > 0)
        sweeps.append(Sweep(np.array(loads), np.array(lost)))
    return threshold(sweeps)
