"""Experiment ``loss``: UDP frame loss against offered load (RFC 2544, 26.3).

Sent and received by iperf3 or by our own talker and listener. How the receiving program reads is a
factor: its socket's buffer and its priority.
"""

from dataclasses import replace
from itertools import product
from typing import Any

from tsnrepro.experiments.loss.settings import LossPart, LossSettings
from tsnrepro.records.columns import LINK_RATES
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import (
    Planned,
    StallLimits,
    grouped_by_testbed,
    in_blocks,
    in_order_of,
    nominal_seconds,
)
from tsnrepro.testbeds.protocol import Testbed

# Configuring, counters, and of iperf3 a connection; only the first estimate of time uses it.
SET_UP_SECONDS = {"iperf3": 0.7, "talker": 0.4}


def plan(settings: LossSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every part, configuration, load, way to read and repetition.

    Those that need another testbed than configured come after the others, since it is brought up
    anew for them, and last of all those that are measured until a ratio is known.
    """

    def blocks(trials: list[Trial]) -> list[Planned]:
        return in_blocks(trials, seed, lambda trial: _seconds(trial, kind), _testbed)

    further = [
        replace(item, stopping_rule=item.trial.factors["question"])
        for item in blocks(_further(settings))
    ]
    steady = {part.question: StallLimits(part.max_stall_ms) for part in settings.parts}
    planned = [
        replace(item, stall_limits=steady[item.trial.factors["question"]])
        for item in grouped_by_testbed([*blocks(_trials(settings)), *further])
    ]
    # A further repetition is asked for as a whole, on all its testbeds.
    return in_order_of(planned, lambda item: item.trial.repetition if item.stopping_rule else 0)


def _seconds(trial: Trial, kind: str) -> float:
    set_up = SET_UP_SECONDS[trial.factors["generator"]]
    return nominal_seconds(kind, trial.factors["duration_s"], set_up)


def _testbed(trial: Trial) -> dict[str, Any]:
    """Return the settings of the testbed that a trial needs otherwise than configured."""
    own = {name: trial.factors.get(name) for name in (*LINK_RATES, "elimination", "paths")}
    return {name: value for name, value in own.items() if value}


def _trials(settings: LossSettings) -> list[Trial]:
    return [
        trial
        for part in settings.parts
        for trial in _repeated(part, settings, 1, _least(part, settings))
    ]


def _further(settings: LossSettings) -> list[Trial]:
    """Return the trials of repetitions that are measured only as long as a ratio is not known."""
    return [
        trial
        for part in settings.parts
        if part.most_repetitions
        for trial in _repeated(part, settings, _least(part, settings) + 1, part.most_repetitions)
    ]


def _least(part: LossPart, settings: LossSettings) -> int:
    return part.repetitions or settings.repetitions


def _repeated(part: LossPart, settings: LossSettings, first: int, last: int) -> list[Trial]:
    """Return the trials of a part in some repetitions, the last one too."""
    return [
        _trial(part, over, rate, reader, repetition)
        for repetition in range(first, last + 1)
        for rate in part.rates_mbps
        for reader in product(part.receive_buffers_bytes, part.realtime_listeners)
        for over in _configured(part, settings)
    ]


def _configured(part: LossPart, settings: LossSettings) -> list[tuple[str, int | None]]:
    """Return the configurations, each with its number of member paths if the part asks for several.

    Control sends over the first path: with the fewest, whose testbed is up for FRER anyway.
    """
    if part.paths is None:
        return [(configuration, None) for configuration in settings.configurations]
    tried = {"control": [min(part.paths)], "frer": part.paths}
    return [(each, paths) for each in settings.configurations for paths in tried[each]]


def _trial(
    part: LossPart,
    over: tuple[str, int | None],
    rate_mbps: float,
    reader: tuple[int | None, bool | None],
    repetition: int,
) -> Trial:
    question = "" if part.question == "sweep" else f"{part.question}-"
    phase = f"phase{part.phase}-" if part.phase else ""
    configuration, paths = over
    whole = part.duration_s == int(part.duration_s)
    factors = {
        "question": part.question,
        "configuration": configuration,
        "payload_bytes": part.payload_bytes,
        "rate_mbps": rate_mbps,
        "duration_s": int(part.duration_s) if whole else part.duration_s,
        "generator": part.generator,
        "receive_buffer_bytes": reader[0],
        "realtime_listener": reader[1],
        "send_buffer_bytes": part.send_buffer_bytes,
        "member_link_rate_mbps": part.member_link_rate_mbps,
    }
    if part.phase:
        factors["phase"] = part.phase
    if part.link_rate_mbps:
        factors["link_rate_mbps"] = part.link_rate_mbps
    if part.question == "elimination":
        factors["elimination"] = "listener"
    if paths:
        factors["paths"] = paths
    many = f"-{paths}paths" if paths else ""
    load = f"{part.payload_bytes}B-{rate_mbps:g}M"
    label = f"{question}{phase}{configuration}-{load}{_label(*reader)}{many}"
    return Trial("loss", label, factors, repetition)


def _label(receive_buffer_bytes: int | None, realtime: bool | None) -> str:
    buffer = f"-buffer{receive_buffer_bytes}" if receive_buffer_bytes else ""
    return buffer + {None: "", False: "-ordinary", True: "-realtime"}[realtime]


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: send, count what arrived, and say where the rest went."""
    load, requests = IntendedLoad.of_factors(trial.factors), backend(testbed, trial, measured)
    if trial.factors.get("generator", "iperf3") == "iperf3":
        outcome = requests.udp(load)
    else:
        (outcome,) = requests.constant_rate([load])
    measured.values |= outcome.values(load.payload_bytes)
