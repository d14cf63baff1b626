"""The short form of ``benchmarks/papers.py``: few campaigns of each experiment, a fixed seed."""

import importlib.util
import sys

import pytest

from tsnrepro.common.repository import root


@pytest.fixture(scope="module")
def papers():
    folder = root() / "benchmarks"
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("papers", folder / "papers.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(folder))
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def tally(papers):
    return papers.simulate(papers.simulations(), 6, seed=3)


def share_found(tally, part):
    keys = [key for key in tally.tried if key.startswith(part)]
    return sum(tally.found[key] for key in keys) / sum(tally.tried[key] for key in keys)


def test_papers_on_equal_arms_keep_their_share_of_false_verdicts(papers, tally):
    assert papers.print_tally(tally)
    assert set(tally.of) == set(papers.PAPERS)
    assert sum(tally.primary.values()) <= 2


@pytest.mark.parametrize(
    ("part", "comparisons"), [("latency", 6), ("tcp", 1), ("loss", 2), ("shaping", 30)]
)
def test_the_smallest_effect_is_tried_of_each_experiment(tally, part, comparisons):
    tried = [key for key in tally.tried if key.startswith(part)]
    assert len(tried) == comparisons


def test_the_smallest_effect_is_found_in_most_campaigns(papers, tally):
    of, found = sum(tally.tried.values()), sum(tally.found.values())
    assert found / of > papers.LEAST_FOUND - 0.05


def test_a_quarter_of_the_effect_is_not_found_so_often(papers, monkeypatch):
    effects_of = papers.effects_of

    def quarter(values):
        return {key: effect**0.25 for key, effect in effects_of(values).items()}

    monkeypatch.setattr(papers, "effects_of", quarter)
    tally = papers.simulate({"latency": papers.latency, "tcp": papers.tcp}, 10, seed=3)
    assert sum(tally.found.values()) / sum(tally.tried.values()) < 0.5


def test_a_paper_that_finds_differences_of_equal_arms_is_detected(papers):
    tally = papers.Tally()
    tally.of["tas-evaluation"], tally.primary["tas-evaluation"] = 200, 22
    assert not papers.print_tally(tally)
    tally.primary["tas-evaluation"] = 12
    assert papers.print_tally(tally)
