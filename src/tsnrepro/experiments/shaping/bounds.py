"""The analytic bound beside the measurement: the longest way from queue to listener's card.

Closed forms over one path (store and forward, IEEE Std 802.1Q-2022, 8.6.8): every port sends the
frame whole, every switch takes its processing time, and at the shaped port the frame waits

- behind a gate: the closed time between two windows, and the frame's own time, since a frame that
  comes when it just does not fit any more waits for the next window (guard band); after a load, one
  gap more: its last bit has left when its window ends, the gap behind it has not;
- with strict priority: for one frame of the load, which is not interrupted;
- with a credit-based shaper of the highest class whose rate is not exceeded: the same.

A bound is given only where at most one datagram of the stream can be waiting. With FRER it holds
for each member path, hence for the copy that comes first.

On the model all of this is known, and no frame may be later. On hosts it is not known what talker,
switches and listener take: there the bound is the shaped port's wait alone, and frames beyond it
are those that the hosts delayed for longer than the wait left them.
"""

from typing import Any

import pandas as pd

from tsnrepro.common.ethernet import GAP_BYTES, R_TAG_BYTES
from tsnrepro.config.gates import GateControlList
from tsnrepro.config.registry import MODEL
from tsnrepro.experiments.shaping.analysis import Run
from tsnrepro.experiments.shaping.log import Records, latency_us
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.schedule import Flow, flows_of, wire_time_ns
from tsnrepro.experiments.shaping.settings import LAUNCHED, ShapingPart

_NO_CLOSED_FORM = "best effort waits for as long as the queue is"
_NO_WAIT = "nothing waits at the shaped port: the time is the hosts'"
MAY_QUEUE = "datagrams of the stream may wait for each other"


def line_ns(flow: Flow, link_mbps: float, *, tag_bytes: int = 0) -> float:
    """Return the time from a frame's preamble to its last bit, ``tag_bytes`` taken off."""
    return wire_time_ns(max(flow.wire_bytes) - GAP_BYTES - tag_bytes, link_mbps)


def gate_wait_ns(gates: GateControlList, traffic_class: int, frame_ns: float) -> float:
    """Return the longest wait for a gate that a frame of ``frame_ns`` can meet.

    Windows that are too short for it count as closed. Infinite where none is long enough.
    """
    if gates.always_open(traffic_class):
        return 0.0
    need = frame_ns if gates.guard_band else 0.0
    windows = [w for w in gates.windows_ns(traffic_class) if w[1] - w[0] >= need]
    if not windows:
        return float("inf")
    nexts = [*windows[1:], (windows[0][0] + gates.cycle, 0)]
    closed = [following[0] - window[1] for window, following in zip(windows, nexts, strict=True)]
    return max(closed) + need


def shaped_wait_ns(part: ShapingPart, mode: str) -> float | None:
    """Return the longest wait at the shaped port, in nanoseconds; None without a closed form."""
    stream, *load = flows_of(part)
    frame_ns = line_ns(stream, part.link_rate_mbps)
    other_ns = wire_time_ns(max(load[0].wire_bytes), part.link_rate_mbps) if load else 0.0
    if mode == "direct" or (not load and mode != "tas"):
        return 0.0
    if mode == "tas":
        assert part.gates is not None
        wait = gate_wait_ns(part.gates, part.priority, frame_ns)
        shared = any(
            {part.priority, part.load_priority} <= {*entry.open_classes}
            for entry in part.gates.entries
        )
        if load and (shared or not part.gates.guard_band):
            return wait + other_ns
        return wait + (wire_time_ns(GAP_BYTES, part.link_rate_mbps) if load else 0.0)
    above = part.priority > part.load_priority
    return other_ns if mode in ("prio", "mqprio", "etf", "cbs") and above else None


def _may_queue(part: ShapingPart, mode: str, wait_ns: float) -> bool:
    """Tell whether two datagrams of the stream can be at the shaped port at once."""
    stream = flows_of(part)[0]
    closest_ns = (part.interval_us - part.interval_spread_us) * 1000
    served_ns = wait_ns + wire_time_ns(max(stream.wire_bytes), part.link_rate_mbps)
    if mode == "cbs" and part.idle_slope_mbps is not None:
        served_ns = max(served_ns, wire_time_ns(max(stream.wire_bytes), part.idle_slope_mbps))
    return closest_ns < served_ns


def bound_ns(document: dict[str, Any]) -> tuple[float | None, str]:
    """Return a trial's bound in nanoseconds, or why it has none.

    From the queue of the talker's device to the listener's card; on hosts it is the shaped port's
    wait alone.
    """
    factors = Factors.read(document["factors"])
    part, mode = factors.part, factors.mode
    values = document["values"]
    wait = shaped_wait_ns(part, mode)
    if wait is None:
        return None, _NO_CLOSED_FORM
    if _may_queue(part, mode, wait):
        return None, MAY_QUEUE
    if values["medium"] != MODEL:
        return (wait, "") if wait else (None, _NO_WAIT)
    parameters, cable = values["parameters"], values["cable_ns"]
    switches = {"end-station": 0, "bridge": 1, "tas-frer": 2}[part.kind]
    if mode == "direct":
        switches = 0
    stream, rate = flows_of(part)[0], part.link_rate_mbps
    tag = R_TAG_BYTES if stream.r_tag else 0
    # Only the member path's link, one of the three, carries the R-TAG.
    lines = line_ns(stream, rate) + switches * line_ns(stream, rate, tag_bytes=tag)
    on_the_way = switches * parameters["switch_us"] * 1000 + (switches + 1) * cable
    return lines + on_the_way + wait, ""


def _sending_us(document: dict[str, Any], log: Records) -> float:
    """Return what a latency has before the queue: in older records of the model, the write."""
    values = document["values"]
    if values["medium"] != MODEL or "queued_ns" in (log.dtype.names or ()):
        return 0.0
    return 0.0 if document["factors"]["mode"] in LAUNCHED else values["parameters"]["send_us"]


def bounds_table(run: Run, part: ShapingPart) -> pd.DataFrame:
    """Return bound and measurement of a part's trials, one row a mode and load.

    ``bound_us`` is the largest over the repetitions, whose hosts differ on the model;
    ``measured_us`` the largest latency to the listener's card; ``share_percent`` how much of its
    bound the worst trial used; ``beyond_percent`` the share of all frames that took longer than
    their trial's bound, which on the model none does (``held``).
    """
    rows = []
    for mode, load in run.groups(part):
        trials = run.rows(part.name, mode, load)
        common = {
            **{"part": part.name, "mode": mode, "load": load},
            "medium": trials["medium"].iloc[0],
            "measured_us": trials["max_us"].max(),
        }
        documents = [run.documents[trial] for trial in trials["trial"]]
        found = [bound_ns(document) for document in documents]
        reasons = [reason for _, reason in found if reason]
        if reasons:
            rows.append(common | {"reason": reasons[0]})
            continue
        logs = run.logs_of(trials)
        bounds = [bound / 1000 for bound, _ in found if bound is not None]
        longer = [_sending_us(*pair) for pair in zip(documents, logs, strict=True)]
        bounds = [bound + more for bound, more in zip(bounds, longer, strict=True)]
        rows.append(common | _against(bounds, logs) | {"reason": ""})
    return pd.DataFrame(rows)


def _against(bounds_us: list[float], logs: list[Records]) -> dict[str, Any]:
    latencies = [latency_us(log) for log in logs]
    pairs = [(bound, one) for bound, one in zip(bounds_us, latencies, strict=True) if len(one)]
    # The model's stamps are cut to nanoseconds at both ends.
    beyond = sum(int((one > bound + 0.001).sum()) for bound, one in pairs)
    frames = sum(len(one) for _, one in pairs)
    return {
        "bound_us": max(bounds_us),
        "share_percent": max(
            (100 * float(one.max()) / bound for bound, one in pairs), default=None
        ),
        "beyond_percent": 100 * beyond / frames if frames else None,
        "held": beyond == 0 if frames else None,
    }
