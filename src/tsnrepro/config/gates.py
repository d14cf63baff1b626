"""Gate control lists (IEEE Std 802.1Q-2022, 8.6.8.4): windows, cycle time, base time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tsnrepro.config.base import ConfigModel, PositiveInt

TrafficClass = Annotated[int, Field(ge=0, le=7)]


class GateWindow(ConfigModel):
    """One entry of a gate control list: the traffic classes that are open, and for how long."""

    open_classes: list[TrafficClass]
    interval_ns: PositiveInt

    @property
    def mask(self) -> int:
        """The gate states as taprio's ``sched-entry S`` takes them: bit n is traffic class n."""
        return sum(1 << number for number in set(self.open_classes))


class GateControlList(ConfigModel):
    """A gate control list (IEEE Std 802.1Q-2022, 8.6.8.4 and 8.6.9).

    ``cycle_ns`` is the sum of the intervals where it is not given. ``base_time_ns`` is TAI.
    """

    entries: Annotated[list[GateWindow], Field(min_length=1)]
    cycle_ns: PositiveInt | None = None
    base_time_ns: Annotated[int, Field(ge=0)] = 0
    guard_band: bool = True

    @property
    def sum_ns(self) -> int:
        """The sum of the intervals, in nanoseconds."""
        return sum(entry.interval_ns for entry in self.entries)

    @property
    def cycle(self) -> int:
        """The cycle time, in nanoseconds."""
        return self.cycle_ns or self.sum_ns

    def windows_ns(self, traffic_class: int) -> list[tuple[int, int]]:
        """Return when a class is open in the cycle, as (from, until) in nanoseconds, in order.

        Neighbouring entries are joined, also through the cycle's end: such a window ends beyond
        the cycle. A class that never closes has one window of the whole cycle. Entries beyond the
        cycle are cut; where they end before it, the last one is held.
        """
        joined: list[tuple[int, int]] = []
        begin = 0
        for number, entry in enumerate(self.entries, 1):
            last = number == len(self.entries)
            end = self.cycle if last else min(self.cycle, begin + entry.interval_ns)
            if begin < end and traffic_class in entry.open_classes:
                if joined and joined[-1][1] == begin:
                    joined[-1] = (joined[-1][0], end)
                else:
                    joined.append((begin, end))
            begin = end
        if len(joined) > 1 and joined[0][0] == 0 and joined[-1][1] == self.cycle:
            (_, first_end), (last_begin, _) = joined[0], joined[-1]
            joined = [*joined[1:-1], (last_begin, self.cycle + first_end)]
        return joined

    def always_open(self, traffic_class: int) -> bool:
        """Tell whether a class's gate never closes."""
        return self.windows_ns(traffic_class) == [(0, self.cycle)]
