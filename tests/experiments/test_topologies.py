"""Lines, rings and meshes against store and forward, products of chances, and the line's rate."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from tsnrepro.config.files import campaign
from tsnrepro.experiments.topologies import analysis
from tsnrepro.experiments.topologies import measure as topologies
from tsnrepro.experiments.topologies.measure import topology
from tsnrepro.experiments.topologies.plan import plan as plan_topologies
from tsnrepro.experiments.topologies.settings import TopologiesSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.testbed import open_testbed

BOTH = pytest.mark.parametrize("configuration", ["control", "frer"])
BASE = {
    "cut": False,
    "link_loss_percent": 0.0,
    "rate_mbps": 100.0,
    "payload_bytes": 1472,
    "duration_s": 0.2,
}
# Preamble and frame of a full datagram at 1 Gb/s: a switch has it all when its last bit is there.
PLAIN_US, TAGGED_US = 1526 * 8 / 1000, 1532 * 8 / 1000


@pytest.fixture(scope="module")
def model():
    return open_testbed("model", campaign("smoke"), "test", stalls=None)


def measured(model, shape, size, configuration, **factors):
    found = Measurement()
    given = BASE | {"shape": shape, "size": size, "configuration": configuration} | factors
    topologies.measure(model, Trial("topologies", "label", given, 1), found)
    return found.values


def walk(made, member):
    """The switches that a member path leads through, from the first switch to the last."""
    nodes = [made.switches[0]]
    for link in member:
        a, b = made.links[link]
        assert nodes[-1] in (a, b)
        nodes.append(b if nodes[-1] == a else a)
    assert nodes[-1] == made.last
    return nodes


@pytest.mark.parametrize(
    ("shape", "size", "lengths"),
    [
        ("line", 2, [1, 1]),
        ("line", 8, [7, 7]),
        ("ring", 3, [1, 2]),
        ("ring", 5, [2, 3]),
        ("ring", 6, [3, 3]),
        ("mesh", 2, [1, 2]),
        ("mesh", 3, [1, 2, 2]),
    ],
)
def test_member_paths_are_disjoint_and_of_the_length_that_the_shape_says(shape, size, lengths):
    made = topology(shape, size)
    assert [len(member) for member in made.members] == lengths
    for one, other in combinations(made.members, 2):
        assert not {*one} & {*other}
        if shape != "line":  # whose switches all links share
            assert not {*walk(made, one)[1:-1]} & {*walk(made, other)[1:-1]}
    if shape == "mesh":
        assert len(made.links) == len(made.switches) * (len(made.switches) - 1) / 2
    if shape == "ring":
        ends = [node for pair in made.links.values() for node in pair]
        assert all(ends.count(switch) == 2 for switch in made.switches)


@BOTH
@pytest.mark.parametrize(
    ("shape", "size", "links"), [("line", 2, 1), ("line", 8, 7), ("ring", 5, 2), ("mesh", 3, 1)]
)
def test_latency_without_waiting_is_the_sum_of_its_parts(model, configuration, shape, size, links):
    values = measured(model, shape, size, configuration)
    known = values["parameters"]
    between = TAGGED_US if configuration == "frer" else PLAIN_US
    expected = known["send_us"] + 2 * PLAIN_US + links * between
    expected += (links + 1) * known["switch_us"] + (links + 2) * 0.025
    result = values["result"]
    assert result["p50_us"] == pytest.approx(expected, abs=0.01)
    assert result["p99_us"] == pytest.approx(expected, abs=0.01)
    assert result["expected_us"] == pytest.approx(expected, abs=0.01)
    assert result["lost_percent"] == 0


@pytest.mark.parametrize(
    ("shape", "size", "paths"), [("line", 3, [2, 2]), ("ring", 5, [2, 3]), ("mesh", 3, [1, 2, 2])]
)
def test_loss_is_the_product_of_what_the_paths_lose(model, shape, size, paths):
    chance, more = 0.1, {"link_loss_percent": 10.0, "duration_s": 2.0}
    losses = [1 - (1 - chance) ** links for links in paths]
    for configuration, expected in (("control", losses[0]), ("frer", np.prod(losses))):
        result = measured(model, shape, size, configuration, **more)["result"]
        spread = (expected * (1 - expected) / result["sent"]) ** 0.5
        assert result["lost_percent"] / 100 == pytest.approx(expected, abs=4 * spread)
        assert result["expected_lost_percent"] / 100 == pytest.approx(expected)


def test_a_cut_ring_costs_control_half_of_the_time_and_frer_nothing(model):
    control, frer = (measured(model, "ring", 5, c, cut=True)["result"] for c in ("control", "frer"))
    assert control["lost_percent"] == pytest.approx(50, abs=0.1)
    assert frer["lost_percent"] == 0
    assert (control["expected_lost_percent"], frer["expected_lost_percent"]) == (50, 0)
    assert control["carried_mbps"] == pytest.approx(50, rel=0.01)
    # The other direction is a switch and a link longer.
    whole = measured(model, "ring", 5, "frer")
    step = TAGGED_US + whole["parameters"]["switch_us"] + 0.025
    assert frer["p99_us"] - whole["result"]["p99_us"] == pytest.approx(step, abs=0.01)


@pytest.mark.parametrize("paths", [2, 3])
def test_more_paths_carry_no_more_than_one(model, paths):
    """Offered is the talker's line, 957.1 Mb/s; the tag leaves 953.4 on every member link."""
    control, frer = (
        measured(model, "mesh", paths, c, rate_mbps=960.0, duration_s=0.5)["result"]
        for c in ("control", "frer")
    )
    assert frer["paths"] == paths
    assert control["carried_mbps"] == pytest.approx(1472 / 1538 * 1000, rel=1e-4)
    assert frer["carried_mbps"] == pytest.approx(1472 / 1544 * 1000, rel=1e-4)


def test_the_analysis_sets_each_cell_beside_what_follows_without_simulating(model):
    settings = TopologiesSettings(
        repetitions=3,
        duration_s=0.1,
        rates_mbps=[100.0, 960.0],
        lines=[4],
        meshes=[],
        link_loss_percents=[0.0, 5.0],
    )
    rows = []
    for item in plan_topologies(settings, 1, "model"):
        found = Measurement()
        topologies.measure(model, item.trial, found)
        row = {"trial": f"t{item.order}", "sha256": f"{item.order:064x}", "order": item.order}
        row |= {"repetition": item.trial.repetition}
        rows.append(row | item.trial.factors | found.values["result"])
    trials = pd.DataFrame(rows)
    results = analysis.analyse(trials)
    cell = "topologies.line_4.control.link_loss_5.rate_100"
    assert results.of(f"{cell}.expected_lost.percent").value == pytest.approx(
        100 * (1 - 0.95**3), rel=1e-6
    )
    lost = results.of(f"{cell}.lost.percent")
    assert lost.low < lost.value < lost.high
    # Above the line's limit queues lose too: no closed form.
    above = "topologies.line_4.frer.link_loss_0.rate_960.expected_lost.percent"
    assert results.of(above).value is None
    # Three tags on the way: 3 x 48 ns.
    changed = results.of("topologies.line_4.p50.difference.us")
    assert changed.value == pytest.approx(0.144, abs=0.002)
    assert "topologies.ring_5_cut.p50.difference.us" not in results.keys
    ratio = results.of("topologies.line_4.carried.ratio").value
    assert ratio == pytest.approx(1538 / 1544, rel=2e-3)
