"""Experiment ``mausezahn``: what a generator that sleeps between frames reaches.

The documents ran it for six frame sizes at seven shares of the line rate and took the ratio of
planned and needed time for a throughput. Here the achieved packet rate is measured at the first
switch while frames flow, so the generator's own limit is told from the network's, and a run that
its deadline ends is a timeout, not a rate.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from tsnrepro.common.ethernet import udp_payload, wire_bytes
from tsnrepro.experiments.mausezahn.settings import MausezahnSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, full_factorial, planned_in_blocks
from tsnrepro.testbeds.protocol import Testbed
from tsnrepro.tools.mausezahn import PORT, delay_us

_SET_UP_SECONDS = 1.5
# An achieved rate this close to the target is the target; the clock of the samples is no better.
_REACHED = 0.97

LimitedBy = Literal["nothing", "generator", "network"]


def plan(settings: MausezahnSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, frame size, share of line rate and repetition."""
    trials = full_factorial(
        *("mausezahn", "{configuration}-{frame_bytes}B-{load_percent:g}%", settings),
        ["duration_s", "deadline_s"],
        configuration=settings.configurations,
        frame_bytes=settings.frames_bytes,
        load_percent=settings.loads_percent,
    )
    ported = [_with_port(trial, settings.ports) for trial in trials]
    return planned_in_blocks(ported, seed, kind, _SET_UP_SECONDS)


def _with_port(trial: Trial, ports: Sequence[int]) -> Trial:
    """Return the trial with the port that its repetition takes.

    The usual one is no factor, so that these are the trials of older records.
    """
    port = ports[(trial.repetition - 1) % len(ports)]
    if port == PORT:
        return trial
    return replace(trial, factors=trial.factors | {"port": port})


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    factors, requests = trial.factors, backend(testbed, trial, measured)
    frame = factors["frame_bytes"]
    target = target_pps(frame, factors["load_percent"], requests.link_rate_mbps)
    load = IntendedLoad(factors["configuration"], udp_payload(frame), target, factors["duration_s"])
    outcome = requests.mausezahn_load(load, factors["deadline_s"])
    measured.values |= {"result": result(load, outcome, frame), "recovery": outcome.recovery}


def target_pps(frame_bytes: int, load_percent: float, link_rate_mbps: float) -> float:
    """Return the frames a second of a share of line rate, preamble and gap included."""
    return link_rate_mbps * 1e6 * load_percent / 100 / (8 * wire_bytes(frame_bytes))


def result(load: IntendedLoad, outcome: LoadOutcome, frame_bytes: int) -> dict[str, Any]:
    """Return what a record keeps of a run: counts, rates by layer, and what limited it.

    ``achieved_pps`` was seen at the first switch while frames flowed, ``timed_out`` tells that the
    deadline ended the run, so that no rate follows from its count and its time.
    """
    achieved = outcome.offered_pps
    delivered = achieved * outcome.unique / outcome.sent if outcome.sent else 0.0
    return {
        "target_pps": load.rate_pps,
        "delay_us": delay_us(load.rate_pps),
        "planned_frames": load.datagrams,
        "into_first_switch": outcome.sent,
        "at_listener": outcome.unique,
        "achieved_pps": achieved,
        "timed_out": outcome.timed_out,
        "run_seconds": outcome.elapsed_s,
        "delivered_pps": delivered,
        "lost_in_network": outcome.lost,
        "achieved_frame_mbps": achieved * frame_bytes * 8 / 1e6,
        "achieved_payload_mbps": achieved * load.payload_bytes * 8 / 1e6,
        "limited_by": limited_by(load.rate_pps, achieved, delivered),
    }


def limited_by(target: float, achieved: float, delivered: float) -> LimitedBy:
    """Return what kept the delivered rate below the target, all in frames a second."""
    if delivered < achieved * _REACHED:
        return "network"
    return "generator" if achieved < target * _REACHED else "nothing"
