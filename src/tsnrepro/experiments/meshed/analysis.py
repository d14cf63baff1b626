"""Meshed forwarding: frames lost and forwarded between many ports, against arithmetic.

A pattern is uncongested where no port or link is to carry more than its rate. Then nothing may be
lost; where one is, it carries its rate and the rest is lost once its queue is full.
"""

from typing import Any

import pandas as pd

from tsnrepro.common.ethernet import wire_bytes
from tsnrepro.results.estimates import groups, loss, mean, shared
from tsnrepro.results.results import Results, key_part

_CELL = ["pattern", "uplink_mbps", "ports", "frame_bytes", "load_percent"]


def line_fps(frame_bytes: float, rate_mbps: float) -> float:
    """Return the frames a second that a line of this wire rate carries."""
    return rate_mbps * 1e6 / 8 / wire_bytes(int(frame_bytes))


def utilisation(trial: Any) -> float:
    """Return the load on the busiest output of a switch, 1 being the line's rate."""
    ports, load = trial["ports"], trial["load_percent"] / 100
    if trial["pattern"] == "one_to_many":
        return load / (ports - 1)
    if trial["pattern"] == "many_to_one":
        return load * (ports - 1)
    if trial["pattern"] == "two_devices":
        return load * max(1.0, ports / 2 * trial["link_rate_mbps"] / trial["uplink_mbps"])
    return load


def expected_lost_percent(trial: Any) -> float:
    """Return what is lost of all frames: the excess over the busiest output, less what queues hold.

    In ``two_devices`` both directions of the link have the same excess.
    """
    busiest = utilisation(trial)
    if busiest <= 1:
        return 0.0
    outputs, rate = 1, trial["link_rate_mbps"]
    if trial["pattern"] == "two_devices":
        outputs, rate = 2, trial["uplink_mbps"]
    carried = line_fps(trial["frame_bytes"], rate) * trial["duration_s"]
    queued = trial["queue_bytes"] // trial["frame_bytes"]
    sent = busiest * carried
    return float(100 * outputs * max(0.0, sent - carried - queued) / (outputs * sent))


def expected_fps(trial: Any) -> float:
    """Return the forwarding rate: what is offered, or what the busiest output lets through."""
    senders = {"one_to_many": 1, "many_to_one": trial["ports"] - 1}
    sending = senders.get(trial["pattern"], trial["ports"])
    line = line_fps(trial["frame_bytes"], trial["link_rate_mbps"])
    return float(sending * line * trial["load_percent"] / 100 / max(1.0, utilisation(trial)))


def analyse(trials: pd.DataFrame) -> Results:
    """Return loss and forwarding rates of every pattern, and totals where nothing may be lost."""
    results = Results("meshed", trials)
    shared(results, "meshed.duration_s", trials, "duration_s", "s")
    shared(results, "meshed.link.mbps", trials, "link_rate_mbps", "Mb/s")
    results.value("meshed.trials.count", len(trials), trials["trial"])
    named = trials.assign(name=pattern_names(trials))
    errors = []
    for keys, group in named.groupby(["name", "ports", "frame_bytes"], sort=False):
        name, ports, frame = keys
        key = f"meshed.{name}.ports_{ports}.frame_{frame}"
        for load, cell in groups(group, "load_percent"):
            errors.append(_add_cell(results, f"{key}.{key_part('load', load)}", cell))
        fullest = group[group["load_percent"] == group["load_percent"].max()]
        found = mean(fullest, "forwarding_fps", "frames/s")
        results.estimate(f"{key}.frmol.fps", found, 0, fullest["trial"])
    results.value(
        *("meshed.forwarding.worst_error.percent", max(errors), trials["trial"]),
        unit="%",
        digits=3,
        method="largest distance of a cell's mean from the closed form",
    )
    free = trials[[utilisation(trial) <= 1 for _, trial in trials.iterrows()]]
    for name, count in (
        ("lost.count", free["lost"].sum()),
        ("sent.count", free["sent"].sum()),
        ("trials.count", len(free)),
    ):
        results.value(f"meshed.uncongested.{name}", int(count), free["trial"])
    return results


def pattern_names(trials: pd.DataFrame) -> list[str]:
    """Return each trial's pattern, of two devices with the rate between them."""
    return [
        pattern if pd.isna(uplink) else f"{pattern}_{int(uplink)}"
        for pattern, uplink in zip(trials["pattern"], trials["uplink_mbps"], strict=True)
    ]


def _add_cell(results: Results, key: str, cell: pd.DataFrame) -> float:
    """Add one cell; return how far its forwarding rate is from the closed form, in percent."""
    first, trials = cell.iloc[0], cell["trial"]
    lost = cell.assign(lost_percent=100 * cell["lost"] / cell["sent"])
    results.estimate(f"{key}.lost.percent", loss(lost, "lost_percent"), 3, trials)
    expected = expected_fps(first)
    for name, value, unit in (
        ("expected_lost.percent", expected_lost_percent(first), "%"),
        ("expected_forwarding.fps", expected, "frames/s"),
    ):
        digits = 3 if unit == "%" else 0
        results.value(
            f"{key}.{name}", value, trials, unit=unit, digits=digits, method="closed form"
        )
    for name in ("offered", "forwarding"):
        results.estimate(f"{key}.{name}.fps", mean(cell, f"{name}_fps", "frames/s"), 0, trials)
    return abs(100 * (float(cell["forwarding_fps"].mean()) / expected - 1))


def forwarding_table(trials: pd.DataFrame) -> pd.DataFrame:
    """Return means over trials by pattern, ports, frame size and load, with the closed forms."""
    rows = []
    for keys, group in trials.groupby(_CELL, dropna=False):
        first = group.iloc[0]
        rows.append(
            dict(zip(_CELL, keys, strict=True))
            | {name: float(group[name].mean()) for name in ("offered_fps", "forwarding_fps")}
            | {
                "expected_fps": expected_fps(first),
                "lost_percent": float((100 * group["lost"] / group["sent"]).mean()),
                "expected_lost_percent": expected_lost_percent(first),
            }
        )
    return pd.DataFrame(rows)
