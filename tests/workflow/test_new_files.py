"""What ``tsnrepro new`` writes: it is valid, it runs on the model at once, and nothing is lost."""

import os
import shutil
import sys
from typing import get_args

import pytest
from repository_copy import copy_of_repository, run_in_copy, run_snakemake
from synthetic_results import data_sources_of, write_results

from tsnrepro.cli import build_parser
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.common.topology import TestbedKind
from tsnrepro.config import load, load_testbed, papers
from tsnrepro.config.campaigns import Campaign
from tsnrepro.experiments.loss.plan import plan
from tsnrepro.papers.assertions import read_assertions
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.workflow import new_files
from tsnrepro.workflow.new_files import (
    TESTBEDS,
    new_campaign,
    new_experiment,
    new_paper,
    new_testbed,
)

NEW = "in-a-test"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a repository with the files of testbeds alone, in which new files are written."""
    folder = tmp_path / "repository"
    testbeds = folder / "config" / "testbeds"
    testbeds.mkdir(parents=True)
    for name in TESTBEDS.values():
        shutil.copy(root() / "config" / "testbeds" / f"{name}.yaml", testbeds)
    monkeypatch.setattr(new_files, "root", lambda: folder)
    return folder


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_campaign_is_valid_and_short(repository):
    made = new_campaign("mine")
    (path,) = made.paths
    settings = load(Campaign, repository / path)
    assert settings.experiments == ["loss", "tcp"]
    assert sum(item.nominal_s for item in plan(settings.loss, settings.seed, "model")) < 5
    assert made.command == "snakemake --cores 1 --config testbed=model campaign=mine"


@pytest.mark.parametrize("kind", get_args(TestbedKind))
def test_a_testbed_is_valid_and_says_what_it_is_a_copy_of(repository, kind):
    (path,) = new_testbed("lab", kind).paths
    assert load_testbed(repository / path).kind == kind
    schema, note, *_ = (repository / path).read_text(encoding="utf-8").splitlines()
    assert schema.startswith("# yaml-language-server: $schema=../schemas/testbed.json")
    assert f"config/testbeds/{TESTBEDS[kind]}.yaml" in note


@pytest.mark.parametrize(
    ("words", "kind"),
    [(["bench"], "bench"), (["lab"], "rack"), (["bench", "--kind", "rack"], "rack")],
)
def test_a_testbed_is_of_the_kind_that_it_is_named_after(repository, capsys, words, kind):
    arguments = build_parser().parse_args(["new", "testbed", *words])
    arguments.run(arguments)
    path = f"config/testbeds/{words[0]}.yaml"
    assert path in capsys.readouterr().out
    assert load_testbed(repository / path).kind == kind


def test_an_experiment_is_complete_and_python(repository):
    made = new_experiment("burst_gap")
    assert {path.rpartition("/")[2] for path in made.paths} == {
        *("__init__.py", "settings.py", "plan.py", "measure.py", "analysis.py"),
        *("burst_gap.ipynb", "burst-gap.yaml"),
    }
    for path in made.paths:
        text = (repository / path).read_text(encoding="utf-8")
        assert "@NAME@" not in text
        if path.endswith(".py"):
            compile(text, path, "exec")


def test_an_experiment_is_added_to_a_campaign_that_is_there(repository):
    (path,) = new_campaign("mine").paths
    before = (repository / path).read_text(encoding="utf-8")
    assert path in new_experiment("jitter", "mine").paths
    after = (repository / path).read_text(encoding="utf-8")
    assert after.startswith(before)
    assert "\njitter: " in after


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("3x", "not a Python identifier"),
        ("a-b", "not a Python identifier"),
        ("Jitter", "not a Python identifier"),
        ("../x", "not a Python identifier"),
        ("class", "not a Python identifier"),
        ("seed", "reserved"),  # a key of campaigns
        ("testbed", "reserved"),  # the first word of facts
        ("simulated", "reserved"),  # a column of papers
        ("published", "reserved"),  # a page of reports
    ],
)
def test_names_that_no_experiment_can_have_are_refused(repository, name, why):
    before = files_of(repository)
    with pytest.raises(ConfigurationError, match=why):
        new_experiment(name)
    assert files_of(repository) == before


def test_what_is_there_is_not_overwritten(repository):
    new_experiment("jitter")
    new_campaign("mine")
    new_paper("my-paper")
    before = files_of(repository)
    for again in (
        lambda: new_experiment("jitter"),
        lambda: new_campaign("mine"),
        lambda: new_paper("my-paper"),
        lambda: new_testbed("emulated", "emulated"),
    ):
        with pytest.raises(ConfigurationError, match="exists"):
            again()
    with pytest.raises(ConfigurationError, match="another testbed"):
        new_testbed("auto", "model")
    with pytest.raises(ConfigurationError, match="is not a name"):
        new_campaign("../mine")
    assert files_of(repository) == before


@pytest.fixture
def manuscript(repository, monkeypatch):
    """Return the folder of a new paper, whose sources are read from there."""
    new_paper("of-my-own")
    monkeypatch.setattr(papers, "root", lambda: repository)
    yield repository / "paper" / "of-my-own"
    papers.sources_of.cache_clear()


def test_the_inputs_of_a_new_paper_are_written(manuscript, tmp_path):
    results = write_results(tmp_path / "results")
    write_paper_inputs(manuscript, tmp_path / "out", data_sources_of(results))
    (sentence,) = read_assertions(tmp_path / "out")
    assert sentence.carried
    assert (tmp_path / "out/figures/loss/loss-against-load.pdf").is_file()
    assert os.readlink(manuscript / "latexmkrc") == "../latexmkrc"


@pytest.mark.whole_way
@pytest.mark.latex
@pytest.mark.timeout(1200)
def test_what_is_new_runs_on_the_model_and_is_printed(tmp_path):
    copy = copy_of_repository(tmp_path / "copy")
    # Names that whoever runs the tests has not.
    for words in (f"campaign {NEW}", f"experiment in_a_test --campaign {NEW}", f"paper {NEW}"):
        command = (sys.executable, "-m", "tsnrepro.cli", "new", *words.split())
        done = run_in_copy(copy, *command)
        assert done.returncode == 0, done.stdout
    chosen = ("testbed=model", f"campaign={NEW}", f"papers=[{NEW}]")
    done = run_snakemake(copy, "--cores", "1", "--config", *chosen)
    assert done.returncode == 0, done.stdout[-6000:]
    assert (copy / f"results/model/{NEW}/in_a_test/figures/loss-by-load.pdf").is_file()
    assert (copy / f"results/papers/latest/{NEW}/{NEW}.pdf").is_file()
