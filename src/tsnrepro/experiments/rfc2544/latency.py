"""Latency (RFC 2544, 26.2): samples, idle or beside the load of the throughput."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.rfc2544.load_trial import NO_WAITS
from tsnrepro.experiments.rfc2544.plan import Factors
from tsnrepro.experiments.rfc2544.settings import LatencyKind, LatencyLoad, RfcLatencySettings
from tsnrepro.experiments.rfc2544.throughput import NO_THROUGHPUT
from tsnrepro.native.streams import delivery
from tsnrepro.native.streams.log import compress
from tsnrepro.records.store import ARRIVALS
from tsnrepro.runner.backends import Backend
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement

_STREAM_SECONDS = 120.0
# Few enough that no datagram waits for another.
_IDLE_PPS = 1000.0
# Long enough to see how fast one request follows another.
_SHORT_SECONDS = 1.0
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}

QUANTITIES: dict[LatencyKind, tuple[str, ...]] = {
    "round-trip": ("half_round_trip", "round_trip"),
    "one-way": ("one_way",),
}


@dataclass(frozen=True)
class LatencyCase:
    """What to measure: samples of one kind beside background traffic.

    ``background_pps`` is what runs beside the samples, in datagrams a second of the same size: 0
    when idle, and at the throughput rate what the samples themselves leave of it; None where that
    rate is not known.
    """

    kind: LatencyKind
    load: LatencyLoad
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


def measure(
    requests: Backend,
    factors: Factors,
    throughput_pps: float | None,
    measured: Measurement,
    *,
    at_rest: bool,
) -> None:
    """Measure one repetition and keep its samples.

    Where no throughput was found there is no such rate: the record has that and no samples.
    ``at_rest``: the network is at rest when a trial begins, and has learned every address.
    """
    settings: RfcLatencySettings = factors.method_settings
    kind, load = factors.latency_case
    # A ping-pong has no waits, whatever the campaign sets.
    waits = at_rest or (kind == "one-way" and factors.full_waits)
    reasons = departures(settings, kind, full_waits=waits)
    if load != "throughput":
        throughput_pps = None
    elif throughput_pps is None:
        measured.values |= without_throughput(settings, kind, factors.payload_bytes, reasons)
        return
    make_case = partial(
        case, settings, kind, load, factors.payload_bytes, throughput_pps=throughput_pps
    )
    if kind == "round-trip":
        # The samples' own rate is part of the throughput.
        rate = 0.0 if throughput_pps is None else min(_fastest(requests, factors), throughput_pps)
        measured_case = make_case(sample_pps=rate)
        samples = requests.round_trips(
            factors.configuration,
            factors.payload_bytes,
            factors.duration_s,
            beside_pps=measured_case.background_pps or 0.0,
        )
        found = round_trips(samples.half_us)
    else:
        measured_case = make_case()
        found, reason = _one_way(requests, factors, throughput_pps or _IDLE_PPS, measured)
        reasons = (*reasons, reason) if reason else reasons
    measured.values |= record_of_latency(measured_case, found, reasons)


def _fastest(requests: Backend, factors: Factors) -> float:
    """Return how fast one request follows another, in requests a second."""
    idle = requests.round_trips(
        factors.configuration, factors.payload_bytes, _SHORT_SECONDS, keep=False
    )
    return len(idle.half_us) / idle.report.valid_seconds


def _one_way(
    requests: Backend, factors: Factors, rate_pps: float, measured: Measurement
) -> tuple[Mapping[str, LatencySamples | None], str | None]:
    """Return the latencies of a stream, every datagram a sample, or None and the reason."""
    load = IntendedLoad(
        factors.configuration,
        factors.payload_bytes,
        rate_pps,
        factors.duration_s,
        full_waits=factors.full_waits,
    )
    (outcome,) = requests.constant_rate([load], arrivals=True)
    assert outcome.arrivals is not None
    measured.outputs[ARRIVALS] = compress(outcome.arrivals)
    delays_ns = delivery.one_way(outcome.arrivals, "kernel").latency_ns
    if not len(delays_ns):
        raise ToolError("no datagram arrived with a time stamp", factors.label)
    reason = outcome.why_not_one_way(float(delays_ns.min()))
    return {"one_way": None} if reason else one_way(delays_ns / 1e3), reason


def case(
    settings: RfcLatencySettings,
    kind: LatencyKind,
    load: LatencyLoad,
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
    settings: RfcLatencySettings, kind: LatencyKind, *, full_waits: bool = True
) -> tuple[str, ...]:
    """Return what keeps one trial from being RFC 2544's (26.2).

    ``full_waits``: it had the learning frames and waits of section 23.
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
    settings: RfcLatencySettings, kind: LatencyKind, payload_bytes: int, departed: tuple[str, ...]
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
