"""The data sources of a manuscript: the values, facts and figures of its runs.

Each source fills one column of the manuscript's tables. The key of a value of the first source is
that of its result, the key of another source is ``<source>.<key>`` and its figures are in
``<source>/...``. A declared result that a campaign did not measure has no value, and the reason as
its method.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.config.registry import experiment_of_key, experiments
from tsnrepro.published.derived_results import derive
from tsnrepro.records.values import FACTS, FACTS_FILE, VALUES_FILE, Result, load_file

STUDY = "study"
COMMIT = "testbed.commit"
_NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class DataSource:
    """A data source: its name, and the folders of its runs by experiment."""

    name: str
    runs: Mapping[str, Path]

    def values(self) -> dict[str, Result]:
        """Return the results of all runs, the facts of the first, and derived results, by key."""
        found: dict[str, Result] = {}
        for folder in self.runs.values():
            found |= load_file(folder / VALUES_FILE)
        for folder in list(self.runs.values())[:1]:
            found |= load_file(folder / FACTS_FILE)
        campaigns = {experiment: folder.parent for experiment, folder in self.runs.items()}
        return found | derive(found, campaigns)


@dataclass(frozen=True)
class DataSources:
    """The data sources of a manuscript, in order, and the folder of its study, if any.

    ``omitted`` sources are optional and have no runs: the manuscript prints none of their values.
    """

    sources: Sequence[DataSource]
    study: Path | None = None
    omitted: frozenset[str] = frozenset()

    def with_declared(self, names: Iterable[str], optional: Iterable[str] = ()) -> "DataSources":
        """Return the same with a source, empty if necessary, for each declared name.

        Imported data, for example, have no simulated source.
        """
        known = {source.name for source in self.sources}
        missing = [name for name in (*names, *optional) if name not in known]
        others = [DataSource(name, {}) for name in missing]
        return DataSources([*self.sources, *others], self.study, frozenset(optional) - known)

    def omits(self, key: str) -> bool:
        """Return whether a key is of an omitted source."""
        return self.resolve(key)[0].name in self.omitted

    @property
    def names(self) -> list[str]:
        """The names of the sources, in order."""
        return [source.name for source in self.sources]

    def values(self) -> dict[str, Result]:
        """Return all values by their key in the manuscript."""
        found = dict(load_file(self.study / VALUES_FILE)) if self.study else {}
        for prefix, source in self._prefixed("."):
            for key, result in source.values().items():
                found[prefix + key] = result.model_copy(update={"key": prefix + key})
        return found

    def commits(self, results: Iterable[Result]) -> dict[str, tuple[str, ...]]:
        """Return by key the commits of the runs of each result, as far as known.

        The runs of a source may be of different commits. The record of a study has no commit.
        """
        known: dict[Path, str] = {}
        for source in self.sources:
            for folder in source.runs.values():
                fact = load_file(folder / FACTS_FILE).get(COMMIT)
                if fact is not None and isinstance(fact.value, str):
                    known[folder] = fact.value
        found = {}
        for item in results:
            runs = self.resolve(item.key)[0].runs
            folders = [runs[name] for name in item.run.split("+") if name in runs]
            found[item.key] = tuple(dict.fromkeys(known[one] for one in folders if one in known))
        return found

    def _prefixed(self, separator: str) -> Iterator[tuple[str, DataSource]]:
        """Yield each source with its prefix, which is empty for the first."""
        for number, source in enumerate(self.sources):
            yield f"{source.name}{separator}" if number else "", source

    def resolve(self, key: str) -> tuple[DataSource, str]:
        """Return the source of a key, and the key in that source."""
        first, _, rest = key.partition(".")
        for source in self.sources[1:]:
            if source.name == first:
                return source, rest
        return self.sources[0], key

    def unmeasured(self, key: str) -> Result | None:
        """Return a result without a value for a declared key, None for any other key."""
        source, bare = self.resolve(key)
        if bare.split(".")[0] == STUDY:
            reason = f"{_NOT_MEASURED}: no study was computed" if self.study is None else ""
        elif bare in FACTS:
            reason = f"{_NOT_MEASURED}: this kind of testbed does not tell it"
        else:
            declared = experiment_of_key(bare)
            reason = _reason(source, declared.name) if declared else ""
        if not reason:
            return None
        unknown = {"value": None, "low": None, "high": None, "unit": "", "digits": 0}
        return Result(key=key, **unknown, method=reason, run="", trials=[], sha256="")

    def figures(self) -> Iterator[tuple[str, Path]]:
        """Yield the name in the manuscript, without suffix, and the path of every figure."""
        folders = {f"{STUDY}/": self.study} if self.study else {}
        for prefix, source in self._prefixed("/"):
            folders |= {f"{prefix}{name}/": folder for name, folder in source.runs.items()}
        for prefix, folder in folders.items():
            for path in sorted((folder / "figures").glob("*.pdf")):
                yield f"{prefix}{path.stem}", path

    def declares_figure(self, name: str) -> bool:
        """Return whether an experiment of a source, or the study, declares a figure."""
        *source, experiment, figure = name.split("/") if "/" in name else ("", "", name)
        if experiment == STUDY:
            return self.study is None
        known = not source or source[0] in self.names
        declared = experiments().get(experiment)
        return known and declared is not None and declared.caption(figure) is not None


def _reason(source: DataSource, experiment: str) -> str:
    if experiment not in source.runs:
        return f"{_NOT_MEASURED}: the column {source.name} has no experiment {experiment}"
    return f"{_NOT_MEASURED}: this campaign's {experiment} does not give it"


def parse_data_sources(options: Sequence[str], study: Path | None) -> DataSources:
    """Return data sources from options ``SOURCE=FOLDER``, one per run, in order.

    Raises PublishError if an option has no ``=``, or there is none.
    """
    runs: dict[str, dict[str, Path]] = {}
    for option in options:
        name, separator, folder = option.partition("=")
        if not separator:
            raise PublishError(f"'{option}' is not COLUMN=FOLDER", "--run")
        runs.setdefault(name, {})[Path(folder).name] = Path(folder)
    if not runs:
        raise PublishError("no run", "--run", "Name at least one")
    return DataSources([DataSource(name, folders) for name, folders in runs.items()], study)
