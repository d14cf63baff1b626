"""What the notebooks for people show: choices as widgets, and what was chosen below them.

A notebook calls one function a cell. All of it works where nothing was measured yet: it says so.
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
from tsnrepro.common.repository import root
from tsnrepro.explore import figures
from tsnrepro.explore.load import LATENCY_COLUMNS, Measured, RawTrial, compare, load
from tsnrepro.records.values import VALUES_FILE

_DOTS_PER_INCH = 100
# What answers while a slider moves is drawn coarser, and so in half the time.
_QUICK_DOTS_PER_INCH = 80
_STYLE = {"description_width": "8em"}
_HEAD_BYTES = 4000
_FRAMES_SHOWN = 40
_NOTHING = (
    "<p>Nothing was measured and analysed yet. In a terminal: <code>snakemake --cores 4</code></p>"
)


def campaigns() -> list[str]:
    """Return what :func:`tsnrepro.load` takes: ``testbed/campaign``, measured ones first."""
    places = {path.parents[1] for path in (root() / "results").glob(f"*/*/*/{VALUES_FILE}")}
    ordered = sorted(places, key=lambda place: (place.parent.name == "model", place))
    return [f"{place.parent.name}/{place.name}" for place in ordered]


@lru_cache(maxsize=8)
def _loaded(name: str) -> Measured:
    return load(name)


@lru_cache(maxsize=8)
def _trials(name: str, experiment: str) -> pd.DataFrame:
    return _loaded(name).trials(experiment)


def choose(description: str, options: list[Any], value: Any = None) -> Any:
    """Return a list to choose from; ``value`` is chosen where it is one of them."""
    chosen = value if value in options else (options[0] if options else None)
    return widgets.Dropdown(options=options, value=chosen, description=description, style=_STYLE)


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


def picture(figure: Figure, dots_per_inch: int = _DOTS_PER_INCH) -> bytes:
    """Return a figure as PNG."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=dots_per_inch)
    return target.getvalue()


def _following(act: Callable[..., list[Any]], **controls: Any) -> widgets.VBox:
    """Return what an action gives for the controls' values, again at every change of one.

    Whatever it returns becomes a widget, so that nothing hangs on where output is sent to.
    """
    box = widgets.VBox()

    def renew(*_: Any) -> None:
        values = {name: control.value for name, control in controls.items()}
        if None in values.values():
            return  # while a list gets other options, nothing of it is chosen
        try:
            box.children = [_as_widget(shown) for shown in act(**values)]
        except TsnreproError as error:
            box.children = [widgets.HTML(f"<p>{html.escape(str(error))}</p>")]

    for control in controls.values():
        control.observe(renew, names="value")
    renew()
    return box


def _as_widget(shown: Any) -> widgets.Widget:
    if isinstance(shown, Figure):
        return widgets.Image(value=picture(shown))
    return _scrolled(shown) if isinstance(shown, pd.DataFrame) else shown


# --- what was measured --------------------------------------------------------------------------


def overview(campaign: str = "") -> widgets.Widget:
    """Choose a campaign and an experiment: its figures, any factor over any other, its results."""
    there = campaigns()
    if not there:
        return widgets.HTML(_NOTHING)
    name, experiment = _campaign_and_experiment(there, campaign)
    return widgets.VBox(
        [name, experiment, _following(_experiment, name=name, experiment=experiment)]
    )


def _campaign_and_experiment(there: list[str], campaign: str) -> tuple[Any, Any]:
    """Return lists to choose a campaign from, and an experiment of it."""
    name = choose("campaign", there, campaign)
    experiment = choose("experiment", _loaded(name.value).experiments)
    _follow(name, experiment, lambda chosen: _loaded(chosen).experiments)
    return name, experiment


def _follow(
    leader: widgets.Dropdown, follower: widgets.Dropdown, options: Callable[[str], list[str]]
) -> None:
    """Give a list other options when what stands above it changes; keep the choice if it can."""

    def renew(change: Any) -> None:
        kept = follower.value
        offered = options(change["new"])
        follower.options = offered
        follower.value = kept if kept in offered else (offered[0] if offered else None)

    leader.observe(renew, names="value")


def _experiment(name: str, experiment: str) -> list[Any]:
    """Return figures of an experiment, a chooser of factors, and its results."""
    trials = _trials(name, experiment)
    shown: list[Any] = []
    if experiment == "loss":
        shown += [figures.loss_curves(trials), figures.where_lost(trials)]
    elif experiment in ("latency", "shaping"):
        series = _loaded(name).series(experiment)
        column = LATENCY_COLUMNS[experiment]
        shown.append(figures.latency_distributions(trials, series, column))
    shown.append(_factors(trials))
    values = _loaded(name).values
    chosen = values[values["experiment"] == experiment]
    shown.append(chosen[["value", "low", "high", "unit", "method"]])
    return shown


def _factors(trials: pd.DataFrame) -> widgets.Widget:
    """Return a figure of any column of trials over any other."""
    numbers = [c for c in trials.columns if pd.api.types.is_numeric_dtype(trials[c])]
    # Some columns hold whole settings, such as gate lists: no axis and no colour.
    plain = [c for c in trials.columns if trials[c].map(pd.api.types.is_scalar).all()]
    varied = [c for c in plain if 1 < trials[c].nunique(dropna=True) <= 24]
    factors = [c for c in varied if c not in ("trial", "sha256", "started")]
    if not numbers or not factors:
        return widgets.HTML("<p>No factor varies.</p>")
    liked = ("goodput_mbps", "loss_percent", "median_us", "recovery_ms", "lost")
    x = choose("over", factors + [c for c in numbers if c not in factors], factors[0])
    y = choose("draw", numbers, next((c for c in liked if c in numbers), numbers[-1]))
    colour = choose("colour", ["none", *factors], "configuration")

    def draw(x: str, y: str, colour: str) -> list[Any]:
        return [figures.any_factor(trials, x, y, None if colour == "none" else colour)]

    return widgets.VBox([widgets.HBox([y, x, colour]), _following(draw, x=x, y=y, colour=colour)])


def _scrolled(table: pd.DataFrame) -> widgets.HTML:
    """Return a table in a box of its own height."""
    text = table.to_html(border=0, float_format=lambda number: f"{number:.5g}")
    return widgets.HTML(
        '<div style="max-height: 22em; overflow: auto" tabindex="0">' + text + "</div>"
    )


# --- one trial ----------------------------------------------------------------------------------


def one_trial(campaign: str = "") -> widgets.Widget:
    """Choose a trial: where its datagrams went, what it kept over time, its record, raw output."""
    there = campaigns()
    if not there:
        return widgets.HTML(_NOTHING)
    name, experiment = _campaign_and_experiment(there, campaign)
    trial = choose("trial", _names(name.value, experiment.value))
    trial.layout.width = "40em"
    _follow(experiment, trial, lambda chosen: _names(name.value, chosen))
    name.observe(lambda _: setattr(trial, "options", _names(name.value, experiment.value)), "value")
    # One for all trials, whose sides stay the same: the one that was chosen stays, too.
    sides = widgets.Tab([widgets.HTML(), widgets.VBox()], titles=["record", "raw output"])
    shown = partial(_trial, sides)
    return widgets.VBox([name, experiment, trial, _following(shown, name=name, trial=trial)])


def _names(name: str, experiment: str) -> list[str]:
    return sorted(_trials(name, experiment)["trial"])


def _trial(sides: widgets.Tab, name: str, trial: str) -> list[Any]:
    from tsnrepro.explore.show import show  # noqa: PLC0415

    found = _loaded(name).raw(trial)
    output = choose("output", found.outputs, _first_text(found))
    record, raw = sides.children
    record.value = f"<pre>{html.escape(show(str(found.folder)))}</pre>"
    raw.children = [output, _following(partial(_raw, found), output=output)]
    return [figures.datagrams_of(found.record), figures.over_time(found), sides]


def _first_text(trial: RawTrial) -> str:
    liked = [name for name in trial.outputs if name.startswith(("iperf3", "sockperf", "ping"))]
    return (liked or ["trial.json"])[0]


def _raw(trial: RawTrial, output: str) -> list[Any]:
    """Return one output of a trial: a table of frames or rows, or the text it begins with."""
    data = trial.output(output)
    if ".pcap" in output:
        return [frames(data)]
    if output.endswith(".parquet"):
        return [pd.read_parquet(io.BytesIO(data)).head(_FRAMES_SHOWN)]
    if data.startswith(b"\x93NUMPY"):
        values = np.load(io.BytesIO(data), allow_pickle=False)
        return [pd.DataFrame(values[:_FRAMES_SHOWN])]
    text = data[:_HEAD_BYTES].decode(errors="replace")
    more = f"\n... {len(data) - _HEAD_BYTES} further bytes" if len(data) > _HEAD_BYTES else ""
    return [widgets.HTML(f"<pre>{html.escape(text + more)}</pre>")]


def frames(capture: bytes) -> pd.DataFrame:
    """Return the first frames of a capture: when, how long, R-TAG, ports, payload.

    Columns: ``time_us`` since the first frame, ``bytes``, ``sequence`` of the R-TAG,
    ``source_port``, ``destination_port``, ``payload_bytes``; empty where a frame has none.
    """
    from tsnrepro.captures.capture_file import read_capture  # noqa: PLC0415
    from tsnrepro.captures.dissect import dissect  # noqa: PLC0415

    read = read_capture(capture)
    told = dissect(read)[:_FRAMES_SHOWN]
    shown = ("sequence", "source_port", "destination_port", "payload_bytes")
    times = read.time_ns[: len(told)]
    table = pd.DataFrame(
        {
            "time_us": (times - times[0]) / 1000 if len(times) else times,
            "bytes": read.original_bytes[: len(told)],
            **{column: told[column] for column in shown},
        }
    )
    return table.astype({column: object for column in shown}).replace({c: {-1: ""} for c in shown})


# --- two campaigns ------------------------------------------------------------------------------


def comparison(one: str = "", other: str = "") -> widgets.Widget:
    """Choose two campaigns: what both measured, as ratios, and as a table."""
    there = campaigns()
    if not there:
        return widgets.HTML(_NOTHING)
    left, right = choose("first", there, one), choose("second", there, other or there[-1])
    of = choose("experiment", ["all", *_loaded(left.value).experiments])
    _follow(left, of, lambda chosen: ["all", *_loaded(chosen).experiments])

    def act(left: str, right: str, of: str) -> list[Any]:
        table = compare(_loaded(left), _loaded(right))
        chosen = table[table.index.str.startswith("" if of == "all" else f"{of}.")]
        return [figures.compared(chosen), chosen]

    return widgets.VBox([left, right, of, _following(act, left=left, right=right, of=of)])


# --- what if ------------------------------------------------------------------------------------


def _answering(
    controls: dict[str, Any], answer: Callable[..., Figure], sentence: str
) -> widgets.Widget:
    """Return sliders above a picture that follows them, with a sentence for those who hear it."""
    image = widgets.Image(format="png")

    def renew(*_: Any) -> None:
        given = {name: control.value for name, control in controls.items()}
        image.value = picture(answer(**given), _QUICK_DOTS_PER_INCH)

    for control in controls.values():
        control.observe(renew, names="value")
    renew()
    return widgets.VBox([*controls.values(), image, widgets.HTML(f"<p>{sentence}</p>")])


def what_if_loss() -> widgets.Widget:
    """Move buffer, stalls and paths: the model's loss over the load, by one path and by FRER."""
    controls = {
        "buffer_kb": _slider("receive buffer (kB)", 50, 4000, 213, 1),
        "stall_length_ms": _slider("stalls of the listener (ms)", 0.0, 10.0, 2.0, 0.1),
        "stall_interval_ms": _slider("between stalls (ms)", 5.0, 200.0, 20.0, 1.0),
        "paths": _slider("member paths of FRER", 2, 4, 2, 1),
        "path_loss_percent": _slider("lost on each path (%)", 0.0, 5.0, 0.1, 0.1),
        "path_skew_us": _slider("second path later by (µs)", 0.0, 1000.0, 0.0, 10.0),
    }
    return _answering(
        controls,
        loss_answer,
        "Simulated by the model, at the same random numbers for every answer: no measurement.",
    )


def loss_answer(
    *,
    buffer_kb: int,
    stall_length_ms: float,
    stall_interval_ms: float,
    paths: int,
    path_loss_percent: float,
    path_skew_us: float,
) -> Figure:
    """Return the figure for one setting of the sliders of :func:`what_if_loss`."""
    from tsnrepro.explore import what_if  # noqa: PLC0415 - the compiled model; most notebooks need none

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
    """Move a gate control list: the model's latencies behind gates, priorities and one queue."""
    controls = {
        "window_us": _slider("window of the stream (µs)", 5.0, 400.0, 100.0, 5.0),
        "cycle_us": _slider("cycle (µs)", 100.0, 1000.0, 500.0, 10.0),
        "load_mbps": _slider("load beside it (Mb/s)", 0.0, 950.0, 800.0, 10.0),
        "guard_band": widgets.Checkbox(value=True, description="guard band"),
    }
    return _answering(
        controls,
        gates_answer,
        "Simulated by the model. The stream does not know the cycle, so it meets it at every "
        "phase; a talker in step with the gates waits for none.",
    )


def gates_answer(
    *, window_us: float, cycle_us: float, load_mbps: float, guard_band: bool
) -> Figure:
    """Return the figure for one setting of the sliders of :func:`what_if_gates`."""
    from tsnrepro.explore import what_if  # noqa: PLC0415

    found = what_if.gated_latency(
        window_us=min(window_us, cycle_us - 5),
        cycle_us=cycle_us,
        load_mbps=load_mbps,
        guard_band=guard_band,
    )
    return figures.what_if_gates(found)
