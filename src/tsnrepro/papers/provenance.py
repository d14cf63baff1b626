"""The provenance of every printed number: as JSON, and as the appendix of a manuscript."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import starmap
from typing import Any

from tsnrepro.common.latex import breakable, escape
from tsnrepro.common.repository import short_commit
from tsnrepro.published.tables import Cell
from tsnrepro.records.values import Result
from tsnrepro.results import numbers
from tsnrepro.results.numbers import TEX, TEX_UNITS

# The most trials that are listed in the appendix; provenance.json lists all.
_MAX_LISTED_TRIALS = 6
_KEYS_A_ROW = 12
SHORT_SUM = 16
_CELL_FIELDS = ("value", "printed", "unit", "origin", "qualifier")


@dataclass(frozen=True)
class FileOrigin:
    """The program and the trials that a file of results was made from.

    ``program`` is the notebook of the rule, ``code`` the digest of its code. ``trials`` is the
    number of trials of the experiment, or searches of the study, in the list with checksum ``run``.
    """

    rule: str
    program: str
    code: str
    experiment: str
    trials: int
    run: str


@dataclass(frozen=True)
class PrintedFile:
    """A figure or table that a manuscript prints; ``path`` is relative to the results."""

    path: str
    sha256: str
    made: FileOrigin


@dataclass(frozen=True)
class Provenance:
    """The values, cells and files that a manuscript prints.

    ``commit`` is that of the first run of the first data source, ``commits`` are those of each
    value.
    """

    commit: str
    commits: Mapping[str, tuple[str, ...]]
    measured: Mapping[str, Result]
    published: Mapping[str, Cell]
    files: tuple[PrintedFile, ...]
    places: Mapping[str, list[str]]
    sources: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the provenance as JSON values, with all trials of each value."""
        return {
            "commit": self.commit,
            "measured": [
                item.model_dump()
                | {"printed_at": self.places.get(key, []), "commits": list(self.commits[key])}
                for key, item in self.measured.items()
            ],
            "published": [
                {
                    "key": key,
                    "document": cell.source,
                    **{name: getattr(cell, name) for name in ("table", "row", "column")},
                    "cell": {name: getattr(cell, name) for name in _CELL_FIELDS},
                    "printed_at": self.places.get(key, []),
                }
                for key, cell in self.published.items()
            ],
            "files": [asdict(item) for item in self.files],
        }

    def as_json(self) -> str:
        """Return :meth:`document` as text."""
        return json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n"

    def as_tex(self) -> str:
        """Return the appendix: values grouped by their trials, published cells, files."""
        return "".join(
            (
                *_environment("measuredvalues", self._groups()),
                *_environment("publishedvalues", starmap(_cell, self.published.items())),
                *_environment("printedfiles", map(_file, self.files)),
            )
        )

    def _groups(self) -> Iterable[str]:
        groups: dict[tuple, list[Result]] = {}
        for item in self.measured.values():
            group = (self._source(item.key), item.run, item.sha256, *item.trials)
            groups.setdefault(group, []).append(item)
        # By data source, groups without trials last.
        for (source, run, *_), items in sorted(
            groups.items(), key=lambda entry: (entry[0][0], not entry[0][1], entry[1][0].key)
        ):
            label = f"{run}, {self.sources[source]}" if run and self.sources else run
            yield _group(items[0], label, self.commits[items[0].key])
            by_key = sorted(items, key=lambda item: item.key)
            yield from (_value(item) for item in by_key if _is_given(item))
            yield from _unknown(item for item in by_key if not _is_given(item))

    def _source(self, key: str) -> int:
        """Return the number of the data source of a key."""
        first = key.split(".", maxsplit=1)[0]
        return self.sources.index(first) if first in self.sources[1:] else 0


def short_commits(commits: Iterable[str]) -> str:
    """Return abbreviated commits, separated by commas."""
    return ", ".join(map(short_commit, commits))


def unit(text: str) -> str:
    """Return a unit as LaTeX source."""
    return TEX_UNITS.get(text) or escape(text)


def _value_with_interval(item: Result) -> str:
    """Return the value, interval and unit of a result, or its text."""
    if isinstance(item.value, str):
        return breakable(item.value)
    text = numbers.estimate(item, TEX)
    return f"{text}~{unit(item.unit)}" if item.unit else text


def _environment(name: str, rows: Iterable[str]) -> Iterable[str]:
    listed = list(rows)
    if listed:
        yield f"\\begin{{{name}}}\n"
        yield from listed
        yield f"\\end{{{name}}}\n"


def _group(item: Result, label: str, commits: Iterable[str]) -> str:
    count = len(item.trials)
    if not count:
        return f"\\notrials{{{escape(label or 'configuration')}}}\n"
    listed = item.trials if count <= _MAX_LISTED_TRIALS else [item.trials[0], item.trials[-1]]
    names = (", " if count <= _MAX_LISTED_TRIALS else " ... ").join(map(breakable, listed))
    return (
        f"\\trialgroup{{{escape(label)}}}{{{count}}}{{{names}}}"
        f"{{{item.sha256[:SHORT_SUM]}}}{{{escape(short_commits(commits)) or TEX.unknown}}}\n"
    )


def _value(item: Result) -> str:
    return (
        f"\\measuredvalue{{{item.key}}}{{{breakable(item.key)}}}"
        f"{{{_value_with_interval(item)}}}{{{escape(item.method)}}}\n"
    )


def _is_given(item: Result) -> bool:
    return bool(item.trials) or item.value is not None


def _unknown(items: Iterable[Result]) -> Iterable[str]:
    """Return values that no trial gives, several in a row: one each would fill pages."""
    keys: dict[str, list[str]] = {}
    for item in items:
        keys.setdefault(item.method, []).append(item.key)
    for method, named in keys.items():
        for first in range(0, len(named), _KEYS_A_ROW):
            row = named[first : first + _KEYS_A_ROW]
            listed = ", ".join(f"\\unknownvalue{{{key}}}{{{breakable(key)}}}" for key in row)
            yield f"\\unknownvalues{{{listed}}}{{{escape(method)}}}\n"


def _cell(key: str, cell: Cell) -> str:
    number = numbers.printed(escape(cell.printed), cell.qualifier, TEX)
    has_unit = cell.printed and cell.unit not in ("", "1")
    with_unit = f"{number}~{unit(cell.unit)}" if has_unit else number
    return (
        f"\\publishedvalue{{{key}}}{{{breakable(key)}}}"
        f"{{{with_unit}}}{{{escape(cell.source)}}}{{{escape(cell.origin)}}}\n"
    )


def _file(item: PrintedFile) -> str:
    made = item.made
    program = f"{escape(made.rule)}: {breakable(made.program)} {made.code}"
    trials = f"\\trialsof{{{escape(made.experiment)}}}{{{made.trials}}}{{{made.run[:SHORT_SUM]}}}"
    return (
        f"\\printedfile{{{item.path.removesuffix('.pdf')}}}{{{breakable(item.path)}}}"
        f"{{{item.sha256[:SHORT_SUM]}}}{{{program}}}{{{trials}}}\n"
    )
