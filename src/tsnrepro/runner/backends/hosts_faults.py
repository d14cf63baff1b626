"""Inject the faults of a timeline on the hosts of a testbed, and say when each took effect."""

import time

from tsnrepro.common.errors import TsnreproError
from tsnrepro.runner.faults import AppliedFault, Fault, LatentAlarm, Timeline
from tsnrepro.testbeds.faults import Event, LatentDetection
from tsnrepro.testbeds.protocol import HostTestbed
from tsnrepro.tools.frerctl import FrerctlAlarm

_PPM_OF_A_PERCENT = 10_000


class FaultInjector:
    """The events of a timeline; at the end of its ``with`` block the testbed is whole again.

    Parameters
    ----------
    testbed, timeline
        Where they take place, and when.
    longest_s
        How long the block may last: so long latent errors are looked for.
    """

    def __init__(self, testbed: HostTestbed, timeline: Timeline, longest_s: float) -> None:
        self.timeline = timeline
        self._testbed, self._longest_s = testbed, longest_s
        self._events: list[tuple[Fault, Event]] = []
        self._detection: LatentDetection | None = None
        self._found: list[FrerctlAlarm] = []

    def __enter__(self) -> "FaultInjector":
        if (latent := self.timeline.latent) is not None:
            self._detection = self._testbed.faults.start_latent(latent, deadline_s=self._longest_s)
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        try:
            if self._detection is not None:
                self._found = self._detection.stop()
        except TsnreproError:
            # What went wrong in the block comes first.
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
        found: dict[Fault, list[Event]] = {}
        for fault, event in self._events:
            found.setdefault(fault, []).append(event)
        return tuple(
            AppliedFault(
                fault,
                (min(e.before_ns for e in events) - first_ns) / 1e9,
                (max(e.after_ns for e in events) - first_ns) / 1e9,
            )
            for fault, events in found.items()
        )

    def alarms(self, first_ns: int) -> tuple[LatentAlarm, ...]:
        """Return the latent errors that were detected, after the first datagram."""
        return tuple(LatentAlarm((a.time_ns - first_ns) / 1e9, a.difference) for a in self._found)
