"""Where the analysis of one run puts its tables, figures and values.

    results/<testbed>/<campaign>/<experiment>/run.json        the run's trials
                                             /tables/         CSV, and the trials as Parquet
                                             /figures/        PDF for papers, PNG for pages
                                             /values.json     the results by key
                                             /testbed.json    the facts of its testbed, by key

What is written must be declared by the experiment (:mod:`tsnrepro.config.registry`), so that
reports and papers know of it.
"""

from collections.abc import Callable
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import resolve_path
from tsnrepro.config.registry import Experiment, experiment
from tsnrepro.records.store import open_run
from tsnrepro.records.tables import load_trials
from tsnrepro.records.values import FACTS_FILE, FIGURES_FOLDER, TABLES_FOLDER, VALUES_FILE
from tsnrepro.results import figures, testbed
from tsnrepro.results.results import Results


class RunOutput:
    """The analysed side of one run.

    Parameters
    ----------
    run
        The list of its trials, ``run.json``; a relative path counts from the repository's root
        where the working directory does not have it, so that notebooks run from their own folder.

    Raises
    ------
    RecordError
        There is no such run.
    """

    def __init__(self, run: str | Path) -> None:
        self.run = resolve_path(run)
        self.folder = self.run.parent
        self.experiment: Experiment = experiment(open_run(self.run)[1]["experiment"])
        for part in (TABLES_FOLDER, FIGURES_FOLDER):
            (self.folder / part).mkdir(parents=True, exist_ok=True)

    @cached_property
    def label(self) -> str:
        """The testbed, as a figure names it."""
        return testbed.short_label_of(self.run)

    @cached_property
    def trials(self) -> pd.DataFrame:
        """The run's trials, one a row, which are written as a table too."""
        return self.keep_trials(load_trials(self.run))

    def keep_trials(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Write a table with one trial a row as the run's own and return it."""
        trials.to_parquet(self.folder / TABLES_FOLDER / f"{self.experiment.name}.parquet")
        return trials

    def table(self, name: str, table: pd.DataFrame, *, index: bool = False) -> pd.DataFrame:
        """Write a table as CSV and return it.

        Raises
        ------
        ConfigurationError
            The experiment declares no table of this name.
        """
        if not self.experiment.declares_table(name):
            raise self._undeclared("table", name, self.experiment.tables)
        table.to_csv(self.folder / TABLES_FOLDER / f"{name}.csv", index=index)
        return table

    def figure(
        self, draw: Callable[..., Figure], *arguments: Any, name: str = "", **named: Any
    ) -> Figure:
        """Draw a figure, write it as PDF and PNG, and return it.

        Its name is that of the function that draws it, unless one function draws several. Where
        the function takes a ``testbed``, it is given the testbed's label.

        Raises
        ------
        ConfigurationError
            The experiment declares no figure of this name.
        """
        if "testbed" in signature(draw).parameters:
            named.setdefault("testbed", self.label)
        return self.save(draw(*arguments, **named), name or draw.__name__.replace("_", "-"))

    def save(self, figure: Figure, name: str) -> Figure:
        """Write a figure as PDF and PNG and return it.

        Raises
        ------
        ConfigurationError
            The experiment declares no figure of this name.
        """
        if self.experiment.caption(name) is None:
            raise self._undeclared("figure", name, tuple(self.experiment.figures))
        figures.save(figure, self.folder / FIGURES_FOLDER, name)
        return figure

    def values(self, found: Results) -> pd.DataFrame:
        """Write the results and the facts of their testbed; return the results as a table.

        Raises
        ------
        RecordError
            A key fits none that the experiment declares, so no paper could tell it from a mistake.
        """
        strange = [key for key in found.keys if not self.experiment.declares_key(key)]
        if strange:
            raise RecordError(
                f"results that the experiment does not declare: {', '.join(strange)}",
                self._declaration,
                "Declare them there, in keys",
            )
        testbed.write_facts(self.run, self.folder / FACTS_FILE)
        found.write(self.folder / VALUES_FILE)
        return found.frame()

    @property
    def _declaration(self) -> str:
        return f"src/tsnrepro/experiments/{self.experiment.name}/settings.py"

    def _undeclared(self, kind: str, name: str, declared: tuple[str, ...]) -> ConfigurationError:
        return ConfigurationError(
            f"experiment '{self.experiment.name}' declares no {kind} '{name}'",
            self._declaration,
            f"It declares: {', '.join(declared) or 'none'}",
        )
