import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats
from statsmodels.discrete.discrete_model import Logit

from tsnrepro.stats.thresholds import (
    SweepShape,
    binomial_threshold,
    fit_dose_response,
    highest_rate_without_loss,
    penalised_threshold,
)

# The published sweep of the control, trials of 10 s: rate in Mb/s and loss in percent.
CONTROL_RATES = [200, 250, 300, 350, 380, *range(390, 401), 450, 480, 500, 520, 530, 540, 560]
CONTROL_RATES += [580, 600, 650, 700, 750, 800, 850, 900, 950]
CONTROL_LOST = [rate in (393, 399) or rate >= 400 for rate in CONTROL_RATES]

# Bliss (1935), Annals of Applied Biology 22(1): beetles after five hours of carbon disulphide;
# logit fit of Dobson and Barnett, An Introduction to Generalized Linear Models, section 7.3.1:
# intercept -60.717, slope 34.270 in the decadic logarithm of the dose.
BEETLE_LOG10_DOSE = [1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839]
BEETLE_GROUPS = [59, 60, 62, 56, 63, 59, 62, 60]
BEETLE_KILLED = [6, 13, 18, 28, 52, 53, 61, 60]

estimators = pytest.mark.parametrize("estimate_of", [binomial_threshold, penalised_threshold])
sweeps = st.lists(
    st.tuples(st.sampled_from([200, 300, 350, 400, 420, 500, 700, 950]), st.booleans()),
    min_size=1,
    max_size=24,
)


def beetles() -> tuple[np.ndarray, np.ndarray]:
    doses, died = [], []
    for log10_dose, group, killed in zip(
        BEETLE_LOG10_DOSE, BEETLE_GROUPS, BEETLE_KILLED, strict=True
    ):
        doses += [10**log10_dose] * group
        died += [True] * killed + [False] * (group - killed)
    return np.array(doses), np.array(died)


def simulated(rng, rates, threshold, steepness):
    return rng.random(rates.size) < special.expit(steepness * np.log(rates / threshold))


def coverage(estimate_of, rates, threshold, steepness, sweeps):
    rng = np.random.default_rng(2024)
    covered = 0
    for _ in range(sweeps):
        lost = simulated(rng, rates, threshold, steepness)
        covered += estimate_of(rates, lost).contains(threshold)
    return covered / sweeps


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


def test_fit_reproduces_the_published_beetles():
    fit = fit_dose_response(*beetles())
    assert fit.shape is SweepShape.OVERLAPPING
    assert math.log10(fit.threshold) == pytest.approx(60.717 / 34.270, abs=5e-5)
    assert fit.steepness * math.log(10) == pytest.approx(34.270, abs=5e-4)


def test_profile_interval_of_the_beetles_is_close_to_the_large_sample_one():
    # 481 insects: the standard error 0.0039 of the log dose (delta method) is trustworthy.
    doses, died = beetles()
    for estimate in (binomial_threshold(doses, died), penalised_threshold(doses, died)):
        limits = np.log10([estimate.low, estimate.high])
        assert limits == pytest.approx([1.7717 - 1.96 * 0.0039, 1.7717 + 1.96 * 0.0039], abs=3e-4)


def test_fit_agrees_with_another_fitter():
    log_rates = np.log(CONTROL_RATES)
    other = Logit(np.array(CONTROL_LOST, dtype=float), np.column_stack([np.ones(32), log_rates]))
    result = other.fit(disp=0, maxiter=200)
    fit = fit_dose_response(CONTROL_RATES, CONTROL_LOST)
    intercept, slope = result.params
    assert math.log(fit.threshold) == pytest.approx(-intercept / slope, rel=1e-7)
    assert fit.steepness == pytest.approx(slope, rel=1e-5)
    assert fit.log_likelihood == pytest.approx(result.llf, rel=1e-9)
    assert fit.probability(CONTROL_RATES) == pytest.approx(result.predict(), abs=1e-6)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_likelihood_ratio_at_the_limits_is_the_chi_square_quantile(level):
    log_rates, lost = np.log(CONTROL_RATES), np.array(CONTROL_LOST)
    estimate = binomial_threshold(CONTROL_RATES, lost, level)
    best = fit_dose_response(CONTROL_RATES, lost).log_likelihood
    for limit in (estimate.low, estimate.high):
        distance = np.where(lost, 1, -1) * (log_rates - math.log(limit))
        search = optimize.minimize_scalar(
            lambda steepness, d=distance: np.logaddexp(0, -steepness * d).sum(),
            bounds=(0, 2000),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert 2 * (best + search.fun) == pytest.approx(stats.chi2.ppf(level, 1), abs=1e-4)


def test_published_control_threshold():
    estimate = binomial_threshold(CONTROL_RATES, CONTROL_LOST)
    assert 392 < estimate.low < estimate.value < 400 < estimate.high < 450
    assert (estimate.n, estimate.unit) == (32, "Mb/s")
    assert estimate.method == "logistic dose-response, profile likelihood"


def test_separated_outcomes_put_the_threshold_in_the_middle_of_the_bracket():
    rates = np.arange(100, 1000, 50)
    estimate = binomial_threshold(rates, rates > 500)
    assert estimate.value == pytest.approx(math.sqrt(500 * 550))
    assert estimate.low < 500
    assert estimate.high > 550
    assert "separated" in estimate.method
    fit = fit_dose_response(rates, rates > 500)
    assert fit.steepness == math.inf
    assert fit.log_likelihood == 0
    assert list(fit.probability([500, fit.threshold, 550])) == [0, 0.5, 1]


@given(st.integers(1, 12), st.integers(1, 12))
def test_separated_limits_are_finite_from_four_trials_on(clean, lossy):
    rates = np.arange(1, clean + lossy + 1) * 50.0
    estimate = binomial_threshold(rates, np.arange(clean + lossy) >= clean)
    if clean + lossy >= 4:
        assert 0 < estimate.low < estimate.value < estimate.high < math.inf
    elif clean + lossy == 2:
        assert (estimate.low, estimate.high) == (0, math.inf)


def test_outcomes_that_meet_at_one_rate_put_the_threshold_there():
    rates = [100, 200, 300, 300, 300, 400, 500]
    estimate = binomial_threshold(rates, [0, 0, 1, 0, 1, 1, 1])
    assert estimate.value == pytest.approx(300)
    assert estimate.low < 300 < estimate.high
    fit = fit_dose_response(rates, [0, 0, 1, 0, 1, 1, 1])
    assert fit.log_likelihood == pytest.approx(2 * math.log(2 / 3) + math.log(1 / 3))


def test_nine_losses_in_ten_at_the_meeting_rate_exclude_higher_thresholds():
    rates = [100, 200, *[300] * 10, 400, 500]
    estimate = binomial_threshold(rates, [0, 0, *[1] * 9, 0, 1, 1])
    assert estimate.high == pytest.approx(300)
    assert estimate.low < 300


@estimators
def test_none_lost_is_censored_at_the_sixth_rate_from_above(estimate_of):
    estimate = estimate_of(np.arange(100, 1100, 100), [False] * 10)
    assert math.isnan(estimate.value)
    assert (estimate.low, estimate.high) == (500, math.inf)
    assert "right-censored" in estimate.method


@estimators
def test_all_lost_is_censored_at_the_sixth_rate_from_below(estimate_of):
    estimate = estimate_of(np.arange(100, 1100, 100), [True] * 10)
    assert math.isnan(estimate.value)
    assert (estimate.low, estimate.high) == (0, 600)
    assert "left-censored" in estimate.method


def test_few_clean_trials_give_no_limit_and_repeated_ones_the_rate_itself():
    assert binomial_threshold([500] * 5, [False] * 5).low == 0
    assert binomial_threshold([500] * 6, [False] * 6).low == 500
    assert binomial_threshold([500] * 5, [False] * 5, level=0.9).low == 500


@estimators
def test_one_loss_among_clean_trials_above_it_gives_a_lower_limit_only(estimate_of):
    estimate = estimate_of(np.arange(100, 1100, 100), [0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    assert math.isnan(estimate.value)
    assert 500 < estimate.low < math.inf
    assert estimate.high == math.inf
    assert "does not rise" in estimate.method


@estimators
def test_one_clean_trial_among_losses_below_it_gives_an_upper_limit_only(estimate_of):
    estimate = estimate_of(np.arange(100, 1100, 100), [1, 1, 1, 1, 1, 1, 1, 0, 1, 1])
    assert math.isnan(estimate.value)
    assert estimate.low == 0
    assert 0 < estimate.high < 500


@estimators
def test_rates_that_all_lose_half_of_their_trials_locate_nothing(estimate_of):
    estimate = estimate_of(np.repeat([200, 390, 700, 950], 2), [0, 1] * 4)
    assert math.isnan(estimate.value)
    assert (estimate.low, estimate.high) == (0, math.inf)


@estimators
@pytest.mark.parametrize("lost", [[0, 1] * 3, [0, 0, 0, 1]])
def test_a_single_rate_locates_nothing(estimate_of, lost):
    estimate = estimate_of([500] * len(lost), lost)
    assert math.isnan(estimate.value)
    assert (estimate.low, estimate.high) == (0, math.inf)


@estimators
@settings(max_examples=60, deadline=None)
@given(sweep=sweeps)
def test_any_sweep_gives_an_ordered_interval_without_warnings(estimate_of, sweep):
    rates, lost = zip(*sweep, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = estimate_of(rates, lost)
    assert 0 <= estimate.low <= estimate.high
    assert estimate.n == len(sweep)
    if not math.isnan(estimate.value):
        assert estimate.low <= estimate.value * (1 + 1e-9)
        assert estimate.value <= estimate.high * (1 + 1e-9)


@estimators
@settings(max_examples=30, deadline=None)
@given(sweep=sweeps)
def test_the_estimate_follows_the_unit_and_the_mirror(estimate_of, sweep):
    rates, lost = (np.array(column) for column in zip(*sweep, strict=True))
    here = estimate_of(rates, lost)
    in_kilobits = estimate_of(rates * 1000.0, lost)
    mirrored = estimate_of(1 / rates, ~lost)
    for ours, scaled, turned in (
        (here.value, in_kilobits.value, mirrored.value),
        (here.low, in_kilobits.low, mirrored.high),
        (here.high, in_kilobits.high, mirrored.low),
    ):
        assert scaled == pytest.approx(ours * 1000, rel=1e-4, nan_ok=True)
        inverse = math.inf if turned == 0 else 1 / turned
        assert inverse == pytest.approx(ours, rel=1e-4, nan_ok=True)


def test_plain_interval_covers_near_its_level_in_a_sweep_of_many_trials():
    rates = np.repeat(np.linspace(300, 700, 10), 20)
    assert 0.92 < coverage(binomial_threshold, rates, 480, 6, 400) < 0.98


def test_penalised_interval_keeps_the_level_where_the_plain_one_falls_short():
    # One trial a rate and a steep rise, as in the published sweep of the control.
    rates = np.linspace(200, 950, 32)
    plain = coverage(binomial_threshold, rates, 400, 10, 200)
    penalised = coverage(penalised_threshold, rates, 400, 10, 200)
    assert 0.82 < plain < 0.93
    assert penalised > 0.93


def test_penalised_estimate_is_the_maximum_of_the_penalised_likelihood():
    log_rates, lost = np.log(CONTROL_RATES), np.array(CONTROL_LOST)
    design = np.column_stack([np.ones(32), log_rates - log_rates.mean()])

    def loss(line):
        chance = special.expit(design @ line)
        information = design.T @ (design * (chance * (1 - chance))[:, None])
        likelihood = special.log_expit(np.where(lost, 1, -1) * (design @ line)).sum()
        return -likelihood - np.linalg.slogdet(information)[1] / 2

    best = optimize.minimize(loss, [0.0, 5.0], method="BFGS")
    estimate = penalised_threshold(CONTROL_RATES, lost)
    truth = math.exp(log_rates.mean() - best.x[0] / best.x[1])
    assert estimate.value == pytest.approx(truth, rel=1e-4)
    for limit in (estimate.low, estimate.high):
        middle = math.log(limit) - log_rates.mean()
        search = optimize.minimize_scalar(
            lambda steepness, m=middle: loss([-steepness * m, steepness]),
            bounds=(0.1, 500),
            method="bounded",
            options={"xatol": 1e-8},
        )
        assert 2 * (search.fun - best.fun) == pytest.approx(stats.chi2.ppf(0.95, 1), abs=1e-3)


def test_penalised_estimate_is_the_highest_of_several_peaks():
    rates = np.array([100, 150, 400, 450, 500, 600, 700, 750])
    lost = rates >= 700
    best_threshold, best = math.nan, -math.inf
    for threshold in np.geomspace(100, 1500, 400):
        for steepness in np.geomspace(0.1, 500, 150):
            logit = steepness * np.log(rates / threshold)
            weight = special.expit(logit) * special.expit(-logit)
            position = np.log(rates)
            information = weight.sum() * (weight * position**2).sum()
            information -= (weight * position).sum() ** 2
            likelihood = special.log_expit(np.where(lost, 1, -1) * logit).sum()
            value = likelihood + math.log(information) / 2 if information > 1e-12 else -math.inf
            if value > best:
                best_threshold, best = threshold, value
    # The lower peak lies at 695; the grid's step is 0.7 %.
    assert penalised_threshold(rates, lost).value == pytest.approx(best_threshold, rel=0.007)
    assert best_threshold < 650


def test_penalised_limits_of_a_separated_sweep_open_when_trials_are_few():
    assert penalised_threshold([100, 200, 300, 400], [0, 0, 1, 1]).high == math.inf
    wide = penalised_threshold(np.arange(100, 900, 100), [0] * 4 + [1] * 4)
    plain = binomial_threshold(np.arange(100, 900, 100), [0] * 4 + [1] * 4)
    assert 0 < wide.low < plain.low < plain.high < wide.high < math.inf


def test_probability_needs_rates():
    fit = fit_dose_response([100, 200], [0, 1])
    with pytest.raises(ValueError, match="positive"):
        fit.probability([0.0])
    assert np.isnan(fit_dose_response([100, 200], [0, 0]).probability([100, 200])).all()


@pytest.mark.parametrize(
    "function", [highest_rate_without_loss, fit_dose_response, binomial_threshold]
)
@pytest.mark.parametrize(
    ("rates", "lost", "message"),
    [
        ([], [], "rates is empty"),
        ([100, 200], [0], "2 against 1"),
        ([0, 200], [0, 1], "positive"),
        ([100, math.nan], [0, 1], "index 1"),
        ([100, 200], [0, 1420], "count > 0"),
    ],
)
def test_unusable_sweeps(function, rates, lost, message):
    with pytest.raises(ValueError, match=message):
        function(rates, lost)


@estimators
def test_unusable_levels(estimate_of):
    with pytest.raises(ValueError, match="level"):
        estimate_of([100, 200], [0, 1], level=95)
