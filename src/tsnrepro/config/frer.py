"""Settings of FRER: sequence recovery and latent error detection (IEEE Std 802.1CB-2017, clause 7).

Their defaults are here alone; the emulated switch, the model, captures and studies share them.
"""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import ConfigModel

_Algorithm = Literal["vector", "match"]
_HistoryLength = Annotated[int, Field(ge=2, le=2048)]
"""frerSeqRcvyHistoryLength (10.4.1.6); the upper limit is that of the eBPF switch."""
_Milliseconds = Annotated[int, Field(ge=1, le=3_600_000)]

HISTORY_LENGTH = 1024
"""That of the published methodology's switches: 1,024 full frames are 12.6 ms at 1 Gb/s. The
standard's default of 2 suits paths of equal delay."""
RESET_MS = 2000
"""frerSeqRcvyResetMSec (10.4.1.7)."""

Elimination = Literal["switch", "listener"]
"""Where a stream's sequence recovery function is: in the relay system before the listener (the
second switch), or in the listener itself (IEEE Std 802.1CB-2017, Annex C). The listener's replies
are replicated by the second switch and recovered by the first in either case."""

RECOVERY_COUNTERS = ("out_of_order", "rogue", "passed", "discarded", "lost", "tagless", "resets")
"""Our names of a recovery function's counters (10.8), in the standard's order."""


class FrerSettings(ConfigModel):
    """The recovery function of a stream (managed objects of IEEE Std 802.1CB-2017, 10.4.1)."""

    algorithm: _Algorithm = "vector"
    """Recovery algorithm: ``vector`` (7.4.3.4), or ``match`` (7.4.3.5) for intermittent streams."""
    history_length: _HistoryLength = HISTORY_LENGTH
    """Sequence numbers that the vector algorithm remembers, 2 to 2,048. The default is that of the
    published methodology: 1,024 full frames are 12.6 ms at 1 Gb/s."""
    reset_ms: _Milliseconds = RESET_MS
    """Time without an accepted frame after which any sequence number is accepted, in ms."""
    take_no_sequence: bool = False
    """Pass frames without an R-TAG (frerSeqRcvyTakeNoSequence)."""


class LatentSettings(ConfigModel):
    """Latent error detection (IEEE Std 802.1CB-2017, 7.4.4), with the defaults of 10.4.1.12."""

    period_ms: _Milliseconds = 2000
    """Time between two tests (frerSeqRcvyLatentErrorPeriod), in ms."""
    reset_ms: _Milliseconds = 30_000
    """Time between two resets of the counters (frerSeqRcvyLatentResetPeriod), in ms."""
    difference: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    """Largest difference between discarded and expected copies that raises no alarm
    (frerSeqRcvyLatentErrorDifference)."""
