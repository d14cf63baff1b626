"""The results of the experiment ``shaping``, by the keys that its settings declare.

Keys are ``shaping.<part>.<mode>.<load>.<what>``. Parts have one name on every testbed, so what was
measured and what was simulated have the same keys.
"""

from collections.abc import Iterable
from math import isfinite

import pandas as pd

from tsnrepro.common.ethernet import FULL_PAYLOAD_BYTES
from tsnrepro.config.registry import MODEL
from tsnrepro.experiments.shaping import modes, toggled
from tsnrepro.experiments.shaping.analysis import (
    HOSTS,
    IDLE,
    WAITS,
    Run,
    adherence_over_runs,
    estimates,
    loads_of,
)
from tsnrepro.experiments.shaping.schedule import Flow, carried_bytes, flows_of, smallest_window_ns
from tsnrepro.experiments.shaping.settings import (
    BOARD_MEDIUM,
    CARDS_MEDIUM,
    LAUNCHED,
    TOGGLED,
    ShapingPart,
)
from tsnrepro.results.estimates import decimals_of, unknown
from tsnrepro.results.results import Results
from tsnrepro.results.verdicts import SIGNIFICANCE, add_power, add_test
from tsnrepro.stats.estimate import Estimate, Limits
from tsnrepro.stats.power import in_percent
from tsnrepro.stats.replication import median_over_runs

_REQUIREMENTS_MS = (1, 10, 50)
"""Latencies that the conclusion of software-bridge holds the largest one against."""


def analyse(run: Run) -> Results:
    """Return all results of a run."""
    results = Results("shaping", run.trials)
    media = sorted(set(run.trials["medium"]))
    method = "environment of the run"
    results.value("shaping.medium", " and ".join(media), run.trials["trial"], method=method)
    shapers = sorted({_shaper(run, part) for part in run.parts()})
    results.value("shaping.shaper", " and ".join(shapers), run.trials["trial"], method=method)
    for part in run.parts():
        _conditions(results, run, part)
        _arithmetic(results, run, part)
        for mode, load in run.groups(part):
            _of_group(results, run, part.name, mode, load)
        _percent_of(results, run, modes.against_reference(run, part))
        for row in modes.idle_alike(run, part).to_dict("records"):
            _alike(results, run, row)
        for row in modes.load_effect(run, part).to_dict("records"):
            at = _at(row["part"], row["mode"], row["load"], "load_effect")
            key = f"{at}.{row['statistic']}.difference.us"
            _time(results, key, _difference(row), _trials_of(run, row))
        for row in modes.bridge_cost(run, part).to_dict("records"):
            key = _at(row["part"], row["mode"], IDLE, "bridge_cost.mean.difference.us")
            _time(results, key, _difference(row), _trials_of(run, row))
    for part in run.toggled_parts():
        for load in loads_of(part):
            _toggled(results, run, part, load)
    add_modes_against_modes(results, run)
    return results


def add_modes_against_modes(results: Results, run: Run) -> None:
    """Add the verdicts of the modes that are compared in every part and under every load."""
    for one, other, *_ in modes.HELD_AGAINST:
        _against(results, run, modes.mode_against_mode(run, one, other))


def _toggled(results: Results, run: Run, part: ShapingPart, load: str) -> None:
    names, key = run.rows(part.name, TOGGLED, load)["trial"], _at(part.name, TOGGLED, load)
    for (state, name), estimate in toggled.estimates(run, part.name, load).items():
        _time(results, f"{key}.{state}.{name}.us", estimate, names)
    for name, estimate in toggled.differences(run, part.name, load).items():
        _time(results, f"{key}.{name}.difference.us", estimate, names)
    results.value(f"{key}.toggles.count", part.toggles, names, method="configuration")
    phase_s, digits = part.phase_s, decimals_of([part.phase_s])
    results.value(f"{key}.phase.s", phase_s, names, unit="s", digits=digits, method="configuration")


def _shaper(run: Run, part: ShapingPart) -> str:
    """Return what gives a part's ports their modes: the model, a card, a board or a program."""
    medium = run.rows(part.name)["medium"].iloc[0]
    if medium == MODEL:
        return MODEL
    if medium == CARDS_MEDIUM:
        return "card"
    if medium == BOARD_MEDIUM:
        return "board"
    return "software bridge" if part.software_bridge else "kernel"


def _time(results: Results, key: str, estimate: Estimate, names: Iterable[str]) -> None:
    results.estimate(key, estimate, decimals(estimate), names)


def decimals(estimate: Estimate) -> int:
    """Return how many decimals a time in microseconds is printed with: none that is noise.

    An interval of 100 us leaves no meaning to tenths; without one the value's size decides.
    """
    width = estimate.high - estimate.low
    if not isfinite(width):
        return 2 if abs(estimate.value) < 100 else 1 if abs(estimate.value) < 1000 else 0
    return 2 if width < 10 else 1 if width < 100 else 0


def _at(part: str, *names: str) -> str:
    return ".".join(["shaping", part.replace("-", "_"), *names])


def _conditions(results: Results, run: Run, part: ShapingPart) -> None:
    """Add what the part's trials share, which the campaign sets."""
    names = run.rows(part.name)["trial"]
    for name, value, unit in (
        ("link.mbps", part.link_rate_mbps, "Mb/s"),
        ("reserved.mbps", part.idle_slope_mbps, "Mb/s"),
        ("interval.us", part.interval_us, "us"),
        ("payload.bytes", part.payload_bytes, "B"),
        ("load_payload.bytes", part.load_payload_bytes, "B"),
    ):
        key = _at(part.name, "conditions", name)
        results.value(key, value, names, unit=unit, method="configuration")
    _queue(results, run, part)
    key = _at(part.name, "conditions.threads")
    results.value(key, _threads(run, part), names, method="configuration")


def _queue(results: Results, run: Run, part: ShapingPart) -> None:
    """Add the limit of each queue, and how long the line takes to empty a full one.

    The lengths of a board's queues are the chip's, which are unknown.
    """
    names = run.rows(part.name)["trial"]
    limit = None if _shaper(run, part) == "board" else part.queue_bytes
    key = _at(part.name, "conditions.queue")
    results.value(f"{key}.bytes", limit, names, unit="B", method="configuration")
    emptied_ms = limit and limit * 8 / part.link_rate_mbps / 1000
    results.value(
        f"{key}.ms", emptied_ms, names, unit="ms", digits=1, method="limit over line rate"
    )


def _threads(run: Run, part: ShapingPart) -> str | None:
    """Return how the software bridge's threads divide the work; None where another shapes.

    One for all of it, two of which one receives and one sends, or one for each port and another.
    """
    if _shaper(run, part) != "software bridge":
        return None
    if part.receivers == "each":
        return "each"
    return "two" if part.threads == 2 else "one"


def _arithmetic(results: Results, run: Run, part: ShapingPart) -> None:
    """Add the schedule's arithmetic: what a window carries, and which window a frame needs."""
    if part.gates is None:
        return
    names, method = run.rows(part.name)["trial"], "arithmetic of the gate control list"
    stream, rate = flows_of(part)[0], part.link_rate_mbps
    window = max((end - begin for begin, end in part.gates.windows_ns(part.priority)), default=0)
    full = Flow("a full frame", part.priority, FULL_PAYLOAD_BYTES, vlan=part.tagged)
    for name, value, unit, digits in (
        ("cycle.us", part.gates.cycle / 1000, "us", 0),
        ("window.us", window / 1000, "us", 0),
        ("closed.us", (part.gates.cycle - window) / 1000, "us", 0),
        ("window.bytes", carried_bytes(window, rate), "B", 0),
        ("frame.bytes", max(stream.wire_bytes), "B", 0),
        ("frame_window.us", smallest_window_ns(stream, rate) / 1000, "us", 3),
        ("full_frame_window.us", smallest_window_ns(full, rate) / 1000, "us", 3),
    ):
        key = _at(part.name, "schedule", name)
        results.value(key, value, names, unit=unit, digits=digits, method=method)


def _of_group(results: Results, run: Run, part: str, mode: str, load: str) -> None:
    group, key = run.rows(part, mode, load), _at(part, mode, load)
    names = group["trial"]
    for name, estimate in estimates(run, part, mode, load).items():
        _time(results, f"{key}.{_quantity(mode)}{name}.us", estimate, names)
    results.value(f"{key}.runs.count", len(group), names)
    results.value(f"{key}.sent.count", int(group["sent"].sum()), names)
    results.value(f"{key}.lost.count", int(group["lost"].sum()), names)
    delivered = float(group["load_delivered_mbps"].mean())
    method = "mean over runs, delivered payload"
    results.value(f"{key}.load.mbps", delivered, names, unit="Mb/s", digits=1, method=method)
    slowest = group["min_us"].max()
    if mode not in LAUNCHED and pd.notna(slowest):
        method = "largest over runs of a run's smallest latency"
        results.value(f"{key}.fastest.us", slowest, names, unit="us", digits=1, method=method)
    largest = group["max_us"].max()
    if mode not in LAUNCHED and pd.notna(largest):
        for limit in _REQUIREMENTS_MS:
            word = "yes" if largest < 1000 * limit else "no"
            method = f"largest latency seen, {largest:.1f} us, in {len(group)} runs"
            results.value(f"{key}.max.below_{limit}ms", word, names, method=method)
    for column in (f"{host}_wait_{name}" for host in HOSTS for name in WAITS):
        times = group[f"{column}_us"].dropna()
        wait = (
            median_over_runs(times, unit="us") if len(times) else unknown("us", "no stamps of it")
        )
        _time(results, f"{key}.{column}.us", wait, names)
    kept = adherence_over_runs(run, part, mode, load)
    if kept is not None:
        results.value(f"{key}.outside.count", kept.sum("outside"), names)
        results.estimate(f"{key}.outside.percent", kept.outside_percent, 4, names)
        results.estimate(f"{key}.outside.runs.percent", kept.runs_percent, 1, names)


def _quantity(mode: str) -> str:
    """Return the word before a statistic where it is no latency: time since the launch."""
    return "deviation." if mode in LAUNCHED else ""


def _trials_of(run: Run, row: dict) -> list[str]:
    sides = ((row["mode"], row["load"]), (row["other_mode"], row["other_load"]))
    return [name for side in sides for name in run.rows(row["part"], *side)["trial"]]


def _difference(row: dict) -> Estimate:
    other = " ".join(dict.fromkeys((row["other_mode"], row["other_load"])))
    how = {"method": row["difference_method"], "limits": row["difference_limits"]}
    columns = ("difference_us", "difference_low_us", "difference_high_us")
    return _estimate(row | how, columns, other, "us")


def _ratio(row: dict) -> Estimate:
    return _estimate(row, ("ratio", "ratio_low", "ratio_high"), row["other_mode"], "")


def _percent(row: dict) -> Estimate:
    return in_percent(_ratio(row))


def _estimate(row: dict, columns: tuple[str, str, str], other: str, unit: str) -> Estimate:
    value, low, high = (row[name] for name in columns)
    if not any(map(isfinite, (value, low, high))):
        return unknown(unit, row["method"])
    limits = Limits(row["limits"])
    # The word of what the limits are comes first, see Estimate.
    method = f"{row['method']}, against {other}"
    return Estimate(value, low, high, 0.95, method, row["runs"], unit, limits)


def _percent_of(results: Results, run: Run, table: pd.DataFrame) -> None:
    for row in table.to_dict("records"):
        key = _at(row["part"], row["mode"], row["load"], row["statistic"])
        names = _trials_of(run, row)
        results.estimate(f"{key}.difference.percent", _percent(row), 1, names)
        _verdict(results, key, row, names, "the part")


def _against(results: Results, run: Run, table: pd.DataFrame) -> None:
    for row in table.to_dict("records"):
        pair = f"{row['mode']}_against_{row['other_mode']}"
        key, names = _at(row["part"], pair, row["load"], row["statistic"]), _trials_of(run, row)
        _time(results, f"{key}.difference.us", _difference(row), names)
        results.estimate(f"{key}.ratio", _ratio(row), 3, names)
        _verdict(results, key, row, names, f"{pair.replace('_', ' ')}, all parts")


def _verdict(results: Results, key: str, row: dict, names: Iterable[str], family: str) -> None:
    direction, method = None, row["method"]
    if pd.notna(row["ratio"]):
        direction = "lower" if row["ratio"] < 1 else "higher"
        method = f"Holm over {family} at {SIGNIFICANCE:g}"
    p_adjusted = None if pd.isna(row["p_adjusted"]) else row["p_adjusted"]
    add_test(results, key, row["p_value"], direction, names, beside=(p_adjusted, method))
    how = {"percent": modes.ALIKE_MARGIN_PERCENT, "tests": max(1, row["tests"])}
    add_power(results, key, row["scatter"], names, **how)


def _alike(results: Results, run: Run, row: dict) -> None:
    key = _at(row["part"], row["mode"], IDLE, "alike")
    rows = run.rows(row["part"], load=IDLE)
    names = rows[rows["mode"].isin([row["mode"], row["reference"]])]["trial"]
    row |= {"runs": len(names), "method": f"{row['method']}, of means"}
    columns = ("difference_percent", "low_percent", "high_percent")
    estimate = _estimate(row, columns, row["reference"], "%")
    results.estimate(f"{key}.difference.percent", estimate, 1, names)
    add_test(results, key, row["p_verdict"], row["alone"], names)
    scatter = row["scatter"]
    margin = modes.ALIKE_MARGIN_PERCENT
    add_power(results, key, scatter, names, percent=margin, equivalence=True)
