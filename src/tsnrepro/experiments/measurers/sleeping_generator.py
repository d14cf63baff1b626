"""What both kinds of testbed say of a generator that sleeps between frames."""

from dataclasses import asdict, dataclass

from tsnrepro.experiments.mausezahn import HEADERS_AND_FCS_BYTES, limited_by
from tsnrepro.records.store import Trial


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
