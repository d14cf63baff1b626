"""Timelines of faults for every kind of testbed, and their injection on hosts."""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tsnrepro.common.errors import TsnreproError
from tsnrepro.config.frer import LatentSettings
from tsnrepro.testbeds.faults import Event, LatentDetection
from tsnrepro.testbeds.protocol import HostTestbed
from tsnrepro.tools.frerctl import FrerctlAlarm

_PPM_OF_A_PERCENT = 10_000

FaultKind = Literal["cut", "repair", "impair", "stick", "free", "restart"]


@dataclass(frozen=True)
class Fault:
    """One event, ``at_s`` seconds after the first datagram.

    ``cut`` and ``repair`` take down and bring up a member path's link; ``impair`` makes it lose or
    duplicate from then on, with 0 and 0 neither; ``stick`` and ``free`` stop and resume the
    stream's sequence generator; ``restart`` restarts a switch's sequence functions.
    """

    at_s: float
    kind: FaultKind
    path: int | None = None
    loss_percent: float = 0.0
    duplicate_percent: float = 0.0
    switch: str | None = None

    @property
    def loses(self) -> bool:
        """Whether its path then loses frames."""
        return self.kind == "cut" or self.loss_percent > 0

    def as_record(self) -> dict[str, Any]:
        """Return the event as plain values."""
        return {key: value for key, value in asdict(self).items() if value not in (None, 0.0)}


def at_once(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Return faults that are there from the beginning."""
    return tuple(replace(fault, at_s=0.0) for fault in faults)


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


class FaultInjector:
    """Injects the faults of a timeline; the end of its ``with`` block clears them all.

    Parameters
    ----------
    testbed, timeline
        Where and when.
    longest_s
        How long the block may last: the deadline of the detection of latent errors.
    """

    def __init__(self, testbed: HostTestbed, timeline: Timeline, longest_s: float) -> None:
        self.timeline = timeline
        self._testbed, self._longest_s = testbed, longest_s
        self._events: list[tuple[Fault, Event]] = []
        self._detection: LatentDetection | None = None
        self._alarms: list[FrerctlAlarm] = []

    def __enter__(self) -> "FaultInjector":
        if (latent := self.timeline.latent) is not None:
            self._detection = self._testbed.faults.start_latent(latent, deadline_s=self._longest_s)
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        try:
            if self._detection is not None:
                self._alarms = self._detection.stop()
        except TsnreproError:
            # An error of the block comes first.
            if error is None:
                raise
        finally:
            if self.timeline.faults:
                self._testbed.faults.clear()

    def run(self) -> None:
        """Inject the faults at their times, from now on."""
        began = time.monotonic()
        for fault in self.timeline.faults:
            time.sleep(max(0.0, began + fault.at_s - time.monotonic()))
            self._events += [(fault, event) for event in self._apply(fault)]

    def _apply(self, fault: Fault) -> list[Event]:
        faults, path = self._testbed.faults, fault.path or 0
        if fault.kind == "cut":
            return [faults.cut(path)]
        if fault.kind == "repair":
            return [faults.repair(path)]
        if fault.kind == "impair":
            return faults.impair(
                path,
                drop_ppm=round(fault.loss_percent * _PPM_OF_A_PERCENT),
                duplicate_ppm=round(fault.duplicate_percent * _PPM_OF_A_PERCENT),
            )
        if fault.kind == "restart":
            return [faults.restart_switch(fault.switch or "sw1")]
        return [faults.stick_generator(stuck=fault.kind == "stick")]

    def applied(self, first_ns: int) -> tuple[AppliedFault, ...]:
        """Return when each event took effect, after the first datagram at ``first_ns`` (TAI)."""
        events_of: dict[Fault, list[Event]] = {}
        for fault, event in self._events:
            events_of.setdefault(fault, []).append(event)
        return tuple(
            AppliedFault(
                fault,
                (min(e.before_ns for e in events) - first_ns) / 1e9,
                (max(e.after_ns for e in events) - first_ns) / 1e9,
            )
            for fault, events in events_of.items()
        )

    def alarms(self, first_ns: int) -> tuple[LatentAlarm, ...]:
        """Return the latent errors that were detected, after the first datagram."""
        return tuple(LatentAlarm((a.time_ns - first_ns) / 1e9, a.difference) for a in self._alarms)
