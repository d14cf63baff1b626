"""Measure a trial of ``mausezahn``: what a generator that sleeps between frames reaches.

The documents ran it for six frame sizes at seven shares of the line rate and took the ratio of
planned and needed time for a throughput. Here the packet rate is measured at the first switch
while frames flow, which separates the generator's limit from the network's. A run that its
deadline ends is a timeout, not a rate.
"""

from typing import Any, Literal

from tsnrepro.common.ethernet import udp_payload, wire_bytes
from tsnrepro.experiments.mausezahn.plan import Factors
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import Testbed
from tsnrepro.tools.mausezahn import delay_us

# An achieved rate this close to the target counts as the target: the samples' clock resolves no
# more.
_REACHED = 0.97

LimitedBy = Literal["nothing", "generator", "network"]


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    factors, requests = Factors.of(trial), backend(testbed, trial, measured)
    frame = factors.frame_bytes
    target = target_pps(frame, factors.load_percent, requests.link_rate_mbps)
    load = IntendedLoad(factors.configuration, udp_payload(frame), target, factors.duration_s)
    outcome = requests.mausezahn_load(load, factors.deadline_s, factors.port)
    measured.values |= {"result": result(load, outcome, frame), "recovery": outcome.recovery}


def target_pps(frame_bytes: int, load_percent: float, link_rate_mbps: float) -> float:
    """Return the frames a second of a share of line rate, preamble and gap included."""
    return link_rate_mbps * 1e6 * load_percent / 100 / (8 * wire_bytes(frame_bytes))


def result(load: IntendedLoad, outcome: LoadOutcome, frame_bytes: int) -> dict[str, Any]:
    """Return what a record keeps of a run: counts, rates by layer, and what limited it.

    ``achieved_pps`` was seen at the first switch while frames flowed, ``timed_out``: the
    deadline ended the run, so that no rate follows from its count and its time.
    """
    achieved = outcome.offered_pps
    delivered = achieved * outcome.received_unique / outcome.sent if outcome.sent else 0.0
    return {
        "target_pps": load.rate_pps,
        "delay_us": delay_us(load.rate_pps),
        "planned_frames": load.datagrams,
        "into_first_switch": outcome.sent,
        "at_listener": outcome.received_unique,
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
