"""The short form of ``benchmarks/intervals.py``: every family, fewer data sets, a fixed seed."""

import importlib.util
import sys

import pytest

from tsnrepro.common.repository import root

SETS = {
    "losses": 200,
    "shares": 200,
    "means": 60,
    "occurring": 120,
    "quantiles": 400,
    "tails": 400,
    "thresholds": 12,
    "trends": 200,
    "stopped": 60,
}


# Of hundreds of cells one may come out so by chance, with a percent's.
CHANCE = 1e-4


@pytest.fixture(scope="module")
def coverage():
    spec = importlib.util.spec_from_file_location("intervals", root() / "benchmarks/intervals.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


MINUTE = {"thresholds", "stopped"}  # a minute alone


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=pytest.mark.slow if name in MINUTE else ()) for name in SETS],
)
def test_every_interval_covers_in_every_cell(coverage, family):
    cells = coverage.run([family], SETS[family])
    assert [cell for cell in cells if not cell.acceptable(CHANCE)] == []
    # Over all cells of a method chance averages out.
    for method in {cell.method for cell in cells}:
        own = [cell for cell in cells if cell.method == method]
        for kind, highest in (("limits", 1.0), ("intervals", 0.99)):
            tallies = [getattr(cell, kind) for cell in own]
            given, held = (sum(getattr(t, name) for t in tallies) for name in ("given", "held"))
            assert given < 100 or 0.93 < held / given <= highest, (method, kind)


def test_too_narrow_an_interval_is_detected(coverage, monkeypatch):
    # Datagrams as the unit, which bursts of them refute.
    of_trials = coverage.share
    monkeypatch.setattr(coverage, "share", lambda lossy, runs: of_trials(100 * lossy, 100 * runs))
    families = ["losses"]
    cells = coverage.run(families, 200)
    wrong = [c for c in cells if c.method == "chance that a trial loses" and not c.acceptable()]
    assert len(wrong) >= 10
