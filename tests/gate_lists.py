"""Gate control lists for tests."""

from collections.abc import Sequence

from hypothesis import strategies as st

from tsnrepro.config.gates import GateControlList, GateWindow


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


@st.composite
def gate_lists(draw, *, closed: int, interval_ns: tuple[int, int], entries: int, base_ns: int):
    """Return any list: up to so many closed classes, entries of such lengths, and their number.

    The cycle is that of the entries, or shorter or longer than they are.
    """
    windows = draw(
        st.lists(
            st.builds(
                GateWindow,
                open_classes=st.sets(st.integers(0, 7), max_size=closed).map(
                    lambda classes: sorted(set(range(8)) - classes)
                ),
                interval_ns=st.integers(*interval_ns),
            ),
            min_size=1,
            max_size=entries,
        )
    )
    length = sum(entry.interval_ns for entry in windows)
    return GateControlList(
        entries=windows,
        cycle_time_ns=draw(st.one_of(st.just(length), st.integers(length // 2 + 1, 2 * length))),
        base_time_ns=draw(st.integers(0, base_ns)),
        guard_band=draw(st.booleans()),
    )
