"""Results that follow from several experiments: arithmetic, provenance, coverage, refusals."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tsnrepro.config.registry import experiment_of_key, experiments
from tsnrepro.published.derived_results import derive, derived_results
from tsnrepro.records.values import Result
from tsnrepro.stats.replication import median_over_runs
from tsnrepro.stats.thresholds import Sweep, threshold

PLACE = Path("results/emulated/quick")
PLACES = dict.fromkeys(("loss", "tcp", "mausezahn", "rfc2544", "failure", "capture"), PLACE)
INTERVAL, RANGE = "Student t on logarithms", "range over 2 runs, no interval"


def result(key, value, low=None, high=None, *, method=INTERVAL, trials=("a", "b"), unit="Mb/s"):
    run = key.split(".")[0]
    digest = hashlib.sha256(f"{key}{trials}".encode()).hexdigest()
    numbers = {"value": value, "low": low, "high": high, "unit": unit, "digits": 1}
    return Result(key=key, **numbers, method=method, run=run, trials=sorted(trials), sha256=digest)


def values(*changed):
    found = [
        result("loss.threshold.frer.mbps", 500.0, 450.0, 560.0),
        result("loss.payload_bytes", 1472.0, unit="bytes", method="configuration"),
        result("mausezahn.frame_1518.frer.achieved_frame_mbps", 250.0, 240.0, 260.0),
        result("tcp.goodput.frer.mbps", 930.0, 925.0, 935.0),
        result("tcp.line_limit.frer.mbps", 937.824, method="closed form", trials=()),
        result("failure.failover.frer.lost_while_cut", 0.0, method="no interval: all equal"),
    ]
    return {item.key: item for item in (*found, *changed)}


SWEEP = "tools.sweep.frer.to_mausezahn"


def test_a_ratio_is_of_frame_rates_and_its_limits_are_the_intervals_ends():
    found = derive(values(), PLACES)[SWEEP]
    frame = 1518 / 1472
    assert found.value == pytest.approx(500 * frame / 250)
    assert (found.low, found.high) == pytest.approx((450 * frame / 260, 560 * frame / 240))
    assert found.decides


def test_tcp_carries_less_payload_in_a_frame():
    found = derive(values(), PLACES)
    assert found["tools.tcp.frer.frame_mbps"].value == pytest.approx(930 * 1518 / 1448)
    assert found["tools.sweep.frer.frame_mbps"].value == pytest.approx(500 * 1518 / 1472)


def test_a_limit_over_links_of_its_own_is_not_set_against_rates_of_the_testbeds():
    of_the_line = [
        result("loss.line_limit.frer.mbps", 953.4, method="closed form", trials=()),
        result("loss.limit.end_to_end.frer.mbps", 475.0, 474.0, 476.0),
    ]
    keys = ("tools.talker.frer.payload_mbps", "overhead.udp.program.mbps", "planning.talker.mbps")
    found = derive(values(*of_the_line), PLACES)
    assert [found[key].value for key in (*keys, "overhead.udp.rest.mbps")] == [None] * 4
    paced = result("loss.paced.end_to_end.frer.mbps", 800.0, 750.0, 900.0)
    found = derive(values(*of_the_line, paced), PLACES)
    assert [found[key].value for key in keys] == pytest.approx([800, 300, 600])
    assert found["overhead.udp.rest.mbps"].value == pytest.approx(153.4)


def test_every_trial_behind_a_result_is_named_with_its_experiment():
    found = derive(values(), PLACES)
    assert found[SWEEP].run == "loss+mausezahn"
    assert found[SWEEP].trials == ["loss/a", "loss/b", "mausezahn/a", "mausezahn/b"]
    parent = values()["tcp.goodput.frer.mbps"]
    child = found["tools.tcp.frer.payload_mbps"]
    assert (child.run, child.trials, child.sha256) == ("tcp", parent.trials, parent.sha256)


def test_the_checksum_is_of_all_parents():
    changed = result("loss.threshold.frer.mbps", 500.0, 450.0, 560.0, trials=("a", "c"))
    both = [derive(v, PLACES)[SWEEP].sha256 for v in (values(), values(changed))]
    assert both[0] != both[1]
    assert all(len(each) == 64 for each in both)


def test_runs_of_different_testbeds_are_not_compared():
    elsewhere = PLACES | {"mausezahn": Path("results/model/quick")}
    found = derive(values(), elsewhere)
    assert found[SWEEP].value is None
    assert "different testbeds" in found[SWEEP].method
    assert found["tools.sweep.frer.frame_mbps"].value is not None


def test_a_range_gives_a_value_and_no_limits():
    key = "mausezahn.frame_1518.frer.achieved_frame_mbps"
    found = derive(values(result(key, 250.0, 240.0, 260.0, method=RANGE)), PLACES)[SWEEP]
    assert found.value == pytest.approx(500 * 1518 / 1472 / 250)
    assert (found.low, found.high) == (None, None)
    assert not found.decides


def test_a_bound_stays_a_bound():
    clean = result("loss.threshold.frer.mbps", None, 700.0, None, method="bound: above the loads")
    found = derive(values(clean), PLACES)[SWEEP]
    assert found.value is None
    assert found.low == pytest.approx(700 * 1518 / 1472 / 260)
    assert found.high is None


def test_what_was_not_measured_has_no_value_and_says_why():
    found = derive({}, {})
    assert {item.key for item in derived_results()} == set(found)
    for item in found.values():
        assert item.value is item.low is item.high is None
        assert item.method.startswith("not measured: ")


def test_planning_takes_the_lower_limit_and_nothing_without_one():
    key = "planning.sweep.mbps"
    assert derive(values(), PLACES)[key].value == pytest.approx(0.8 * 450)
    alone = result("loss.threshold.frer.mbps", 500.0, method="no interval: one run")
    assert derive(values(alone), PLACES)[key].value is None


@pytest.mark.parametrize(
    ("clean", "seconds", "threshold", "word"),
    [
        (525.0, 10.0, (545.0, 575.0), "yes"),
        (None, 10.0, (450.0, 515.0), "no"),
        (300.0, 1.0, (450.0, 515.0), "no"),
        (300.0, 10.0, (450.0, 560.0), "cannot tell"),
        # The load at which half of the trials lose shows no load without loss.
        (500.0, 10.0, (545.0, 575.0), "cannot tell"),
        # 44,158 datagrams without loss leave 0.0068 % open.
        (525.0, 1.0, (545.0, 575.0), "cannot tell"),
    ],
)
def test_no_loss_is_shown_by_long_clean_trials_and_refuted_by_the_threshold(
    clean, seconds, threshold, word
):
    low, high = threshold
    changed = [
        result("loss.threshold.frer.mbps", (low + high) / 2, low, high),
        result("loss.highest_clean.frer.mbps", clean, method="no clean load"),
        result("loss.duration_s", seconds, unit="s", method="configuration"),
    ]
    assert derive(values(*changed), PLACES)["requirement.loss"].value == word


@pytest.mark.parametrize(
    ("half_us", "below_300", "below_338"),
    [
        (140.0, "yes", "yes"),
        (150.0, "cannot tell", "yes"),
        (160.0, "no", "yes"),
        (180.0, "no", "no"),
    ],
)
def test_round_trips_of_every_size_keep_the_limits(half_us, below_300, below_338):
    tails = dict.fromkeys((64, 256, 512, 1024, 1518), 50.0) | {512: half_us}
    changed = [
        result(f"latency.payload_{size}.p99_9.frer.us", us, us - 2, us + 2, unit="us")
        for size, us in tails.items()
    ]
    found = derive(values(*changed), PLACES)
    assert found["requirement.tail"].value == below_300
    assert found["requirement.tail_of_table"].value == below_338
    # Of four sizes nothing is said of all.
    assert derive(values(*changed[:4]), PLACES)["requirement.tail"].value is None


@pytest.mark.parametrize(("lost", "word"), [(0.0, "yes"), (0.5, "no")])
def test_one_lost_datagram_refutes_the_failover(lost, word):
    changed = result("failure.failover.frer.lost_while_cut", lost, method=RANGE)
    assert derive(values(changed), PLACES)["requirement.failover"].value == word


def test_every_expression_names_results_that_an_experiment_promises():
    own = {item.key for item in derived_results()}
    facts = {"testbed.link_rate_mbps"}
    for item in derived_results():
        named = item.expression.split('measured("')[1:]
        assert named, item.key
        for key in (part.split('"')[0] for part in named):
            assert key in own | facts or experiment_of_key(key), (item.key, key)
    assert not {item.key.split(".")[0] for item in derived_results()} & set(experiments())


# --- whether limits cover ----------------------------------------------------------------------


def covered(first, second, truth, key="tools.tcp.frer.to_mausezahn"):
    """Tell whether the limits of a ratio of two estimates hold the true ratio of frame rates."""
    of = {
        "tcp.goodput.frer.mbps": first,
        "mausezahn.frame_1518.frer.achieved_frame_mbps": second,
    }
    items = {
        name: result(name, float(e.value), float(e.low), float(e.high), method=e.method)
        for name, e in of.items()
    }
    found = derive(items, PLACES)[key]
    return found.low <= truth * 1518 / 1448 <= found.high


@pytest.mark.parametrize("runs", [(6, 6), (6, 10), (9, 6)])
@pytest.mark.parametrize("spreads", [(0.02, 0.02), (0.3, 0.3), (0.001, 0.2), (0.2, 0.001)])
def test_limits_of_a_ratio_hold_at_least_as_often_as_they_say(runs, spreads):
    random = np.random.default_rng(20261122)
    truths, times = (600.0, 200.0), 600
    hits = 0
    for _ in range(times):
        drawn = [
            truth * np.exp(spread * random.standard_normal(n))
            for truth, spread, n in zip(truths, spreads, runs, strict=True)
        ]
        hits += covered(*map(median_over_runs, drawn), truth=3.0)
    # 95 % less three standard errors of 600 draws.
    assert hits / times >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / times)


def test_limits_hold_where_arithmetic_cuts_one():
    random = np.random.default_rng(7)
    times, hits, ceiling = 600, 0, 600.0
    for _ in range(times):
        # The true rate is the line's: no reading lies above it.
        tcp = np.minimum(ceiling, ceiling * np.exp(-abs(0.05 * random.standard_normal(7))))
        # The median of half a normal distribution.
        truth = ceiling * np.exp(-0.05 * 0.67449)
        slow = 200.0 * np.exp(0.2 * random.standard_normal(6))
        estimates = median_over_runs(tcp, ceiling=ceiling), median_over_runs(slow)
        hits += covered(*estimates, truth=truth / 200.0)
    assert hits / times >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / times)


def test_limits_of_a_threshold_over_a_mean_hold():
    random = np.random.default_rng(11)
    rates = np.arange(300.0, 901.0, 50.0)
    times, hits = 60, 0
    for _ in range(times):
        shifts = np.exp(0.05 * random.standard_normal(4))
        sweeps = [
            Sweep(rates, random.random(rates.size) < 1 / (1 + (600 * shift / rates) ** 25))
            for shift in shifts
        ]
        slow = median_over_runs(200.0 * np.exp(0.1 * random.standard_normal(6)))
        found = threshold(sweeps)
        if np.isfinite([found.value, found.low, found.high]).all():
            hits += covered(found, slow, truth=3.0)
        else:  # a bound claims less
            hits += 1
    assert hits / times >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / times)


def test_a_fact_that_the_record_does_not_tell_is_no_number():
    rate = result("testbed.link_rate_mbps", "unknown", method="environment of the run")
    found = derive(values(rate), {})
    unknown = [item for item in found.values() if "has no testbed.link" in item.method]
    assert unknown
    assert all(item.value is None for item in unknown)


def test_rates_over_links_of_different_rates_are_not_compared():
    def derived(*links):
        found = values(
            result("testbed.link_rate_mbps", 1000.0, method="environment", trials=()),
            result("rfc2544.throughput.binary_search.frame_1518.frer.payload_mbps", 9.0, 8.8, 9.2),
            *links,
        )
        return derive(found, PLACES)

    def of_links(experiment, mbps):
        return result(f"{experiment}.link_rate.mbps", mbps, method="configuration")

    slow = derived(of_links("rfc2544", 10.0))
    assert slow["tools.search.frer.payload_mbps"].value == 9
    for key in ("tools.search.frer.to_mausezahn", "tools.sweep.frer.to_search"):
        assert slow[key].value is None
        assert "over links of different rates" in slow[key].method
    assert slow["planning.search.mbps"].value is None
    assert slow[SWEEP].value is not None
    both = derived(of_links("rfc2544", 10.0), of_links("mausezahn", 10.0))
    assert both["tools.search.frer.to_mausezahn"].value is not None
    alike = derived(of_links("rfc2544", 1000.0))
    assert alike["planning.search.mbps"].value == pytest.approx(0.8 * 8.8)
