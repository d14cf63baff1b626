"""Open the testbed of a configuration file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.config import (
    BenchSettings,
    EmulatedSettings,
    GuestSettings,
    ModelSettings,
    NicPairSettings,
    RackSettings,
    parse,
)
from tsnrepro.config.campaigns import Campaign
from tsnrepro.config.files import testbed_settings
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.testbeds.choose import needed_qdiscs

if TYPE_CHECKING:
    from tsnrepro.testbeds.protocol import JobTestbed, Testbed

NOT_MEASURED = "TSNREPRO_NOT_MEASURED"
"""Environment variable: testbeds whose records are read and not added to, separated by blanks."""


def open_testbed(name: str, campaign: Campaign, purpose: str, **overrides: Any) -> Testbed:
    """Return the testbed of config/testbeds/NAME.yaml; its ``with`` block brings it up.

    ``overrides`` are settings that take the place of those in the file.

    Raises ConfigurationError if there is no such file, or it does not fit the kind of testbed it
    names.
    """
    settings = testbed_settings(name)
    if overrides:
        merged = settings.model_dump() | overrides
        settings = parse(type(settings), merged, f"config/testbeds/{name}.yaml and the trial")
    if isinstance(settings, ModelSettings):
        from tsnrepro.testbeds.model import ModelTestbed  # noqa: PLC0415

        return ModelTestbed(settings, campaign.seed)
    if isinstance(settings, GuestSettings):
        from tsnrepro.testbeds.guest.testbed import GuestTestbed  # noqa: PLC0415

        guest: JobTestbed = GuestTestbed(settings, purpose)
        return guest
    if isinstance(settings, RackSettings):
        from tsnrepro.testbeds.rack.testbed import RackTestbed  # noqa: PLC0415

        return RackTestbed(settings, name, purpose)
    if isinstance(settings, NicPairSettings):
        from tsnrepro.testbeds.nic_pair.testbed import NicPairTestbed  # noqa: PLC0415

        cards: JobTestbed = NicPairTestbed(settings, name, purpose)
        return cards
    if isinstance(settings, BenchSettings):
        return _open_bench(settings, name, purpose)
    from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed  # noqa: PLC0415

    return EmulatedTestbed(settings, purpose)


def _open_bench(settings: BenchSettings, name: str, purpose: str) -> Testbed:
    if settings.switches:
        from tsnrepro.testbeds.bench.switched import SwitchedBench  # noqa: PLC0415

        return SwitchedBench(settings, name, purpose)
    from tsnrepro.testbeds.bench.testbed import BenchTestbed  # noqa: PLC0415

    return BenchTestbed(settings, name, purpose)


def open_for(
    experiment: str, name: str, campaign: Campaign, purpose: str, **overrides: Any
) -> Testbed:
    """Return the testbed for an experiment; see :func:`open_testbed`.

    Where the experiment has networks of its own, a bench runs jobs; where it needs queueing
    disciplines, an emulated testbed runs them on this machine's kernel.

    Raises TestbedError if the testbed is one that is not to be measured.
    """
    if name in os.environ.get(NOT_MEASURED, "").split():
        raise TestbedError(
            f"the record of testbed '{name}' lacks trials, and another testbed is selected",
            purpose,
            f"Cable its ports as its file says, then `snakemake --config testbed={name}`",
        )
    settings = testbed_settings(name)
    declared = experiment_of(experiment)
    if declared.own_network and isinstance(settings, BenchSettings):
        from tsnrepro.testbeds.bench.jobs import BenchJobs  # noqa: PLC0415

        bench: JobTestbed = BenchJobs(settings, name, purpose)
        return bench
    if declared.qdiscs and isinstance(settings, EmulatedSettings):
        from tsnrepro.testbeds.emulated.local_jobs import LocalJobs  # noqa: PLC0415

        qdiscs = needed_qdiscs(declared, campaign.section(experiment))
        jobs: JobTestbed = LocalJobs(settings, purpose, qdiscs)
        return jobs
    return open_testbed(name, campaign, purpose, **overrides)
