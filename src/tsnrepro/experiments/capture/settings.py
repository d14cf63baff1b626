"""Settings of the experiment ``capture``."""

from tsnrepro.config.base import (
    CONFIGURATIONS,
    ConfigModel,
    Configurations,
    OneOrMore,
    RatesMbps,
    Repetitions,
    UdpPayload,
    WholeSeconds,
)
from tsnrepro.config.registry import EMULATED, RACK, Experiment


class CapturePart(ConfigModel):
    """Loads to capture at one payload."""

    payload_bytes: UdpPayload
    """UDP payload, in bytes."""
    rates_mbps: RatesMbps
    """Offered loads as payload rates, in Mb/s."""
    duration_s: WholeSeconds
    """Duration of a trial, in whole seconds."""


class CaptureSettings(ConfigModel):
    """Captures at the member ports and at the listener, while ``iperf3 -u`` sends."""

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Trials of each load and configuration."""
    parts: OneOrMore[CapturePart]
    """Loads to capture."""


EXPERIMENT = Experiment(
    CaptureSettings,
    title="Captures at the member ports",
    kinds=(EMULATED, RACK),
    keeps_frames=True,
    order=8,
    tables=("findings",),
    figures={"path-delay": "By how much the second copy came later"},
    keys=(
        "capture.{captured,tagged,missing,out_of_order,repeated,ties,trials,trials.agreeing}.count",
        "capture.frer.{trials,stream_frames,tagged_stream,single_copies,beyond_first}.count",
        "capture.frer.{out_of_order,repeated}.count",
        "capture.frer.first_number.{lowest,highest}",
        "capture.shown.{tagged,from_zero,ordered,both_paths,single_delivery}",
        "capture.disagreements.{capture,wire,counters}.count",
        "capture.won.*.*.*.percent",
        "capture.path_delay.*.*.*.us",
    ),
)
