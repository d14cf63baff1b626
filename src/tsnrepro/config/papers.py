"""The data sources of manuscripts: ``sources.yaml`` in the folder of each."""

import re
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Self

from pydantic import Field, model_validator

from tsnrepro.common.repository import root
from tsnrepro.config.base import AnyTestbedKind, ConfigModel, Distinct, formerly, load
from tsnrepro.config.registry import experiment_of_key, experiments

SOURCES = "sources.yaml"
SELECTED = "selected"
"""Stands for the testbed that the configuration selects for each experiment."""
BASELINE = "baseline"
"""Stands for the ``baseline`` of the selected bench; of any other testbed there is none."""


class Sources(ConfigModel):
    """A manuscript's data sources."""

    document: str | None = None
    """The published document of data/published that it reproduces; by default none."""
    experiments: list[str] = []
    """Experiments that it prints; it is built once all of them are measured. Without any it is
    built from whatever there is of ``optional_experiments``."""
    optional_experiments: Annotated[list[str], formerly("also")] = []
    """Experiments that it also prints if the campaign has them. One that the selected testbed
    cannot measure is printed in the columns of the others."""
    columns: Annotated[dict[str, str], Field(min_length=1)]
    """Testbed by column; ``selected`` is the one that the configuration selects.

    Values of the first column are named by their keys, those of another by the column and the key:
    ``simulated.loss.threshold.frer.mbps``. A column shows dashes for an experiment that its testbed
    cannot measure.
    """
    optional_columns: Annotated[dict[str, str], formerly("optional")] = {}
    """Testbed by column, of columns that are printed once the record has all their trials. A paper
    does not wait for them, unless the campaign names the testbed in ``compare_with``.
    ``baseline`` is that of the selected bench, if it has one.
    """
    testbed_kinds: Annotated[Distinct[AnyTestbedKind], formerly("testbeds")] = []
    """Kinds of testbeds that its text describes; by default all that its experiments have."""
    primary: Distinct[str] = []
    """Comparisons on which its conclusions rest: keys of verdicts without ``.verdict``, after the
    column's name as in the text. Their verdicts are judged together, by Holm's method; all others
    are exploratory.
    """
    study: bool = False
    """Whether it prints the campaign's parameter study."""
    max_pages: Annotated[int, Field(ge=1)] | None = None
    """Pages that its venue allows, references included and the supplement not; by default any."""

    @model_validator(mode="after")
    def _experiments_exist(self) -> Self:
        known = list(experiments())
        if not (self.experiments or self.optional_experiments):
            raise ValueError("it prints no experiment: name one")
        for name in (*self.experiments, *self.optional_experiments):
            if name not in known:
                near = get_close_matches(name, known) or known
                raise ValueError(f"unknown experiment '{name}' (near: {', '.join(near)})")
        return self

    @property
    def shown(self) -> frozenset[str]:
        """All experiments that it prints."""
        return frozenset((*self.experiments, *self.optional_experiments))

    @model_validator(mode="after")
    def _primary_exist(self) -> Self:
        columns = "|".join([*self.columns, *self.optional_columns])
        for key in self.primary:
            bare = re.sub(rf"^(?:{columns})\.", "", key)
            if not experiment_of_key(f"{bare}.verdict"):
                raise ValueError(f"primary: no experiment gives '{key}.verdict'")
        return self

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        optional = self.optional_columns
        if both := sorted(self.columns.keys() & optional.keys()):
            raise ValueError(f"columns and optional_columns both have {', '.join(both)}")
        if selected := sorted(c for c, testbed in optional.items() if testbed == SELECTED):
            raise ValueError(
                "optional_columns: the selected testbed is always measured, so these are not "
                f"optional: {', '.join(selected)}"
            )
        return self


@cache
def manuscripts() -> tuple[str, ...]:
    """Return the names of all manuscripts: folders of paper/ with a file of sources."""
    return tuple(sorted(path.parent.name for path in (root() / "paper").glob(f"*/{SOURCES}")))


@cache
def sources_of(name: str) -> Sources:
    """Return the sources of a manuscript; ConfigurationError if the file is missing or invalid."""
    return load(Sources, root() / "paper" / name / SOURCES)
