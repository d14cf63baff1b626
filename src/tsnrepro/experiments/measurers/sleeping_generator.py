"""What both kinds of testbed say of a generator that sleeps between frames."""

from dataclasses import asdict, dataclass
from typing import Literal

from tsnrepro.records.store import Trial

HEADERS_AND_FCS_BYTES = 46
PREAMBLE_AND_GAP_BYTES = 20
# An achieved rate this close to the target is the target; the clock of the samples is no better.
REACHED = 0.97

LimitedBy = Literal["nothing", "generator", "network"]


def target_pps(frame_bytes: int, load_percent: float, link_rate_mbps: float) -> float:
    """Return the frames a second of a share of line rate, preamble and gap included."""
    wire_bits = 8 * (frame_bytes + PREAMBLE_AND_GAP_BYTES)
    return link_rate_mbps * 1e6 * load_percent / 100 / wire_bits


def delay_us(pps: float) -> int:
    """Return the whole microseconds of delay that a script gives mausezahn for a rate.

    As the documents' scripts did: the reciprocal, cut to the resolution of the tool.
    """
    return max(1, int(1e6 / pps))


def limited_by(target: float, achieved: float, delivered: float) -> LimitedBy:
    """Return what kept the delivered rate below the target, all in frames a second."""
    if delivered < achieved * REACHED:
        return "network"
    return "generator" if achieved < target * REACHED else "nothing"


@dataclass(frozen=True)
class Sending:
    """A run of the generator, in frames of the stream.

    ``achieved_pps`` was seen at the first switch while frames flowed, ``timed_out`` tells that the
    deadline ended the run, so that no rate follows from its count and its time.
    """

    target_pps: float
    delay_us: int
    planned_frames: int
    into_first_switch: int
    at_listener: int
    achieved_pps: float
    timed_out: bool
    run_seconds: float


def values(trial: Trial, sending: Sending) -> dict:
    """Return what a record keeps of a run: counts, rates by layer, and what limited it."""
    frame = trial.factors["frame_bytes"]
    entered = sending.into_first_switch
    share = sending.at_listener / entered if entered else 0.0
    delivered = sending.achieved_pps * share
    return asdict(sending) | {
        "delivered_pps": delivered,
        "lost_in_network": entered - sending.at_listener,
        "achieved_frame_mbps": sending.achieved_pps * frame * 8 / 1e6,
        "achieved_payload_mbps": sending.achieved_pps * (frame - HEADERS_AND_FCS_BYTES) * 8 / 1e6,
        "limited_by": limited_by(sending.target_pps, sending.achieved_pps, delivered),
    }
