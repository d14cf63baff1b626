"""Meshed forwarding against the arithmetic of lines, and the order that RFC 2889 asks for."""

import pandas as pd
import pytest

from tsnrepro.config.files import campaign
from tsnrepro.experiments.meshed import analysis
from tsnrepro.experiments.meshed import measure as meshed
from tsnrepro.experiments.meshed.measure import destinations
from tsnrepro.experiments.meshed.plan import plan as plan_meshed
from tsnrepro.experiments.meshed.settings import MeshedSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.testbed import open_testbed

QUEUE_BYTES = 100_000
DURATION_S = 0.02
# RFC 2544's table of frame rates, for Ethernet at 1 Gb/s.
LINE_FPS = {64: 1_488_095, 512: 234_962, 1518: 81_274}


@pytest.fixture(scope="module")
def model():
    return open_testbed("model", campaign("smoke"), "test", queue_bytes=QUEUE_BYTES)


def measured(model, pattern, **factors):
    given = {"ports": 4, "frame_bytes": 1518, "load_percent": 100.0, "uplink_mbps": None}
    given |= {"duration_s": DURATION_S, "pattern": pattern} | factors
    found = Measurement()
    meshed.measure(model, Trial("meshed", "label", given, 1), found)
    return found.values["result"]


@pytest.mark.parametrize("ports", [4, 8])
def test_in_no_slot_of_a_full_mesh_two_frames_are_for_one_port(ports):
    mesh = destinations("full", ports)
    for port, others in mesh.items():
        assert sorted(others) == [other for other in range(ports) if other != port]
    for slot in range(ports - 1):
        assert len({others[slot] for others in mesh.values()}) == ports


def test_two_devices_send_to_each_other_only_and_alike():
    mesh = destinations("two_devices", 8)
    assert all(sorted(mesh[port]) == [4, 5, 6, 7] for port in range(4))
    assert all(sorted(mesh[port]) == [0, 1, 2, 3] for port in range(4, 8))
    for slot in range(4):
        assert len({others[slot] for others in mesh.values()}) == 8


@pytest.mark.parametrize("frame", [64, 512, 1518])
@pytest.mark.parametrize("ports", [4, 8])
def test_a_full_mesh_forwards_every_frame_at_the_lines_rate(model, ports, frame):
    result = measured(model, "full", ports=ports, frame_bytes=frame)
    assert result["lost"] == 0
    assert result["sent"] / DURATION_S == pytest.approx(ports * LINE_FPS[frame], rel=2e-3)
    assert result["forwarding_fps"] == pytest.approx(ports * LINE_FPS[frame], rel=4e-3)


@pytest.mark.parametrize("load", [50.0, 100.0])
def test_one_port_to_many_loses_nothing(model, load):
    result = measured(model, "one_to_many", load_percent=load)
    assert result["lost"] == 0
    assert result["sent"] / DURATION_S == pytest.approx(load / 100 * LINE_FPS[1518], rel=2e-3)


@pytest.mark.parametrize(("load", "times"), [(30.0, 0.9), (50.0, 1.5), (100.0, 3.0)])
def test_many_ports_to_one_lose_what_its_line_and_queue_cannot_take(model, load, times):
    result = measured(model, "many_to_one", load_percent=load)
    line = LINE_FPS[1518]
    expected = max(0, (times - 1) * line * DURATION_S - QUEUE_BYTES // 1518)
    # What is on the line and in the first frames' pipeline.
    assert result["lost"] == pytest.approx(expected, abs=6)
    assert result["lost"] == result["queue_drops"]
    assert result["forwarding_fps"] == pytest.approx(min(1, times) * line, rel=5e-3)


@pytest.mark.parametrize(("uplink", "times"), [(1000, 2), (10_000, 0.2)])
def test_two_devices_are_as_fast_as_the_link_between_them(model, uplink, times):
    result = measured(model, "two_devices", uplink_mbps=uplink)
    lines = 4 if times < 1 else 2
    assert result["forwarding_fps"] == pytest.approx(lines * LINE_FPS[1518], rel=5e-3)
    held = 2 * (QUEUE_BYTES // 1518)
    expected = 2 * LINE_FPS[1518] * DURATION_S - held if times > 1 else 0
    assert result["lost"] == pytest.approx(expected, abs=8)


def test_the_analysis_is_as_near_to_arithmetic_as_a_short_trial_lets_it(model):
    settings = MeshedSettings(repetitions=1, duration_s=DURATION_S, ports=[4], frames_bytes=[512])
    rows = []
    for item in plan_meshed(settings, 1, "model"):
        found = Measurement()
        meshed.measure(model, item.trial, found)
        row = {"trial": f"t{item.order}", "sha256": f"{item.order:064x}", "repetition": 1}
        rows.append(row | item.trial.factors | found.values["result"])
    trials = pd.DataFrame(rows)
    results = analysis.analyse(trials)
    assert results.of("meshed.forwarding.worst_error.percent").value < 0.3
    assert results.of("meshed.uncongested.lost.count").value == 0
    # full, one to many and two devices over 10 Gb/s at both loads; over 1 Gb/s at half of it.
    assert results.of("meshed.uncongested.trials.count").value == 7
    key = "meshed.many_to_one.ports_4.frame_512.load_100"
    # Three lines to one: two thirds, less what the queue of 195 frames holds of 14,098.
    expected = 100 * (2 / 3 - 195 / (3 * LINE_FPS[512] * DURATION_S))
    assert results.of(f"{key}.expected_lost.percent").value == pytest.approx(expected, abs=0.01)
    assert results.of(f"{key}.lost.percent").value == pytest.approx(expected, abs=0.1)
    hurt = trials.assign(lost=1)
    assert analysis.analyse(hurt).of("meshed.uncongested.lost.count").value == 7
