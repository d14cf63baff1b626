"""Settings of campaigns: which experiments, with which durations, loads and repetitions."""

from typing import TYPE_CHECKING, Any

from pydantic import create_model

from tsnrepro.config.base import Attempts, ConfigModel, Distinct, Name, PositiveFloat, Seed
from tsnrepro.config.registry import experiments


class CampaignBase(ConfigModel):
    """What every campaign has; its experiments are the sections that the registry knows."""

    description: str
    seed: Seed = 1
    """Seeds the random order of trials within each repetition."""
    attempts: Attempts = 2
    """How often a trial that fails is tried in one run. What failed in a run is tried anew in the
    next one; one that was only unsteady has these attempts over all runs."""
    study: Name = "threshold"
    """The file of config/studies, on the model, that a paper prints beside the trials."""
    papers: bool = True
    """Whether papers are printed of it unasked; not of one that leaves out parts they print."""
    beside: Distinct[Name] = []
    """Testbeds that are measured for the optional columns of papers too, where testbeds are chosen
    by ``auto`` and the machine can run them."""
    warm_up: bool = False
    """Measure the first trial of each experiment once before it counts."""
    max_stall_ms: PositiveFloat | None = None
    """Measure a trial again, within its attempts, if a machine kept a thread from running for
    longer; the trial is kept too. Where all attempts were like this the steadiest counts."""

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
    """The top of the configuration: which testbed, which campaign, which papers."""

    testbed: Name = "auto"
    campaign: Name = "quick"
    experiments: Distinct[Name] = []
    """Of the campaign; empty: all."""
    papers: Distinct[Name] = []
    """Empty: all whose experiments are measured."""
    study: Name | None = None
    """The file of config/studies that the target ``study`` computes, ``threshold`` where none is
    named, and that papers of an imported testbed print; unasked they print none."""
    against: str = ""
    """What the target ``diff`` compares with: a git revision, or what ``arxiv`` has packed."""
