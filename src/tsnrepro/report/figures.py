"""The figures of a run on its page: embedded images, and interactive plots.

The plots are Vega-Lite specifications (https://vega.github.io/vega-lite/), made with Altair; a
script of the site sets their encoding by its controls. The library that draws them is part of the
site, from vl-convert.
"""

import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.svg import data_uri, pdf_to_svg
from tsnrepro.records.values import FIGURES_FOLDER, Result
from tsnrepro.results.language import Translate
from tsnrepro.results.numbers import TEXT_UNITS
from tsnrepro.results.runs import AnalysedRun

_SVG = "image/svg+xml"
_COLOURS = 32
_HEIGHT = 340
_IDENTITY = ("trial", "sha256", "order", "started")
# The first of these columns that varies is on the axis, by default.
X_COLUMNS = (
    "scenario",
    *("offered_mbps", "target_mbps", "rate_mbps", "load_percent", "load_mbps", "frame_bytes"),
    *("payload_bytes", "switches", "hops", "duration_s", "load", "mode", "method"),
    "repetition",
)
_Y_COLUMNS = (
    *("loss_percent", "goodput_mbps", "p50_us", "half_round_trip_p50_us", "outage_ms", "lost"),
    *("throughput_mbps", "delivered_mbps", "reached_mbps", "deepest_bytes"),
)
COLOUR_COLUMNS = (
    "configuration",
    "mode",
    "scenario",
    "method",
    "source",
    "stream",
    "part",
    "question",
)
_MAX_COLOURS = 12
_LOG_DECADES = 3


# --- images ---------------------------------------------------------------------------------------


def origin(run: AnalysedRun, translate: Translate) -> str:
    """Return whose numbers a run's are, in the language of the report."""
    sentence = f"{run.facts['verb']} the {{label}}"
    return translate(sentence, label=translate(run.facts["label"]))


def figures_of(run: AnalysedRun, translate: Translate) -> Iterator[dict[str, str]]:
    """Yield the figures of a run in the order in which they are declared."""
    declared = run.experiment
    names = {path.stem for path in (run.folder / FIGURES_FOLDER).glob("*.*")}
    for pattern, caption in declared.figures.items():
        for name in sorted(name for name in names if fnmatchcase(name, pattern)):
            title = translate(caption)
            if name != pattern:
                title = f"{title} ({name.replace('-', ' ')})"
            yield {
                "name": f"{declared.name}-{name}",
                "path": f"{declared.name}/{name}",
                "caption": title,
                "origin": origin(run, translate),
                "source": _embedded(run.folder / FIGURES_FOLDER / name),
            }


def _embedded(stem: Path) -> str:
    """Return a figure as a data URI, converted where a browser does not support its format."""
    svg = stem.with_name(f"{stem.name}.svg")
    if svg.is_file():
        return data_uri(_SVG, svg.read_bytes())
    png = stem.with_name(f"{stem.name}.png")
    if png.is_file():
        return data_uri("image/webp", _webp(png.read_bytes()))
    return data_uri(_SVG, pdf_to_svg(stem.with_name(f"{stem.name}.pdf")))


def _webp(data: bytes) -> bytes:
    """Return a PNG with a reduced palette as lossless WebP, which is a fifth smaller.

    Raises
    ------
    PublishError
        It is not an image.
    """
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        image = Image.open(io.BytesIO(data)).convert("RGB")
    except UnidentifiedImageError as error:
        raise PublishError(f"a figure is not an image: {error}") from error
    packed = io.BytesIO()
    reduced = image.quantize(_COLOURS, dither=Image.Dither.NONE).convert("RGB")
    # The slowest method takes twenty times as long and saves one percent.
    reduced.save(packed, format="WEBP", lossless=True, quality=100, method=4)
    return packed.getvalue()


# --- plots ----------------------------------------------------------------------------------------


def vega_bundle() -> str:
    """Return the script of the plots: Vega, Vega-Lite and Vega-Embed."""
    import vl_convert  # noqa: PLC0415 - half a second

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def as_script(document: Any) -> Markup:
    """Return a document as JSON for a ``script`` element."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def trials_plot(trials: pd.DataFrame, page: str) -> dict[str, Any] | None:
    """Return the plot of the trials of a run with its controls, None where nothing varies.

    Parameters
    ----------
    trials
        One row per trial, with the column ``trial``.
    page
        Link to the list of trials, the target of a point.
    """
    import altair  # noqa: PLC0415 - a second

    data = varying(trials)
    columns = [str(name) for name in data.columns]
    numbers = [name for name in columns if pd.api.types.is_numeric_dtype(data[name])]
    numbers = [name for name in numbers if data[name].dtype != bool]
    texts = [name for name in columns if name not in numbers]
    if not numbers or len(data) < 2:
        return None
    outcomes = [name for name in numbers if name not in (*X_COLUMNS, "repetition")] or numbers
    chosen = {
        "x": _first(X_COLUMNS, numbers + texts) or numbers[0],
        "y": _first(_Y_COLUMNS, numbers) or outcomes[0],
        "color": _first(COLOUR_COLUMNS, texts) or (texts or numbers)[0],
    }
    few = [name for name in texts if data[name].nunique() <= _MAX_COLOURS] + numbers
    kinds = {name: "quantitative" if name in numbers else "nominal" for name in columns}
    axes = {name: _axis(data[name]) if name in numbers else {} for name in columns}
    encoded = {
        name: getattr(altair, name.capitalize())(field=field, type=kinds[field])
        for name, field in chosen.items()
    }
    chart = (
        altair.Chart(altair.InlineData(values=[]))
        .transform_calculate(address=f"{json.dumps(page + '#')} + datum.trial")
        .mark_point()
        .encode(
            **encoded,
            href=altair.Href(field="address", type="nominal"),
        )
        .properties(width="container", height=_HEIGHT)
    )
    labels = {"x": "X axis", "y": "Y axis", "color": "Colour"}
    return {
        "spec": as_script(_plain(chart)),
        # By column, a third of the size; the script converts it to rows.
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
                    {"name": name, "type": kinds[name], "axis": json.dumps(axes[name])}
                    for name in (few if channel == "color" else columns)
                ],
            }
            for channel, label in labels.items()
        ],
    }


def _axis(column: pd.Series) -> dict[str, Any]:
    """Return scale and ticks of an axis of numbers: logarithmic if they span three decades.

    Where some are 0 or below, the scale is linear up to the least of the others.
    """
    sizes = column.abs().astype(float)
    sizes = sizes[(sizes > 0) & (sizes < math.inf)]
    least, most = sizes.min(), sizes.max()
    if sizes.empty or most < 10**_LOG_DECADES * least:
        return {"scale": {"zero": False}}
    if (column.dropna() > 0).all():
        return {"scale": {"type": "log"}}
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    ticks = [float(f"1e{decade}") for decade in decades]
    below = [-tick for tick in ticks if (column < 0).any()]
    # Vega would take linear ticks, all at one end.
    return {
        "scale": {"type": "symlog", "constant": float(least)},
        "axis": {"values": [*below, 0, *ticks], "labelExpr": "format(datum.value, '~g')"},
    }


def _cell(cell: Any) -> Any:
    """Return a cell as a JSON value, numbers with six digits."""
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


def varying(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of scalars that are not the same in all trials."""
    kept = {}
    for name in trials.columns:
        column = trials[name]
        if name in _IDENTITY or column.map(_is_nested).any() or column.nunique() < 2:
            continue
        kept[name] = column
    return pd.DataFrame(kept)


def _is_nested(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str)


def _first(preferred: Sequence[str], data: Iterable[str]) -> str | None:
    available = {*data}
    return next((name for name in preferred if name in available), None)


def intervals_plot(values: Mapping[str, Result]) -> dict[str, Any] | None:
    """Return the plot of the values that have limits, by unit, None where there are none.

    The range of a few runs is dashed. A point is a link to the row of its value on the same page.
    """
    import altair  # noqa: PLC0415

    rows = [
        {
            "key": key,
            **{part: _number(getattr(item, part)) for part in ("value", "low", "high")},
            "unit": TEXT_UNITS.get(item.unit, item.unit),
            "limits": "at 95 %" if item.decides else "range",
        }
        for key, item in sorted(values.items())
        if item.is_number and None not in (item.low, item.high)
    ]
    if not rows:
        return None
    base = altair.Chart().transform_calculate(address="'#' + datum.key")
    base = base.encode(
        y=altair.Y("key:N", title=None, sort=None),
        href="address:N",
        tooltip=["key:N", "value:Q", "low:Q", "high:Q", "limits:N"],
    )
    dash = altair.condition("datum.limits == 'range'", altair.value([3, 3]), altair.value([1, 0]))
    chart = altair.layer(
        base.mark_rule().encode(
            x=altair.X("low:Q").scale(zero=False), x2="high:Q", strokeDash=dash
        ),
        base.mark_point().encode(x=altair.X("value:Q").scale(zero=False)),
        data=altair.InlineData(values=rows),
    ).properties(width="container")
    units = Counter(row["unit"] for row in rows)
    return {
        "spec": as_script(_plain(chart)),
        "units": [{"name": name, "count": count} for name, count in units.most_common()],
    }


def _plain(chart: Any) -> dict[str, Any]:
    """Return the specification of a chart without Altair's theme."""
    import altair  # noqa: PLC0415

    # The script of the page expects the data in the specification.
    with altair.data_transformers.enable(consolidate_datasets=False):
        document = chart.to_dict(validate=True)
    document.pop("config", None)
    return document
