"""The command of the stall meter, and its report."""

from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from tsnrepro.common.errors import ToolError
from tsnrepro.native.streams.command import REPORT, Amount, options, read_report
from tsnrepro.tools.parsing import Count


@checked_dataclass(frozen=True, config=REPORT)
class ProcessorStalls:
    """The stalls of one processor, for a thread that was to run at certain times."""

    processor: Count
    checks: Count
    """Times at which the thread was to run."""
    used_ns: Count
    """Processor time that the checks took."""
    stalls: Count
    """Checks at which it was later than the threshold; ``stalls / checks`` is the probability that
    a program with something to do waits as long."""
    stalled_ns: Count
    """Their total lateness."""
    longest_ns: Count
    """The greatest lateness of all checks."""
    kept: list[tuple[int, int]]
    """The longest stalls (64 at most): when the thread was to run (CLOCK_TAI, ns) and how late
    it was (ns)."""


@checked_dataclass(frozen=True, config=REPORT)
class StallReport:
    """The stalls of all processors that a program may run on, over ``seconds``."""

    threshold_ns: Count
    seconds: Amount
    processors: Annotated[list[ProcessorStalls], Field(min_length=1)]

    @property
    def longest_ns(self) -> int:
        """The longest time that a processor kept a thread from running."""
        return max(each.longest_ns for each in self.processors)

    @property
    def stalls(self) -> int:
        """Checks of all processors that were late."""
        return sum(each.stalls for each in self.processors)

    @property
    def stalled_share(self) -> float:
        """Probability that a program with something to do waits longer than the threshold."""
        return self.stalls / max(1, sum(each.checks for each in self.processors))

    @property
    def cost(self) -> float:
        """Share of processor time that the meter used, averaged over processors."""
        used = sum(each.used_ns for each in self.processors)
        if not self.seconds:
            return 0.0
        return used / 1e9 / self.seconds / len(self.processors)

    def values(self) -> dict[str, Any]:
        """Return the values of a trial's record, in milliseconds."""
        return {
            "threshold_ms": self.threshold_ns / 1e6,
            "seconds": self.seconds,
            "longest_ms": self.longest_ns / 1e6,
            "stalls": self.stalls,
            "stalled_share": self.stalled_share,
            "cost": self.cost,
            "processors": {
                str(each.processor): {
                    "checks": each.checks,
                    "stalls": each.stalls,
                    "stalled_ms": each.stalled_ns / 1e6,
                    "longest_ms": each.longest_ns / 1e6,
                }
                for each in self.processors
            },
        }


def stall_meter(
    program: str,
    *,
    seconds: float | None = None,
    threshold_us: int | None = None,
    budget_ppm: int | None = None,
) -> list[str]:
    """Return the command of a stall meter, which ends after ``seconds`` or by a signal.

    ``budget_ppm`` is the share of each processor that it may use, in millionths; see stallmeter(1).
    """
    values = {"seconds": seconds, "threshold-us": threshold_us, "budget-ppm": budget_ppm}
    return [program, *options(values)]


def parse_stalls(text: str) -> StallReport:
    """Parse the output of a stall meter; a ``ready`` line before the report is skipped.

    Raises ToolError if the text is not a stall meter's report, or a field is missing or contradicts
    another.
    """
    report = read_report(StallReport, text, "stallmeter")
    for each in report.processors:
        if each.stalls > each.checks or len(each.kept) > each.stalls:
            raise ToolError(
                f"processor {each.processor}: {each.stalls} stalls at {each.checks} checks, "
                f"{len(each.kept)} of them kept"
            )
    return report
