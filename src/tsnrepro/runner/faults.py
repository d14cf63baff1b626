"""What goes wrong during a run, and when: one timeline for every kind of testbed."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tsnrepro.config.frer import LatentSettings

FaultKind = Literal["cut", "repair", "impair", "stick", "free", "restart"]


@dataclass(frozen=True)
class Fault:
    """One event, ``at_s`` seconds after the first datagram.

    ``cut`` and ``repair`` a member path's link; ``impair`` it from now on (0 and 0 heals it);
    ``stick`` and ``free`` the stream's sequence generator; ``restart`` a switch's sequence
    functions.
    """

    at_s: float
    kind: FaultKind
    path: int | None = None
    loss_percent: float = 0.0
    duplicate_percent: float = 0.0
    switch: str | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the event as plain values."""
        return {key: value for key, value in asdict(self).items() if value not in (None, 0.0)}


@dataclass(frozen=True)
class Timeline:
    """The events of a run in order of time, and the detection of latent errors beside it."""

    faults: tuple[Fault, ...] = ()
    latent: LatentSettings | None = None


NOTHING = Timeline()
"""A run without faults."""


@dataclass(frozen=True)
class AppliedFault:
    """An event as it took effect: between two times, in seconds after the first datagram."""

    fault: Fault
    from_s: float
    until_s: float

    def as_record(self) -> dict[str, Any]:
        """Return the event as plain values."""
        return self.fault.as_record() | {"from_s": self.from_s, "until_s": self.until_s}


@dataclass(frozen=True)
class LatentAlarm:
    """An alarm of latent error detection, in seconds after the first datagram."""

    at_s: float
    difference: int
