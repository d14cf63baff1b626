"""How often each search lands on a truth that is known, with and without random stalls.

The truth is a listener of the model that takes a fixed time for each datagram and can hold next to
none: it keeps up with any load up to one over that time, and with no load above it. Stalls take its
processor away now and then, as a scheduler does, and cost datagrams at any but the smallest loads.
"""

from collections.abc import Collection
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.random import SeedSequence
from pydantic import Field

from tsnrepro.common.ethernet import udp_truesizes
from tsnrepro.config import ConfigModel, PositiveFloat, PositiveInt
from tsnrepro.experiments.rfc2544 import binary_search, mlr, systematic
from tsnrepro.experiments.rfc2544.load_trial import Series, SystemUnderTest
from tsnrepro.experiments.rfc2544.settings import (
    RFC2544_GOAL,
    BinarySearchSettings,
    MlrSettings,
    Percent,
    SystematicSettings,
)
from tsnrepro.experiments.rfc2544.throughput import ThroughputResult
from tsnrepro.model.engine import simulate
from tsnrepro.model.network import (
    ConstantRate,
    DuplexLink,
    Duration,
    EgressPort,
    EndStation,
    Network,
    SinglePath,
    Stalls,
    TrafficStream,
)
from tsnrepro.runner.load import IntendedLoad, LoadOutcome

_QUEUE_BYTES = 1_000_000
_NANO = 1e9
# The documents' search, and the same number of halvings by the letter of RFC 2544.
_BINARY_60_S = BinarySearchSettings(duration_s=60.0, loss_percent=0.0)


class AccuracySettings(ConfigModel):
    """The networks whose capacity is known, and the searches for it."""

    runs: PositiveInt = 20
    payload_bytes: PositiveInt = 1472
    link_rate_mbps: PositiveFloat = 40.0
    """A slow link keeps the datagrams few; only ratios matter."""
    lowest_percent: Percent = 35.0
    highest_percent: Percent = 65.0
    """The capacity of a run is drawn between these, relative to the line's limit."""
    buffer_datagrams: PositiveInt = 2
    stall_ms: PositiveFloat = 5.0
    stall_interval_s: PositiveFloat = 30.0
    """Mean time from one stall to the next, exponential."""
    pause_s: Annotated[float, Field(ge=0)] = 7.0
    """Waiting in each trial: 2 s for late frames, 5 s to settle (RFC 2544, 23)."""
    tolerance_percent: Percent = 1.0
    binary_search: BinarySearchSettings = BinarySearchSettings()
    binary_search_60s: BinarySearchSettings = _BINARY_60_S
    mlrsearch: MlrSettings = MlrSettings()
    mlrsearch_rfc2544: MlrSettings = MlrSettings(goals=[RFC2544_GOAL])
    systematic: SystematicSettings = SystematicSettings()


class _KnownListener:
    """Measures loads on a network whose capacity is known; each trial has a seed of its own.

    Parameters
    ----------
    capacity_pps
        Datagrams a second that the listener can take: the truth.
    settings
        DuplexLink, payload, buffer and stalls.
    stalls
        Whether the listener is stalled at random.
    seed
        Of all trials together, in the order in which they are measured.
    """

    def __init__(
        self, capacity_pps: float, settings: AccuracySettings, *, stalls: bool, seed: SeedSequence
    ) -> None:
        self._settings, self._seed = settings, seed
        self._talker = EndStation(
            port=EgressPort(queue_bytes=_QUEUE_BYTES), send_buffer_bytes=10 * _QUEUE_BYTES
        )
        truesize = sum(udp_truesizes(settings.payload_bytes))
        self._listener = EndStation(
            port=EgressPort(queue_bytes=_QUEUE_BYTES),
            receive_time=Duration(mean_ns=_NANO / capacity_pps),
            receive_buffer_bytes=settings.buffer_datagrams * truesize,
            stalls=_stalls(settings) if stalls else None,
        )

    def __call__(self, load: IntendedLoad) -> LoadOutcome:
        """Simulate one load trial."""
        (seed,) = self._seed.spawn(1)
        network = self._network(load)
        stream = simulate(network, duration_s=load.duration_s, seed=seed).streams["load"]
        return LoadOutcome(
            sent=stream.entered,
            received_total=stream.delivered,
            received_unique=stream.unique,
            sending_s=load.duration_s,
            elapsed_s=load.duration_s + self._settings.pause_s,
        )

    def _network(self, load: IntendedLoad) -> Network:
        wire = DuplexLink(
            name="wire", a="talker", b="listener", rate_mbps=self._settings.link_rate_mbps
        )
        stream = TrafficStream(
            name="load",
            talker="talker",
            listener="listener",
            payload_bytes=load.payload_bytes,
            send=ConstantRate(rate_mbps=load.rate_mbps),
            route=SinglePath(links=["wire"]),
        )
        hosts = {"talker": self._talker, "listener": self._listener}
        return Network(hosts=hosts, links=[wire], streams=[stream])


def _stalls(settings: AccuracySettings) -> Stalls:
    return Stalls(
        interval=Duration(mean_ns=settings.stall_interval_s * _NANO, distribution="erlang"),
        length=Duration(mean_ns=settings.stall_ms * _NANO / 1000),
    )


_SEARCHES = {
    "binary-search": lambda series, s: [binary_search.search(series, s.binary_search)],
    "binary-search-60s": lambda series, s: [binary_search.search(series, s.binary_search_60s)],
    "mlrsearch": lambda series, s: mlr.search(series, s.mlrsearch),
    "mlrsearch-rfc2544": lambda series, s: mlr.search(
        series, s.mlrsearch_rfc2544, "mlrsearch-rfc2544"
    ),
    "systematic": lambda series, s: [systematic.search(series, s.systematic)],
}


def run_accuracy(
    settings: AccuracySettings, seed: int, methods: Collection[str] = tuple(_SEARCHES)
) -> pd.DataFrame:
    """Run searches on ``runs`` networks, without and with stalls.

    The runs of one number share their capacity, over all methods and both kinds; seeds are
    independent otherwise, and the same seed gives the same table.

    Returns
    -------
    pandas.DataFrame
        One row an answer: ``method``; ``answer`` (a goal of MLRsearch, the rule or the threshold of
        the sweep); ``stalls``; ``run``; ``truth_pps`` and ``result_pps`` in datagrams/s (NaN where
        there was no answer); ``ratio`` of the two; ``within`` the tolerance; ``load_trials``;
        ``sending_s``; ``search_s`` with the pauses.
    """
    rows: list[dict[str, object]] = []
    for run in range(settings.runs):
        drawn = np.random.default_rng(SeedSequence((seed, run))).uniform(
            settings.lowest_percent, settings.highest_percent
        )
        for stalls in (False, True):
            for number, method in enumerate(_SEARCHES):
                if method not in methods:
                    continue
                own = SeedSequence((seed, run, int(stalls), number))
                found = _answers(settings, method, drawn / 100, stalls=stalls, seed=own)
                rows += [{"run": run} | answer for answer in found]
    return pd.DataFrame(rows)


def _answers(
    settings: AccuracySettings,
    method: str,
    share_of_line: float,
    *,
    stalls: bool,
    seed: SeedSequence,
) -> list[dict[str, object]]:
    """Return one row an answer of one search."""
    sut = SystemUnderTest("control", settings.payload_bytes, settings.link_rate_mbps)
    capacity = share_of_line * sut.line_pps
    series = Series(_KnownListener(capacity, settings, stalls=stalls, seed=seed), sut)
    rows = []
    for answer, result_pps, allowed_percent in _results(_SEARCHES[method](series, settings)):
        # With a share of loss allowed, the truth is the load that loses just that share.
        truth = capacity / (1 - allowed_percent / 100)
        ratio = float("nan") if result_pps is None else result_pps / truth
        rows.append(
            {
                "method": method,
                "answer": answer,
                "stalls": stalls,
                "truth_pps": truth,
                "result_pps": result_pps,
                "ratio": ratio,
                "within": abs(ratio - 1) <= settings.tolerance_percent / 100,
                "load_trials": len(series.trials),
                "sending_s": series.sending_s,
                "search_s": series.search_s,
            }
        )
    return rows


def _results(results: list[ThroughputResult]) -> list[tuple[str, float | None, float]]:
    answers = [(result.goal, result.lower_pps, result.loss_percent) for result in results]
    thresholds = [result.threshold for result in results if result.threshold is not None]
    return answers + [("threshold", found["value"], 0.0) for found in thresholds]
