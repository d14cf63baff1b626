import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsnrepro.stats.estimate import Limits
from tsnrepro.stats.thresholds import (
    Sweep,
    compare_thresholds,
    highest_rate_without_loss,
    threshold,
)

# The published sweep of the control, trials of 10 s: rate in Mb/s and loss in percent.
CONTROL_RATES = [200, 250, 300, 350, 380, *range(390, 401), 450, 480, 500, 520, 530, 540, 560]
CONTROL_RATES += [580, 600, 650, 700, 750, 800, 850, 900, 950]
CONTROL_LOST = [rate in (393, 399) or rate >= 400 for rate in CONTROL_RATES]

RATES = np.arange(100.0, 901.0, 50.0)
outcomes = st.lists(
    st.lists(st.booleans(), min_size=RATES.size, max_size=RATES.size), min_size=3, max_size=6
)


def steps(*limits, rates=RATES):
    """Return one sweep per repetition, which loses from its limit on."""
    return [Sweep(rates, rates > limit) for limit in limits]


def test_plain_rule_on_the_published_control():
    assert len(CONTROL_RATES) == len(CONTROL_LOST) == 32
    assert highest_rate_without_loss(CONTROL_RATES, CONTROL_LOST) == 392


@pytest.mark.parametrize(
    ("rates", "lost", "highest"),
    [
        ([100, 200, 300], [False, False, False], 300),
        ([300, 100, 200], [True, False, False], 200),
        ([100, 200, 300], [False, True, False], 100),
        ([100, 200, 200, 300], [False, False, True, False], 100),
        ([100, 100, 200], [False, True, False], None),
        ([100], [1], None),
    ],
)
def test_plain_rule(rates, lost, highest):
    assert highest_rate_without_loss(rates, lost) == highest


def test_the_published_control_has_its_threshold_but_one_sweep_no_interval():
    found = threshold([Sweep(CONTROL_RATES, CONTROL_LOST)])
    assert 380 < found.value < 420
    assert found.limits is Limits.NONE
    assert found.method.startswith("no interval: 1 repetition")


def test_the_threshold_is_where_loss_begins():
    found = threshold(steps(470, 470, 470, 470, 470))
    assert found.low < 470 < found.high
    assert found.value == pytest.approx(math.sqrt(450 * 500), rel=0.02)
    # All repetitions are equal: the loads set the limits.
    assert (found.n, found.unit, found.limits) == (5, "Mb/s", Limits.BRACKET)
    assert {found.low, found.high} <= set(RATES)
    assert "fewer than 3 loads between the limits" in found.method


FINE = np.geomspace(100, 950, 60)
SCATTERED = (300, 370, 470, 590, 740)


@pytest.mark.parametrize(
    ("sweeps", "why"),
    [
        (steps(*SCATTERED[:4], rates=FINE), "fewer than 5 repetitions"),
        (steps(*[470] * 5, rates=FINE), "fewer than 3 loads between the limits"),
        (steps(*SCATTERED, rates=RATES[::2]), "loads more than 10 % apart"),
        (steps(*SCATTERED, rates=FINE), ""),
    ],
)
def test_limits_not_set_by_chance_are_a_bracket_of_loads_tried(sweeps, why):
    found = threshold(sweeps)
    assert found.decides
    assert found.limits is (Limits.BRACKET if why else Limits.INTERVAL)
    assert why in found.method
    ends = {found.low, found.high}
    assert (ends <= set(sweeps[0].rates)) is bool(why)
    compared = compare_thresholds(sweeps, sweeps)
    assert compared.ratio.limits is (Limits.BRACKET if why else Limits.BOUND)
    assert compared.ratio.method.startswith(compared.ratio.limits)


def test_sweeps_of_different_repetitions_are_not_paired():
    rates, lost = [100.0, 200.0, 300.0, 400.0], [False, False, True, True]
    control, frer = (
        [Sweep(rates, lost, number) for number in numbers] for numbers in ((2, 3, 1), (2, 3, 4))
    )
    assert compare_thresholds(frer, control).ratio.n == 2
    apart = [Sweep(rates, lost, number) for number in (7, 8, 9)]
    assert compare_thresholds(frer, apart).ratio.limits is not Limits.INTERVAL


def test_offered_loads_count_once_per_repetition():
    # Five repetitions of one load differ by a thousandth: that does not make it five loads.
    offered = [Sweep(RATES * (1 + k / 1000), RATES > 470) for k in range(5)]
    assert threshold(offered).limits is Limits.BRACKET


def test_a_stall_far_below_hardly_moves_it():
    clean = threshold(steps(470, 520, 430, 470, 520))
    stalled = steps(470, 520, 430, 470, 520)
    stalled[2] = Sweep(RATES, (RATES > 430) | (RATES == 150))
    assert threshold(stalled).value == pytest.approx(clean.value, rel=0.02)
    assert highest_rate_without_loss(RATES, stalled[2].lost) == 100


def test_shifts_between_repetitions_widen_it():
    narrow, wide = threshold(steps(460, 470, 480)), threshold(steps(300, 470, 740))
    assert wide.high / wide.low > 1.5 * narrow.high / narrow.low


def test_units_of_the_rate_do_not_matter():
    mbps = threshold(steps(430, 470, 520))
    kbps = threshold([Sweep(np.asarray(s.rates) * 1000, s.lost) for s in steps(430, 470, 520)])
    ends = np.array([kbps.low, kbps.value, kbps.high]) / 1000
    assert ends == pytest.approx([mbps.low, mbps.value, mbps.high])


def test_nothing_lost_is_a_range_until_six_repetitions_and_then_a_bound():
    few, many = (threshold(steps(*[1000] * n), ceiling=957.1) for n in (5, 6))
    assert few.limits is Limits.RANGE
    assert many.limits is Limits.BOUND
    for found in (few, many):
        assert math.isnan(found.value)
        assert (found.low, found.high) == (900, 957.1)
        assert "above the loads tried" in found.method


def test_if_everything_lost_it_lies_below():
    found = threshold(steps(*[50] * 6))
    assert (found.low, found.high, found.limits) == (-math.inf, 100, Limits.BOUND)
    assert "below the loads tried" in found.method


def test_a_single_stall_puts_it_above():
    sweeps = [*steps(*[1000] * 5), Sweep(RATES, RATES == 300)]
    found = threshold(sweeps, ceiling=957.1)
    assert math.isnan(found.value)
    assert 850 <= found.low <= 900
    assert found.high == 957.1
    assert "above the loads tried" in found.method


@settings(max_examples=40, deadline=None)
@given(outcomes)
def test_no_limit_is_a_number_outside_the_loads_tried(lossy):
    sweeps = [Sweep(RATES, outcome) for outcome in lossy]
    for found in (threshold(sweeps), compare_thresholds(sweeps, sweeps).ratio):
        for number in (found.value, found.low, found.high):
            if math.isfinite(number) and found.unit:
                assert 100 <= number <= 900
        if found.decides and math.isfinite(found.value):
            assert found.low <= found.value <= found.high


def test_a_common_shift_cancels_in_the_ratio():
    limits = np.array([300, 420, 600, 380, 520])
    fine = np.geomspace(100, 950, 60)
    control, frer = steps(*limits, rates=fine), steps(*1.2 * limits, rates=fine)
    found = compare_thresholds(frer, control)
    own = threshold(frer).high / threshold(frer).low
    assert found.ratio.low < 1.2 < found.ratio.high
    assert found.ratio.low > 1.1
    assert found.ratio.high / found.ratio.low < own
    assert found.difference.low < 0.2 * np.median(limits) < found.difference.high
    assert found.difference.unit == "Mb/s"


def test_two_without_loss_differ_by_at_most_load_to_ceiling():
    found = compare_thresholds(steps(*[1000] * 6), steps(*[1000] * 6), ceilings=(953.4, 957.1))
    assert found.ratio.limits is Limits.BOUND
    assert (found.ratio.low, found.ratio.high) == pytest.approx((900 / 957.1, 953.4 / 900))
    assert (found.difference.low, found.difference.high) == pytest.approx((-57.1, 53.4))


def test_one_without_loss_has_the_higher_threshold():
    found = compare_thresholds(steps(*[1000] * 6), steps(*[470] * 6))
    assert found.ratio.low > 1.5
    assert found.ratio.high == math.inf
    assert found.ratio.limits is Limits.BOUND


@pytest.mark.parametrize(
    ("rates", "lost", "message"),
    [
        ([], [], "rates is empty"),
        ([100], [True, False], "1 against 2"),
        ([0, 100], [False, True], "positive"),
        ([100, 200], [0, 17], "count > 0"),
        ([100, math.nan], [False, True], "index 1"),
    ],
)
def test_unusable_sweeps(rates, lost, message):
    for refuse in (Sweep, highest_rate_without_loss):
        with pytest.raises(ValueError, match=message):
            refuse(rates, lost)


def test_no_sweep_and_a_single_load():
    with pytest.raises(ValueError, match="sweeps is empty"):
        threshold([])
    found = threshold([Sweep([500.0], [True]), Sweep([500.0], [False])])
    assert found.limits is Limits.NONE
    assert "single load" in found.method


@pytest.mark.parametrize("of_a", [476.5, 477.9, 479.3, 481.9])
@pytest.mark.parametrize("repetitions", [3, 5, 8])
def test_the_ratio_of_two_brackets(of_a, repetitions):
    """Thresholds are equal in all repetitions: only the position between loads is unknown."""
    loads = np.array([470.0, 475.0, 480.0, 485.0, 490.0])
    of_b = 481.2
    swept = [[Sweep(loads, loads > at)] * repetitions for at in (of_a, of_b)]
    found = compare_thresholds(*swept)
    assert found.ratio.decides
    assert found.ratio.low <= of_a / of_b <= found.ratio.high
    assert found.difference.low <= of_a - of_b <= found.difference.high


def test_no_value_is_given_where_half_of_the_trials_lose_at_no_load():
    rng = np.random.default_rng(1)
    rates = np.linspace(350, 600, 11)
    chance = np.where(rates < 450, 0.05, 0.4)
    found = [
        threshold([Sweep(rates, rng.random(rates.size) < chance) for _ in range(6)])
        for _ in range(40)
    ]
    assert sum(math.isfinite(one.value) for one in found) <= 2
    assert sum(math.isfinite(one.high) for one in found) <= 2


@pytest.mark.parametrize("stalled", [0.0, 0.15, 0.3])
def test_a_threshold_is_where_half_of_the_trials_lose(stalled):
    rng = np.random.default_rng(0)
    rates = np.geomspace(100, 200, 25)

    def chance(rate):
        return stalled + (1 - stalled) / (1 + np.exp(-np.log(rate / 140) / 0.03))

    found = [
        threshold([Sweep(rates, rng.random(rates.size) < chance(rates)) for _ in range(10)]).value
        for _ in range(20)
    ]
    # At 140, the middle of the rise, it is 0.575 and 0.65 with stalls.
    assert chance(np.mean(found)) == pytest.approx(0.5, abs=0.04)
