"""Campaigns and testbeds by name: the files of config/campaigns and config/testbeds."""

from dataclasses import replace
from pathlib import Path

from tsnrepro.common.repository import root
from tsnrepro.config import TestbedSettings, load, load_testbed
from tsnrepro.config.base import named_file
from tsnrepro.config.campaigns import Campaign
from tsnrepro.config.registry import GRID, Experiment, experiment


def campaign(name: str) -> Campaign:
    """Return the campaign of config/campaigns/NAME.yaml."""
    return load(Campaign, named_file(root() / "config" / "campaigns", name))


def analysed_experiment(name: str, campaign_name: str) -> Experiment:
    """Return an experiment as it is analysed under a campaign: as a grid where settings vary."""
    path = root() / "config" / "campaigns" / f"{campaign_name}.yaml"
    varies = path.is_file() and campaign(campaign_name).vary  # imported ones have no file
    declared = experiment(name)
    return replace(declared, notebook=GRID, reads=()) if varies else declared


def testbed_settings(name: str) -> TestbedSettings:
    """Return the settings of config/testbeds/NAME.yaml, whatever its kind."""
    return load_testbed(named_file(root() / "config" / "testbeds", name))


def raw_root() -> Path:
    """Return the folder of the raw store."""
    return root() / "data" / "raw"
