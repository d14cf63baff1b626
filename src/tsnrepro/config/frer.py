"""Settings of FRER: sequence recovery and latent error detection (IEEE Std 802.1CB-2017, clause 7).

The only place with their defaults: the emulated switch, the model, captures and studies take them
from here.
"""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import ConfigModel

_Algorithm = Literal["vector", "match"]
_HistoryLength = Annotated[int, Field(ge=2, le=2048)]
"""frerSeqRcvyHistoryLength (10.4.1.6); the upper bound is the eBPF switch's."""
_Milliseconds = Annotated[int, Field(ge=1, le=3_600_000)]

HISTORY_LENGTH = 1024
"""That of the published methodology's switches. The standard's default of 2 suits a path without
delay difference; 1,024 full frames are 12.6 ms at 1 Gb/s."""
RESET_MS = 2000
"""frerSeqRcvyResetMSec: what a stream's silence may last before any number is taken."""

Elimination = Literal["switch", "listener"]
"""Where a stream's sequence recovery function is: in the relay system before the listener (the
second switch), or in the end system itself (IEEE Std 802.1CB-2017, Annex C). Answers of the
listener are numbered and copied by the second switch and recovered by the first in either case."""

RECOVERY_COUNTERS = ("out_of_order", "rogue", "passed", "discarded", "lost", "tagless", "resets")
"""What the counters of a recovery function (10.8) are called, in the standard's order."""


class FrerSettings(ConfigModel):
    """The recovery function of a stream (managed objects of IEEE Std 802.1CB-2017, 10.4.1)."""

    algorithm: _Algorithm = "vector"
    history_length: _HistoryLength = HISTORY_LENGTH
    """How far behind the highest sequence number a frame is still told from a copy."""
    reset_ms: _Milliseconds = RESET_MS
    """Time without an accepted frame after which recovery takes any sequence number."""
    take_no_sequence: bool = False
    """Whether frames without an R-TAG are passed on."""


class LatentSettings(ConfigModel):
    """Latent error detection; defaults are those of IEEE Std 802.1CB-2017, 10.4.1.12."""

    period_ms: _Milliseconds = 2000
    reset_ms: _Milliseconds = 30_000
    difference: Annotated[int, Field(ge=0, le=1_000_000)] = 100
