"""The widgets of the interactive notebooks: controls, and the figures and tables that follow them.

A notebook calls one function per cell. Without results the widgets show how to measure.
"""

import html
import io
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import ipywidgets as widgets
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.common.errors import TsnreproError
from tsnrepro.config.registry import experiments
from tsnrepro.explore import figures
from tsnrepro.explore.load import Measured, campaign_names, compare, latency_column, load
from tsnrepro.explore.show import RawTrial, show

_DOTS_PER_INCH = 100
# Figures that follow a slider are coarser, and drawn in half the time.
_SLIDER_DOTS_PER_INCH = 80
_STYLE = {"description_width": "8em"}
_HEAD_BYTES = 4000
_MAX_ROWS = 40
_NOTHING = "<p>There are no results yet. In a terminal: <code>snakemake --cores 4</code></p>"


@lru_cache(maxsize=8)
def _loaded(name: str) -> Measured:
    return load(name)


@lru_cache(maxsize=8)
def _trials(name: str, experiment: str) -> pd.DataFrame:
    return _loaded(name).trials(experiment)


def choose(description: str, options: list[Any], value: Any = None) -> Any:
    """Return a dropdown list; ``value`` is selected if it is an option."""
    selected = value if value in options else (options[0] if options else None)
    return widgets.Dropdown(options=options, value=selected, description=description, style=_STYLE)


def _slider(description: str, low: float, high: float, value: float, step: float) -> Any:
    kind = widgets.IntSlider if isinstance(step, int) else widgets.FloatSlider
    return kind(
        value=value,
        min=low,
        max=high,
        step=step,
        description=description,
        style={"description_width": "15em"},
        layout={"width": "36em"},
        continuous_update=True,
    )


def png(figure: Figure, dots_per_inch: int = _DOTS_PER_INCH) -> bytes:
    """Return a figure as PNG."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=dots_per_inch)
    return target.getvalue()


def _following(act: Callable[..., list[Any]], **controls: Any) -> widgets.VBox:
    """Return a box with the result of an action on the values of controls, updated on change.

    Results are converted to widgets, since the output of a callback is not shown in a cell.
    """
    box = widgets.VBox()

    def update(*_: Any) -> None:
        values = {name: control.value for name, control in controls.items()}
        if None in values.values():
            return  # a list that gets other options has no selection
        try:
            box.children = [_as_widget(shown) for shown in act(**values)]
        except TsnreproError as error:
            box.children = [widgets.HTML(f"<p>{html.escape(str(error))}</p>")]

    for control in controls.values():
        control.observe(update, names="value")
    update()
    return box


def _as_widget(shown: Any) -> widgets.Widget:
    if isinstance(shown, Figure):
        return widgets.Image(value=png(shown))
    return _scrolled(shown) if isinstance(shown, pd.DataFrame) else shown


# --- results ------------------------------------------------------------------------------------


def overview(campaign: str = "") -> widgets.Widget:
    """Show figures, factors and results of a selected campaign and experiment."""
    there = campaign_names()
    if not there:
        return widgets.HTML(_NOTHING)
    name, experiment = _campaign_and_experiment(there, campaign)
    return widgets.VBox(
        [name, experiment, _following(_experiment, name=name, experiment=experiment)]
    )


def _campaign_and_experiment(there: list[str], campaign: str) -> tuple[Any, Any]:
    """Return dropdown lists of the campaigns and of the experiments of the selected one."""
    name = choose("campaign", there, campaign)
    experiment = choose("experiment", _loaded(name.value).experiments)
    _follow(name, experiment, lambda selected: _loaded(selected).experiments)
    return name, experiment


def _follow(
    leader: widgets.Dropdown, follower: widgets.Dropdown, options: Callable[[str], list[str]]
) -> None:
    """Update the options of a list when another changes, and keep its selection if possible."""

    def update(change: Any) -> None:
        kept = follower.value
        offered = options(change["new"])
        follower.options = offered
        follower.value = kept if kept in offered else (offered[0] if offered else None)

    leader.observe(update, names="value")


def _experiment(name: str, experiment: str) -> list[Any]:
    """Return the figures of an experiment, a figure of any factors, and its results."""
    trials = _trials(name, experiment)
    shown: list[Any] = []
    if experiment == "loss":
        shown += [figures.loss_curves(trials), figures.where_lost(trials)]
    elif experiments()[experiment].singles:
        series = _loaded(name).series(experiment)
        column = latency_column(experiment, trials)
        shown.append(figures.latency_distributions(trials, series, column))
    shown.append(_factors(trials))
    values = _loaded(name).values
    chosen = values[values["experiment"] == experiment]
    shown.append(chosen[["value", "low", "high", "unit", "method"]])
    return shown


def _factors(trials: pd.DataFrame) -> widgets.Widget:
    """Return a figure of any column of trials over any other."""
    numbers = [c for c in trials.columns if pd.api.types.is_numeric_dtype(trials[c])]
    # Columns with nested settings, such as gate lists, are neither axis nor colour.
    scalar = [c for c in trials.columns if trials[c].map(pd.api.types.is_scalar).all()]
    varied = [c for c in scalar if 1 < trials[c].nunique(dropna=True) <= 24]
    factors = [c for c in varied if c not in ("trial", "sha256", "started")]
    if not numbers or not factors:
        return widgets.HTML("<p>No factor varies.</p>")
    preferred = ("goodput_mbps", "loss_percent", "median_us", "recovery_ms", "lost")
    x = choose("over", factors + [c for c in numbers if c not in factors], factors[0])
    y = choose("draw", numbers, next((c for c in preferred if c in numbers), numbers[-1]))
    colour = choose("colour", ["none", *factors], "configuration")

    def draw(x: str, y: str, colour: str) -> list[Any]:
        return [figures.any_factor(trials, x, y, None if colour == "none" else colour)]

    return widgets.VBox([widgets.HBox([y, x, colour]), _following(draw, x=x, y=y, colour=colour)])


def _scrolled(table: pd.DataFrame) -> widgets.HTML:
    """Return a table in a scrollable box."""
    text = table.to_html(border=0, float_format=lambda number: f"{number:.5g}")
    return widgets.HTML(
        '<div style="max-height: 22em; overflow: auto" tabindex="0">' + text + "</div>"
    )


# --- one trial ----------------------------------------------------------------------------------


def one_trial(campaign: str = "") -> widgets.Widget:
    """Show the accounting, datagrams over time, record and raw output of a selected trial."""
    there = campaign_names()
    if not there:
        return widgets.HTML(_NOTHING)
    name, experiment = _campaign_and_experiment(there, campaign)
    trial = choose("trial", _names(name.value, experiment.value))
    trial.layout.width = "40em"
    _follow(experiment, trial, lambda selected: _names(name.value, selected))
    name.observe(lambda _: setattr(trial, "options", _names(name.value, experiment.value)), "value")
    # The same tabs for all trials, so that the selected tab is kept.
    tabs = widgets.Tab([widgets.HTML(), widgets.VBox()], titles=["record", "raw output"])
    shown = partial(_trial, tabs)
    return widgets.VBox([name, experiment, trial, _following(shown, name=name, trial=trial)])


def _names(name: str, experiment: str) -> list[str]:
    return sorted(_trials(name, experiment)["trial"])


def _trial(tabs: widgets.Tab, name: str, trial: str) -> list[Any]:
    found = _loaded(name).raw(trial)
    output = choose("output", found.outputs, _first_text(found))
    record, raw = tabs.children
    record.value = f"<pre>{html.escape(show(str(found.folder)))}</pre>"
    raw.children = [output, _following(partial(_raw, found), output=output)]
    return [figures.datagrams_of(found.record), figures.over_time(found), tabs]


def _first_text(trial: RawTrial) -> str:
    texts = [name for name in trial.outputs if name.startswith(("iperf3", "sockperf", "ping"))]
    return (texts or ["trial.json"])[0]


def _raw(trial: RawTrial, output: str) -> list[Any]:
    """Return one output of a trial: a table of frames or rows, or the beginning of its text."""
    data = trial.output(output)
    if ".pcap" in output:
        return _first_rows(frames(data))
    if output.endswith(".parquet"):
        return _first_rows(pd.read_parquet(io.BytesIO(data)))
    if data.startswith(b"\x93NUMPY"):
        return _first_rows(pd.DataFrame(np.load(io.BytesIO(data), allow_pickle=False)))
    text = data[:_HEAD_BYTES].decode(errors="replace")
    more = f"\n... {len(data) - _HEAD_BYTES} further bytes" if len(data) > _HEAD_BYTES else ""
    return [widgets.HTML(f"<pre>{html.escape(text + more)}</pre>")]


def _first_rows(table: pd.DataFrame) -> list[Any]:
    """Return the beginning of a table, and how much of it is not shown."""
    further = len(table) - _MAX_ROWS
    rows = "row" if further == 1 else "rows"
    more = [widgets.HTML(f"<p>{further:,} further {rows}</p>")] if further > 0 else []
    return [table.head(_MAX_ROWS), *more]


def frames(capture: bytes) -> pd.DataFrame:
    """Return the frames of a capture: time, length, R-TAG, ports, payload.

    Columns: ``time_us`` since the first frame, ``bytes``, ``sequence`` of the R-TAG,
    ``source_port``, ``destination_port``, ``payload_bytes``; empty if a frame has none.
    """
    from tsnrepro.experiments.capture.capture_file import read_capture  # noqa: PLC0415
    from tsnrepro.experiments.capture.dissect import dissect  # noqa: PLC0415

    read = read_capture(capture)
    fields = dissect(read)
    shown = ("sequence", "source_port", "destination_port", "payload_bytes")
    times = read.time_ns[: len(fields)]
    table = pd.DataFrame(
        {
            "time_us": (times - times[0]) / 1000 if len(times) else times,
            "bytes": read.original_bytes[: len(fields)],
            **{column: fields[column] for column in shown},
        }
    )
    return table.astype({column: object for column in shown}).replace({c: {-1: ""} for c in shown})


# --- two campaigns ------------------------------------------------------------------------------


def _pair(there: list[str], one: str, other: str) -> tuple[str, str]:
    """Return two campaigns to begin with, the first and the last that share an experiment.

    Those that are given stay.
    """
    for left in [one] if one else there:
        for right in [other] if other else reversed(there):
            shared = {*_loaded(left).experiments} & {*_loaded(right).experiments}
            if shared and left != right:
                return left, right
    return one or there[0], other or there[-1]


def comparison(one: str = "", other: str = "") -> widgets.Widget:
    """Show the common results of two selected campaigns, as ratios and as a table."""
    there = campaign_names()
    if not there:
        return widgets.HTML(_NOTHING)
    one, other = _pair(there, one, other)
    left, right = choose("first", there, one), choose("second", there, other)
    of = choose("experiment", ["all", *_loaded(left.value).experiments])
    _follow(left, of, lambda selected: ["all", *_loaded(selected).experiments])

    def act(left: str, right: str, of: str) -> list[Any]:
        table = compare(_loaded(left), _loaded(right))
        chosen = table[table.index.str.startswith("" if of == "all" else f"{of}.")]
        words = chosen["apart"].map({True: "yes", False: "no"}).fillna("unknown: no interval")
        return [figures.compared(chosen), chosen.assign(apart=words)]

    return widgets.VBox([left, right, of, _following(act, left=left, right=right, of=of)])


# --- simulations --------------------------------------------------------------------------------


def _sliders(controls: dict[str, Any], draw: Callable[..., Figure], caption: str) -> widgets.Widget:
    """Return sliders, a figure that follows them, and its caption."""
    image = widgets.Image(format="png")

    def update(*_: Any) -> None:
        given = {name: control.value for name, control in controls.items()}
        image.value = png(draw(**given), _SLIDER_DOTS_PER_INCH)

    for control in controls.values():
        control.observe(update, names="value")
    update()
    return widgets.VBox([*controls.values(), image, widgets.HTML(f"<p>{caption}</p>")])


def what_if_loss() -> widgets.Widget:
    """Show the simulated loss over load by buffer, stalls and paths, with and without FRER."""
    controls = {
        "buffer_kb": _slider("receive buffer (kB)", 50, 4000, 213, 1),
        "stall_length_ms": _slider("stalls of the listener (ms)", 0.0, 10.0, 2.0, 0.1),
        "stall_interval_ms": _slider("between stalls (ms)", 5.0, 200.0, 20.0, 1.0),
        "paths": _slider("member paths of FRER", 2, 4, 2, 1),
        "path_loss_percent": _slider("lost on each path (%)", 0.0, 5.0, 0.1, 0.1),
        "path_skew_us": _slider("second path later by (µs)", 0.0, 1000.0, 0.0, 10.0),
    }
    return _sliders(
        controls,
        loss_figure,
        "Simulated by the model with the same random numbers for every setting; not measured.",
    )


def loss_figure(
    *,
    buffer_kb: int,
    stall_length_ms: float,
    stall_interval_ms: float,
    paths: int,
    path_loss_percent: float,
    path_skew_us: float,
) -> Figure:
    """Return the figure of one setting of :func:`what_if_loss`."""
    from tsnrepro.explore import what_if  # noqa: PLC0415 - the compiled model

    found = what_if.loss_over_load(
        paths=paths,
        receive_buffer_bytes=1000 * buffer_kb,
        stall_length_ms=stall_length_ms,
        stall_interval_ms=stall_interval_ms,
        path_loss_probability=path_loss_percent / 100,
        path_skew_us=path_skew_us,
    )
    return figures.what_if_loss(found)


def what_if_gates() -> widgets.Widget:
    """Show the simulated latencies behind gates, strict priority and one queue."""
    controls = {
        "window_us": _slider("window of the stream (µs)", 5.0, 400.0, 100.0, 5.0),
        "cycle_us": _slider("cycle (µs)", 100.0, 1000.0, 500.0, 10.0),
        "load_mbps": _slider("load beside it (Mb/s)", 0.0, 950.0, 800.0, 10.0),
        "guard_band": widgets.Checkbox(value=True, description="guard band"),
    }
    return _sliders(
        controls,
        gates_figure,
        "Simulated by the model. The stream is not synchronized to the cycle, so it arrives at "
        "every phase; a synchronized talker would not wait.",
    )


def gates_figure(
    *, window_us: float, cycle_us: float, load_mbps: float, guard_band: bool
) -> Figure:
    """Return the figure of one setting of :func:`what_if_gates`."""
    from tsnrepro.explore import what_if  # noqa: PLC0415

    found = what_if.gated_latency(
        window_us=min(window_us, cycle_us - 5),
        cycle_us=cycle_us,
        load_mbps=load_mbps,
        guard_band=guard_band,
    )
    return figures.what_if_gates(found)
