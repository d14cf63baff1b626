"""Settings of the testbeds: one model a kind."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.settings.strict import PositiveInt, Strict


class FrerSettings(Strict):
    """IEEE 802.1CB-2017 clause 10 variables of the recovery function."""

    algorithm: Literal["vector", "match"] = "vector"
    history_length: Annotated[int, Field(ge=2, le=2048)] = 512
    reset_ms: PositiveInt = 2000
    take_no_sequence: bool = False


class EmulatedSettings(Strict):
    """The testbed of network namespaces on this machine."""

    kind: Literal["emulated"] = "emulated"
    link_rate_mbps: PositiveInt = 1000
    """Wire rate of every link: preamble, gap and FCS are counted."""
    queue_bytes: PositiveInt = 262144
    """Limit of each egress queue."""
    burst_bytes: PositiveInt = 64000
    """What a link may send at once after being idle (token bucket depth).

    It bridges the lateness of the kernel's timers: with 16,000 bytes (0.13 ms) a busy machine
    of two processors carried half of the line rate, with 64,000 bytes nearly all of it.
    """
    paths: Annotated[int, Field(ge=1, le=8)] = 2
    frer: FrerSettings = FrerSettings()
    locate_drops: bool = True
    """Trace the kernel's drops of the stream by function and reason."""
    processors: dict[Literal["talker", "listener"], int] = {}
    """Processor that a host's measuring tool is bound to; empty lets the kernel choose."""
