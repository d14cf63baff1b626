"""Latency (RFC 2544, 26.2): the cases to measure, and what is said of their samples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsnrepro.experiments.rfc2544.load_trial import NO_WAITS
from tsnrepro.experiments.rfc2544.settings import RfcLatencySettings
from tsnrepro.experiments.rfc2544.throughput import NO_THROUGHPUT

_STREAM_SECONDS = 120.0
REPEATS = 20
"""Trials of one case that RFC 2544 (26.2) asks for; one trial alone cannot tell."""
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}

Kind = Literal["round-trip", "one-way"]
QUANTITIES = {"round-trip": ("half_round_trip", "round_trip"), "one-way": ("one_way",)}


@dataclass(frozen=True)
class LatencyCase:
    """What to measure: samples of one kind beside background traffic.

    ``background_pps`` is what runs beside the samples, in datagrams a second of the same size: 0
    when idle, and at the throughput rate what the samples themselves leave of it; None where that
    rate is not known.
    """

    kind: Kind
    load: Literal["idle", "throughput"]
    payload_bytes: int
    background_pps: float | None
    duration_s: float


@dataclass(frozen=True)
class LatencySamples:
    """Statistics of one repetition's samples, in microseconds.

    ``quantity`` names what they are: half round trip, whole round trip or one-way.
    """

    quantity: Literal["half_round_trip", "round_trip", "one_way"]
    samples: int
    mean_us: float
    sd_us: float
    min_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p99_9_us: float
    max_us: float


def case(
    settings: RfcLatencySettings,
    kind: Kind,
    load: Literal["idle", "throughput"],
    payload_bytes: int,
    *,
    throughput_pps: float | None = None,
    sample_pps: float = 0.0,
) -> LatencyCase:
    """Return one case; the samples' own rate is part of the throughput rate.

    Raises
    ------
    ValueError
        The throughput is not known, or the samples alone are above it.
    """
    background = 0.0
    if load == "throughput":
        if throughput_pps is None:
            raise ValueError(f"latency at the throughput rate of {payload_bytes} B needs that rate")
        background = throughput_pps - sample_pps
        if background < 0:
            raise ValueError(
                f"samples at {sample_pps:g}/s are above the throughput of {throughput_pps:g}/s"
            )
    return LatencyCase(kind, load, payload_bytes, background, settings.duration_s)


def departures(
    settings: RfcLatencySettings, kind: Kind, *, full_waits: bool = True
) -> tuple[str, ...]:
    """Return what keeps one trial from being RFC 2544's (26.2).

    ``full_waits`` tells that it had the learning frames and waits of section 23.
    """
    found = []
    if settings.duration_s < _STREAM_SECONDS:
        found.append(f"streams of {settings.duration_s:g} s, not 120 s (RFC 2544, 26.2)")
    if kind == "round-trip":
        found.append("round trips of two hosts, not one way through the device (RFC 2544, 26.2)")
    if not full_waits:
        found.append(NO_WAITS)
    return tuple(found)


def round_trips(half_us: ArrayLike) -> dict[str, LatencySamples]:
    """Return the statistics of half and whole round trips from half ones (sockperf's).

    The whole is twice the half: a ping-pong times a round trip and prints half of it.

    Raises
    ------
    ValueError
        There are no samples, or one is not positive.
    """
    half = _checked(half_us)
    return {
        "half_round_trip": _statistics("half_round_trip", half),
        "round_trip": _statistics("round_trip", 2 * half),
    }


def one_way(latencies_us: ArrayLike) -> dict[str, LatencySamples]:
    """Return the statistics of one-way latencies, by hosts whose clocks agree.

    Raises
    ------
    ValueError
        There are no samples, or a datagram arrived before it was sent.
    """
    return {"one_way": _statistics("one_way", _checked(latencies_us))}


def record_of_latency(
    of: LatencyCase, found: Mapping[str, LatencySamples | None], reasons: tuple[str, ...]
) -> dict[str, Any]:
    """Return one repetition for a trial's ``values``: the case and its statistics by quantity.

    ``found`` is what :func:`round_trips` or :func:`one_way` gave; where the clocks do not agree
    the quantity is named and has no statistics.
    """
    return {
        "case": asdict(of),
        "latencies": {name: asdict(item) if item else None for name, item in found.items()},
        "compliant": not reasons,
        "reasons": list(reasons),
    }


def without_throughput(
    settings: RfcLatencySettings, kind: Kind, payload_bytes: int, departed: tuple[str, ...]
) -> dict[str, Any]:
    """Return the ``values`` where no throughput was found, so that there is no rate to load with.

    Every quantity is named and has no statistics, and the reasons begin with why; those of
    :func:`departures` follow.
    """
    of = LatencyCase(kind, "throughput", payload_bytes, None, settings.duration_s)
    return record_of_latency(of, dict.fromkeys(QUANTITIES[kind]), (NO_THROUGHPUT, *departed))


def _checked(values: ArrayLike) -> NDArray[np.float64]:
    samples = np.asarray(values, dtype=np.float64)
    if samples.size == 0:
        raise ValueError("no latency samples")
    if not (samples > 0).all():
        raise ValueError(f"latency of {samples.min()} us: samples must be positive")
    return samples


def _statistics(quantity: Any, samples: NDArray[np.float64]) -> LatencySamples:
    quantiles = {
        f"{name}_us": float(np.quantile(samples, share, method="inverted_cdf"))
        for name, share in QUANTILES.items()
    }
    return LatencySamples(
        quantity=quantity,
        samples=samples.size,
        mean_us=float(samples.mean()),
        sd_us=float(samples.std(ddof=1)) if samples.size > 1 else 0.0,
        min_us=float(samples.min()),
        max_us=float(samples.max()),
        **quantiles,
    )
