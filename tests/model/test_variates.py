import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Philox, SeedSequence

from tsnrepro.model import layout
from tsnrepro.model.variates import (
    ERLANG,
    STREAM_WORDS,
    child_seeds,
    draw_bits,
    draw_duration,
    draw_exponential,
    minus_log,
    stream_state,
)


def test_words_are_those_of_numpy():
    memory = np.concatenate([np.zeros(3, np.int64), stream_state(SeedSequence(5), "loss/x")])
    words = Philox(key=memory[3:5].view(np.uint64).copy()).random_raw(1001) >> np.uint64(11)
    assert [draw_bits(memory, 3) for _ in range(1001)] == words.tolist()


def test_streams_differ_by_name_and_seed_and_do_not_move_each_other():
    states = {
        tuple(stream_state(seed, name)[:2])
        for seed in [SeedSequence(1), SeedSequence(2), *child_seeds(1, 3)]
        for name in ("a", "b")
    }
    assert len(states) == 10
    memory = np.concatenate([stream_state(SeedSequence(1), name) for name in ("a", "b")])
    alone = [draw_bits(memory.copy(), STREAM_WORDS)]
    for _ in range(10):
        draw_bits(memory, 0)
    assert [draw_bits(memory, STREAM_WORDS)] == alone


@given(st.floats(min_value=1e-300, max_value=1e300))
@settings(deadline=None)
def test_logarithm(x):
    assert minus_log(x) == pytest.approx(-math.log(x), rel=4e-16, abs=4e-16)


@pytest.mark.parametrize("x", [0.5, 1.0, 2.0, math.sqrt(0.5), math.nextafter(1.0, 0.0)])
def test_logarithm_where_its_parts_change(x):
    assert minus_log(x) == pytest.approx(-math.log(x), rel=4e-16, abs=1e-17)


def test_exponential_moments_and_tail():
    memory = stream_state(SeedSequence(6), "x")
    draws = np.array([draw_exponential(memory, 0) for _ in range(100_000)])
    assert draws.min() > 0
    assert draws.mean() == pytest.approx(1, abs=0.012)
    assert draws.var() == pytest.approx(1, abs=0.05)
    for level in (0.1, 1.0, 4.0):
        share = math.exp(-level)
        error = math.sqrt(share * (1 - share) / draws.size)
        assert abs((draws > level).mean() - share) < 4 * error


def test_erlang_is_a_whole_number_of_picoseconds_with_its_mean():
    memory = np.concatenate(
        [stream_state(SeedSequence(7), "x"), np.array([ERLANG, 1_000_000, 4, 0])]
    )
    duration = layout.duration(memory, STREAM_WORDS)
    draws = np.array([draw_duration(memory, duration) for _ in range(20_000)])
    assert draws.dtype == np.int64
    assert draws.mean() == pytest.approx(1e6, rel=0.015)
    assert draws.std() == pytest.approx(0.5e6, rel=0.03)
