"""The stall meter: its command, and what it found."""

from dataclasses import dataclass
from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.native.streams.command import options, read_document, typed


@dataclass(frozen=True)
class ProcessorStalls:
    """What one processor did to a program that had to run at some instants.

    Attributes
    ----------
    processor
        Its number.
    checks
        Instants at which a thread was to run there.
    used_ns
        Processor time that the checks took.
    stalls
        Checks at which it ran later than the threshold; ``stalls / checks`` is the chance that a
        program which has something to do waits as long.
    stalled_ns
        How much later, over these checks.
    longest_ns
        The latest of all checks, the threshold aside.
    kept
        The longest stalls (64 at most): when it should have run (CLOCK_TAI, ns), how much later
        it did (ns).
    """

    processor: int
    checks: int
    used_ns: int
    stalls: int
    stalled_ns: int
    longest_ns: int
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class StallReport:
    """The stalls of all processors that a program may run on, over ``seconds``."""

    threshold_ns: int
    seconds: float
    processors: tuple[ProcessorStalls, ...]

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
        """Chance that a program with something to do waits longer than the threshold."""
        return self.stalls / max(1, sum(each.checks for each in self.processors))

    @property
    def cost(self) -> float:
        """Part of a processor's time that the meter took, on average over processors."""
        used = sum(each.used_ns for each in self.processors)
        if not self.seconds:
            return 0.0
        return used / 1e9 / self.seconds / len(self.processors)

    def values(self) -> dict[str, Any]:
        """Return what a trial's record keeps, in milliseconds."""
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
    """Return the command of a stall meter, which ends by itself after ``seconds`` or by a signal.

    ``budget_ppm`` is the part of each processor that it may take, in millionths; the head of
    stallmeter.c says how it keeps to that.
    """
    values = {"seconds": seconds, "threshold-us": threshold_us, "budget-ppm": budget_ppm}
    return [program, *options(values)]


def parse_stalls(text: str) -> StallReport:
    """Read what a stall meter printed; a ``ready`` line before it is passed over.

    Raises
    ------
    ToolError
        The text is not a stall meter's report, or a field is missing or contradicts another.
    """
    document = read_document(text, "stallmeter")
    processors = document.get("processors")
    if not isinstance(processors, list) or not processors:
        raise ToolError("the stall meter's report has no processors")
    document["processors"] = tuple(_processor(each) for each in processors)
    report = typed(StallReport, document, "stallmeter")
    for each in report.processors:
        if each.stalls > each.checks or len(each.kept) > each.stalls:
            raise ToolError(
                f"processor {each.processor}: {each.stalls} stalls at {each.checks} checks, "
                f"{len(each.kept)} of them kept"
            )
    return report


def _processor(values: Any) -> ProcessorStalls:
    found = typed(ProcessorStalls, values, "stallmeter's processor")
    try:
        kept = tuple((int(due), int(late)) for due, late in found.kept)
    except (TypeError, ValueError) as error:
        raise ToolError(f"the stall meter's stalls are no pairs of times: {error}") from error
    return ProcessorStalls(**{**vars(found), "kept": kept})
