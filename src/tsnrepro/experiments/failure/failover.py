"""What a listener sees while one member path is cut under load, and repaired."""

import numpy as np
import numpy.typing as npt

from tsnrepro.common.errors import ToolError
from tsnrepro.runner.faults import AppliedFault
from tsnrepro.runner.load import IntendedLoad, LoadOutcome

_MEGA = 1e6
# What was on its way when a link went down arrives within this; queues are empty at such loads.
_IN_FLIGHT_S = 1e-3


def failover(outcome: LoadOutcome, load: IntendedLoad) -> dict[str, float | int]:
    """Return what arrived before, during and after the cut, and for how long nothing did.

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
        ``recovery_ms``: the longest time without an arrival around the cut, the usual gap
        included. ``elsewhere_ms``: the longest one that touches neither cut nor repair, which is
        what the hosts alone do. ``lost_while_cut``: datagrams sent from
        the cut to the repair that never came, with those on their way when the link went down.

    Raises
    ------
    ValueError
        The run kept no arrivals, or its faults are others.
    ToolError
        The path came up again only when sending had ended.
    """
    cut, repair = _cut_and_repair(outcome)
    times = _first_arrivals_s(outcome)
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
    around, elsewhere = _longest_gaps(edges, cut, repair)
    lost_s = outcome.sending_times_of_lost() if outcome.lost else np.empty(0)
    return {
        **dict(zip(("before_mbps", "during_mbps", "after_mbps"), rates, strict=True)),
        "recovery_ms": 1e3 * around,
        "elsewhere_ms": 1e3 * elsewhere,
        "lost_while_cut": int(_sent_within(lost_s, cut.from_s, repair.until_s).sum()),
    }


def _cut_and_repair(outcome: LoadOutcome) -> tuple[AppliedFault, AppliedFault]:
    kinds = [applied.fault.kind for applied in outcome.faults]
    if kinds != ["cut", "repair"]:
        raise ValueError(f"a failover has one cut and one repair, not {kinds}")
    cut, repair = outcome.faults
    return cut, repair


def _first_arrivals_s(outcome: LoadOutcome) -> npt.NDArray[np.float64]:
    """Return when each number first came, in seconds after the first was sent, in order of time."""
    if outcome.arrivals is None:
        raise ValueError("the run kept no arrivals")
    _, first = np.unique(outcome.arrivals["sequence"], return_index=True)
    received = outcome.arrivals["received_ns"][first].astype(np.int64)
    return np.sort(received - outcome.first_ns) / 1e9


def _rate_mbps(
    times: npt.NDArray[np.float64], window: tuple[float, float], payload_bytes: int
) -> float:
    begin, end = window
    came = np.searchsorted(times, [begin, end])
    return float(came[1] - came[0]) * payload_bytes * 8 / _MEGA / (end - begin)


def _longest_gaps(
    edges: npt.NDArray[np.float64], cut: AppliedFault, repair: AppliedFault
) -> tuple[float, float]:
    """Return the longest gap that touches the cut, and the longest that touches neither fault."""
    gaps = np.diff(edges)
    touched = {fault: _touches(edges[:-1], edges[1:], fault) for fault in (cut, repair)}
    elsewhere = gaps[~(touched[cut] | touched[repair])]
    return float(gaps[touched[cut]].max(initial=0.0)), float(elsewhere.max(initial=0.0))


def _sent_within(times: npt.NDArray[np.float64], begin: float, end: float) -> npt.NDArray[np.bool_]:
    return (times >= begin - _IN_FLIGHT_S) & (times <= end)


def _touches(
    begins: npt.NDArray[np.float64], ends: npt.NDArray[np.float64], fault: AppliedFault
) -> npt.NDArray[np.bool_]:
    """Tell which spans overlap the time in which a fault took effect."""
    return (begins <= fault.until_s + _IN_FLIGHT_S) & (ends >= fault.from_s)
