"""What one call of ``snakemake`` measures and prints."""

import pytest

from tsnrepro.campaigns import campaign
from tsnrepro.errors import ConfigurationError
from tsnrepro.selection import plan
from tsnrepro.settings import Selection


def test_all_of_a_campaign_that_the_testbed_can_measure():
    found = plan(Selection(testbed="model", campaign="quick"))
    assert {run.experiment for run in found.runs} | {*found.left_out} == {
        *campaign("quick").experiments
    }
    assert found.name == "model-quick"


def test_some_experiments_of_a_campaign_with_the_papers_that_they_fill():
    found = plan(Selection(testbed="model", experiments=["tcp", "shaping"]))
    assert [run.experiment for run in found.runs] == ["tcp", "shaping"]
    assert [paper.name for paper in found.papers] == ["software-bridge", "tas-evaluation"]
    assert found.report == "results/reports/model-quick-tcp-shaping"


def test_an_experiment_that_the_campaign_has_not_is_an_error_with_those_it_has():
    with pytest.raises(ConfigurationError, match=r"'smoke' has no experiment 'shaping'.*loss, tcp"):
        plan(Selection(campaign="smoke", experiments=["shaping"]))


def test_a_paper_that_prints_nothing_of_what_is_asked_for_is_an_error():
    with pytest.raises(ConfigurationError, match=r"'tas-evaluation' prints shaping"):
        plan(Selection(testbed="model", experiments=["tcp"], papers=["tas-evaluation"]))


def test_a_paper_prints_what_the_campaign_has_beside_its_own_experiments():
    found = {paper.name: paper for paper in plan(Selection(testbed="emulated")).papers}["frer-udp"]
    measured = [run.experiment for run in found.columns["measured"]]
    assert measured == ["loss", "tcp", "latency", "traffic"]
    # The emulated testbed has no buffers to fill: the model does, in a column of its own.
    assert [run.experiment for run in found.columns["simulated"]] == [*measured, "occupancy"]


def test_a_paper_is_printed_without_what_it_only_prints_beside():
    chosen = Selection(testbed="model", experiments=["loss", "tcp", "latency"])
    (found,) = plan(chosen).papers
    assert found.name == "frer-udp"
    assert {run.experiment for run in found.runs} == {"loss", "tcp", "latency"}


def test_a_paper_that_does_not_describe_the_testbed_is_not_printed():
    cards = Selection(testbed="i210-example", campaign="quick", experiments=["shaping"])
    assert [paper.name for paper in plan(cards).papers] == ["tas-evaluation"]
    asked = cards.model_copy(update={"papers": ["software-bridge"]})
    with pytest.raises(ConfigurationError, match="describes no testbed of kind cards"):
        plan(asked)


def test_data_of_others_are_printed_without_a_study_unless_one_is_named(monkeypatch):
    monkeypatch.setattr("tsnrepro.selection.imported.imported_testbeds", lambda _: ["others"])
    held = ["loss", "tcp", "latency"]
    monkeypatch.setattr("tsnrepro.selection.imported.imported_experiments", lambda *_: held)
    (unasked,) = plan(Selection(testbed="others")).papers
    (asked,) = plan(Selection(testbed="others", study="threshold")).papers
    assert (unasked.name, unasked.study, asked.study) == ("frer-udp", None, "threshold")
    (own,) = plan(Selection(testbed="model", experiments=held, papers=["frer-udp"])).papers
    assert own.study == campaign("quick").study
