"""Simulations for sliders: against arithmetic, and fast enough."""

import time

import pytest

from tsnrepro.explore import what_if
from tsnrepro.explore import widgets as explore_widgets

LOSS = {
    "buffer_kb": 213,
    "stall_length_ms": 2.0,
    "stall_interval_ms": 20.0,
    "paths": 2,
    "path_loss_percent": 0.1,
    "path_skew_us": 0.0,
}
GATES = {"window_us": 100.0, "cycle_us": 500.0, "load_mbps": 800.0, "guard_band": True}


def lost(**parameters):
    found = what_if.loss_over_load(duration_s=0.5, rates_mbps=[600], **parameters)
    return found.set_index("configuration")["loss_percent"]


def test_a_datagram_is_lost_if_all_paths_lose_it():
    """Independent loss of 20 % a path: 20 %, 4 %, 0.8 % within four standard errors of 25 000."""
    chance = 0.2
    for paths in (2, 3):
        found = lost(paths=paths, path_loss_probability=chance)
        assert found["control"] == pytest.approx(100 * chance, abs=1.1)
        assert found["frer"] == pytest.approx(100 * chance**paths, rel=0.15)


def test_a_buffer_that_holds_a_stall_loses_nothing():
    small = lost(stall_length_ms=3.0, receive_buffer_bytes=100_000)
    assert (small > 1).all(), "FRER does not recover losses at the listener"
    assert (lost(stall_length_ms=3.0, receive_buffer_bytes=8_000_000) == 0).all()


def test_a_gate_delays_by_no_more_than_its_closed_time():
    found = what_if.gated_latency(load_mbps=0.0)
    latency = found.set_index(["mode", "datagram"])["latency_us"].unstack(0)
    waited = latency["gates"] - latency["fifo"]
    # 100 bytes of payload are 166 bytes on the wire with preamble and gap: 1.3 us at 1 Gb/s. With
    # a guard band a frame has to end in the window, so it may wait that much longer.
    assert waited.min() == pytest.approx(0, abs=0.01)
    assert 400 - 2 <= waited.max() <= 400 + 1.4
    # One datagram at each of 500 phases, of which those in 400 us of 500 wait.
    assert (waited > 0.01).mean() == pytest.approx(0.8, abs=0.01)


def test_strict_priority_waits_for_one_frame_of_the_load_at_most():
    alone = what_if.gated_latency(load_mbps=0.0)
    loaded = what_if.gated_latency(load_mbps=800.0)
    least, most = (
        what_if.quantiles(found).loc["priority", "largest_us"] for found in (alone, loaded)
    )
    full_frame_us = 1538 * 8 / 1000
    assert 0.8 * full_frame_us < most - least <= full_frame_us + 0.01


@pytest.mark.parametrize(
    ("draw", "setting"),
    [(explore_widgets.loss_figure, LOSS), (explore_widgets.gates_figure, GATES)],
)
def test_a_simulation_takes_less_time_than_its_figure(draw, setting):
    """Both times are measured here, so that the speed of the machine does not matter."""
    simulations, figures = [], []
    for _ in range(6):
        began = time.process_time()
        figure = draw(**setting)
        drawn = time.process_time()
        assert explore_widgets.png(figure, 80).startswith(b"\x89PNG")
        simulations.append(drawn - began)
        figures.append(time.process_time() - drawn)
    assert min(simulations) < 2 * min(figures)
