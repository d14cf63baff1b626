"""Where every printed number comes from: as JSON, and as the appendix of a manuscript."""

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

# Up to so many trials are named in the appendix; provenance.json names all.
_NAMED_TRIALS = 6
SHORT_SUM = 16
_OF_CELL = ("value", "printed", "unit", "origin", "qualifier")


@dataclass(frozen=True)
class Made:
    """What a file of results was made by and from.

    ``program`` is the notebook that a rule ran, and ``code`` the digest of all that it reaches;
    ``trials`` of an experiment, or searches of a study, are those that the list with the checksum
    ``run`` holds.
    """

    rule: str
    program: str
    code: str
    experiment: str
    trials: int
    run: str


@dataclass(frozen=True)
class PrintedFile:
    """A figure or table file that a manuscript prints; ``path`` is below the results."""

    path: str
    sha256: str
    made: Made


@dataclass(frozen=True)
class Provenance:
    """All that a manuscript prints, with what it rests on.

    ``commit`` is that of the first column's first run; ``commits`` are those of each value's own.
    """

    commit: str
    commits: Mapping[str, tuple[str, ...]]
    measured: Mapping[str, Result]
    published: Mapping[str, Cell]
    files: tuple[PrintedFile, ...]
    places: Mapping[str, list[str]]
    columns: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return everything as JSON values, with the full list of trials of each value."""
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
                    "cell": {name: getattr(cell, name) for name in _OF_CELL},
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
        """Return the appendix: values by the trials they rest on, published cells, files."""
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
            group = (self._column(item.key), item.run, item.sha256, *item.trials)
            groups.setdefault(group, []).append(item)
        # The first column's first, what rests on no trials last.
        for (column, run, *_), items in sorted(
            groups.items(), key=lambda entry: (entry[0][0], not entry[0][1], entry[1][0].key)
        ):
            label = f"{run}, {self.columns[column]}" if run and self.columns else run
            yield _group(items[0], label, self.commits[items[0].key])
            yield from (_value(item) for item in sorted(items, key=lambda item: item.key))

    def _column(self, key: str) -> int:
        """Return the number of the column that a key stands in."""
        first = key.split(".", maxsplit=1)[0]
        return self.columns.index(first) if first in self.columns[1:] else 0


def short_commits(commits: Iterable[str]) -> str:
    """Return the first digits of all commits, empty for none."""
    return ", ".join(map(short_commit, commits))


def unit(text: str) -> str:
    """Return a unit as LaTeX source."""
    return TEX_UNITS.get(text) or escape(text)


def _value_with_interval(item: Result) -> str:
    """Return a result as the appendix prints it: value, interval and unit; words as they are."""
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
    named = item.trials if count <= _NAMED_TRIALS else [item.trials[0], item.trials[-1]]
    names = f"{', ' if count <= _NAMED_TRIALS else ' ... '}".join(map(breakable, named))
    return (
        f"\\trialgroup{{{escape(label)}}}{{{count}}}{{{names}}}"
        f"{{{item.sha256[:SHORT_SUM]}}}{{{escape(short_commits(commits)) or TEX.unknown}}}\n"
    )


def _value(item: Result) -> str:
    return (
        f"\\measuredvalue{{{item.key}}}{{{breakable(item.key)}}}"
        f"{{{_value_with_interval(item)}}}{{{escape(item.method)}}}\n"
    )


def _cell(key: str, cell: Cell) -> str:
    shown = numbers.printed(escape(cell.printed), cell.qualifier, TEX)
    has_unit = cell.printed and cell.unit not in ("", "1")
    with_unit = f"{shown}~{unit(cell.unit)}" if has_unit else shown
    return (
        f"\\publishedvalue{{{key}}}{{{breakable(key)}}}"
        f"{{{with_unit}}}{{{escape(cell.source)}}}{{{escape(cell.origin)}}}\n"
    )


def _file(item: PrintedFile) -> str:
    made, by, source = item.made, "", ""
    if made is not None:
        by = f"{escape(made.rule)}: {breakable(made.program)} {made.code}"
        source = (
            f"\\trialsof{{{escape(made.experiment)}}}{{{made.trials}}}{{{made.run[:SHORT_SUM]}}}"
        )
    place = item.path.removesuffix(".pdf")
    return (
        f"\\printedfile{{{place}}}{{{breakable(item.path)}}}{{{item.sha256[:SHORT_SUM]}}}"
        f"{{{by}}}{{{source}}}\n"
    )
