"""The latency analysis on samples with known quantiles."""

import numpy as np
import pandas as pd
import pytest

from tsnrepro.experiments.latency import analysis as latency
from tsnrepro.records.tables import LATENCY
from tsnrepro.stats.long_series import LongSeries

RUNS = 4


def measured(shift):
    """Return trials and samples; FRER's half round trips are the control's times ``shift``."""
    rng = np.random.default_rng(7)
    rows, samples = [], {}
    for r in range(1, RUNS + 1):
        for name, factor in (("control", 1.0), ("frer", shift)):
            values = np.exp(rng.normal(3.0, 0.2, 20_000)) * factor * rng.normal(1, 0.01)
            trial = f"{name}-{r}"
            samples[trial] = values
            quantiles = {
                f"{k}_us": float(np.quantile(values, q)) for k, q in latency.QUANTILES.items()
            }
            rows.append(
                {
                    "trial": trial,
                    "sha256": trial.encode().hex().ljust(64, "0"),
                    "repetition": r,
                    "order": 0,
                    "configuration": name,
                    "duration_s": 3.0,
                    "started": pd.Timestamp("2026-01-01", tz="UTC"),
                    "payload_bytes": 1472,
                    "observations": len(values),
                    "sent": len(values),
                    "received": len(values),
                    "valid_seconds": 2.5,
                    "mean_us": float(values.mean()),
                    "sd_us": float(values.std()),
                    "min_us": float(values.min()),
                    "max_us": float(values.max()),
                    **quantiles,
                }
            )
    return LATENCY.validate(pd.DataFrame(rows)), samples


def test_the_intervals_hold_the_true_quantiles():
    trials, samples = measured(1.0)
    found = latency.analyse(trials, samples)
    value, low, high = found.interval("latency.p50.control.us")
    assert value == pytest.approx(np.exp(3.0), rel=0.03)
    assert low < np.exp(3.0) < high


def test_a_clear_rise_is_called_higher():
    trials, samples = measured(1.2)
    found = latency.analyse(trials, samples)
    value, low, high = found.interval("latency.mean.difference.percent")
    assert low < 20 < high
    assert value == pytest.approx(20, abs=3)
    assert found.of("latency.mean.unadjusted.verdict").value == "higher"
    # In microseconds: a fifth of the control's mean.
    value, low, high = found.interval("latency.mean.difference.us")
    assert low < 0.2 * found.of("latency.mean.control.us").value < high
    assert value == pytest.approx(0.2 * found.of("latency.mean.control.us").value, rel=0.15)


def test_a_clear_fall_is_called_lower():
    trials, samples = measured(0.8)
    found = latency.analyse(trials, samples)
    assert found.of("latency.p99.unadjusted.verdict").value == "lower"


def test_the_same_distribution_is_not_told_apart():
    trials, samples = measured(1.0)
    found = latency.analyse(trials, samples)
    assert found.of("latency.mean.unadjusted.verdict").value == "cannot tell"


@pytest.mark.parametrize(
    ("shift", "verdict"), [(1.0, "equivalent"), (1.01, "equivalent"), (1.5, "different")]
)
def test_medians_are_tested_for_equivalence(shift, verdict):
    trials, samples = measured(shift)
    found = latency.analyse(trials, samples)
    assert found.of("latency.p50.equivalence.unadjusted.verdict").value == verdict


@pytest.mark.parametrize(
    ("grain", "step", "digits"), [(0.001, 0.001, 3), (0.0005, 0.0005, 4), (0.25, 0.25, 2)]
)
@pytest.mark.parametrize("long", [False, True])
def test_the_resolution_is_the_smallest_step_on_record(grain, step, digits, long):
    trials, samples = measured(1.0)
    coarse = {name: np.round(values / grain) * grain for name, values in samples.items()}
    if long:
        coarse = {name: LongSeries(lambda v=v: [v], latency.TOGETHER) for name, v in coarse.items()}
    found = latency.analyse(trials, coarse).of("latency.precision.resolution.us")
    assert found.value == step
    assert (found.digits, found.unit) == (digits, "us")


def test_without_single_latencies_the_resolution_is_not_known():
    trials, samples = measured(1.0)
    nothing = dict.fromkeys(samples, np.empty(0))
    found = latency.analyse(trials, nothing).of("latency.precision.resolution.us")
    assert found.value is None
    assert found.method.startswith("unknown")
