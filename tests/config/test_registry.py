"""Experiments are declared once, and everything of one bears its name."""

from importlib import import_module

import pytest
from tracked_files import tracked

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config.base import ConfigModel
from tsnrepro.config.campaigns import Campaign
from tsnrepro.config.registry import (
    Experiment,
    experiment,
    experiment_of_key,
    experiments,
)


@pytest.mark.parametrize("name", list(experiments()))
def test_an_experiment_has_a_module_and_two_notebooks_of_its_name(name):
    for part in ("plan", "measure"):
        module = import_module(f"tsnrepro.experiments.{name}.{part}")
        assert callable(getattr(module, part))
    for part in ("measure", "analyse"):
        assert (root() / "notebooks" / part / f"{name}.ipynb").is_file()


def test_a_campaign_has_a_section_for_each():
    assert {*experiments()} <= {*Campaign.model_fields}


def test_every_notebook_belongs_to_an_experiment_or_is_listed():
    others = {"audit", "grid", "loss-study", "threshold-study"}
    for part in ("measure", "analyse"):
        found = {path.stem for path in tracked(f"notebooks/{part}/*.ipynb")}
        assert found - others <= {*experiments()}


def test_an_unknown_experiment_is_refused_with_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"'no-such'.*loss, tcp, latency"):
        experiment("no-such")


def declared(*keys):
    return Experiment(ConfigModel, title="", keys=keys)


@pytest.mark.parametrize(
    ("pattern", "key", "promised"),
    [
        ("a.{b,c}.d", "a.b.d", True),
        ("a.{b,c}.d", "a.c.d", True),
        ("a.{b,c}.d", "a.e.d", False),
        ("a.*.d", "a.anything_1.d", True),
        ("a.*.d", "a.two.words.d", False),
        ("a.frame_*.{x,y}.z", "a.frame_64.y.z", True),
        ("a.b", "axb", False),
        ("a.b", "a.b.c", False),
    ],
)
def test_keys_are_promised_by_patterns(pattern, key, promised):
    assert declared(pattern).declares_key(key) is promised


def test_no_key_is_promised_by_two_experiments():
    assert experiment_of_key("loss.threshold.frer.mbps") is experiment("loss")
    assert experiment_of_key("loss.treshold.frer.mbps") is None


def test_captions_and_tables_may_be_of_patterns():
    found = Experiment(ConfigModel, title="", tables=("*-x",), figures={"*-idle": "Idle"}, name="n")
    assert found.caption("part-idle") == "Idle"
    assert found.caption("part-busy") is None
    assert found.declares_table("part-x")
    assert found.declares_table("n")
    assert not found.declares_table("x")
