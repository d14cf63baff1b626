"""Plots of a run that a page draws: its trials, and its values with their intervals.

They are Vega-Lite specifications (https://vega.github.io/vega-lite/), made with Altair; a script
of the site sets what its controls choose. The library that draws them lies in the site, from
vl-convert.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from tsnrepro.records.values import Result

_HEIGHT = 340
_IDENTITY = ("trial", "sha256", "order", "started")
# What a trial was set to comes across, what came out goes up; the first that varies is taken.
_ACROSS = (
    "scenario",
    *("offered_mbps", "target_mbps", "rate_mbps", "load_percent", "load_mbps", "frame_bytes"),
    *("payload_bytes", "switches", "hops", "duration_s", "load", "mode", "method"),
    "repetition",
)
_UP = (
    *("loss_percent", "goodput_mbps", "p50_us", "half_round_trip_p50_us", "outage_ms", "lost"),
    *("throughput_mbps", "delivered_mbps", "reached_mbps", "deepest_bytes"),
)
_COLOUR = ("configuration", "mode", "scenario", "method", "source", "stream", "part", "question")
_MOST_COLOURS = 12


def vega_bundle() -> str:
    """Return the script that draws the plots: Vega, Vega-Lite and Vega-Embed in one."""
    import vl_convert  # noqa: PLC0415 - half a second

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def as_script(document: Any) -> Markup:
    """Return a document as JSON that may stand inside a ``script`` element."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


# --- trials ---------------------------------------------------------------------------------------


def trials_plot(trials: pd.DataFrame, page: str) -> dict[str, Any] | None:
    """Return the plot of a run's trials with its controls, None where nothing varies.

    Parameters
    ----------
    trials
        One row a trial, with the column ``trial``.
    page
        Address of the page that lists them, where a point leads.
    """
    import altair  # noqa: PLC0415 - a second

    data = _varying(trials)
    columns = [str(name) for name in data.columns]
    numbers = [name for name in columns if pd.api.types.is_numeric_dtype(data[name])]
    numbers = [name for name in numbers if data[name].dtype != bool]
    words = [name for name in columns if name not in numbers]
    if not numbers or len(data) < 2:
        return None
    outcomes = [name for name in numbers if name not in (*_ACROSS, "repetition")] or numbers
    chosen = {
        "x": _first(_ACROSS, numbers + words) or numbers[0],
        "y": _first(_UP, numbers) or outcomes[0],
        "color": _first(_COLOUR, words) or (words or numbers)[0],
    }
    few = [name for name in words if data[name].nunique() <= _MOST_COLOURS] + numbers
    kinds = {name: "quantitative" if name in numbers else "nominal" for name in columns}
    encoded = {
        name: getattr(altair, name.capitalize())(field=field, type=kinds[field])
        for name, field in chosen.items()
    }
    chart = (
        altair.Chart(altair.InlineData(values=[]))
        .transform_calculate(address=f"{json.dumps(page + '#')} + datum.trial")
        .mark_point()
        .encode(
            x=encoded["x"].scale(zero=False),
            y=encoded["y"].scale(zero=False),
            color=encoded["color"],
            href=altair.Href(field="address", type="nominal"),
        )
        .properties(width="container", height=_HEIGHT)
    )
    names = {"x": "Across", "y": "Up", "color": "Colour"}
    return {
        "spec": as_script(_plain(chart)),
        # By column, which is a third of the size; the script makes rows of it.
        "data": as_script(
            {name: [_cell(cell) for cell in column] for name, column in data.items()}
            | {"trial": list(trials["trial"])}
        ),
        "controls": [
            {
                "channel": channel,
                "label": label,
                "chosen": chosen[channel],
                "options": [
                    {"name": name, "type": kinds[name]}
                    for name in (few if channel == "color" else columns)
                ],
            }
            for channel, label in names.items()
        ],
    }


def _cell(cell: Any) -> Any:
    """Return a cell as JSON has it, numbers with the digits that a plot can show."""
    if pd.isna(cell):
        return None
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, bool) else _number(cell)


def _number(cell: Any) -> Any:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return str(cell)
    return int(value) if value.is_integer() else float(f"{value:.6g}")


def _varying(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of single values that are not the same in all trials."""
    kept = {}
    for name in trials.columns:
        column = trials[name]
        if name in _IDENTITY or column.map(_is_nested).any() or column.nunique() < 2:
            continue
        kept[name] = column
    return pd.DataFrame(kept)


def _is_nested(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str)


def _first(wanted: Sequence[str], data: Iterable[str]) -> str | None:
    there = {*data}
    return next((name for name in wanted if name in there), None)


# --- values ---------------------------------------------------------------------------------------


def intervals_plot(values: Mapping[str, Result]) -> dict[str, Any] | None:
    """Return the plot of the values that have limits, by unit, None where there are none.

    A point leads to the row of its value on the same page.
    """
    import altair  # noqa: PLC0415

    rows = [
        {
            "key": key,
            **{part: _number(getattr(item, part)) for part in ("value", "low", "high")},
            "unit": item.unit,
        }
        for key, item in sorted(values.items())
        if item.is_number and item.decides and None not in (item.low, item.high)
    ]
    if not rows:
        return None
    base = altair.Chart().transform_calculate(address="'#' + datum.key")
    base = base.encode(
        y=altair.Y("key:N", title=None, sort=None),
        href="address:N",
        tooltip=["key:N", "value:Q", "low:Q", "high:Q"],
    )
    chart = altair.layer(
        base.mark_rule().encode(x=altair.X("low:Q").scale(zero=False), x2="high:Q"),
        base.mark_point().encode(x=altair.X("value:Q").scale(zero=False)),
        data=altair.InlineData(values=rows),
    ).properties(width="container")
    units = Counter(row["unit"] for row in rows)
    return {
        "spec": as_script(_plain(chart)),
        "units": [{"name": name, "count": count} for name, count in units.most_common()],
    }


def _plain(chart: Any) -> dict[str, Any]:
    """Return a chart's specification without Altair's own look, which is the page's."""
    import altair  # noqa: PLC0415

    # The data stay where the page's script looks for them.
    with altair.data_transformers.enable(consolidate_datasets=False):
        document = chart.to_dict(validate=True)
    document.pop("config", None)
    return document
