"""What a listener sees while one member path is cut under load, and repaired."""

import numpy as np
import numpy.typing as npt

from tsnrepro.common.errors import ToolError
from tsnrepro.runner.faults import AppliedFault
from tsnrepro.runner.load import IntendedLoad, LoadOutcome

_MEGA = 1e6
# What was on its way when a link went down arrives within this; queues are empty at such loads.
_IN_FLIGHT_S = 1e-3


def failover(outcome: LoadOutcome, load: IntendedLoad) -> dict[str, float | int | None]:
    """Return what arrived before, during and after the cut, and for how long nothing did.

    A gap belongs to a fault if it overlaps the time from its first effect to 1 ms after its last;
    to the cut belongs the one before the first arrival that was sent after it, too. Hosts make gaps
    of their own, so the longest of the cut is held against the gaps of neither fault: by their
    number, and by windows as long as the cut's, side by side, because the longest of many gaps is
    longer than most.

    Parameters
    ----------
    outcome
        A run with its arrivals, whose faults are one cut and one repair.
    load
        What was sent.

    Returns
    -------
    dict
        ``before_mbps``, ``during_mbps``, ``after_mbps``: payload rate at the listener.
        ``recovery_ms``: the longest gap between arrivals at the cut. ``elsewhere_ms``: the longest
        at neither fault. ``as_long_percent``: the share of the gaps at neither fault that are as
        long as the cut's or longer, ``as_long_windows_percent`` that of the windows with such a
        gap; None where there are none. ``sent_while_cut``, ``lost_while_cut``: datagrams sent from
        the cut to the repair, and those of them that never came, with those on their way when the
        link went down.

    Raises
    ------
    ValueError
        The run kept no arrivals, or its faults are others.
    ToolError
        The path came up again only when sending had ended.
    """
    cut, repair = _cut_and_repair(outcome)
    times, sent_s = _first_arrivals_s(outcome)
    end = outcome.sending_s
    if repair.until_s >= end:
        raise ToolError(
            f"the path was up again {repair.until_s:.2f} s after the first datagram, and the last "
            f"was sent at {end:.2f} s",
            "failover",
            "Let `failure.durations_s` of the campaign give the scenario longer: a copper link "
            "takes seconds to come up",
        )
    windows = ((0.0, cut.from_s), (cut.until_s, repair.from_s), (repair.until_s, end))
    rates = [_rate_mbps(times, window, load.payload_bytes) for window in windows]
    # What never comes again is silent to the end.
    edges = np.concatenate([[0.0], times, [max(end, times[-1] if len(times) else 0.0)]])
    lost_s = outcome.sending_times_of_lost() if outcome.lost else np.empty(0)
    came, lost = (_sent_within(each, cut.from_s, repair.until_s) for each in (sent_s, lost_s))
    return {
        **dict(zip(("before_mbps", "during_mbps", "after_mbps"), rates, strict=True)),
        **_gaps(edges, sent_s, cut, repair),
        "sent_while_cut": came + lost,
        "lost_while_cut": lost,
    }


def _cut_and_repair(outcome: LoadOutcome) -> tuple[AppliedFault, AppliedFault]:
    kinds = [applied.fault.kind for applied in outcome.faults]
    if kinds != ["cut", "repair"]:
        raise ValueError(f"a failover has one cut and one repair, not {kinds}")
    cut, repair = outcome.faults
    return cut, repair


def _first_arrivals_s(
    outcome: LoadOutcome,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return when each number first came and when it was sent, in order of arrival.

    Both are in seconds after the first was sent.
    """
    if outcome.arrivals is None:
        raise ValueError("the run kept no arrivals")
    _, first = np.unique(outcome.arrivals["sequence"], return_index=True)
    received, sent = (
        (outcome.arrivals[name][first].astype(np.int64) - outcome.first_ns) / 1e9
        for name in ("received_ns", "sent_ns")
    )
    order = np.argsort(received, kind="stable")
    return received[order], sent[order]


def _rate_mbps(
    times: npt.NDArray[np.float64], window: tuple[float, float], payload_bytes: int
) -> float:
    begin, end = window
    came = np.searchsorted(times, [begin, end])
    return float(came[1] - came[0]) * payload_bytes * 8 / _MEGA / (end - begin)


def _gaps(
    edges: npt.NDArray[np.float64],
    sent_s: npt.NDArray[np.float64],
    cut: AppliedFault,
    repair: AppliedFault,
) -> dict[str, float | None]:
    """Return the longest gap of the cut, and how it stands among those of neither fault."""
    begins, ends = edges[:-1], edges[1:]
    # Logs have whole nanoseconds, so that equal gaps are equal.
    gaps_ns = np.rint(1e9 * np.diff(edges))
    of_cut = _touches(begins, ends, cut)
    # A stall keeps what was sent before the cut for later: the gap of the cut is behind it.
    of_cut[np.argmax(np.append(sent_s >= cut.until_s, True))] = True
    of_fault = of_cut | _touches(begins, ends, repair)
    longest = float(gaps_ns[of_cut].max(initial=0.0))
    as_long = ~of_fault & (gaps_ns >= longest)
    width = cut.until_s + _IN_FLIGHT_S - cut.from_s
    free = ~_windows(begins[of_fault], ends[of_fault], width, edges[-1])
    having = _windows(begins[as_long], ends[as_long], width, edges[-1])
    return {
        "recovery_ms": longest / 1e6,
        "elsewhere_ms": float(gaps_ns[~of_fault].max(initial=0.0)) / 1e6,
        "as_long_percent": _percent(as_long[~of_fault]),
        "as_long_windows_percent": _percent(having[free]),
    }


def _windows(
    begins: npt.NDArray[np.float64], ends: npt.NDArray[np.float64], width: float, end: float
) -> npt.NDArray[np.bool_]:
    """Tell of windows side by side, up to the last whole one, which of them a span overlaps."""
    count = int(end / width)
    first, last = (np.clip(each / width, 0, count).astype(np.int64) for each in (begins, ends))
    steps = np.bincount(first, minlength=count + 2) - np.bincount(last + 1, minlength=count + 2)
    return np.cumsum(steps)[:count] > 0


def _percent(outcomes: npt.NDArray[np.bool_]) -> float | None:
    return 100 * float(outcomes.mean()) if outcomes.size else None


def _sent_within(times: npt.NDArray[np.float64], begin: float, end: float) -> int:
    return int(((times >= begin - _IN_FLIGHT_S) & (times <= end)).sum())


def _touches(
    begins: npt.NDArray[np.float64], ends: npt.NDArray[np.float64], fault: AppliedFault
) -> npt.NDArray[np.bool_]:
    """Tell which spans overlap the time in which a fault took effect."""
    return (begins <= fault.until_s + _IN_FLIGHT_S) & (ends >= fault.from_s)
