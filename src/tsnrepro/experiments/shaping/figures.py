"""Figures of shaping: phases in the cycle, histograms and distributions of latency by mode.

Column width, colour-blind safe; modes differ by line style as well as by colour.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.experiments.shaping.analysis import IDLE, LOADED, Run, estimates, gate_of
from tsnrepro.experiments.shaping.log import Records, latency_us, timed
from tsnrepro.experiments.shaping.phase import Gate
from tsnrepro.experiments.shaping.settings import TOGGLED, ShapingPart
from tsnrepro.experiments.shaping.toggled import gate_phases
from tsnrepro.published.documents import load_table
from tsnrepro.results.figures import (
    count_shown,
    log_scale,
    mark_published,
    note_empty,
    side_by_side,
)
from tsnrepro.stats.estimate import Estimate

_MODES: tuple[str, ...] = ("tas", "fifo", "prio", "cbs", "etf", "mqprio", "direct")
_LABELS: dict[str, str] = {
    "tas": "TAS",
    "fifo": "no shaping",
    "prio": "Prio",
    "cbs": "CBS",
    "etf": "ETF",
    "mqprio": "mqprio",
    "direct": "direct",
}
_COLOURS: dict[str, tuple] = dict(
    zip(_MODES, sns.color_palette("colorblind", len(_MODES)), strict=True)
)
_STYLES: dict[str, Any] = dict(
    zip(_MODES, ("-", "--", "-.", (0, (4, 1, 1, 1, 1, 1)), ":", ":", ":"), strict=True)
)
# Of published values: they differ in grey.
_MARKS: dict[str, str] = {"tas": "x", "prio": "+", "cbs": "+", "fifo": "1"}
_MOST_POINTS = 800
_BINS = 60
# Drawn over the cycle, the later above the earlier.
_CYCLE_MODES = ("fifo", "tas")
_WINDOW_COLOUR = "0.9"

Array = npt.NDArray[np.float64]


def _count_trials(figure: Figure, run: Run, trials: pd.DataFrame) -> None:
    """Note how many of the trials received anything."""
    shown = sum(len(log) > 0 for log in run.logs_of(trials))
    count_shown(figure, shown, len(trials))


def _key(figure: Figure, axes: Axes, columns: int = 4, enlarged: float = 1) -> None:
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    if unique:
        figure.legend(
            list(unique.values()),
            list(unique),
            loc="outside lower center",
            ncols=columns,
            handlelength=2,
            markerscale=enlarged,
        )


def _line(mode: str) -> dict[str, Any]:
    return {"color": _COLOURS[mode], "linestyle": _STYLES[mode]}


# --- phases -----------------------------------------------------------------------------------


def _shade(axes: Axes, gate: Gate) -> None:
    """Shade the windows of the stream's class, the part that runs over the cycle's end folded."""
    cycle = gate.gates.cycle
    for begin, until in gate.gates.windows_ns(gate.traffic_class):
        style: dict[str, Any] = {"color": _WINDOW_COLOUR, "linewidth": 0, "zorder": 0}
        for start, end in ((begin, min(until, cycle)), (0, until - cycle)):
            if end > start:
                axes.axvspan(start / 1000, end / 1000, **style, label="gate open")


def phase_scatter(run: Run, parts: Sequence[ShapingPart], testbed: str, load: str = IDLE) -> Figure:
    """Draw latency over the place in the cycle at which each frame began, a panel a cycle.

    Grey is where the gate is open. Beside the gated frames stand those of the port without a gate.
    """
    figure, row = side_by_side(2.3, testbed, max(1, len(parts)))
    _count_over_the_cycle(figure, run, parts, load)
    if not parts:
        note_empty(row[0], "no part with a gate")
    for axes, part in zip(row, parts, strict=False):
        modes = _over_the_cycle(axes, run, part, _CYCLE_MODES, load)
        for mode, (gate, logs) in modes.items():
            _scatter(axes, mode, gate, logs)
        if modes:
            log_scale(axes.yaxis)
        else:
            note_empty(axes, "no egress times")
    row[0].set_ylabel("one-way latency (µs)")
    _key(figure, row[0], enlarged=3)
    return figure


def phase_histogram(
    run: Run, parts: Sequence[ShapingPart], testbed: str, load: str = IDLE
) -> Figure:
    """Draw how many frames began at each place in the cycle, with and without a gate."""
    figure, row = side_by_side(2.1, testbed, max(1, len(parts)))
    _count_over_the_cycle(figure, run, parts, load)
    if not parts:
        note_empty(row[0], "no part with a gate")
    for axes, part in zip(row, parts, strict=False):
        modes = _over_the_cycle(axes, run, part, _CYCLE_MODES[::-1], load)
        for mode, (gate, logs) in modes.items():
            _steps(axes, mode, gate, logs)
        # Frames that waited for the gate leave together: thousands in the first bin.
        axes.set_yscale("log")
    row[0].set_ylabel("share of frames (%)")
    _key(figure, row[0])
    return figure


def _count_over_the_cycle(
    figure: Figure, run: Run, parts: Sequence[ShapingPart], load: str
) -> None:
    rows = [run.rows(part.name, mode, load) for part in parts for mode in _CYCLE_MODES]
    if rows:
        _count_trials(figure, run, pd.concat(rows))


def _over_the_cycle(
    axes: Axes, run: Run, part: ShapingPart, modes: Sequence[str], load: str
) -> dict[str, tuple[Gate, list[Records]]]:
    """Prepare a panel over a part's cycle; return gate and logs of the modes with egress times."""
    found = {}
    for mode in modes:
        rows = run.rows(part.name, mode, load)
        gate = gate_of(run, rows["trial"].iloc[0]) if len(rows) else None
        if gate is not None:
            found[mode] = gate, run.logs_of(rows)
    for gate, _ in list(found.values())[:1]:
        _shade(axes, gate)
        axes.set_xlim(0, gate.gates.cycle / 1000)
        axes.set_title(f"cycle {gate.gates.cycle / 1000:g} µs")
    axes.set_xlabel("place in the cycle (µs)")
    return found


def _scatter(axes: Axes, mode: str, gate: Gate, logs: list[Records]) -> None:
    # Every run takes part; evenly spaced datagrams of each.
    each = max(1, _MOST_POINTS // len(logs))
    thinned = [timed(log)[:: max(1, len(log) // each)] for log in logs]
    axes.scatter(
        np.concatenate([gate.phases_ns(log) for log in thinned]) / 1000,
        np.concatenate([latency_us(log) for log in thinned]),
        s=1.5,
        color=_COLOURS[mode],
        marker="o" if mode == "tas" else "x",
        linewidths=0.3,
        label=_LABELS[mode],
    )


def _steps(axes: Axes, mode: str, gate: Gate, logs: list[Records]) -> None:
    phases = np.concatenate([gate.phases_ns(log) for log in logs])
    counts, edges = np.histogram(phases, bins=50, range=(0, gate.gates.cycle))
    # A logarithmic axis has no place for none.
    share = 100 * np.where(counts, counts, np.nan) / max(1, len(phases))
    axes.stairs(share, edges / 1000, baseline=None, **_line(mode), label=_LABELS[mode])


# --- latencies --------------------------------------------------------------------------------


def _trials_of(
    run: Run, part: ShapingPart, modes: Sequence[str], loads: Sequence[str]
) -> pd.DataFrame:
    rows = run.rows(part.name)
    return rows[rows["mode"].isin(modes) & rows["load"].isin(loads)]


def latencies(run: Run, part: ShapingPart, modes: Sequence[str], load: str) -> dict[str, Array]:
    """Return the latencies of all runs together, in microseconds, by mode."""
    found = {
        mode: [latency_us(log) for log in run.logs_of(run.rows(part.name, mode, load)) if len(log)]
        for mode in modes
    }
    return {mode: np.concatenate(logs) for mode, logs in found.items() if logs}


def _edges(samples: Mapping[str, Array], *, logarithmic: bool) -> Array:
    low = min(float(values.min()) for values in samples.values())
    high = max(float(values.max()) for values in samples.values())
    if logarithmic:
        return np.geomspace(low * 0.95, high * 1.05, _BINS)
    margin = 0.02 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, _BINS)


def _histogram(axes: Axes, samples: Mapping[str, Array]) -> None:
    # So far apart that on a linear axis most of them are in one place.
    low = min(float(values.min()) for values in samples.values())
    logarithmic = low > 0 and max(float(values.max()) for values in samples.values()) > 5 * low
    edges = _edges(samples, logarithmic=logarithmic)
    for mode, values in samples.items():
        counts, _ = np.histogram(values, edges)
        share = 100 * counts / len(values)
        axes.stairs(share, edges, color=_COLOURS[mode], fill=True, alpha=0.25, linewidth=0)
        axes.stairs(
            share, edges, color=_COLOURS[mode], linestyle=_STYLES[mode], label=_LABELS[mode]
        )
    if logarithmic:
        log_scale(axes.xaxis)
    axes.set_xlabel("one-way latency (µs)")


def _tail(axes: Axes, values: Array, **style: object) -> None:
    """Draw the share above each latency, evenly spaced in its logarithm."""
    above = np.geomspace(1, 1 / len(values), 400)
    quantiles = np.quantile(values, 1 - above, method="inverted_cdf")
    axes.plot(quantiles, 100 * above, **style)  # pyright: ignore[reportArgumentType]


def published_tails(kind: str, load: str) -> dict[str, tuple[Array, Array]]:
    """Return percentiles in us that the documents print, and percent above them, by mode.

    ``kind`` is that of the part; an end station has its values in tables, a bridge in a figure.
    """
    if kind == "bridge":
        table = load_table("software-bridge", "figure-4")
        chosen = table[(table["loaded"] == (load != IDLE)) & (table["statistic"] != "mean")]
        chosen = chosen.assign(
            mode=chosen["shaper"].map({"TAS": "tas", "CBS": "cbs", "BE": "fifo"})
        )
        above = 100 - chosen["statistic"].str.removeprefix("p").astype(float)
        groups = chosen.assign(above=above).groupby("mode")
        return {str(m): (g["latency_us"].to_numpy(float), g["above"].to_numpy()) for m, g in groups}
    tables = ("table-idle",) if load == IDLE else ("table-load", "table-prio")
    rows = pd.concat([load_table("tas-i210-i225", name) for name in tables])
    percents = {f"p{percent}_latency_ns": 100.0 - percent for percent in (50, 95, 99)}
    modes = {"TAS": "tas", "No-TAS": "fifo", "Prio": "prio"}
    return {
        modes[str(row["mode"])]: (
            row[[*percents]].to_numpy(float) / 1000,
            np.array([*percents.values()]),
        )
        for _, row in rows.iterrows()
    }


def _mark_tails(axes: Axes, part: ShapingPart, load: str, modes: Iterable[str]) -> None:
    for mode, (latency, above) in published_tails(part.kind, load).items():
        if mode in modes and len(latency):
            label = f"{_LABELS[mode]}, published"
            colour, marker = _COLOURS[mode], _MARKS[mode]
            mark_published(axes, latency, above, colour, marker=marker, label=label)


def _tail_axes(axes: Axes) -> None:
    log_scale(axes.xaxis)
    axes.set_yscale("log")
    axes.set_xlabel("one-way latency (µs)")
    axes.set_ylabel("share above (%)")


def histogram_and_tail(
    run: Run, part: ShapingPart, testbed: str, modes: Sequence[str] = ("tas", "fifo")
) -> Figure:
    """Draw latency without load: histogram beside complementary distribution."""
    figure, (left, right) = side_by_side(2.2, testbed, 2)
    _count_trials(figure, run, _trials_of(run, part, modes, (IDLE,)))
    samples = latencies(run, part, modes, IDLE)
    if not samples:
        note_empty(left, "not measured")
        note_empty(right, "not measured")
        return figure
    _histogram(left, samples)
    left.set_ylabel("share of frames (%)")
    for mode, values in samples.items():
        _tail(right, values, label=_LABELS[mode], **_line(mode))
    _mark_tails(right, part, IDLE, samples)
    _tail_axes(right)
    _key(figure, right, columns=2)
    return figure


def loaded_tails(
    run: Run,
    part: ShapingPart,
    testbed: str,
    modes: Sequence[str] = ("tas", "prio", "fifo"),
    load: str = LOADED,
) -> Figure:
    """Draw latency under load: complementary distributions of some modes."""
    figure, (axes,) = side_by_side(2.2, testbed, 1)
    _count_trials(figure, run, _trials_of(run, part, modes, (load,)))
    samples = latencies(run, part, modes, load)
    if not samples:
        note_empty(axes, "not measured")
        return figure
    for mode, values in samples.items():
        _tail(axes, values, label=_LABELS[mode], **_line(mode))
    _mark_tails(axes, part, load, samples)
    _tail_axes(axes)
    _key(figure, axes, columns=3)
    return figure


def distributions(
    run: Run,
    part: ShapingPart,
    testbed: str,
    modes: Sequence[str] = ("direct", "tas", "cbs", "fifo"),
    names: Mapping[str, str] | None = None,
) -> Figure:
    """Draw complementary distributions of every mode, without load (thin lines) and with it."""
    figure, (axes,) = side_by_side(2.9, testbed, 1)
    _count_trials(figure, run, _trials_of(run, part, modes, (IDLE, LOADED)))
    known = dict(_LABELS) | {"fifo": "best effort"} | dict(names or {})
    for load in (IDLE, LOADED):
        samples = latencies(run, part, modes, load)
        for mode, values in samples.items():
            _tail(
                axes,
                values,
                color=_COLOURS[mode],
                linestyle=_STYLES[mode],
                linewidth=0.6 if load == IDLE else 1.6,
                label=known[mode] if load == IDLE else f"{known[mode]}, loaded",
            )
        _mark_tails(axes, part, load, samples)
    if not axes.has_data():
        note_empty(axes, "not measured")
        return figure
    _tail_axes(axes)
    _key(figure, axes, columns=3)
    return figure


# --- toggled gates ----------------------------------------------------------------------------


def over_time(run: Run, part: ShapingPart, testbed: str, load: str = LOADED) -> Figure:
    """Draw latency over the time of the first run, while its gates were enabled and disabled."""
    figure, (axes,) = side_by_side(2.2, testbed, 1)
    rows = run.rows(part.name, TOGGLED, load)
    count_shown(figure, min(1, len(rows)), len(rows))
    if rows.empty:
        note_empty(axes, "not measured")
        return figure
    trial = rows["trial"].iloc[0]
    phases, log = gate_phases(run, trial), run.logs[trial]
    if not any(len(phase.of(log)) for phase in phases):
        note_empty(axes, "nothing received")
        return figure
    begin = phases[0].from_ns
    labels = {True: ("tas", "gates enabled"), False: ("prio", "gates disabled")}
    for phase in phases:
        mode, label = labels[phase.enabled]
        sent = timed(phase.of(log))
        sent = sent[:: max(1, len(log) // _MOST_POINTS)]
        axes.scatter(
            (sent["sent_ns"].astype(np.int64) - begin) / 1e9,
            latency_us(sent),
            s=1.5,
            color=_COLOURS[mode],
            marker="o" if phase.enabled else "x",
            linewidths=0.3,
            label=label,
        )
        if phase.enabled:
            axes.axvspan(
                (phase.from_ns - begin) / 1e9,
                (phase.until_ns - begin) / 1e9,
                color=_WINDOW_COLOUR,
                linewidth=0,
                zorder=0,
            )
    log_scale(axes.yaxis)
    axes.set_xlabel("time of sending (s)")
    axes.set_ylabel("one-way latency (µs)")
    _key(figure, axes, enlarged=3)
    return figure


# --- modes against each other -----------------------------------------------------------------

_STATISTIC_LABELS: dict[str, str] = {
    "p50": "P50",
    "p90": "P90",
    "p95": "P95",
    "p99": "P99",
    "p99_9": "P99.9",
}


def mode_against_mode(table: pd.DataFrame, testbed: str) -> Figure:
    """Draw the ratio of two modes' latencies by statistic, a panel a part, with 95 % limits.

    Of the parts those with the most loads, so that every panel shows as much.
    ``table`` is :func:`tsnrepro.experiments.shaping.modes.mode_against_mode`'s.
    """
    shown = table if table.empty else table[table["ratio"].notna()]
    loads = {} if shown.empty else shown.groupby("part", sort=False)["load"].nunique().to_dict()
    parts = [str(part) for part, count in loads.items() if count == max(loads.values())]
    figure, row = side_by_side(2.0, testbed, max(1, len(parts)))
    if not parts:
        note_empty(row[0], "not measured" if table.empty else "too few frames")
        return figure
    drawn = shown[shown["part"].isin(parts)]
    count_shown(figure, _repetitions(drawn), _repetitions(table), "repetitions")
    for axes, part in zip(row, parts, strict=True):
        _ratios(axes, shown[shown["part"] == part])
        axes.set_title(part)
    one, other = (str(table[column].iloc[0]) for column in ("mode", "other_mode"))
    for axes in row:
        _mark_ratios(axes, list(dict.fromkeys(shown["statistic"])), one, other)
        log_scale(axes.yaxis)
    row[0].set_ylabel(f"{_LABELS[one]} / {_LABELS[other]}")
    _key(figure, row[0])
    return figure


def _repetitions(table: pd.DataFrame) -> int:
    return int(table.drop_duplicates(["part", "load"])["runs"].sum())


def _ratios(axes: Axes, table: pd.DataFrame) -> None:
    statistics = list(dict.fromkeys(table["statistic"]))
    for shift, (load, rows) in zip((-0.12, 0.12), table.groupby("load", sort=True), strict=False):
        places = [statistics.index(name) + shift for name in rows["statistic"]]
        limits = [rows["ratio"] - rows["ratio_low"], rows["ratio_high"] - rows["ratio"]]
        axes.errorbar(
            places,
            rows["ratio"],
            yerr=np.nan_to_num(np.array(limits, float)),
            fmt="o" if load == IDLE else "s",
            markerfacecolor="white" if load == IDLE else None,
            color=_COLOURS["fifo"] if load == IDLE else _COLOURS["tas"],
            linewidth=0.8,
            capsize=2,
            label=str(load),
        )
    axes.axhline(1, color="0.6", linewidth=0.6, zorder=0)
    axes.set_xticks(
        range(len(statistics)), [_STATISTIC_LABELS.get(str(n), str(n)) for n in statistics]
    )


def _mark_ratios(axes: Axes, statistics: list[str], one: str, other: str) -> None:
    """Mark the ratios of the percentiles that the documents print, without load and with it."""
    kind = "bridge" if "cbs" in (one, other) else "end-station"
    for shift, load in ((-0.3, IDLE), (0.3, LOADED)):
        printed = published_tails(kind, load)
        if one in printed and other in printed:
            (first, above), (second, _) = printed[one], printed[other]
            names = [f"p{100 - percent:g}".replace(".", "_") for percent in above]
            shown = [n for n, name in enumerate(names) if name in statistics]
            places = [statistics.index(names[n]) + shift for n in shown]
            colour = _COLOURS["fifo" if load == IDLE else "tas"]
            mark_published(axes, places, (first / second)[shown], colour)


# --- cycles -----------------------------------------------------------------------------------

_BY_CYCLE_MODES = ("tas", "prio")
_BY_CYCLE_STATISTICS = ("p50", "p99")


def latency_by_cycle(run: Run, testbed: str) -> Figure:
    """Draw latency under load over the cycle: gates and strict priority, by how the talker sends.

    A panel a quantile. Filled marks are of a talker that sends at the begin of each cycle's window,
    open ones of one whose sends are spread over it.
    """
    figure, row = side_by_side(2.3, testbed, len(_BY_CYCLE_STATISTICS))
    _count_trials(figure, run, _trials_by_cycle(run))
    points = _points_by_cycle(run)
    for axes, statistic in zip(row, _BY_CYCLE_STATISTICS, strict=True):
        for (mode, synchronised), found in points.items():
            known = [(cycle, e[statistic]) for cycle, e in found if np.isfinite(e[statistic].value)]
            if known:
                _with_limits(axes, known, mode, synchronised=synchronised)
        if not axes.has_data():
            note_empty(axes, "not measured")
            continue
        axes.set_xscale("log")
        cycles = sorted({cycle for found in points.values() for cycle, _ in found})
        axes.set_xticks(cycles, [f"{cycle:g}" for cycle in cycles])
        axes.minorticks_off()
        log_scale(axes.yaxis)
        axes.set_xlabel("cycle (µs)")
        axes.set_title(_STATISTIC_LABELS[statistic])
    row[0].set_ylabel("one-way latency (µs)")
    _key(figure, row[0], columns=2)
    return figure


def _trials_by_cycle(run: Run) -> pd.DataFrame:
    gated = [part.name for part in run.parts("end-station") if part.gates is not None]
    chosen = run.trials["part"].isin(gated) & run.trials["mode"].isin(_BY_CYCLE_MODES)
    return run.trials[chosen & (run.trials["load"] != IDLE)]


def _points_by_cycle(
    run: Run,
) -> dict[tuple[str, bool], list[tuple[float, dict[str, Estimate]]]]:
    """Return estimates with their cycle in us, by mode and by whether the talker keeps to it."""
    points: dict[tuple[str, bool], list[tuple[float, dict[str, Estimate]]]] = {}
    for part in run.parts("end-station"):
        if part.gates is None:
            continue
        for mode, load in run.groups(part):
            if mode in _BY_CYCLE_MODES and load != IDLE:
                found = estimates(run, part.name, mode, load)
                place = points.setdefault((mode, not part.interval_spread_us), [])
                place.append((part.gates.cycle / 1000, found))
    return {key: sorted(points[key], key=lambda point: point[0]) for key in sorted(points)}


def _with_limits(
    axes: Axes, known: list[tuple[float, Estimate]], mode: str, *, synchronised: bool
) -> None:
    cycles, values = np.array([c for c, _ in known]), np.array([e.value for _, e in known])
    # Side by side, where marks of one cycle would hide each other.
    shift = (1.06 if mode == "tas" else 0.94) ** (1 if synchronised else 2)
    low, high = (np.array([getattr(e, name) for _, e in known]) for name in ("low", "high"))
    axes.errorbar(
        cycles * shift,
        values,
        yerr=np.nan_to_num(np.array([values - low, high - values])),
        **_line(mode),
        marker="s" if mode == "tas" else "o",
        markerfacecolor=None if synchronised else "white",
        linewidth=0.8,
        markersize=4,
        capsize=2,
        label=f"{_LABELS[mode]}, {'synchronised' if synchronised else 'free-running'}",
    )


def gated_parts(run: Run, load: str = IDLE) -> list[ShapingPart]:
    """Return a part of end stations for each cycle that was measured gated, the shortest first."""
    by_cycle: dict[int, ShapingPart] = {}
    for part in run.parts("end-station"):
        if part.gates and len(run.rows(part.name, "tas", load)):
            by_cycle.setdefault(part.gates.cycle, part)
    return [by_cycle[cycle] for cycle in sorted(by_cycle)]
