"""Gate control lists for tests."""

from collections.abc import Sequence

from tsnrepro.settings.shaping import GateControlList, GateWindow


def two_windows(
    open_ns: int, closed_ns: int, *, scheduled: int, others: Sequence[int]
) -> GateControlList:
    """Return the usual list: a window for the scheduled class, the rest for all others."""
    return GateControlList(
        entries=[
            GateWindow(open_classes=[scheduled], interval_ns=open_ns),
            GateWindow(open_classes=list(others), interval_ns=closed_ns),
        ]
    )
