"""Occupancy against the arithmetic of a queue, and the published equation against its own text."""

import csv
import io

import pandas as pd
import pytest

from tsnrepro.common.repository import root
from tsnrepro.config.files import campaign
from tsnrepro.experiments.occupancy import analysis
from tsnrepro.experiments.occupancy import measure as occupancy
from tsnrepro.experiments.occupancy.plan import plan as plan_occupancy
from tsnrepro.experiments.occupancy.settings import OccupancySettings
from tsnrepro.records.store import QUEUE_DEPTH, Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.testbed import open_testbed

BASE = {
    "configuration": "control",
    "memory": "per_port",
    "buffer_bytes": 2_000_000,
    "rate_mbps": 530.0,
    "duration_s": 0.3,
    "payload_bytes": 1472,
    "member_link_rate_mbps": 400,
}
# 530 Mb/s of payload are 1518 (with the R-TAG 1524) bytes of frame for each 1472 of payload; a line
# of 400 Mb/s takes away that frame in the time of 20 bytes more.
ARRIVES = {"control": 530 / 8 * 1518 / 1472, "frer": 530 / 8 * 1524 / 1472}
LEAVES = {"control": 400 / 8 * 1518 / 1538, "frer": 400 / 8 * 1524 / 1544}
GAP_MS = 1472 * 8 / 530e3


@pytest.fixture(scope="module")
def model():
    return open_testbed("model", campaign("smoke"), "test", stalls=None)


def measured(model, repetition=1, **factors):
    found = Measurement()
    occupancy.measure(model, Trial("occupancy", "label", BASE | factors, repetition), found)
    return found


FRAME = {"control": 1518, "frer": 1524}


def within_ms(configuration):
    """Three frames of the queue's growth: the first comes whole, the one on the line counts until
    its end, and the last finds no room."""
    return 3 * FRAME[configuration] / (ARRIVES[configuration] - LEAVES[configuration]) / 1e3


def fills_ms(configuration, buffer_bytes):
    return buffer_bytes / (ARRIVES[configuration] - LEAVES[configuration]) / 1e3


@pytest.mark.parametrize("configuration", ["control", "frer"])
@pytest.mark.parametrize("buffer_bytes", [2_000_000, 4_000_000])
def test_a_buffer_fills_in_its_size_over_the_excess(model, configuration, buffer_bytes):
    factors = {"configuration": configuration, "buffer_bytes": buffer_bytes}
    result = measured(model, **factors).values["result"]
    assert result["filled_ms"] == pytest.approx(
        fills_ms(configuration, buffer_bytes), abs=within_ms(configuration)
    )
    assert 0 < result["first_loss_ms"] - result["filled_ms"] < 8 * GAP_MS
    assert result["peak_percent"] == pytest.approx(100, abs=0.1)
    assert result["carried_mbps"] == pytest.approx(
        LEAVES[configuration] * 8 * 1472 / FRAME[configuration], rel=1e-4
    )


def test_a_shared_buffer_is_full_in_half_the_time_with_two_copies(model):
    shared = {"memory": "shared"}
    one = measured(model, **shared).values["result"]
    two = measured(model, configuration="frer", **shared).values["result"]
    assert one["filled_ms"] == pytest.approx(
        fills_ms("control", 2_000_000), abs=within_ms("control")
    )
    assert two["filled_ms"] == pytest.approx(fills_ms("frer", 1_000_000), abs=within_ms("frer"))
    assert (one["member_ports"], two["member_ports"]) == (1, 2)


def test_every_path_carries_the_whole_stream_so_two_lose_no_less_than_one(model):
    one = measured(model).values["result"]
    two = measured(model, configuration="frer").values["result"]
    assert two["network_lost_percent"] >= one["network_lost_percent"] > 0
    assert two["queue_drops"] > 1.9 * one["queue_drops"]


def test_a_link_that_keeps_up_never_fills_its_buffer(model):
    # 400 Mb/s of line carry 382.8 Mb/s of payload.
    result = measured(model, rate_mbps=380.0).values["result"]
    assert result["filled_ms"] is None
    assert result["first_loss_ms"] is None
    assert result["network_lost_percent"] == 0
    assert result["peak_percent"] < 1


def test_the_course_is_in_the_record(model):
    found = measured(model, configuration="frer")
    course = pd.read_csv(io.StringIO(found.outputs[QUEUE_DEPTH]))
    assert set(course["port"]) == {"sw1:m0", "sw1:m1"}
    half = fills_ms("frer", 1_000_000)
    near = course[(course["from_ms"] - half).abs() < 0.4]
    assert near["held_bytes"].to_numpy() == pytest.approx(1_000_000, rel=0.02)


def published(row):
    path = root() / "data/published/frer-udp/text-values.csv"
    with path.open(encoding="utf-8") as file:
        return next(float(r["value"]) for r in csv.DictReader(file) if r["row"] == row)


@pytest.mark.parametrize(
    ("configuration", "ports", "row"),
    [
        ("control", 1, "model-buffer-time-single-path"),
        ("frer", 2, "model-buffer-time-frer"),
    ],
)
def test_the_published_equation_gives_the_published_times(configuration, ports, row):
    factors = BASE | {"configuration": configuration, "member_ports": ports}
    # The document rounds 66.25 MB/s to 66 and says "about".
    assert analysis.published_ms(factors) == pytest.approx(published(row), rel=0.02)


def trials(model, **varied):
    rows = []
    settings = OccupancySettings(
        repetitions=3, rates_mbps=[380.0, 530.0], duration_s=0.3, buffers_bytes=[2_000_000]
    )
    for item in plan_occupancy(settings, 1, "model"):
        found = Measurement()
        occupancy.measure(model, item.trial, found)
        row = {"trial": f"t{item.order}", "sha256": f"{item.order:064x}"}
        rows.append(row | item.trial.factors | found.values["result"])
        rows[-1] |= {"repetition": item.trial.repetition, "order": item.order}
    return pd.DataFrame(rows).assign(**varied)


def test_the_analysis_says_how_far_each_equation_is(model):
    table = trials(model)
    results = analysis.analyse(table)
    cell = "occupancy.size_2mb.rate_530"
    for name in ("control.per_port", "frer.per_port", "frer.shared"):
        assert abs(results.of(f"{cell}.{name}.equation.error.percent").value) < 0.5
    assert results.of("occupancy.equation.worst_error.percent").value < 0.5
    # 123.1 ms against 105.2; 246.2 against 103.8 and 51.8.
    for name, percent in (("control.per_port", 17), ("frer.per_port", 137), ("frer.shared", 375)):
        found = results.of(f"{cell}.{name}.published.error.percent").value
        assert found == pytest.approx(percent, abs=1)


def test_a_buffer_that_was_not_full_has_no_time(model):
    results = analysis.analyse(trials(model))
    never = results.of("occupancy.size_2mb.rate_380.control.per_port.filled.ms")
    assert never.value is None
    assert "not full" in never.method
    filled = trials(model)
    filled.loc[filled["repetition"] == 2, "filled_ms"] = None
    part = analysis.analyse(filled).of("occupancy.size_2mb.rate_530.control.per_port.filled.ms")
    assert part.value is None
