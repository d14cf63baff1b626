"""Measure a trial of ``traffic``: cameras, LiDAR and V2X at once, each stream numbered.

A camera's picture is a train of datagrams, and so is a sector of a LiDAR's scan; V2X and control
send at random times. Every stream has a talker of its own on one host, as if a gateway forwarded
all.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tsnrepro.common.ethernet import payload_rate_mbps
from tsnrepro.experiments.traffic.plan import Factors
from tsnrepro.experiments.traffic.settings import Camera, Lidar, Random, Source
from tsnrepro.native.streams.delivery import one_way
from tsnrepro.native.streams.log import Records, compress
from tsnrepro.records.store import Trial, arrivals_file
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import HostOptions, IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed

_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps every arrival of every stream."""
    factors = Factors.of(trial)
    loads = loads_of(factors, trial.repetition)
    options = HostOptions(receive_buffer_bytes=factors.receive_buffer_bytes)
    requests = backend(testbed, trial, measured, options)
    outcomes = requests.constant_rate([load for _, load in loads], arrivals=True)
    streams = []
    for number, ((source, load), outcome) in enumerate(zip(loads, outcomes, strict=True)):
        assert outcome.arrivals is not None
        measured.outputs[arrivals_file(number)] = compress(outcome.arrivals)
        streams.append(_stream_values(source, load, outcome))
    sent, unique = (sum(stream[name] for stream in streams) for name in ("sent", "unique"))
    measured.values |= {"streams": streams, "result": {"sent": sent, "unique": unique}}


def loads_of(factors: Factors, repetition: int) -> list[tuple[Source, IntendedLoad]]:
    """Return the source and the load of each stream.

    Where trains begin within their interval, at which picture of a group a camera begins, and the
    gaps of random sources, are drawn once for a repetition of a mix: both configurations send the
    same.
    """
    generator = random.Random(f"{factors.mix}/{repetition}")
    return [
        (source, _load(source, factors, generator))
        for source in factors.sources
        for _ in range(source.count)
    ]


def _load(source: Source, factors: Factors, generator: random.Random) -> IntendedLoad:
    shape: dict[str, Any] = {}
    if isinstance(source, Camera | Lidar):
        phase_s = generator.random() / source.trains_per_s
        # Cameras that are not synchronised have their I pictures at different times.
        first = generator.randrange(len(source.trains)) if len(source.trains) > 1 else 0
        trains = source.trains[first:] + source.trains[:first]
        shape = {"trains": trains, "phase_s": phase_s}
    elif isinstance(source, Random):
        shape = {"poisson": generator.getrandbits(48)}
    return IntendedLoad(
        factors.configuration, source.payload_bytes, source.rate_pps, factors.duration_s, **shape
    )


def _stream_values(source: Source, load: IntendedLoad, outcome: LoadOutcome) -> dict[str, Any]:
    """Return what a record keeps of one stream: counts, latency, and of a camera its pictures."""
    arrivals = outcome.arrivals
    assert arrivals is not None
    delays_us = one_way(arrivals, "kernel").latency_ns / 1e3
    # No latency of datagrams that did not come, none of clocks that do not agree.
    refused = "no datagram arrived with a time stamp"
    if delays_us.size:
        refused = outcome.why_not_one_way(float(delays_us.min()) * 1e3)
    values = {
        "source": source.name,
        "kind": source.kind,
        "payload_bytes": load.payload_bytes,
        "train": max(load.trains),
        "smallest_train": min(load.trains),
        "group": len(load.trains),
        "trains_per_s": 1 / load.slot_s if max(load.trains) > 1 else None,
        "sent": outcome.sent,
        "unique": outcome.received_unique,
        "duplicates": outcome.duplicates,
        "reordered": outcome.reordered,
        "late": outcome.late,
        "offered_mbps": payload_rate_mbps(outcome.sent, load.payload_bytes, load.duration_s),
        "accounting": outcome.accounting,
        "recovery": outcome.recovery,
        "no_latency_because": refused,
        **_quantiles(np.empty(0) if refused else delays_us),
    }
    if isinstance(source, Camera):
        values["pictures"] = _pictures(arrivals, outcome.sent, load.trains, timed=not refused)
    return values


def _quantiles(delays_us: np.ndarray) -> dict[str, float | None]:
    if not delays_us.size:
        return dict.fromkeys(_QUANTILES)
    found = np.quantile(delays_us, list(_QUANTILES.values()), method="inverted_cdf")
    return dict(zip(_QUANTILES, map(float, found), strict=True))


def _pictures(
    arrivals: Records, sent: int, trains: Sequence[int], *, timed: bool
) -> dict[str, Any]:
    """Return how many pictures were sent and came whole, and how long these took."""
    delays_us = whole_pictures_us(arrivals, trains)
    return {
        "sent": int(_picture_of(np.array([sent]), trains)[0]),
        "whole": len(delays_us),
        **_quantiles(delays_us if timed else np.empty(0)),
    }


def _picture_of(numbers: np.ndarray, trains: Sequence[int]) -> np.ndarray:
    """Return the number of the picture that each datagram belongs to, both from 0."""
    ends = np.cumsum(trains)
    group, within = np.divmod(numbers, ends[-1])
    return group * len(ends) + np.searchsorted(ends, within, side="right")


def whole_pictures_us(arrivals: Records, trains: Sequence[int]) -> np.ndarray:
    """Return how long each picture took of which every datagram arrived, in microseconds.

    It runs from the time in its first datagram to the stamp of the datagram that came last.

    ``arrivals``: a listener's log of one stream; repeats do not count. ``trains``: datagrams of
    each picture; after the last the first follows again.
    """
    _, first = np.unique(arrivals["sequence"], return_index=True)
    once = arrivals[first]
    picture = _picture_of(once["sequence"].astype(np.int64), trains)
    number, begins, count = np.unique(picture, return_index=True, return_counts=True)
    if not number.size:
        return np.empty(0)
    sent = np.minimum.reduceat(once["sent_ns"].astype(np.int64), begins)
    came = np.maximum.reduceat(once["stamped_ns"].astype(np.int64), begins)
    whole = count == np.asarray(trains)[number % len(trains)]
    return (came - sent)[whole] / 1e3
