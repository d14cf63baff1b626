"""Gate control lists (IEEE Std 802.1Q-2022, 8.6.8.4): gate windows, cycle time, base time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tsnrepro.config.base import ConfigModel, PositiveInt, formerly

TrafficClass = Annotated[int, Field(ge=0, le=7)]


class GateWindow(ConfigModel):
    """One entry of a gate control list: the traffic classes that are open, and for how long."""

    open_classes: list[TrafficClass]
    """Traffic classes whose gates are open, 0 to 7."""
    interval_ns: PositiveInt
    """Duration of the entry, in ns."""

    @property
    def mask(self) -> int:
        """The gate states as a bit mask, as in taprio's ``sched-entry S``: bit n is class n."""
        return sum(1 << number for number in set(self.open_classes))


class GateControlList(ConfigModel):
    """A gate control list (IEEE Std 802.1Q-2022, 8.6.8.4 and 8.6.9)."""

    entries: Annotated[list[GateWindow], Field(min_length=1)]
    """Gate states in the order of the cycle."""
    cycle_time_ns: Annotated[PositiveInt | None, formerly("cycle_ns")] = None
    """Cycle time, in ns; by default the sum of the intervals."""
    base_time_ns: Annotated[int, Field(ge=0)] = 0
    """Base time, in ns of TAI. 0 starts cycles at multiples of the cycle time."""
    guard_band: bool = True
    """Start no frame that would not end before its gate closes."""

    @property
    def sum_ns(self) -> int:
        """The sum of the intervals, in nanoseconds."""
        return sum(entry.interval_ns for entry in self.entries)

    @property
    def cycle(self) -> int:
        """The cycle time, in nanoseconds."""
        return self.cycle_time_ns or self.sum_ns

    def windows_ns(self, traffic_class: int) -> list[tuple[int, int]]:
        """Return a class's gate windows in the cycle, as (start, end) in nanoseconds, in order.

        Adjacent entries are joined, also across the end of the cycle: such a window ends after
        it. A gate that never closes has one window, the whole cycle. Entries beyond the cycle are
        cut; if they end before it, the last state is held.
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
