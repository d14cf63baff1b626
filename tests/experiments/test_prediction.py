"""The prediction of a threshold from metered stalls, on stalls and losses that are simulated."""

import math

import numpy as np
import pandas as pd
import pytest

from tsnrepro.experiments.loss import analysis as loss
from tsnrepro.experiments.loss import measure as experiment
from tsnrepro.experiments.loss import prediction
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.model import ModelTestbed

LEAST_MS = 0.5
LOADS = (100.0, 200.0, 400.0, 600.0, 800.0, 900.0)


def metered(interval_s, length_ms, rng, trials=12, checks=20_000):
    """Return what a meter says of alternating exponential gaps and stalls, checked at random."""
    rows = []
    for _ in range(trials):
        gaps = rng.exponential(interval_s * 1000, 4000)
        lengths = rng.exponential(length_ms, 4000)
        begins = np.cumsum(gaps + lengths) - lengths
        at = np.sort(rng.uniform(0, begins[-1], checks))
        number = np.searchsorted(begins, at) - 1
        left = np.where(number >= 0, begins[number] + lengths[number] - at, 0.0)
        late = left[left > LEAST_MS]
        rows.append(
            {
                "stall_checks": checks,
                "stalls": len(late),
                "stalled_ms": late.sum(),
                "stall_least_ms": LEAST_MS,
                "longest_stall_ms": lengths.max(),
            }
        )
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("interval_s", "length_ms"), [(0.05, 2.0), (0.2, 1.0), (0.02, 5.0)])
def test_stalls_are_found_again_from_what_the_meter_counts(interval_s, length_ms):
    found = prediction.stalls_of(metered(interval_s, length_ms, np.random.default_rng(1)))
    assert found.length_ms == pytest.approx(length_ms, rel=0.1)
    assert found.interval_s == pytest.approx(interval_s, rel=0.15)


def test_no_stalls_are_no_ground_for_a_prediction():
    assert prediction.stalls_of(pd.DataFrame({"trial": ["a"]})) is None
    calm = metered(1.0, 1.0, np.random.default_rng(1)).assign(stalls=0.0, stalled_ms=0.0)
    assert prediction.stalls_of(calm) is None


def test_the_prediction_meets_a_machine_that_stalls_as_the_model_does():
    """A model with known stalls stands for the machine; the prediction sees only its meter."""
    rng = np.random.default_rng(2)
    interval_s, length_ms = 0.2, 1.2
    stalls = prediction.ModelStalls(interval_s=interval_s, length_ms=length_ms)
    settings = prediction.testbed_settings("model").model_copy(update={"stalls": stalls})
    machine = ModelTestbed(settings, seed=7)
    rows = []
    for repetition in range(1, 6):
        meters = metered(interval_s, length_ms, rng, trials=len(LOADS)).to_dict("records")
        for load, meter in zip(LOADS, meters, strict=True):
            factors = {"configuration": "control", "payload_bytes": 1472, "duration_s": 1}
            measured = Measurement()
            trial = Trial("loss", f"{load}", factors | {"rate_mbps": load}, repetition)
            experiment.measure(machine, trial, measured)
            result = measured.values["result"]
            rows.append(
                {
                    "trial": f"{load}-{repetition}",
                    "sha256": "0",
                    "repetition": repetition,
                    "question": "sweep",
                    "target_mbps": load,
                    "loss_percent": 100 * result["lost"] / result["sent"],
                    **factors,
                    **{name: result[name] for name in ("sent", "lost", "offered_mbps")},
                    **{"unaccounted": 0, "eliminated": 0, "copies": 0, **meter},
                }
            )
    trials = pd.DataFrame(rows)
    results = loss.analyse(trials, 1000)
    prediction.add(results, trials, 1000)
    value, low, high = results.interval("loss.prediction.control.mbps")
    measured_mbps = results.interval("loss.threshold.control.mbps")[0]
    assert measured_mbps is not None
    assert value == pytest.approx(measured_mbps, rel=0.35)
    assert low < measured_mbps < high
    error = results.of("loss.prediction.control.error.percent").value
    assert error == pytest.approx(100 * (value / measured_mbps - 1))
    assert math.isclose(results.of("loss.stalls.length_ms").value, length_ms, rel_tol=0.15)
    # What was not measured is not predicted.
    assert results.interval("loss.prediction.frer.mbps") == (None, None, None)
