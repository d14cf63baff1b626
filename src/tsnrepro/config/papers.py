"""What stands in the columns of a manuscript: ``sources.yaml`` in its folder."""

from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tsnrepro.common.repository import root
from tsnrepro.config.base import ConfigModel, Distinct, load

SOURCES = "sources.yaml"
SELECTED = "selected"
"""In the place of a testbed: the one that the configuration takes for each experiment."""


_Kind = Literal["emulated", "guest", "model", "hardware", "cards"]


class Sources(ConfigModel):
    """Whose numbers a manuscript prints."""

    document: str
    """The published document of data/published whose cells stand in its column."""
    experiments: Annotated[list[str], Field(min_length=1)]
    """The experiments that it prints; it is printed where all of them are measured."""
    also: list[str] = []
    """Experiments that it prints too where the campaign has them. Those that the selected testbed
    cannot measure stand in the columns of those that can."""
    columns: Annotated[dict[str, str], Field(min_length=1)]
    """Testbed by column: ``selected`` is the one that the configuration takes for each experiment.

    Values of the first column go by their keys, those of another by the column's name before the
    key: ``simulated.loss.threshold.frer.mbps``. A column of a testbed that cannot measure an
    experiment shows dashes there.
    """
    optional: dict[str, str] = {}
    """Testbed by column, of columns that stand beside once the record has all trials that the
    campaign asks for there, and are left out before: a paper waits for none of them, unless the
    campaign names their testbed in ``beside``.
    """
    testbeds: Distinct[_Kind] = []
    """Kinds of testbeds that its words describe; by default all that its experiments have."""
    study: bool = False
    """Whether it prints the campaign's parameter study."""

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        if twice := sorted(self.columns.keys() & self.optional.keys()):
            raise ValueError(f"a column is either optional or not, not both: {', '.join(twice)}")
        if selected := sorted(c for c, testbed in self.optional.items() if testbed == SELECTED):
            raise ValueError(
                f"what is selected is always measured, so it is not optional: {', '.join(selected)}"
            )
        return self


@cache
def manuscripts() -> tuple[str, ...]:
    """Return the names of all manuscripts: folders of paper/ that say what stands in them."""
    return tuple(sorted(path.parent.name for path in (root() / "paper").glob(f"*/{SOURCES}")))


@cache
def sources_of(name: str) -> Sources:
    """Return the sources of a manuscript.

    Raises
    ------
    ConfigurationError
        There is no such file, or it does not fit.
    """
    return load(Sources, root() / "paper" / name / SOURCES)
