"""Files of checks: what they accept, what they refuse, and how checks are run."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_record import catalog

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.published import documents as published
from tsnrepro.published.audit import CHECKS_FILE, THIRD_PARTY_CHECKS_FILE
from tsnrepro.published.audit_findings import ComparedValue, Severity, format_number
from tsnrepro.published.checks import (
    MEASURED_CHECKS,
    findings_by_check,
    load_checks,
    make_check,
    run_checks,
)
from tsnrepro.published.rules import RULES, CheckError
from tsnrepro.published.tables import AuditTable, Catalog, TableColumn

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"
FILES = [PUBLISHED / CHECKS_FILE, PUBLISHED / THIRD_PARTY_CHECKS_FILE, MEASURED_CHECKS]


LIMIT = {
    "rule": "line_limit",
    "table": "measured/t",
    "rate_mbps": "rate_mbps",
    "limit_mbps": "tcp_limit()",
}


def check(**entry):
    return make_check({"id": "tried", **entry})


def find(entry, **columns):
    """Return the findings of one check over one table ``measured/t``."""
    findings, _ = run_checks([check(**entry)], catalog({"t": columns}))
    return findings


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_of_checks_are_sound(path):
    layout = load_checks(path)
    assert layout.checks
    assert all(isinstance(one, RULES[one.rule]) for one in layout.checks)


def test_every_rule_says_what_holds_for_a_sound_record():
    for name, rule in RULES.items():
        assert rule.principle().endswith("."), name


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"rule": "order_of_statistic", "table": "a/b"}, "unknown rule 'order_of_statistic'"),
        ({"rule": "line_limit", "table": "a/b"}, "rate_mbps: Field required"),
        (
            {"rule": "line_limit", "table": "a/b", "rate_mbps": "x", "tagd": True},
            "tagd: Extra inputs",
        ),
        (
            {"rule": "order_of_statistics", "table": "a/b", "columns": ["x"]},
            "columns: List should have at least 2",
        ),
        (
            {"rule": "line_limit", "table": "a/b", "rate_mbps": "x.__class__"},
            "rate_mbps: .*no attribute",
        ),
        (
            {"rule": "unit_of_column", "tables": ["a/b"], "severity": "bad"},
            "severity: Input should be 'impossible', ",
        ),
        (
            {
                "rule": "line_limit",
                "place": "a/b",
                "table": "a/b",
                "rate_mbps": "1",
                "limit_mbps": "1",
            },
            "either a table",
        ),
        ({"table": "a/b"}, "lacks rule"),
        ({"rule": "planned_points", "table": "a/b", "value": "x"}, "quantity: Field required"),
        (
            {"rule": "planned_points", "table": "a/b", "value": "x", "quantity": "q"},
            "either a planned list",
        ),
        ({"rule": "equal_treatment", "table": "a/b"}, "either groups"),
        ({"rule": "line_limit", "table": "a/b", "rate_mbps": "x"}, "limit_mbps: Field required"),
    ],
)
def test_a_check_that_does_not_fit_its_rule_is_refused(entry, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        make_check({"id": "tried", **entry}, "checks.yaml")
    assert "check 'tried'" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checks: [", "not YAML"),
        ("checks: []", "at least 1 item"),
        ("checks: [{id: a, rule: bound}]\nmore: 1", "more: Extra inputs"),
        ("tables: {a: {file: x}}\nchecks: [{id: a}]", "tables.a.key: Field required"),
        (
            "checks:\n"
            "- {id: a, rule: unit_of_column, tables: [a/b]}\n"
            "- {id: a, rule: unit_of_column, tables: [a/b]}\n",
            "duplicate checks: a",
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_name(tmp_path, text, message):
    path = tmp_path / "checks.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_checks(path)
    assert "checks.yaml" in str(caught.value)
    with pytest.raises(ConfigurationError, match="no such file"):
        load_checks(tmp_path / "none.yaml")


# --- running -----------------------------------------------------------------------------------


def test_a_check_of_missing_data_is_an_error_unless_lenient():
    entry = check(rule="line_limit", table="measured/tcp", rate_mbps="x", limit_mbps="1")
    data = catalog({"t": {"trial": ["a"]}})
    with pytest.raises(CheckError, match=r"no table tcp.*check 'tried'"):
        run_checks([entry], data)
    findings, not_run = run_checks([entry], data, lenient=True)
    assert findings == []
    assert [(o.check, o.idle, "tcp" in o.reason) for o in not_run] == [("tried", True, True)]


def test_a_check_without_filled_rows_had_nothing_to_look_at():
    rates = {"trial": ["a", "b"], "rate_mbps": [None, None]}
    findings, not_run = run_checks([check(**LIMIT)], catalog({"t": rates}))
    assert (findings, [one.idle for one in not_run]) == ([], [True])
    # A column that the measured table lacks is no fault of the record either.
    _, not_run = run_checks([check(**LIMIT)], catalog({"t": {"trial": ["a"]}}), lenient=True)
    assert [one.idle for one in not_run] == [True]
    rates["rate_mbps"] = [None, 3.0]
    assert run_checks([check(**LIMIT)], catalog({"t": rates})) == ([], [])


@pytest.mark.parametrize(
    ("rows", "limit", "expected"),
    [
        (["64"], "22", []),
        (["64"], "24", 1),
        # "1518" has no loss there, so there is nothing to look at.
        (["1518"], "22", None),
        # 23 % stands for 22.5 to 23.5; what another row contradicts is found all the same.
        (["64"], "22.96", None),
        (["64", "512"], "22.96", 1),
    ],
)
def test_a_check_that_says_nothing_is_told_from_one_that_finds_nothing(rows, limit, expected):
    entry = {"rule": "bound", "table": "methodology/section-2-5-results", "rows": rows}
    entry |= {"left": "loss_high_percent", "relation": ">=", "right": limit}
    labels = {"left_label": "loss", "right_label": "limit", "because": "It is."}
    checks, data = [check(**entry, **labels)], published.catalog()
    found = findings_by_check(checks, *run_checks(checks, data), data)["tried"]
    assert (len(found) if found else found) == expected


@pytest.mark.parametrize(
    ("formula", "message"),
    [("word", "not a number"), ("rate / 0", "division by zero"), ("missing", "no column")],
)
def test_a_formula_that_does_not_fit_the_data_names_its_check(formula, message):
    entry = check(rule="line_limit", table="measured/t", rate_mbps="rate", limit_mbps=formula)
    data = catalog({"t": {"trial": ["a"], "rate": [3.0], "word": ["x"]}})
    with pytest.raises(CheckError, match=f"{message}.*check 'tried'"):
        run_checks([entry], data)


def test_severity_and_remark_of_a_check_reach_the_finding():
    entry = LIMIT
    (finding,) = find(
        {**entry, "severity": "unsupported", "remark": "Said twice."},
        trial=["a"],
        rate_mbps=[944.0],
    )
    assert finding.severity is Severity.UNSUPPORTED
    assert finding.explanation.endswith(" Said twice.")
    assert (finding.check, finding.row, finding.column) == ("tried", "a", "rate_mbps")


def test_rows_with_empty_cells_say_nothing():
    entry = LIMIT
    assert find(entry, trial=["a"], rate_mbps=[None]) == []


# --- rules on sound numbers --------------------------------------------------------------------


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=60))
def test_the_statistics_of_any_sample_are_in_order(sample):
    sample.sort()
    columns = {
        "trial": ["a"],
        "min_us": [sample[0]],
        "p50_us": [sample[len(sample) // 2]],
        "p99_us": [sample[int(0.99 * len(sample))]],
        "max_us": [sample[-1]],
        "mean_us": [sum(sample) / len(sample)],
    }
    order = {
        "rule": "order_of_statistics",
        "table": "measured/t",
        "columns": ["min_us", "p50_us", "p99_us", "max_us"],
        # The mean of equal numbers may leave their range by the last bit.
        "between": ["mean_us"] if sample[0] < sample[-1] else [],
    }
    assert find(order, **columns) == []


@given(st.integers(16, 1472), st.integers(1, 10**7), st.floats(1, 60))
def test_any_count_gives_the_payload_it_was_made_with(payload, count, seconds):
    rate = count * 8 * payload / seconds / 1e6
    entry = {
        "rule": "payload_from_counts",
        "table": "measured/t",
        "rate_mbps": "rate_mbps",
        "duration_s": "duration_s",
        "datagrams": "sent",
        "payload_bytes": "payload_bytes",
    }
    columns = {"rate_mbps": [rate], "duration_s": [seconds], "sent": [count]}
    assert find(entry, trial=["a"], payload_bytes=[payload], **columns) == []
    (finding,) = find(entry, trial=["a"], payload_bytes=[payload + 46], **columns) or [None]
    assert finding is None or finding.first.value == pytest.approx(payload)


@settings(deadline=None)
@given(st.lists(st.sampled_from([530.0, 532, 534, 536, 538, 540]), min_size=3, max_size=3))
def test_the_interval_of_any_three_trials_on_the_grid_is_possible(trials):
    centre = sum(trials) / 3
    spread = (sum((t - centre) ** 2 for t in trials) / 2) ** 0.5
    half = 4.302652729911275 * spread / 3**0.5  # Student's t, 97.5 %, 2 degrees of freedom
    entry = {
        "rule": "interval_from_trials",
        "table": "measured/t",
        "low": "low",
        "high": "high",
        "trials": "3",
        "grid": [530, 532, 534, 536, 538, 540],
    }
    assert find(entry, trial=["a"], low=[centre - half], high=[centre + half]) == []


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        # Of the line: 478, 886 and 924 of 1000 Mb/s.
        ([47.8, 88.6, 92.4], []),
        # The second is a share of its own limit, 932.63 Mb/s.
        ([47.8, 95.0, 92.4], [(95.0, 88.6)]),
        # The first is a share of neither.
        ([60.0, 88.6, 92.4], [(60.0, 47.8)]),
    ],
)
def test_percentages_of_one_column_have_one_denominator(shares, found):
    entry = {
        "rule": "common_denominator",
        "table": "measured/t",
        "value": "rate_mbps",
        "percent": "share_percent",
        "denominators": {"the line": "1000", "its limit": "886 / 0.95"},
    }
    rates = [478.0, 886.0, 924.0]
    findings = find(entry, trial=list("abc"), rate_mbps=rates, share_percent=shares)
    assert [(f.first.value, f.second.value) for f in findings] == [
        pytest.approx(pair) for pair in found
    ]


@pytest.mark.parametrize(("unit", "found"), [("ms", 0), ("us", 1), ("", 0)])
def test_the_unit_recorded_is_that_of_the_name(unit, found):
    column = TableColumn("latency_ms", "Latency", [4.2], units=unit)
    table = AuditTable("measured", "t", ["a"], ["row a"], {"latency_ms": column})
    entry = check(rule="unit_of_column", tables=["measured/t"])
    findings, _ = run_checks([entry], Catalog({"measured": lambda _: table}))
    pairs = [(f.first.value, f.second.value) for f in findings]
    assert pairs == [("ms", unit)] * found


@pytest.mark.parametrize(
    ("printed", "computed", "hint"),
    [(8.0, 1.0, "bits for bytes"), (1000.0, 1.0, "thousand times"), (3.0, 1.0, "")],
)
def test_a_unit_taken_for_another_is_named(printed, computed, hint):
    entry = {"rule": "derived_value", "table": "measured/t", "column": "a", "formula": "b"}
    (finding,) = find(entry, trial=["x"], a=[printed], b=[computed])
    assert hint in finding.explanation
    assert (finding.first.value, finding.second.value) == (printed, computed)


@pytest.mark.parametrize(
    ("stated", "observations", "row"),
    [("half", 100_000, None), ("whole", 100_000, "half"), ("half", 400_000, "different tests")],
)
def test_the_convention_follows_from_mean_and_number(stated, observations, row):
    entry = {
        "rule": "round_trip_convention",
        "table": "measured/t",
        "mean_us": "mean_us",
        "observations": "n",
        "duration_s": "duration_s",
        "stated": stated,
    }
    findings = find(entry, trial=["x"], mean_us=[49.0], n=[observations], duration_s=[10.0])
    assert [row in f.explanation for f in findings] == ([True] if row else [])


@pytest.mark.parametrize(("quantity", "found"), [(None, 1), ("half round trip", 1), ("one way", 0)])
def test_one_way_latencies_are_no_exchanges(quantity, found):
    columns = {"trial": ["x"], "mean_us": [49.0], "observations": [9], "valid_seconds": [10.0]}
    if quantity:
        columns["quantity"] = [quantity]
    (convention,) = (
        one for one in load_checks(MEASURED_CHECKS).checks if one.id == "latency-round-trip"
    )
    findings, not_run = run_checks([convention], catalog({"latency": columns}))
    assert len(findings) == found
    assert [one.idle for one in not_run] == [True] * (1 - found)


def test_a_bound_and_a_value_of_one_quantity_disagree():
    data = published.catalog()
    entry = check(
        rule="same_quantity",
        quantity="worst latency",
        places=[
            "frer-fail-operational/latency-worst-p99-9",
            "frer-fail-operational/abstract-p99-9-latency",
            "frer-fail-operational/conclusion-p99-9-latency",
        ],
    )
    findings, _ = run_checks([entry], data)
    assert [(f.first.printed, f.second.printed) for f in findings] == [("262.14", "338")]


# --- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1_133_786.0, "1,133,786"),
        (941.376, "941.376"),
        (0.00133123, "0.00133123"),
        (0.0000805148, "0.0000805148"),
        (530.0, "530"),
        (float("inf"), "∞"),
        (float("-inf"), "−∞"),
        (float("nan"), "none"),
    ],
)
def test_numbers_are_shown_without_powers_of_ten(number, text):
    assert format_number(number) == text


def test_sides_are_shown_with_units():
    assert ComparedValue("mean", 53.25, "us", "53.250").text == "53.250\u00a0µs"
    assert ComparedValue("ratio", 0.5, "1").text == "0.5"
    assert ComparedValue("version", "3.9").text == "3.9"


def test_rule_names_are_those_of_their_classes():
    assert all(name.replace("_", "") == rule.__name__.lower() for name, rule in RULES.items())
    modules = {rule.__module__.rsplit(".", 1)[1] for rule in RULES.values()}
    assert modules == {
        "arithmetic",
        "consistency",
        "mechanisms",
        "rates",
        "statistics",
        "trials",
    }
