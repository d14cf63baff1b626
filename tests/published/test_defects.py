"""Known defects of the published record, one test each: found at its place with its numbers.

Some need the authors' public data set as well; these skip where it is not at hand.
"""

from pathlib import Path

import pytest
from outside_files import NO_PUBLIC_SET, PUBLIC_SET

from tsnrepro.published import documents as published
from tsnrepro.published.audit import CHECKS_FILE, THIRD_PARTY_CHECKS_FILE
from tsnrepro.published.audit_findings import Severity
from tsnrepro.published.checks import load_checks, run_checks
from tsnrepro.published.tables import Catalog
from tsnrepro.published.third_party import third_party_tables

REPOSITORY = Path(__file__).resolve().parents[2]
PUBLISHED = REPOSITORY / "data" / "published"

FFO, METHODOLOGY, UDP = "frer-fail-operational", "methodology", "frer-udp"
SIZES = (64, 128, 256, 512, 1024, 1518)


class Findings(list):
    """Findings that can be picked by where they are."""

    def at(self, rule, source=None, table=None, row=None, column=None):
        """Return the findings of a rule at a place; at least one."""
        wanted = {"rule": rule, "source": source, "table": table, "row": row, "column": column}
        found = [
            finding
            for finding in self
            if all(v is None or getattr(finding, k) == v for k, v in wanted.items())
        ]
        assert found, f"no finding {wanted}"
        return found

    def numbers(self, *where, **wanted):
        """Return the pair of numbers of the only finding at a place."""
        found = self.at(*where, **wanted)
        assert len(found) == 1, [f.place for f in found]
        assert found[0].formula
        assert found[0].explanation
        return found[0].first.value, found[0].second.value


@pytest.fixture(scope="module")
def record():
    """Return the findings in the published numbers alone."""
    checks = load_checks(PUBLISHED / CHECKS_FILE).checks
    findings, not_run = run_checks(checks, published.catalog())
    assert not_run == []
    return Findings(findings)


@pytest.fixture(scope="module")
def public_set():
    """Return the findings in the public data set, and in the documents held against it."""
    if not PUBLIC_SET.is_dir():
        pytest.skip(NO_PUBLIC_SET)
    layout = load_checks(PUBLISHED / THIRD_PARTY_CHECKS_FILE)
    source = third_party_tables(layout.source, PUBLIC_SET, layout.tables)
    data = Catalog({**published.catalog().sources, layout.source: source})
    findings, not_run = run_checks(layout.checks, data, lenient=True)
    assert not_run == []
    return Findings(findings)


def close(pair, first, second, rel=1e-4):
    """Tell whether a pair of numbers is the expected one."""
    return pair == pytest.approx((first, second), rel=rel)


# --- 1 to 5: statistics, payloads, limits of the line -------------------------------------------


def test_defect_01_maximum_below_quantiles(record):
    found = record.at("order_of_statistics", FFO, "table-8")
    below_p99 = [f for f in found if f.first.label == "P99 (μs)"]
    below_p99_9 = [f for f in found if f.first.label == "P99.9 (μs)"]
    assert [f.row for f in below_p99] == ["64", "256"]
    assert [f.row for f in below_p99_9] == ["64", "256", "512", "1024", "1518"]
    assert len(found) == 7
    assert {f.column for f in found} == {"max_latency_us"}
    assert (below_p99[0].first.value, below_p99[0].second.value) == (121.18, 106.50)
    assert (below_p99_9[4].first.value, below_p99_9[4].second.value) == (262.14, 218.69)
    assert below_p99[0].severity is Severity.IMPOSSIBLE
    assert below_p99[0].place == "Table 8, row 64 bytes, Max (μs)"


def test_defect_02_placeholders(record):
    least = record.numbers("constant_ratio", FFO, "table-8", column="min_latency_us")
    most = record.numbers("constant_ratio", FFO, "table-8", column="max_latency_us")
    assert least[0] == pytest.approx(0.5, abs=1e-4)
    assert most[0] == pytest.approx(2.0, abs=1e-4)
    assert max(least[1], most[1]) < 1e-3


def test_defect_02_placeholder_of_the_deviation(public_set):
    ratio, spread = public_set.numbers(
        "constant_ratio", "public-set", "latency-frer", column="stddev_us"
    )
    assert ratio == pytest.approx(0.1)
    assert spread < 1e-3


def test_defect_03_frames_are_payloads(public_set):
    payloads = (18, 82, 210, 466, 978, 1472)
    for size, payload in zip(SIZES, payloads, strict=True):
        pair = public_set.numbers("payload_from_counts", "public-set", "search", str(size))
        assert close(pair, size, payload)
    (largest,) = public_set.at("payload_from_counts", "public-set", "search", "1518")
    assert largest.first.value == pytest.approx(1517.99, abs=0.005)
    assert "2 IP packets" in largest.explanation


def test_defect_04_saturation_is_the_line(record):
    middle = record.numbers("bottleneck_at_line_limit", FFO, "table-9b", column="actual_mbps")
    large = record.numbers("bottleneck_at_line_limit", FFO, "table-9c", column="actual_mbps")
    assert close(middle, 885.74, 885.813, 1e-6)
    assert close(large, 924.41, 924.482, 1e-6)


def test_defect_04_saturation_to_three_decimals(public_set):
    found = public_set.at("bottleneck_at_line_limit", "public-set", "loss-by-load")
    assert [round(f.first.value, 2) for f in found] == [885.75, 924.42]
    assert [round(f.second.value, 3) for f in found] == [885.813, 924.482]


def test_defect_05_tcp_is_the_line(record):
    for place in (("text-values", "tcp-overhead"), ("table-9", "tcp")):
        assert close(record.numbers("overhead_of_headers", FFO, *place), 58.58, 58.5176, 1e-5)
    tagged = record.numbers("line_limit", UDP, "table-4-1", "frer-dual-path")
    assert close(tagged, 941.42, 937.824, 1e-6)


def test_defect_05_mean_of_tcp(public_set):
    pair = public_set.numbers("derived_value", FFO, "table-4", "average", "throughput_mbps")
    assert close(pair, 941.42, 941.376, 1e-6)


# --- 6 to 11: conventions, timeouts, denominators -----------------------------------------------


@pytest.mark.parametrize(
    ("size", "whole"),
    [("64", 356.28), ("256", 388.96), ("512", 450.58), ("1024", 476.54), ("1518", 524.28)],
)
def test_defect_06_round_trips_exceed_the_limit(record, size, whole):
    for source, table in ((FFO, "table-8"), (METHODOLOGY, "section-2-4-results")):
        pair = record.numbers("bound", source, table, size, "p99_9_latency_us")
        assert close(pair, whole, 300)
        (finding,) = record.at("bound", source, table, size, "p99_9_latency_us")
        assert finding.severity is Severity.UNSUPPORTED
        assert "as one it keeps the limit" in finding.explanation


def test_defect_06_half_round_trips(public_set):
    pair = public_set.numbers("round_trip_convention", "public-set", "latency-control", "64")
    assert close(pair, 2 * 53.51e-6 * 556_002, 60)
    assert len(public_set.at("round_trip_convention", "public-set", "latency-control")) == 5


def test_defect_07_bound_of_another_measurement(record):
    pair = record.numbers("same_quantity", FFO, "text-values", "abstract-p99-9-latency")
    assert pair == (262.14, 338)


def test_defect_08_constant_share_of_the_target(record):
    ratio, spread = record.numbers("constant_ratio", FFO, "table-10", column="measured_mbps")
    assert ratio == pytest.approx(0.25, abs=5e-4)
    assert spread < 1e-3
    assert record.numbers("bound", FFO, "text-values", "mausezahn-duration") == (40, 12)


def test_defect_08_script_timeout(public_set):
    pair = public_set.numbers("timeout_as_result", "public-set", "mausezahn")
    assert close(pair, 40.04, 10, 1e-3)
    (finding,) = public_set.at("timeout_as_result")
    assert finding.explanation.startswith("41 of 42 trials")


def test_defect_09_constant_packet_rate(record):
    pair = record.numbers("constant_packet_rate", FFO, "table-7a")
    assert pair == (pytest.approx(3.9, abs=0.05), pytest.approx(95, abs=0.5))
    (finding,) = record.at("constant_packet_rate", FFO)
    assert "38,110 to 42,407" in finding.explanation


def test_defect_10_two_theoretical_rates(record):
    pair = record.numbers("same_quantity", FFO, "text-values", "loss-64-theoretical")
    assert pair == (761.90, 627.5)


def test_defect_10_mixed_denominators(record):
    printed, share = record.numbers("common_denominator", FFO, "table-9d", "64")
    assert (printed, share) == (76, pytest.approx(478 / 7.619, rel=1e-3))
    pair = record.numbers("same_quantity", FFO, "text-values", "loss-512-saturation-percent")
    assert pair == (92, 95)


def test_defect_10_loads_above_the_line(record):
    pair = record.numbers("line_limit", FFO, "text-values", "loss-load-k")
    assert close(pair, 1073.16, 1000)


def test_defect_10_targets_above_the_line(public_set):
    found = public_set.at("line_limit", "public-set", "loss-by-load", column="target_mbps")
    assert [f.row for f in found] == ["512-110", "1518-105", "1518-110"]
    assert [round(f.first.value, 1) for f in found] == [1024.0, 1024.4, 1073.1]


def test_defect_11_actual_is_offered(record):
    pair = record.numbers("rate_balance", FFO, "table-9a", "50", "actual_mbps")
    assert close(pair, 313.72, 313.7 * (1 - 0.172))
    for table in ("table-9a", "table-9b", "table-9c"):
        assert record.at("rate_balance", FFO, table)


def test_defect_11_actual_is_what_was_sent(public_set):
    found = public_set.at("rate_balance", "public-set", "loss-by-load")
    sizes = {f.row.split("-")[0] for f in found}
    assert sizes == {"64", "512", "1518"}
    first = next(f for f in found if f.row == "64-50")
    received = (6_127_446 - 1_053_587) * 8 * 64 / 10 / 1e6
    assert close((first.first.value, first.second.value), 313.7198, received)


# --- 12 to 17: zero loss, link failure, tags, buffers -------------------------------------------


def test_defect_12_zero_loss_above_loss(record):
    pair = record.numbers("loss_below_threshold", FFO, "table-5", "method-2")
    assert pair == (540, 487.8)
    (finding,) = record.at("loss_below_threshold", FFO)
    assert "0.19 % loss" in finding.explanation
    assert "payloads differ" in finding.explanation


def test_defect_12_trial_too_short(record):
    bound, criterion = record.numbers("bound", FFO, "table-5", "method-2")
    assert bound == pytest.approx(0.00133, abs=5e-6)
    assert criterion == 0.001
    (finding,) = record.at("bound", FFO, "table-5")
    assert "225,034" in finding.explanation


def test_defect_13_link_failure(record):
    assert record.numbers("derived_value", FFO, "text-values", "failover-loss") == (0, 50)


def test_defect_14_length_of_the_tag(record):
    assert record.numbers("derived_value", FFO, "text-values", "size-r-tag-length") == (6, 4)


def test_defect_14_rate_of_the_tag(record):
    pair = record.numbers("derived_value", FFO, "figure-1", "r-tag", "rate_mbps")
    assert close(pair, 70, 6 * 8 * 45_007 / 1e6)


def test_defect_15_elimination_never_forgets(record):
    pair = record.numbers("bound", FFO, "text-values", "listing-elimination-memory")
    assert pair == (pytest.approx(1.456, abs=5e-4), 5)
    assert not [f for f in record if f.row == "setup-history-length"]


@pytest.mark.parametrize(
    ("rule", "row", "numbers"),
    [
        ("same_quantity", "abstract-buffer-time-single-path", (125, 30)),
        ("same_quantity", "abstract-buffer-time-frer", (250, 60)),
        ("circular_input", "model-drain-rate-single-path", (400, 398)),
        ("derived_value", "model-drain-rate-single-path", (50, 125)),
        ("derived_value", "model-arrival-rate-path-a", (33, 66)),
    ],
)
def test_defect_16_buffer_model(record, rule, row, numbers):
    assert record.numbers(rule, UDP, "text-values", row) == numbers


def test_defect_17_attribution(record):
    assert record.numbers("sum_of_ranges", UDP, "table-5-2", "total") == (33, 29)
    (finding,) = record.at("sum_of_ranges", UDP)
    assert "20 to 38" in finding.explanation
    assert finding.severity is Severity.UNSUPPORTED  # 33 lies inside


# --- 18 to 24: the threshold search and its counts ----------------------------------------------


def test_defect_18_loss_below_the_control_threshold(public_set):
    pair = public_set.numbers("loss_below_threshold", UDP, "table-4-2", "single-path")
    assert pair == (398, 393)
    (finding,) = public_set.at("loss_below_threshold", UDP)
    assert "0.01 % loss" in finding.first.label + finding.second.label
    assert "nothing was lost up to 392" in finding.explanation


def test_defect_18_row_left_out(public_set):
    found = public_set.at("dropped_rows", UDP, "table-a-2")
    assert (393, 0.010) in [(f.first.value, f.second.value) for f in found]


def test_defect_18_unequal_durations(public_set):
    assert public_set.numbers("equal_treatment") == ("5", "10")


def test_defect_19_loss_that_stands_in_no_data(record):
    assert record.numbers("bound", UDP, "table-4-3", "64") == (0.5, 4.42)
    assert record.numbers("bound", UDP, "table-4-3", "512") == (0.05, 3.20)


def test_defect_20_change_of_the_tail(record):
    for table in ("table-4-4", "table-a-3"):
        pair = record.numbers("derived_value", UDP, table, "p99-9", "difference_percent")
        assert pair == (6.6, pytest.approx(7.02, abs=5e-3))


def test_defect_20_samples_of_another_size(record):
    pair = record.numbers("round_trip_convention", UDP, "text-values")
    assert pair == (556_002, pytest.approx(544_514, abs=1))
    (finding,) = record.at("round_trip_convention", UDP, "text-values")
    assert "61.27 s, not 60 s" in finding.explanation
    # Nobody says whether these are whole or half round trips, so nothing is contradicted.
    assert "122.5 s" in finding.explanation
    assert finding.severity is Severity.UNSUPPORTED


def test_defect_20_samples_in_the_data(public_set):
    pair = public_set.numbers(
        "same_quantity", UDP, "text-values", "appendix-latency-samples-single-path"
    )
    assert pair == (270_097, 556_002)


def test_defect_21_topology_of_the_control(public_set):
    (finding,) = public_set.at("same_thing", "public-set", "control")
    assert finding.first.value == "one path through both switches"
    assert finding.second.value == "a direct connection"


@pytest.mark.parametrize(("row", "payload"), [("530-5", 1250), ("535-30", 748.6), ("555-10", 250)])
def test_defect_22_payload_of_the_sweep(public_set, row, payload):
    pair = public_set.numbers("payload_from_counts", "public-set", "threshold-frer", row)
    assert close(pair, payload, 1472, 1e-3)


def test_defect_22_loss_of_the_sweep(record):
    pair = record.numbers("derived_value", METHODOLOGY, "section-2-3-results", "phase-3-535")
    assert pair == (0.053, pytest.approx(100 * 1420 / 1_362_942, rel=1e-4))


def test_defect_23_load_of_another_row(record):
    pair = record.numbers("value_under_two_labels", METHODOLOGY, row="1518-load-110")
    assert pair == ("110", "100")


def test_defect_23_loss_at_110_percent(public_set):
    pair = public_set.numbers("same_quantity", METHODOLOGY, "section-2-5-results")
    assert pair == (pytest.approx(3.187, abs=5e-4), 3.37)


def test_defect_23_loss_outside_the_range(public_set):
    pair = public_set.numbers("bound", METHODOLOGY, "section-2-3-results")
    assert pair == (0.085, 0.140)


@pytest.mark.parametrize(
    ("row", "half", "nearest", "severity"),
    [
        # 530, 530, 537: 532.3 ± 1.96 x 4.04 / sqrt(3) is [527.8, 536.9].
        ("zero-loss-threshold", 4.5, 4.30, Severity.UNSUPPORTED),
        ("catastrophic-point", 2.0, 2.87, Severity.IMPOSSIBLE),
    ],
)
def test_defect_23_intervals_of_three_trials(record, row, half, nearest, severity):
    pair = record.numbers("interval_from_trials", METHODOLOGY, row=row)
    assert pair == (half, pytest.approx(nearest, abs=5e-3))
    assert record.at("interval_from_trials", METHODOLOGY, row=row)[0].severity is severity


def test_defect_24_sender_stalled(record):
    pair = record.numbers("rate_balance", METHODOLOGY, "section-2-3-results", "phase-4-565")
    assert pair == (112, pytest.approx(564.5, abs=0.1))


def test_defect_24_sender_stalled_by_the_data(public_set):
    pair = public_set.numbers("rate_balance", "public-set", "threshold-frer", "565-10")
    assert pair == (112, pytest.approx(561.6, abs=0.1))


# --- 25 to 28: across documents, TAS, the bridge, noise -----------------------------------------


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("setup-switch-model", ("LAN9662", "LAN9668")),
        ("setup-switch-ports", ("10", "8")),
        ("setup-iperf3-version", ("3.16", "3.9")),
        ("setup-elimination-point", ("switch 2", "the listener")),
    ],
)
def test_defect_25_one_testbed_under_two_names(record, row, names):
    assert record.numbers("same_thing", row=row) == names


def test_defect_26_load_below_idle(record):
    pair = record.numbers("bound", "tas-i210-i225", "table-prio", "prio")
    assert pair == (7981.3, 19525.7)


def test_defect_26_range_by_definition(record):
    found = record.at("range_by_definition", "tas-i210-i225", "figures")
    assert [(f.first.value, f.second.value) for f in found] == [(2000, 2000), (10_000, 10_000)]


def test_defect_26_frames_longer_than_the_window(record):
    found = record.at("bound", "tas-i210-i225", "gate-control-lists")
    assert [(f.first.value, f.second.value) for f in found] == [(125, 1500), (625, 1500)]


def test_defect_27_table_that_is_cited(record):
    assert record.numbers("same_thing", "software-bridge") == ("1", "3")


def test_defect_27_differences_hold(record):
    assert not [f for f in record if f.check == "bridge-differences"]


def test_defect_28_change_within_the_noise(record):
    effect, spread = record.numbers("bound", UDP, "table-4-4", "average")
    assert effect == pytest.approx(0.77, abs=5e-3)
    assert spread == pytest.approx(100 * 15.89 / 110.19)


def test_defect_28_differences_of_the_same_runs(public_set):
    effect, spread = public_set.numbers("bound", UDP, "table-4-4", "average")
    assert effect < 1
    assert spread == pytest.approx(100 * (1 - 62.51 / 76.85), rel=1e-3)


# --- further oddities ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "source", "row", "numbers"),
    [
        ("same_thing", FFO, "latency-port", ("5001", "11111")),
        ("derived_value", FFO, "64", (1_133_786, 1_488_095)),
        ("same_quantity", FFO, "size-gap", (58, 55)),
        ("bound", FFO, "latency-safety-bound", (225.29, 200)),
        ("line_limit", FFO, "100", (480.20, 470.588)),
        ("same_column", METHODOLOGY, "10-s", (941.38, 941.30)),
        ("derived_value", METHODOLOGY, "64", (40.7, 40.62)),
        ("derived_value", METHODOLOGY, "64", (39, 28.125)),
        ("bound", METHODOLOGY, "search-loss-threshold", (0.001, 0.01)),
        ("repeated_rows", "tas-i210-i225", "no-tas", (598_310, 598_310)),
    ],
)
def test_further_contradictions_are_found(record, rule, source, row, numbers):
    found = record.at(rule, source, row=row)
    pairs = [(f.first.value, f.second.value) for f in found]
    expected = numbers if isinstance(numbers[0], str) else pytest.approx(numbers, rel=1e-5)
    assert any(pair == expected for pair in pairs), pairs


@pytest.mark.parametrize(
    ("row", "missing"), [("400", "650, 750, 800, 850, 950"), ("64", "128"), ("50", "102, 105, 110")]
)
def test_points_that_were_announced_are_missing(record, row, missing):
    found = record.at("planned_points", FFO, row=row)
    assert any(missing in finding.explanation for finding in found)


@pytest.mark.parametrize(
    ("rule", "row", "numbers"),
    [
        ("bound", "1518", (4, 0)),
        ("bound", "64", (0, 1)),
        ("payload_from_counts", "64", (8.3965, 18)),
        ("line_limit", "64-400", (400, 214.286)),
        ("same_column", "50", (17.19455, 17.20)),
    ],
)
def test_further_contradictions_of_the_data_are_found(public_set, rule, row, numbers):
    pairs = [(f.first.value, f.second.value) for f in public_set.at(rule, row=row)]
    assert any(pair == pytest.approx(numbers, rel=1e-4) for pair in pairs), pairs


def test_copies_to_an_eliminating_listener_share_its_link(record):
    """1,472 bytes take 1,544 on the wire with tag, preamble and gap; two copies twice that.

    A rate above half of the line is short of copies and not of datagrams, so it refutes nothing.
    """
    pair = record.numbers("line_limit", METHODOLOGY, "section-2-3-results")
    assert close(pair, 530, 1000 * 1472 / (2 * 1544))
    (found,) = (finding for finding in record if finding.check == "methodology-copies-udp")
    assert found.severity is Severity.UNSUPPORTED
    pair = record.numbers("line_limit", METHODOLOGY, "section-2-1-results")
    assert close(pair, 941.38, 1000 * 1448 / 1544)
