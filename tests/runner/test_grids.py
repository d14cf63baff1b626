"""Campaigns that vary settings of the testbed."""

import json
import re
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import yaml

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import parse
from tsnrepro.config.campaigns import Campaign
from tsnrepro.config.registry import experiment
from tsnrepro.experiments.loss.measure import measure
from tsnrepro.experiments.loss.plan import Factors
from tsnrepro.records.store import VARIED, RawStore
from tsnrepro.records.tables import load_trials
from tsnrepro.results.grid import by_point, counts
from tsnrepro.runner import plan as planning
from tsnrepro.runner import run as measuring
from tsnrepro.runner.design import part_of
from tsnrepro.runner.plan import planned_trials
from tsnrepro.runner.run import run_trials, write_manifest
from tsnrepro.runner.testbed import open_testbed

GRID = {
    "description": "a grid",
    "papers": False,
    "vary": {"queue_bytes": [16384, 262144], "delay_us": [[], [0.0, 500.0]]},
    "loss": {
        "repetitions": 2,
        "parts": [{"payload_bytes": 1472, "rates_mbps": [90, 600], "duration_s": 0.1}],
    },
}


@pytest.fixture
def grid(monkeypatch):
    """Return a function that makes the campaign ``grid`` of changed sections the one planned."""

    def given(**changes):
        made = parse(Campaign, GRID | changes, "grid.yaml")
        monkeypatch.setattr(planning, "campaign", lambda _: made)
        return made

    given()
    return given


def test_every_block_has_every_combination_once(grid):
    planned = planned_trials("loss", "model", "grid")
    assert len(planned) == 4 * 2 * 2 * 2
    for repetition in (1, 2):
        block = [item for item in planned if item.trial.repetition == repetition]
        asked = {json.dumps(item.trial.factors, sort_keys=True) for item in block}
        assert len(asked) == len(block) == 16
        # The testbed is brought up once for each point.
        points = [json.dumps(item.testbed) for item in block]
        assert sum(a != b for a, b in pairwise(points)) == 3
    assert [item.trial.repetition for item in planned] == [1] * 16 + [2] * 16
    assert len({item.trial.name(1) for item in planned}) == 32
    assert all(item.testbed == item.trial.factors[VARIED] for item in planned)
    assert {Factors.of(item.trial).rate_mbps for item in planned} == {90, 600}


@pytest.mark.parametrize(
    ("vary", "why"),
    [
        ({"queue_size": [1]}, "no setting queue_size.*link_rate_mbps"),
        ({"kind": ["guest"]}, "no setting kind"),
        ({"paths": [2, 99]}, "paths"),
        ({"delay_us": [[0, 0, 0]]}, "names 3 paths of 2"),
    ],
)
def test_what_the_testbed_does_not_have_is_named(grid, vary, why):
    grid(vary=vary)
    with pytest.raises(ConfigurationError) as caught:
        planned_trials("loss", "model", "grid")
    assert re.search(why, str(caught.value), re.DOTALL)


def test_papers_and_values_twice_are_refused():
    with pytest.raises(ConfigurationError, match="papers: false"):
        parse(Campaign, GRID | {"papers": True}, "grid.yaml")
    with pytest.raises(ConfigurationError, match="are the same"):
        parse(Campaign, GRID | {"vary": {"paths": [2, 2]}}, "grid.yaml")
    with pytest.raises(ConfigurationError, match="at least 1"):
        parse(Campaign, GRID | {"vary": {"paths": []}}, "grid.yaml")


def test_the_example_of_the_page_is_read():
    page = (root() / "docs/campaigns.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(parse(Campaign, yaml.safe_load(example), "campaigns.md").grid) == 8


def test_experiments_that_start_from_earlier_results_are_refused(grid):
    full = yaml.safe_load((root() / "config/campaigns/quick.yaml").read_text(encoding="utf-8"))
    grid(rfc2544=full["rfc2544"])
    with pytest.raises(ConfigurationError, match="rfc2544 start from earlier results"):
        planned_trials("rfc2544", "model", "grid")


def test_the_table_has_a_row_for_each_combination(grid, tmp_path):
    """The short queue drops what iperf3 sends at a tick of its timer."""
    made = grid()
    planned = planned_trials("loss", "model", "grid")
    listed = run_trials(
        RawStore(tmp_path, "model", "grid", "loss"),
        planned,
        1,
        partial(open_testbed, "model", made, "a test"),
        measure,
    )
    write_manifest(listed, str(tmp_path / "run.json"))
    trials = load_trials(tmp_path / "run.json")
    table = by_point(tmp_path / "run.json", trials, experiment("loss"))
    assert len(table) == 16
    assert (table["trials"] == 2).all()
    assert {*table["delay_us"]} == {"", "0, 500"}
    for row in table.to_dict("records"):
        here = trials[
            (trials["queue_bytes"] == row["queue_bytes"])
            & (trials["delay_us"].map(bool) == bool(row["delay_us"]))
            & (trials["configuration"] == row["configuration"])
            & (trials["target_mbps"] == row["rate_mbps"])
        ]
        assert len(here) == row["trials"] == 2
        assert np.isclose(row["loss_percent"], here["loss_percent"].mean())
    assert {*table["loss_percent_limits"]} <= {"range", "no interval"}  # of two runs
    lost = table[table["rate_mbps"] == 600].groupby("queue_bytes")["loss_percent"].min()
    assert lost[16384] > 10 > lost[262144]
    found = counts(table, trials, experiment("loss"))
    assert found.of("loss.grid.points.count").value == 16
    assert all(experiment("loss").declares_key(key) for key in found.keys)


def test_a_grid_in_parts_is_the_same_grid(grid, tmp_path, monkeypatch):
    """Jobs measure parts in any order, each with all trials of its points."""
    made = grid()
    monkeypatch.setattr(measuring, "campaign", lambda _: made)
    planned = planned_trials("loss", "model", "grid")
    parts = [part_of(planned, number, 3) for number in range(3)]
    assert sorted(item.order for part in parts for item in part) == [*range(32)]
    assert [len(part) for part in parts] == [16, 8, 8]

    def table(folder, *, parts):
        monkeypatch.setattr(measuring, "raw_root", lambda: folder / "raw")
        for number in reversed(range(parts)):
            measuring.run_part("loss", "model", "grid", number, parts)
        recorded = {path.name for path in folder.glob("raw/model/grid/loss/*")}
        run = folder / "run.json"
        measuring.run_experiment("loss", "model", "grid", str(run))
        if parts:
            assert recorded == {path.name for path in folder.glob("raw/model/grid/loss/*")}
        return by_point(run, load_trials(run), experiment("loss")).to_csv()

    (tmp_path / "whole").mkdir()
    (tmp_path / "apart").mkdir()
    assert table(tmp_path / "apart", parts=3) == table(tmp_path / "whole", parts=0)


def test_a_part_whose_trials_were_skipped_is_no_error(grid, tmp_path, monkeypatch):
    made = grid()
    monkeypatch.setattr(measuring, "campaign", lambda _: made)
    monkeypatch.setattr(measuring, "raw_root", lambda: tmp_path)
    store = RawStore(tmp_path, "model", "grid", "loss")
    for item in part_of(planned_trials("loss", "model", "grid"), 0, 4):
        skipped = {"status": "skipped", "reason": "why not", "repetition": item.trial.repetition}
        store.put(item.trial, 1, skipped, {})
    measuring.run_part("loss", "model", "grid", 0, 4)


def test_only_grids_have_parts():
    assert parse(Campaign, GRID, "grid.yaml").parts == 4
    assert parse(Campaign, GRID | {"vary": {"queue_bytes": [*range(64, 364)]}}, "g").parts == 40
    assert parse(Campaign, GRID | {"vary": {}}, "grid.yaml").parts == 0
