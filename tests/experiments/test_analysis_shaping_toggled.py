"""Toggled gates against logs made by hand: what counts for which state, the figure over time."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from shaping_parts import part

from tsnrepro.experiments.shaping import (
    analysis as shaping,
)
from tsnrepro.experiments.shaping import (
    figures as shaping_figures,
)
from tsnrepro.experiments.shaping import (
    toggled as shaping_toggled,
)
from tsnrepro.experiments.shaping import (
    values as shaping_values,
)
from tsnrepro.experiments.shaping.log import LISTENER_DTYPE
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.toggles import phases_between, recorded
from tsnrepro.stats.estimate import Limits

MS = 1_000_000
TOGGLED_NS = [(100 * MS, 103 * MS), (200 * MS, 202 * MS), (300 * MS, 304 * MS)]


def log_of(repetition: int) -> np.ndarray:
    """A datagram a millisecond: 10 us with gates, 30 us without, and a second while both settle."""
    log = np.zeros(400, LISTENER_DTYPE)
    sent = np.arange(400) * MS
    enabled = sent // (100 * MS) % 2 == 0
    latency = np.where(enabled, 10_000, 30_000) * repetition
    latency[sent % (100 * MS) < 9 * MS] = 1_000_000_000
    log["sent_ns"], log["received_ns"], log["stamped_ns"] = sent, sent + latency, sent + latency
    return log


@pytest.fixture
def run():
    settings = part(name="on-and-off", modes=["toggled"], toggles=3, packets=400, interval_us=1e3)
    documents, logs = {}, {}
    for repetition in (1, 2, 3):
        name = f"t{repetition}"
        counts = {"sent": 400, "received": 400, "lost": 0, "out_of_order": 0}
        phases = phases_between(TOGGLED_NS, 0, 399 * MS)
        documents[name] = {
            **{"trial": name, "sha256": f"{repetition:064x}", "repetition": repetition},
            **{"order": repetition, "started": "2026-01-01T00:00:00+00:00"},
            "factors": Factors.one(settings, "toggled", 0.0).stored(),
            "values": {
                "result": counts | {"load_offered_mbps": 0.0, "load_delivered_mbps": 0.0},
                **{"medium": "emulated veth", "egress": None},
                **recorded(phases),
            },
        }
        logs[name] = log_of(repetition)
    return shaping.assemble(documents, logs)


def test_each_state_has_its_own_datagrams(run):
    table = shaping_toggled.table(run).set_index(["gates", "statistic"])
    assert table.loc[("enabled", "max"), "value_us"] == 30
    assert table.loc[("disabled", "max"), "value_us"] == 90
    assert table.loc[("enabled", "p99"), "value_us"] == 20
    assert table.loc[("disabled", "p50"), "value_us"] == 60
    assert set(table["runs"]) == {3}
    assert set(table["phases"]) == {4}


def test_states_are_paired_by_run(run):
    """10, 20, 30 us against 30, 60, 90: -20, -40, -60, too few for limits of their median."""
    found = shaping_toggled.differences(run, "on-and-off", "idle")["p99"]
    assert found.value == pytest.approx(-40)
    assert (found.low, found.high) == pytest.approx((-60, -20))
    assert found.limits is Limits.RANGE


def test_a_toggled_part_is_held_against_no_other_mode(run):
    assert run.parts() == []
    assert [part.name for part in run.toggled_parts()] == ["on-and-off"]
    results = shaping_values.analyse(run)
    assert results.of("shaping.on_and_off.toggled.idle.toggles.count").value == 3
    assert results.of("shaping.on_and_off.toggled.idle.phase.s").value == pytest.approx(0.1)
    own = [key for key in results.keys if key.startswith("shaping.on_and_off.")]
    assert all(".toggled." in key for key in own)


def test_a_run_without_one_state_tells_nothing(run):
    for log in run.logs.values():
        log["sent_ns"] = 50 * MS
    assert shaping_toggled.table(run).empty
    assert shaping_toggled.differences(run, "on-and-off", "idle") == {}


def test_the_figure_shades_enabled_gates(run):
    (settings,) = run.toggled_parts()
    figure = shaping_figures.over_time(run, settings, "emulated", "idle")
    (axes,) = figure.axes
    assert [round(patch.get_x(), 3) for patch in axes.patches] == [0, 0.202]
    assert {text.get_text() for text in figure.legends[0].texts} == {
        "gates enabled",
        "gates disabled",
    }
    plt.close(figure)
    nothing = shaping_figures.over_time(run, settings, "emulated", "loaded")
    assert "not measured" in [text.get_text() for text in nothing.axes[0].texts]
    plt.close(nothing)
