"""Settings of campaigns: which experiments, with which durations, loads and repetitions."""

from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import create_model, field_validator, model_validator

from tsnrepro.config.base import (
    Attempts,
    ConfigModel,
    Distinct,
    Name,
    OneOrMore,
    PositiveFloat,
    Repetitions,
    Seed,
    formerly,
)
from tsnrepro.config.registry import experiments

# A job has an overhead of some seconds, and a cluster a limit of jobs.
_MAX_PARTS = 40


class CampaignBase(ConfigModel):
    """A campaign: one section for each experiment that it measures."""

    description: str
    """One line for lists and reports."""
    seed: Seed = 1
    """Seed of the random order of trials within each repetition."""
    attempts: Attempts = 2
    """How often a trial is tried in one run if it fails. The next run tries a failed trial again;
    a trial that was only disturbed has these attempts over all runs."""
    study: Name = "threshold"
    """Parameter study of config/studies, computed on the model, that papers print."""
    papers: bool = True
    """Build the papers by default. False for a campaign that lacks what they print."""
    compare_with: Annotated[Distinct[Name], formerly("beside")] = []
    """Testbeds that are also measured, for the optional columns of papers. They are left out where
    the testbed is named, not ``auto``, or the machine cannot run them."""
    warm_up: bool = False
    """Run the first trial of each experiment once before the recorded ones."""
    max_stall_ms: PositiveFloat | None = None
    """Repeat a trial, within its attempts, during which a machine stalled for longer than this. If
    all attempts were disturbed, the steadiest counts. By default stalls repeat no trial."""

    extra_blocks: dict[Name, Repetitions] = {}
    """Repetitions of every trial of an experiment beyond those of its section, by the experiment's
    name; ``tsnrepro more`` adds to them. Where a stopping rule decides on further repetitions,
    these are measured in any case."""

    vary: dict[str, OneOrMore[Any]] = {}
    """Settings of the testbed that vary, each with its values: every experiment is measured under
    each combination of them, and each block has every combination of settings and factors once.
    Instead of its own analysis it gets one table with a row for each combination. Rules that stop
    early do not apply, and the campaign builds no papers."""

    @model_validator(mode="after")
    def _grids_are_in_no_paper(self) -> "CampaignBase":
        if self.vary and self.papers:
            raise ValueError("with vary there is nothing for papers to print: add papers: false")
        return self

    @property
    def grid(self) -> list[dict[str, Any]]:
        """The settings of the testbed under which everything is measured."""
        return [dict(zip(self.vary, point, strict=True)) for point in product(*self.vary.values())]

    @property
    def parts(self) -> int:
        """The number of parts in which a grid is measured on the model, each by a job."""
        return min(len(self.grid), _MAX_PARTS) if self.vary else 0

    @field_validator("extra_blocks")
    @classmethod
    def _known(cls, blocks: dict[str, int]) -> dict[str, int]:
        if unknown := sorted(blocks.keys() - experiments().keys()):
            raise ValueError(f"no such experiment: {', '.join(unknown)}")
        return blocks

    def section(self, experiment: str) -> ConfigModel | None:
        """Return the settings of one experiment, None where the campaign leaves it out."""
        return getattr(self, experiment)

    @property
    def experiments(self) -> list[str]:
        """The names of the campaign's experiments, in the registry's order."""
        return [name for name in experiments() if self.section(name) is not None]


def _campaign() -> type[CampaignBase]:
    sections: dict[str, Any] = {
        name: (declared.settings | None, None) for name, declared in experiments().items()
    }
    return create_model("Campaign", __base__=CampaignBase, __doc__=CampaignBase.__doc__, **sections)


if TYPE_CHECKING:
    Campaign = CampaignBase
else:
    Campaign = _campaign()


class Selection(ConfigModel):
    """What ``snakemake`` builds: the testbed, the campaign and the papers."""

    testbed: Name = "auto"
    """A file of config/testbeds or an imported data set. ``auto`` takes, for each experiment, the
    first kind of testbed that this machine can run."""
    campaign: Name = "quick"
    """A file of config/campaigns."""
    experiments: Distinct[Name] = []
    """Experiments of the campaign to measure; empty means all."""
    papers: Distinct[Name] = []
    """Manuscripts to build; empty means all whose experiments are measured."""
    study: Name | None = None
    """Parameter study of config/studies that the target ``study`` computes, by default
    ``threshold``. Papers of an imported data set print it only if it is named."""
    against: str = ""
    """What the target ``diff`` compares with: a git revision, or an archive made by ``arxiv``."""
    language: Literal["en", "ko"] = "en"
    """Language of the report: English or Korean."""
    uncommitted: bool = False
    """Whether the target ``deposit`` packs files of the repository that are not committed."""
