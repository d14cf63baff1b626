"""The registry of experiments: name, title, kinds of testbed, and the results each declares.

Each folder of ``tsnrepro.experiments`` with a ``settings.py`` holds one experiment, which that
declares as ``EXPERIMENT``. The folder's name is also the name of its notebooks in notebooks/measure
and notebooks/analyse, of its section in a campaign's file, of its folders in the raw store and the
results, and the first word of its results' keys. Rules, report, papers and messages are made from
the declarations; there is no other list of experiments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import get_args

from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.topology import TestbedKind
from tsnrepro.config.base import ConfigModel

EMULATED, GUEST, MODEL, RACK, NIC_PAIR, BENCH = get_args(TestbedKind)
SHARED_KINDS = (RACK, NIC_PAIR, BENCH)
"""Kinds of testbeds of somebody's hosts or ports: ``testbed: auto`` never takes them."""
LOCAL_KINDS = (EMULATED, BENCH)
"""Kinds of testbeds whose talker and listener are namespaces of this machine."""
_LAST = 100
GRID = "grid"
"""Notebook that analyses an experiment under a campaign that varies settings, and its table."""
GRID_KEYS = ("grid.points.count", "grid.trials.count")
"""What follows the experiment's name in the keys of a grid's results."""
BESIDE_VERDICT = (
    *("unadjusted.p", "unadjusted.verdict", "exploratory.p"),
    *(f"power.{name}.percent" for name in ("detectable", "scatter")),
    *(f"power.{name}.count" for name in ("observed", "repetitions")),
)
"""Keys beside that of a verdict: each experiment that declares a verdict declares them too."""

_CHOICE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Experiment:
    """One declaration of an experiment.

    Attributes
    ----------
    settings
        The model of its section in a campaign's file.
    title
        What it measures, for headings and lists.
    kinds
        The kinds of testbed that it can be measured on, the one to prefer first; those of
        ``SHARED_KINDS`` are only taken when named.
    qdiscs
        Queueing disciplines that it needs of the kernel.
    several_streams
        Whether switches have to tell several streams apart.
    keeps_frames
        Whether its raw data are frames as they were, addresses and all.
    own_network
        Whether its FRER streams run over networks of its own, not over the testbed's switches.
    tables
        Tables that its analysis may write, apart from that of its trials; ``*`` stands for any
        text.
    figures
        Captions of the figures that its analysis may draw, by name; ``*`` as in ``tables``.
    keys
        Patterns of the keys of its results. ``{a,b}`` is one of several names, ``*`` any one name
        that follows from the campaign, such as a frame size. A paper may print any key that fits:
        where the campaign did not measure it, it prints a dash. Other keys stop the build.
    outcomes
        Columns of its trials that answer its question: lists of trials and tables of grids show
        them. By default a grid's table has all numbers of its results.
    singles
        Column of the single values of its trials, with the unit, such as ``latency_us``: the
        function ``series`` of its module ``analysis`` returns them by trial for the path of
        ``run.json``. Empty where trials have none.
    notebook
        The notebook of notebooks/analyse that makes its results, by default that of its name.
    reads
        Files of the repository that its analysis reads beside the run.
    order
        Where it stands among the others; the name decides between equals.
    name
        Set from the module that declares it.
    """

    settings: type[ConfigModel]
    title: str
    kinds: tuple[str, ...] = (EMULATED, MODEL)
    qdiscs: tuple[str, ...] = ()
    several_streams: bool = False
    keeps_frames: bool = False
    own_network: bool = False
    tables: tuple[str, ...] = ()
    figures: dict[str, str] = field(default_factory=dict, hash=False)
    keys: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    singles: str = ""
    notebook: str = ""
    reads: tuple[str, ...] = ()
    order: int = _LAST
    name: str = ""

    @property
    def analysing_notebook(self) -> str:
        """The notebook that makes its results, relative to the repository."""
        return f"notebooks/analyse/{self.notebook or self.name}.ipynb"

    def analysis_digest(self) -> str:
        """Return the SHA-256 (16 hex digits) of its analysis and of the files that this reads."""
        return code_digest(self.analysing_notebook, data=self.reads)

    def declares_key(self, key: str) -> bool:
        """Tell whether a result of this key may come of the experiment."""
        for name in BESIDE_VERDICT:
            if key.endswith(f".{name}"):
                key = f"{key.removesuffix(name)}verdict"
        in_grid = key.removeprefix(f"{self.name}.")
        return in_grid in GRID_KEYS or any(pattern.fullmatch(key) for pattern in self._patterns)

    def caption(self, figure: str) -> str | None:
        """Return the caption of a figure, None where it was not declared."""
        for pattern, caption in self.figures.items():
            if fnmatchcase(figure, pattern):
                return caption
        return None

    def declares_table(self, table: str) -> bool:
        """Tell whether the analysis may write a table of this name."""
        return table in {self.name, GRID} or any(fnmatchcase(table, name) for name in self.tables)

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        return [
            re.compile(_as_expression(key))
            for pattern in self.keys
            for key in _alternatives(pattern)
        ]


def _alternatives(pattern: str) -> list[str]:
    """Return the patterns that one with ``{a,b}`` stands for."""
    parts = _CHOICE.split(pattern)
    # Every second part is what stood between braces.
    choices = [part.split(",") if odd % 2 else [part] for odd, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]


def _as_expression(pattern: str) -> str:
    return "[a-z0-9_]+".join(map(re.escape, pattern.split("*")))


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, in the order in which they are measured and reported."""
    found = []
    for path in (Path(__file__).parents[1] / "experiments").glob("*/settings.py"):
        name = path.parent.name
        declared = import_module(f"tsnrepro.experiments.{name}.settings").EXPERIMENT
        found.append(replace(declared, name=name))
    found.sort(key=lambda experiment: (experiment.order, experiment.name))
    return {experiment.name: experiment for experiment in found}


def experiment(name: str) -> Experiment:
    """Return the experiment of this name.

    Raises ConfigurationError if there is none; the message names those there are.
    """
    if name not in experiments():
        raise ConfigurationError(
            f"unknown experiment '{name}'", "", f"There are: {', '.join(experiments())}"
        )
    return experiments()[name]


def experiment_of_key(key: str) -> Experiment | None:
    """Return the experiment that declares a result of this key, None if none does."""
    found = experiments().get(key.partition(".")[0])
    return found if found and found.declares_key(key) else None


def as_table() -> str:
    """Return the experiments as a Markdown table: name, title and kinds of testbed."""
    rows = [("experiment", "what", "testbeds"), ("---", "---", "---")]
    rows += [(f"`{e.name}`", e.title, ", ".join(e.kinds)) for e in experiments().values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
