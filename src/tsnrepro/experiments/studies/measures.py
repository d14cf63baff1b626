"""Measures of a point: loss and its locations at one load, or the zero-loss threshold."""

import math
from typing import Any

from numpy.random import SeedSequence

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.ethernet import payload_limit_mbps
from tsnrepro.experiments.studies.scenario import STREAM, network_of
from tsnrepro.experiments.studies.study import Point, PointParameters, Study, ThresholdMeasure
from tsnrepro.model.engine import simulate
from tsnrepro.model.result import StreamAccount
from tsnrepro.model.variates import child_seeds


def measure_point(study: Study, point: Point) -> dict[str, Any]:
    """Return the row of one point: its parameters and results.

    The same study and point give the same row on any machine.
    """
    seed = child_seeds(study.seed, study.replications)[point.replication - 1]
    if isinstance(study.measure, ThresholdMeasure):
        return point.factors() | _threshold(study, study.measure, point, seed)
    rate = point.parameters.rate_mbps
    if rate is None:
        raise ValueError(f"point {point.number} has no rate_mbps to measure the loss at")
    return point.factors() | loss_at(point.parameters, study.duration_s, seed)


def _trial(study: Study, point: Point, seed: SeedSequence, rate_mbps: float) -> StreamAccount:
    network = network_of(point.parameters, rate_mbps)
    return simulate(network, duration_s=study.duration_s, seed=seed).streams[STREAM]


def loss_at(
    parameters: PointParameters, duration_s: float, seed: SeedSequence | int
) -> dict[str, Any]:
    """Return loss, its locations, rates and latencies of a stream at its ``rate_mbps``.

    Raises
    ------
    ConfigurationError
        The parameters have no rate.
    """
    rate_mbps = parameters.rate_mbps
    if rate_mbps is None:
        raise ConfigurationError("no load to simulate", "rate_mbps", "Give it in Mb/s of payload")
    network = network_of(parameters, rate_mbps)
    stream = simulate(network, duration_s=duration_s, seed=seed).streams[STREAM]
    frames = stream.frames
    return {
        "target_mbps": rate_mbps,
        "offered_mbps": stream.offered_mbps(duration_s),
        "goodput_mbps": stream.goodput_mbps(duration_s),
        "sent": stream.entered,
        "lost": stream.lost,
        "loss_percent": 100 * stream.loss_ratio if stream.entered else None,
        "listener_socket_drops": stream.receiver_socket_drops,
        "listener_card_drops": frames.nic_drops,
        "queue_drops": sum(frames.queue_drops.values()),
        "path_losses": sum(frames.lost_random.values()),
        "eliminated": frames.eliminated,
        "out_of_order": stream.out_of_order,
        "duplicates": stream.duplicates,
        "latency_p50_us": _microseconds(stream, 0.5),
        "latency_p99_us": _microseconds(stream, 0.99),
        "latency_max_us": _microseconds(stream, 1.0),
    }


def _microseconds(stream: StreamAccount, probability: float) -> float | None:
    value = stream.latency.quantile_ns(probability)
    return None if math.isnan(value) else round(value / 1000, 6)


def _threshold(
    study: Study, measure: ThresholdMeasure, point: Point, seed: SeedSequence
) -> dict[str, Any]:
    """Search the threshold; ``censored`` is the end of the loads that the search stayed at."""
    parameters = point.parameters
    limit = payload_limit_mbps(parameters.payload_bytes, rate_mbps=parameters.link_rate_mbps)
    trials = 0

    def passes(rate_mbps: float) -> bool:
        nonlocal trials
        trials += 1
        stream = _trial(study, point, seed, rate_mbps)
        return stream.entered > 0 and stream.loss_ratio <= measure.loss_ratio

    low, high, censored = measure.min_rate_mbps, limit, ""
    if low >= limit:
        raise ValueError(f"min_rate_mbps {low} is above the link's limit of {limit:.1f} Mb/s")
    if passes(limit):
        low, censored = limit, "line limit"
    elif not passes(low):
        high, censored = low, "below the lowest load"
    else:
        while high > low * (1 + measure.precision):
            middle = _geometric_mean(low, high)
            low, high = (middle, high) if passes(middle) else (low, middle)
    return {
        "threshold_mbps": low if censored != "below the lowest load" else None,
        "threshold_high_mbps": high,
        "threshold_kpps": None
        if censored == "below the lowest load"
        else round(low * 1000 / 8 / parameters.payload_bytes, 6),
        "line_limit_mbps": limit,
        "censored": censored,
        "trials": trials,
    }


def _geometric_mean(low: float, high: float) -> float:
    """Return the geometric mean of two loads, rounded to a thousandth of a Mb/s.

    The square root is exactly rounded on every machine (IEEE Std 754), so the loads are equal.
    """
    return round(math.sqrt(low * high), 3)
