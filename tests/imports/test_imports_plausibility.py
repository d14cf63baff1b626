"""Plausibility checks: contradictory numbers are found, consistent ones pass."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_files import REQUIRED_FIELDS, source_file, table
from tool_outputs import sockperf_log

from tsnrepro.common.ethernet import payload_limit_mbps
from tsnrepro.imports.plausibility import (
    against_log,
    computed_statistics,
    wrong_rates,
    wrong_rates_of_all,
    wrong_statistics,
)
from tsnrepro.imports.readers import sockperf
from tsnrepro.imports.readers.row import statistics
from tsnrepro.imports.screening import NoMeasurementError, generated_mark

PAYLOAD = REQUIRED_FIELDS["payload_bytes"]


def consistent(sent=42459, lost=500, seconds=1.0):
    """Return the row of a test at some 500 Mb/s, as counts determine it."""
    rate = PAYLOAD * 8 / seconds / 1e6
    return {
        "payload_bytes": PAYLOAD,
        "target_mbps": sent * rate,
        "offered_mbps": sent * rate,
        "delivered_mbps": (sent - lost) * rate,
        "sent": sent,
        "received": sent - lost,
        "loss_percent": 100 * lost / sent,
        "duration_s": seconds,
    }


@given(st.integers(100, 80_000), st.floats(0, 1), st.floats(1, 60))
def test_rates_determined_by_counts_are_plausible(sent, share, seconds):
    row = consistent(int(sent * seconds), int(sent * seconds * share), seconds)
    assert list(wrong_rates(row, 1000.0)) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"offered_mbps": 0.5}, r"offered_mbps is 0.5 Mb/s, but 42459 .* 1e\+03 times as much"),
        ({"offered_mbps": 500_000.0}, "1/1e[+]03 of it"),
        ({"delivered_mbps": 0.494}, "delivered_mbps is 0.494 Mb/s"),
        ({"sent": None, "received": None, "loss_percent": 0.012, "delivered_mbps": 450.0},
         "loss_percent is 0.012 %, but 450 of 500 Mb/s"),
        ({"sent": None, "received": None, "delivered_mbps": None, "offered_mbps": 1500.0,
          "loss_percent": 0.36}, "a line of 1000 Mb/s carries 957"),
        ({"sent": None, "target_mbps": 0.5}, "at a target of 0.5"),
        ({"sent": None, "received": None, "delivered_mbps": 700.0}, "offered_mbps only 500"),
    ],
)  # fmt: skip
def test_rates_in_another_unit_are_found(changed, message):
    row = {name: value for name, value in (consistent() | changed).items() if value is not None}
    with pytest.raises(AssertionError, match=message):
        assert not next(wrong_rates(row, 1000.0))


def test_the_link_rate_limits_what_arrives():
    limit = payload_limit_mbps(PAYLOAD)
    row = {"payload_bytes": PAYLOAD, "delivered_mbps": limit}
    assert list(wrong_rates(row, 1000.0)) == []
    assert "carries" in next(wrong_rates(row | {"delivered_mbps": 1.1 * limit}, 1000.0))
    assert list(wrong_rates(row | {"delivered_mbps": 1.1 * limit}, None)) == []
    assert "goodput_mbps" in next(wrong_rates({"goodput_mbps": 9412.0}, 1000.0))
    assert "on a line of 1000" in wrong_rates_of_all([{"goodput_mbps": 0.941}] * 3, 1000.0)
    assert wrong_rates_of_all([{"goodput_mbps": 0.941}, {"goodput_mbps": 90.0}], 1000.0) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sent": 2**31 - 1}, "sent is 2147483647: its counter overflowed"),
        ({"lost": 2**32 - 1}, "lost is 4294967295: its counter overflowed"),
        ({"sent": 2.0**64}, "sent is 18446744073709551616: its counter overflowed"),
        ({"retransmits": 2**32 - 1}, "retransmits is 4294967295: its counter overflowed"),
        ({"send_seconds": 0.001, "duration_s": 10}, "send_seconds is 0.001 s in a test of 10 s"),
        ({"seconds": 60.0, "duration_s": 10}, "seconds is 60 s in a test of 10 s"),
        ({"receive_seconds": 3.5}, "delivered_mbps is .* in 3.5 s are"),
    ],
)
def test_counts_and_durations_of_no_test_are_found(changed, message):
    with pytest.raises(AssertionError, match=message):
        assert not next(wrong_rates(consistent() | changed, 1000.0))


@given(st.floats(1, 60), st.floats(0.9, 1.1))
def test_a_test_need_not_last_exactly_its_duration(duration, factor):
    row = {"duration_s": duration, "seconds": factor * duration}
    assert list(wrong_rates(row, None)) == []


# --- statistics -----------------------------------------------------------------------------------

observed = st.lists(st.floats(0.5, 1e6), min_size=1, max_size=200).map(np.array)


@given(observed, st.integers(0, 3))
def test_statistics_of_any_observations_pass(values, decimals):
    row = {name: round(value, decimals) for name, value in statistics(values).items()}
    assert list(wrong_statistics(row, dict.fromkeys(row, 10.0**-decimals))) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"p50_us": 60.0, "p99_us": 50.0}, "p50_us 60 is above p99_us 50"),
        ({"mean_us": 90.0, "p99_us": 50.0, "max_us": 80.0}, "above .* the most"),
        ({"mean_us": 10.0, "min_us": 20.0}, "below 20, the least"),
        ({"mean_us": 50.0, "sd_us": 90.0, "min_us": 10.0, "max_us": 80.0}, "sd_us 90 is above"),
        ({"mean_us": 50.0, "sd_us": 0.0, "min_us": 10.0, "max_us": 80.0}, "sd_us is 0, although"),
        ({"mean_us": 50.0, "sd_us": 1.0, "p50_us": 80.0}, "p50_us 80 is too far from mean_us 50"),
        ({"mean_us": 5e6, "duration_s": 1.0}, "longer than the test"),
        ({"mean_us": 5.0, "observations": 2**31 - 1}, "observations is 2147483647"),
        ({"mean_us": 1.7e15}, "mean_us: a latency of 1.7e[+]09 s is a time of day"),
        ({"p99_us": 1.7e15}, "p99_us: a latency of 1.7e[+]09 s is a time of day"),
        ({"mean_us": 5.0, "valid_seconds": 2000.0, "duration_s": 2.0}, "valid_seconds is 2000 s"),
    ],
)
def test_statistics_that_no_observations_have(row, message):
    with pytest.raises(AssertionError, match=message):
        assert not next(wrong_statistics(row, {}))


def test_one_quantile_in_all_rows_was_not_measured():
    rows = [{"mean_us": m, "p99_us": 40.0} for m in (20.0, 30.0, 60.0)]
    assert "p99_us is 40 in all 3 rows" in computed_statistics(rows)[0]
    # With a resolution of a microsecond values repeat if means hardly differ.
    assert computed_statistics([{"mean_us": m, "p99_us": 40.0} for m in (20.1, 20.3, 20.4)]) == []


@given(observed)
def test_a_summary_agrees_with_its_log(values):
    found = statistics(values)
    assert list(against_log(found, found, {})) == []
    other = found | {"mean_us": 1.1 * found["mean_us"] + 1}
    assert "in the summary" in next(against_log(other, found, {}))


def test_a_log_that_its_summary_contradicts_is_refused():
    text = sockperf_log([10.0, 20.0, 30.0]).replace("avg-latency=20.000", "avg-latency=25.000")
    with pytest.raises(NoMeasurementError, match="mean_us is 25 in the summary and 20 in the log"):
        sockperf.read(source_file(text), table("sockperf", "latency"))


# --- simulations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "# results of a simulation\nrate,loss\n", '{"source": "OMNeT++ 6.0, INET framework"}',
        '{"simulation": true, "rows": []}', "simulator: ns-3.40\n", "# ns3 run 7\n",
        "results/simulation/sweep.csv", "Monte Carlo draws of the queue\n", "# fabricated values\n",
    ],
)  # fmt: skip
def test_simulations_are_recognised_by_several_words(text):
    assert generated_mark(text)


@pytest.mark.parametrize(
    "text",
    [
        "# measured, not a simulation\n", '{"simulation": false}', "simulated: no\n",
        "# both boards send simultaneously\n", '{"simulated": "none", "boards": 2}',
        "# no synthetic traffic\n", "talkers3,listeners3\n",
    ],
)  # fmt: skip
def test_measurements_are_not_taken_for_simulations(text):
    assert generated_mark(text) is None
