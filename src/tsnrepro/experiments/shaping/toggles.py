"""Gates toggled within a trial: when they were enabled and disabled, on the log's clock.

A trial begins with its gates enabled. Between two phases is the time that toggling took.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tsnrepro.experiments.shaping.log import Records

_KEY = "gate_phases"


@dataclass(frozen=True)
class GatePhase:
    """A time during which the gates were enabled, or disabled, all along; until is not part."""

    enabled: bool
    from_ns: int
    until_ns: int

    def of(self, log: Records, settling: float = 0.0) -> Records:
        """Return the datagrams sent in the phase, without those of its first share."""
        since = self.from_ns + settling * (self.until_ns - self.from_ns)
        return log[(log["sent_ns"] >= since) & (log["sent_ns"] < self.until_ns)]


def phases_between(
    toggled_ns: Sequence[tuple[int, int]], first_ns: int, last_ns: int
) -> list[GatePhase]:
    """Return the phases of a trial; one that toggling left no time for is none.

    ``toggled_ns``: when each toggling began and had ended; ``first_ns`` and ``last_ns``: when the
    first and the last datagram were sent.
    """
    begins = [first_ns, *(ended for _, ended in toggled_ns)]
    ends = [*(began for began, _ in toggled_ns), last_ns + 1]
    spans = enumerate(zip(begins, ends, strict=True))
    return [GatePhase(place % 2 == 0, begin, end) for place, (begin, end) in spans if begin < end]


def recorded(phases: Sequence[GatePhase]) -> dict[str, Any]:
    """Return a trial's values of its phases."""
    return {_KEY: [asdict(phase) for phase in phases]}


def phases_of(values: Mapping[str, Any]) -> list[GatePhase]:
    """Return the phases in a trial's values, in order."""
    return [GatePhase(**phase) for phase in values[_KEY]]
