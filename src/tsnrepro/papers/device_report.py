"""The tables, figures and JSON of a device report: what a record has of each test, row by row.

A test that was not made has no table. Beside the results of a bench stand those of its baseline,
the same campaign over a cable: what the cable does not carry is the bench's limit, not the
device's, and its median latency is the bench's own part.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tsnrepro.common.errors import PublishError
from tsnrepro.common.ethernet import main_payload_bytes
from tsnrepro.common.latex import escape
from tsnrepro.config.base import ConfigModel, load
from tsnrepro.experiments.loss.analysis import by_payload
from tsnrepro.experiments.loss.baseline import BENCH, DEVICE, NOTHING, beside_baseline
from tsnrepro.papers.data_sources import DataSources
from tsnrepro.published.derived_results import DerivedResult, RecordedValues, derived
from tsnrepro.records.values import FACTS, TABLES_FOLDER, Result
from tsnrepro.results.figures import COLOURS, GREY, MARKERS, loss_axis, new, save_pdf
from tsnrepro.results.numbers import TEX
from tsnrepro.results.verdicts import CANNOT_TELL

BASELINE = "baseline"
"""The column of the cable's results."""
FOLDER = "device"
"""Below ``tables/`` and ``figures/`` of the inputs."""
WORDS_FILE = "words.yaml"
LIMITED_BY = "limited_by"
_CONFIGURATION, _LOAD = "configuration", "load"
# Fields of a key, apart from words.
_FIELDS = {
    **dict.fromkeys(("frame", "payload"), r"\d+"),
    _CONFIGURATION: "control|frer",
    _LOAD: r"idle|loaded|throughput|full_load|(?:load|rate)_[0-9_]+",
}
# What `limited_by` says of searches that nothing but the line stopped, and of those that the ends
# of the bench stopped.
_UNLIMITED, _ENDS = {"line", "nothing"}, {"generator", "host"}
_WIDTH_INCHES, _HEIGHT_INCHES = 5.0, 1.9


@dataclass(frozen=True, eq=False)
class Test:
    """A test of the report.

    Attributes
    ----------
    name
        That of its table and its section.
    keys
        Form of its results' keys: ``{column}`` is one of ``columns``, other fields are factors.
    columns
        The first is printed with its limits, and beside the baseline's.
    standard
        Where it is defined; by default nowhere.
    first
        By factor, words of which the record's first alone is printed.
    median
        The column whose value in the baseline is taken off ``less``.
    less
        Columns of latencies, which are also printed without the bench's part.
    figure
        Its columns that are drawn, over the factor that is named first.
    either
        Columns of which one makes a row; by default the first.
    """

    name: str
    keys: str
    columns: tuple[str, ...]
    standard: str = ""
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    median: str = ""
    less: tuple[str, ...] = ()
    figure: tuple[str, ...] = ()
    either: tuple[str, ...] = ()

    @cached_property
    def factors(self) -> list[str]:
        """The factors, in the order of the key."""
        return [name for name in re.findall(r"\{(\w+)\}", self.keys) if name != "column"]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression of its keys."""

        def group(name: str) -> str:
            if name == "column":
                return f"(?P<column>{'|'.join(map(re.escape, self.columns))})"
            return f"(?P<{name}>{_FIELDS.get(name, '[a-z0-9_]+')})"

        parts = re.split(r"\{(\w+)\}", self.keys)
        return re.compile(
            "".join(group(part) if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
        )


TESTS = (
    Test(
        "throughput",
        "rfc2544.throughput.{search}.frame_{frame}.{configuration}.{column}",
        ("pps", "payload_mbps", "efficiency_percent", LIMITED_BY),
        standard="RFC 2544, 26.1",
        first={"search": ("binary_search", "rfc2544", "zero_loss", "systematic")},
        figure=("frame", "payload_mbps"),
    ),
    Test(
        "latency-rfc2544",
        "rfc2544.latency.frame_{frame}.{configuration}.{load}.{quantity}.{column}",
        ("p50_us", "mean_us", "p99_us"),
        standard="RFC 2544, 26.2",
        first={"quantity": ("one_way", "half_round_trip")},
        median="p50_us",
        less=("p50_us", "p99_us"),
    ),
    Test(
        "frame-loss",
        "rfc2544.frame_loss.frame_{frame}.{configuration}.{load}.{column}",
        ("percent", "offered_percent"),
        standard="RFC 2544, 26.3",
    ),
    Test(
        "back-to-back",
        "rfc2544.back_to_back.frame_{frame}.{configuration}.{column}",
        ("burst.count", "buffer.count", "buffer_us"),
        standard="RFC 2544, 26.4; RFC 9004",
    ),
    Test(
        "recovery",
        "rfc2544.system_recovery.frame_{frame}.{configuration}.{column}",
        ("ms",),
        standard="RFC 2544, 26.5",
    ),
    Test(
        "loss",
        "loss.{column}.{configuration}.mbps",
        ("highest_clean", "threshold", "line_limit"),
        # Where every load was lost there is no highest one.
        either=("highest_clean", "threshold"),
    ),
    Test(
        "latency",
        "latency.payload_{payload}.{column}.{configuration}.us",
        ("p50", "p90", "p99", "p99_9", "max"),
        median="p50",
        less=("p50", "p99"),
        figure=("payload", "p50", "p99"),
    ),
    Test("tcp", "tcp.{column}.{configuration}.mbps", ("goodput", "line_limit")),
    Test(
        "failure",
        "failure.{scenario}.{configuration}.{column}",
        ("lost", "duplicated", "reordered", "longest_silence_ms", "alarms"),
        standard="IEEE 802.1CB-2017, 7.4 and 7.6",
    ),
    Test(
        "shaping",
        "shaping.{part}.{mode}.{load}.{column}.us",
        ("p50", "p99", "max"),
        standard="IEEE 802.1Q-2022, 8.6.8",
        first={"load": ("loaded",)},
    ),
)
"""All tests, in the order of the report."""
GENERATED = tuple(f"tables/{FOLDER}/{test.name}.tex" for test in TESTS)
"""The tables that a manuscript may print."""


class Words(ConfigModel):
    """The words of a manuscript's tables and figures, in its language: ``words.yaml``."""

    heads: dict[str, str]
    """Heads by factor or column, in LaTeX; ``TEST.NAME`` is that of one test."""
    values: dict[str, str]
    """Values of factors and limits."""
    axes: dict[str, str]
    """Labels of the figures, in plain text."""

    def head(self, test: str, name: str) -> str:
        """Return the head of a column.

        Raises
        ------
        PublishError
            The file has none.
        """
        for key in (f"{test}.{name}", name):
            if key in self.heads:
                return self.heads[key]
        raise PublishError(f"there is no head '{name}' for the test '{test}'", WORDS_FILE)

    def value(self, text: str) -> str:
        """Return the word for a value; of one without a word the value, in LaTeX."""
        if delayed := re.fullmatch(r"([a-z_]+)_([\d_]+)_ms", text):
            return f"{self.value(delayed[1])} {delayed[2].replace('_', '.')} ms"
        return self.values.get(text) or escape(text.replace("_", " "))


@dataclass(frozen=True)
class Row:
    """One row of a test: its factors, and results by column.

    ``less`` are those of the device without the median of the baseline.
    """

    factors: Mapping[str, str]
    results: Mapping[str, Result]
    baseline: Mapping[str, Result]
    less: Mapping[str, Result]
    limited_by: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        parts = {"results": self.results, BASELINE: self.baseline, "less_baseline": self.less}
        found = {
            name: {column: _as_json(item) for column, item in part.items()}
            for name, part in parts.items()
            if part
        }
        limited = {LIMITED_BY: self.limited_by} if self.limited_by else {}
        return {**self.factors, **found, **limited}


class DeviceReport:
    """The generated parts of a device report.

    Parameters
    ----------
    words
        The file of its words.
    sources
        Its data sources; the one named ``baseline`` is that of the cable, if any.
    values
        Their values, by key in the manuscript.
    """

    def __init__(self, words: Path, sources: DataSources, values: Mapping[str, Result]) -> None:
        self._words = load(Words, words)
        self._values = values
        first, *others = sources.sources
        self._run = first.runs.get("loss")
        cables = [source.runs.get("loss") for source in others if source.name == BASELINE]
        self._cable = next((run for run in cables if run), None)
        self.rows = {test: list(self._rows(test)) for test in TESTS}

    # --- rows ---------------------------------------------------------------------------------

    def _rows(self, test: Test) -> Iterator[Row]:
        cells: dict[tuple[str, ...], dict[str, Result]] = {}
        for key, item in self._values.items():
            match = test.pattern.fullmatch(key)
            if match and _is_known(item):
                factors = tuple(match[name] for name in test.factors)
                cells.setdefault(factors, {})[match["column"]] = item
        needed = {*(test.either or test.columns[:1])}
        kept = [found for found in cells if cells[found].keys() & needed]
        for name, words in test.first.items():
            place = test.factors.index(name)
            there = {found[place] for found in kept}
            chosen = next((word for word in words if word in there), None)
            kept = [found for found in kept if found[place] == chosen]
        for found in sorted(kept, key=_natural):
            yield self._row(test, dict(zip(test.factors, found, strict=True)), cells[found])

    def _row(self, test: Test, factors: dict[str, str], results: dict[str, Result]) -> Row:
        beside = {
            column: item
            for column, key in self._keys(test, factors).items()
            if (item := self._values.get(f"{BASELINE}.{key}")) and _is_known(item)
        }
        less = {
            column: self._less(results[column], beside[test.median])
            for column in test.less
            if test.median in beside and beside[test.median].is_number and column in results
        }
        limited = self._limited_by(test, factors, results, beside)
        return Row(factors, results, beside, less, limited)

    @staticmethod
    def _keys(test: Test, factors: Mapping[str, str]) -> dict[str, str]:
        return {column: test.keys.format(column=column, **factors) for column in test.columns}

    def _less(self, item: Result, median: Result) -> Result:
        """Return a latency without the bench's own median, with limits by interval arithmetic."""
        wanted = DerivedResult(
            key=f"{item.key}.less_baseline",
            expression=f'measured("{item.key}") - measured("{median.key}")',
            unit=item.unit,
            digits=item.digits,
        )
        return derived(wanted, RecordedValues(self._values, {}))

    def _limited_by(
        self,
        test: Test,
        factors: Mapping[str, str],
        results: Mapping[str, Result],
        beside: Mapping[str, Result],
    ) -> str:
        """Return what limited a row; an empty text where that is not known."""
        first = test.columns[0]
        if test.name == "loss":
            return self._loss_limited_by(factors[_CONFIGURATION])
        if test.name == "frame-loss" and first in beside:
            return _limited(results[first].value != 0, beside[first].value != 0)
        if test.name == "throughput" and LIMITED_BY in results:
            recorded = str(results[LIMITED_BY].value)
            return _limit(recorded, results[first], beside[first]) if first in beside else recorded
        return ""

    def _loss_limited_by(self, configuration: str) -> str:
        """Return what limited the lowest load at which the main payload was lost."""
        table = self.loads
        if self._cable is None or table.empty:
            return ""
        main = table["payload_bytes"] == main_payload_bytes(table["payload_bytes"])
        chosen = table[main & (table["configuration"] == configuration)]
        lossy = chosen[chosen["trials_with_loss"] > 0].sort_values("target_mbps")
        if lossy.empty:
            return NOTHING if len(chosen) else ""
        lowest = lossy["limited_by"].iloc[0]
        return CANNOT_TELL if pd.isna(lowest) else str(lowest)

    @cached_property
    def loads(self) -> pd.DataFrame:
        """The loss by payload, configuration and load, beside the baseline's where there is one."""
        if self._run is None:
            return pd.DataFrame()
        device = _trials(self._run)
        if self._cable is None:
            return by_payload(device)
        return beside_baseline(device, _trials(self._cable))

    @property
    def derived(self) -> dict[str, Result]:
        """The results that the tables print and no experiment has, by key."""
        rows = (row for rows in self.rows.values() for row in rows)
        return {item.key: item for row in rows for item in row.less.values()}

    # --- tables -------------------------------------------------------------------------------

    def tables(self) -> dict[str, str]:
        """Return the tables of the tests that were made, by file."""
        return {
            f"tables/{FOLDER}/{test.name}.tex": self._table(test, _printed(test, rows))
            for test, rows in self.rows.items()
            if rows
        }

    def _table(self, test: Test, rows: list[Row]) -> str:
        factors = [name for name in test.factors if name not in test.first]
        first, *others = [c for c in test.columns if any(c in row.results for row in rows)]
        columns = [(first, [_cell("interval", row.results.get(first)) for row in rows])]
        if any(first in row.baseline for row in rows):
            cells = [_cell("val", row.baseline.get(first)) for row in rows]
            columns.append((BASELINE, cells))
        for name in (name for name in others if name != LIMITED_BY):
            columns.append((name, [_cell("val", row.results.get(name)) for row in rows]))
        for name in test.less:
            if any(name in row.less for row in rows):
                cells = [_cell("val", row.less.get(name)) for row in rows]
                columns.append((f"less_{name}", cells))
        if any(row.limited_by for row in rows):
            cells = [self._limit_cell(row) for row in rows]
            columns.append((LIMITED_BY, cells))
        heads = [self._words.head(test.name, name) for name in (*factors, *dict(columns))]
        lines = [
            " & ".join([*(self._factor(name, row.factors[name]) for name in factors), *cells])
            for row, cells in zip(rows, zip(*dict(columns).values(), strict=True), strict=True)
        ]
        kinds = "".join("r" if name in ("frame", "payload", _LOAD) else "l" for name in factors)
        body = " \\\\\n".join(lines)
        return (
            f"\\begin{{tabular}}{{@{{}}{kinds}{'r' * len(columns)}@{{}}}}\n\\toprule\n"
            f"{' & '.join(heads)} \\\\\n\\midrule\n{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n"
        )

    def _factor(self, name: str, text: str) -> str:
        number = re.fullmatch(r"(?:load|rate)_([\d_]+)", text) if name == _LOAD else None
        return number[1].replace("_", ".") if number else self._words.value(text)

    def _limit_cell(self, row: Row) -> str:
        found = row.results.get(LIMITED_BY)
        if found is not None and row.limited_by == found.value:
            return f"\\wordval{{{found.key}}}"
        return self._words.value(row.limited_by) if row.limited_by else TEX.unknown

    # --- figures ------------------------------------------------------------------------------

    def write_figures(self, output: Path) -> list[Path]:
        """Draw the tests that have a figure, and return the files."""
        folder, written = output / "figures" / FOLDER, []
        for test, rows in self.rows.items():
            if test.figure and rows:
                axes = self._axes(test.name)
                self._draw(axes, test, rows)
                written.append(self._save(axes, folder, test.name))
        if len(self.loads):
            axes = self._axes("loss")
            self._draw_loads(axes)
            written.append(self._save(axes, folder, "loss"))
        return written

    def _axes(self, name: str) -> Axes:
        figure, axes = new(_HEIGHT_INCHES, "")
        figure.set_size_inches(_WIDTH_INCHES, _HEIGHT_INCHES)
        for axis in "xy":
            label = self._words.axes[f"{name}.{axis}"]
            getattr(axes, f"set_{axis}label")(label)
        return axes

    def _save(self, axes: Axes, folder: Path, name: str) -> Path:
        figure = axes.figure
        assert isinstance(figure, Figure)
        figure.legend(loc="outside right upper")
        written = save_pdf(figure, folder, name)
        plt.close(figure)
        return written

    def _draw(self, axes: Axes, test: Test, rows: list[Row]) -> None:
        """Draw columns over a factor, with their limits; the baseline's in grey."""
        over, *columns = test.figure
        shown_trials: set[str] = set()
        sizes = sorted({row.factors[over] for row in rows}, key=int)
        for number, column in enumerate(columns):
            of = f", {self._words.axes[column]}" if len(columns) > 1 else ""
            for configuration, colour in COLOURS.items():
                chosen = [row for row in rows if row.factors[_CONFIGURATION] == configuration]
                aside = 0.08 if configuration == "frer" else -0.08
                style = {"fmt": MARKERS[configuration], "capsize": 1.5, "elinewidth": 0.7}
                style["markerfacecolor"] = "white" if number else colour
                for part, shade in (("results", colour), (BASELINE, GREY)):
                    label = self._words.axes[configuration] + of
                    if part == BASELINE:
                        style |= {"fmt": "x+"[number]}
                        label = f"{self._words.axes[BASELINE]}, {label}"
                    shown = [(row, getattr(row, part).get(column)) for row in chosen]
                    there = [(row, item) for row, item in shown if item and item.is_number]
                    if not there:
                        continue
                    shown_trials |= {trial for _, item in there for trial in item.trials}
                    places = [sizes.index(row.factors[over]) + aside for row, _ in there]
                    heights = [item.value for _, item in there]
                    errors = [*zip(*(_errors(item) for _, item in there), strict=True)]
                    axes.errorbar(places, heights, errors, color=shade, label=label, **style)
        parts = [part for row in rows for part in (row.results, row.baseline)]
        drawn = [part[column] for part in parts for column in columns if column in part]
        self._count(axes, len(shown_trials), len({t for item in drawn for t in item.trials}))
        axes.set_xticks(range(len(sizes)), sizes)
        axes.set_xlim(-0.5, len(sizes) - 0.5)
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])

    def _count(self, axes: Axes, shown: int, count: int) -> None:
        note = self._words.axes["trials"].format(shown=shown, count=count)
        axes.set_title(note, loc="right", color=GREY, pad=3)

    def _draw_loads(self, axes: Axes) -> None:
        """Draw the loss of the main payload over the load, and the baseline's as crosses."""
        table = self.loads
        chosen = table[table["payload_bytes"] == main_payload_bytes(table["payload_bytes"])]
        trials = chosen["trials"]
        self._count(axes, int(trials[chosen["loss_percent"].notna()].sum()), int(trials.sum()))
        columns = {"loss_percent": "", "loss_percent_baseline": f"{self._words.axes[BASELINE]}, "}
        for configuration, group in chosen.groupby("configuration"):
            name = str(configuration)
            for column, before in columns.items():
                if column not in group or group[column].isna().all():
                    continue
                beside = column != "loss_percent"
                axes.plot(
                    group["target_mbps"],
                    group[column],
                    ":x" if beside else f"-{MARKERS[name]}",
                    color=GREY if beside else COLOURS[name],
                    label=before + self._words.axes[name],
                )
        loss_axis(axes)

    # --- JSON ---------------------------------------------------------------------------------

    def as_json(self) -> str:
        """Return conditions, results and limits as text: what the tables print, and its origin."""
        facts = {key: item for key, item in self._values.items() if item.value is not None}
        document = {
            "conditions": _facts(facts, ""),
            BASELINE: _facts(facts, f"{BASELINE}.") or None,
            "tests": [
                {
                    "test": test.name,
                    "standard": test.standard or None,
                    "rows": [row.as_json() for row in rows],
                }
                for test, rows in self.rows.items()
                if rows
            ],
            "loss_by_load": json.loads(self.loads.to_json(orient="records")),
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _printed(test: Test, rows: list[Row]) -> list[Row]:
    """Return the rows of the table: of loss by load those from the last load without it."""
    if test.name != "frame-loss":
        return rows
    lossless = [row.results["percent"].value == 0 for row in rows]
    following = [*zip(rows, lossless, strict=True)][1:]
    return [
        row
        for number, row in enumerate(rows)
        if not lossless[number]
        or number == len(following)
        or not following[number][1]
        or _series(row) != _series(following[number][0])
    ]


def _series(row: Row) -> tuple[str, str]:
    return row.factors["frame"], row.factors[_CONFIGURATION]


def _facts(values: Mapping[str, Result], prefix: str) -> dict[str, Any]:
    """Return the facts of a testbed that are known, by name."""
    names = sorted(name for name in FACTS if prefix + name in values)
    return {name.removeprefix("testbed."): values[prefix + name].value for name in names}


def _as_json(item: Result) -> dict[str, Any]:
    kept = ("key", "value", "low", "high", "unit", "method", "run", "sha256")
    return {name: getattr(item, name) for name in kept} | {"trials": len(item.trials)}


def _limit(recorded: str, device: Result, baseline: Result) -> str:
    """Return what limits a rate that the cable has too; ``recorded`` is what the searches say."""
    causes = {*recorded.split(", ")}
    if causes <= _UNLIMITED:
        return NOTHING
    if not (device.is_number and baseline.is_number):
        return CANNOT_TELL
    own, cable = float(device.value or 0), float(baseline.value or 0)
    if causes <= _ENDS or cable <= own:
        return BENCH
    if device.decides and baseline.decides and None not in (device.high, baseline.low):
        return DEVICE if float(device.high or 0) < float(baseline.low or 0) else CANNOT_TELL
    return DEVICE


def _limited(lossy: bool, lossy_baseline: bool) -> str:
    if not lossy:
        return NOTHING
    return BENCH if lossy_baseline else DEVICE


def _trials(run: Path) -> pd.DataFrame:
    return pd.read_parquet(run / TABLES_FOLDER / "loss.parquet")


def _is_known(item: Result) -> bool:
    """Return whether a result has a value or a bound."""
    return (item.value, item.low, item.high) != (None, None, None)


def _natural(factors: tuple[str, ...]) -> list[tuple[float, str]]:
    """Return the order of rows: sizes and loads by their number, words by letters."""
    numbers = [re.fullmatch(r"(?:(?:load|rate)_)?(\d+)(?:_(\d+))?", text) for text in factors]
    return [
        (float(f"{number[1]}.{number[2] or 0}") if number else 0.0, text)
        for number, text in zip(numbers, factors, strict=True)
    ]


def _cell(command: str, item: Result | None) -> str:
    if item is None:
        return TEX.unknown
    # Of a result that is only bounded its bound.
    return f"\\{command if item.value is not None else 'interval'}{{{item.key}}}"


def _errors(item: Result) -> tuple[float, float]:
    """Return the lengths of the error bars; none for a mere range."""
    if not item.decides or not isinstance(item.value, int | float):
        return 0.0, 0.0
    low, high = (item.value if end is None else end for end in (item.low, item.high))
    return item.value - low, high - item.value
