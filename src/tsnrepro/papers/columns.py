"""What stands in the columns of a manuscript: the values, facts and files of its runs.

Values of the first column go by their keys; those of another by ``<column>.<key>``, and its files
by ``<column>/...``. What a column's campaign did not measure, but the experiment promises, is
there without a value, with the reason in its place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.config.registry import experiment_of_key, experiments
from tsnrepro.published.derived import derive
from tsnrepro.records.facts import FACTS
from tsnrepro.records.values import FACTS_FILE, VALUES_FILE, Result, load_file

STUDY = "study"
COMMIT = "testbed.commit"
_NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Column:
    """A column of a manuscript: its name, and the folders of its runs by experiment."""

    name: str
    runs: Mapping[str, Path]

    def values(self) -> dict[str, Result]:
        """Return the results of all runs, the first one's facts, and what follows, by key."""
        found: dict[str, Result] = {}
        for folder in self.runs.values():
            found |= load_file(folder / VALUES_FILE)
        for folder in list(self.runs.values())[:1]:
            found |= load_file(folder / FACTS_FILE)
        places = {experiment: folder.parent for experiment, folder in self.runs.items()}
        return found | derive(found, places)


@dataclass(frozen=True)
class Columns:
    """All columns of a manuscript, in order, with the folder of its study where it prints one.

    Those that are ``left_out`` are optional and empty: the manuscript prints nothing of them.
    """

    columns: Sequence[Column]
    study: Path | None = None
    left_out: frozenset[str] = frozenset()

    def declaring(self, names: Iterable[str], optional: Iterable[str] = ()) -> "Columns":
        """Return the same with a column for each name, empty where nothing stands in it.

        An imported data set, for example, has no model beside it.
        """
        there = {column.name for column in self.columns}
        lacking = [name for name in (*names, *optional) if name not in there]
        others = [Column(name, {}) for name in lacking]
        return Columns([*self.columns, *others], self.study, frozenset(optional) - there)

    def lack(self, key: str) -> bool:
        """Tell whether a key is of a column that is left out."""
        return self.split(key)[0].name in self.left_out

    @property
    def names(self) -> list[str]:
        """The names of the columns, the first one's first."""
        return [column.name for column in self.columns]

    def values(self) -> dict[str, Result]:
        """Return everything that is known, by the key that a manuscript names it by."""
        found = dict(load_file(self.study / VALUES_FILE)) if self.study else {}
        for prefix, column in self._prefixed("."):
            for key, result in column.values().items():
                found[prefix + key] = result.model_copy(update={"key": prefix + key})
        return found

    def commits(self, results: Iterable[Result]) -> dict[str, tuple[str, ...]]:
        """Return by key the commits that each result's own runs were made with, as far as known.

        Runs of a column may be of different commits, and those of two columns are. A study's record
        has none.
        """
        known: dict[Path, str] = {}
        for column in self.columns:
            for folder in column.runs.values():
                fact = load_file(folder / FACTS_FILE).get(COMMIT)
                if fact is not None and isinstance(fact.value, str):
                    known[folder] = fact.value
        found = {}
        for item in results:
            runs = self.split(item.key)[0].runs
            folders = [runs[name] for name in item.run.split("+") if name in runs]
            found[item.key] = tuple(dict.fromkeys(known[one] for one in folders if one in known))
        return found

    def _prefixed(self, separator: str) -> Iterator[tuple[str, Column]]:
        """Yield each column with what stands before its names: nothing for the first."""
        for number, column in enumerate(self.columns):
            yield f"{column.name}{separator}" if number else "", column

    def split(self, key: str) -> tuple[Column, str]:
        """Return the column that a key belongs to, and the key in that column."""
        first, _, rest = key.partition(".")
        for column in self.columns[1:]:
            if column.name == first:
                return column, rest
        return self.columns[0], key

    def unmeasured(self, key: str) -> Result | None:
        """Return a promised key's place without a value; None for a key that nothing promises."""
        column, bare = self.split(key)
        if bare.split(".")[0] == STUDY:
            reason = f"{_NOT_MEASURED}: no study was computed" if self.study is None else ""
        elif bare in FACTS:
            reason = f"{_NOT_MEASURED}: this kind of testbed does not tell it"
        else:
            declared = experiment_of_key(bare)
            reason = _why(column, declared.name) if declared else ""
        if not reason:
            return None
        nothing = {"value": None, "low": None, "high": None, "unit": "", "digits": 0}
        return Result(key=key, **nothing, method=reason, run="", trials=[], sha256="")

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield the name and path of every figure, as manuscripts name them without ending."""
        folders = {f"{STUDY}/": self.study} if self.study else {}
        for prefix, column in self._prefixed("/"):
            folders |= {f"{prefix}{name}/": folder for name, folder in column.runs.items()}
        for prefix, folder in folders.items():
            for path in sorted((folder / "figures").glob("*.pdf")):
                yield f"{prefix}{path.stem}", path

    def declares_figure(self, name: str) -> bool:
        """Tell whether a figure may come of a column, whether or not it was drawn."""
        *column, experiment, figure = name.split("/") if "/" in name else ("", "", name)
        if experiment == STUDY:
            return self.study is None
        known = not column or column[0] in self.names
        declared = experiments().get(experiment)
        return known and declared is not None and declared.caption(figure) is not None


def _why(column: Column, experiment: str) -> str:
    if experiment not in column.runs:
        return f"{_NOT_MEASURED}: the column {column.name} has no experiment {experiment}"
    return f"{_NOT_MEASURED}: this campaign's {experiment} does not give it"


def columns_of(named: Sequence[str], study: Path | None) -> Columns:
    """Return columns from words ``COLUMN=FOLDER``, a run each, in the order of the columns.

    Raises
    ------
    PublishError
        A word has no ``=``, or there is none.
    """
    runs: dict[str, dict[str, Path]] = {}
    for word in named:
        column, separator, folder = word.partition("=")
        if not separator:
            raise PublishError(f"'{word}' is not COLUMN=FOLDER", "--run")
        runs.setdefault(column, {})[Path(folder).name] = Path(folder)
    if not runs:
        raise PublishError("a manuscript without a run", "--run", "Name at least one")
    return Columns([Column(name, folders) for name, folders in runs.items()], study)
