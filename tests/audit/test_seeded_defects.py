"""A sound record has no findings; each rule finds the defect that is seeded into it."""

import dataclasses

import pytest
import synthetic_record
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_record import catalog, changed, rows

from tsnrepro.audit.checks import MEASURED_CHECKS, load_checks, make_check, run_checks
from tsnrepro.audit.rules import RULES

RECORD = synthetic_record.tables()
BUILT_IN = {check.id: check for check in load_checks(MEASURED_CHECKS).checks}


def _find(check, columns):
    findings, not_run = run_checks([check], catalog(columns), lenient=True)
    assert not not_run, not_run
    return findings


@pytest.mark.parametrize("seed", range(5))
def test_a_sound_record_has_no_findings(seed):
    record = synthetic_record.tables(seed)
    findings, not_run = run_checks(BUILT_IN.values(), catalog(record), lenient=True)
    assert findings == []
    assert not_run == []


@settings(max_examples=20, deadline=None)
@given(st.integers(min_value=10, max_value=10_000))
def test_any_sound_record_has_no_findings(seed):
    record = synthetic_record.tables(seed)
    findings, _ = run_checks(BUILT_IN.values(), catalog(record), lenient=True)
    assert findings == []


@dataclasses.dataclass
class Seed:
    """A defect: the check that is to see it, how to make it, and what it is to report."""

    name: str
    check: object
    """Id of a built-in check, or an entry of a file of checks."""
    make: object
    """Function from the sound record to the one with the defect."""
    first: float | str
    second: float | str
    row: str | None = None

    def bound(self):
        if isinstance(self.check, str):
            return BUILT_IN[self.check]
        return make_check({"id": "seeded", **self.check})


def _row(table, **wanted):
    return rows(RECORD, table, **wanted)[0]


def _value(table, row, column):
    return RECORD[table][column][row]


def _key(table, row):
    return RECORD[table]["trial"][row]


FRER_SWEEP = _row("sweep", configuration="frer", payload_bytes=1472)
FAST = rows(RECORD, "sweep", configuration="frer", payload_bytes=1472)
LOSSY = next(row for row in FAST if _value("sweep", row, "lost") > 0)
SMALL = _row("sweep", configuration="control", payload_bytes=64)
LATENCY = _row("latency", configuration="control", payload_bytes=64)
TCP = _row("tcp", configuration="frer", duration_s=5)


def _unequal_durations(record):
    chosen = rows(record, "sweep", configuration="frer", payload_bytes=512)
    for row in chosen:
        record = changed(record, "sweep", row, duration_s=5, send_seconds=5.0)
    return record


def _one_trial_less(record):
    return {
        **record,
        "tcp": {
            column: [value for n, value in enumerate(values) if n != TCP]
            for column, values in record["tcp"].items()
        },
    }


def _placeholders(record):
    for row, mean in enumerate(record["latency"]["mean_us"]):
        record = changed(record, "latency", row, min_us=0.5 * mean, max_us=2 * mean)
    # A maximum of twice the mean is below no quantile here, so only the ratio gives it away.
    return record


def _killed_by_the_clock(record):
    for row in range(len(record["sweep"]["trial"])):
        record = changed(record, "sweep", row, send_seconds=8.004)
    return record


def _constant_packets(record):
    for row, payload in enumerate(record["by-size"]["payload_bytes"]):
        record = changed(record, "by-size", row, clean_mbps=40_000 * 8 * payload / 1e6)
    return record


def _repeated_latency(record):
    copy = {c: record["latency"][c][0] for c in ("mean_us", "sd_us", "p50_us", "p99_us")}
    more = {c: record["latency"][c][0] for c in ("p99_9_us", "max_us")}
    return changed(record, "latency", 1, **copy, **more)


def _by_size(**entry):
    return {"table": "measured/by-size", **entry}


def _set_up(**entry):
    return {"table": "measured/set-up", **entry}


def _place(row, column):
    return f"measured/set-up/{row}/{column}"


SIZES = {"rule": "planned_points", "table": "measured/by-size", "value": "payload_bytes"}

SEEDS = [
    # --- statistics ---------------------------------------------------------------------------
    Seed(
        "order_of_statistics",
        "latency-order",
        lambda r: changed(r, "latency", LATENCY, max_us=20.5),
        _value("latency", LATENCY, "p50_us"),
        20.5,
        _key("latency", LATENCY),
    ),
    Seed("constant_ratio", "latency-placeholders", _placeholders, 0.5, 0.0),
    Seed(
        "effect_below_spread",
        _set_up(
            rule="effect_below_spread",
            rows=["frer"],
            effect='cell("measured", "set-up", "frer", "threshold_mbps") - 498',
            spread="interval_high_mbps - interval_low_mbps",
            effect_label="effect",
            spread_label="spread",
        ),
        lambda r: changed(r, "set-up", 1, threshold_mbps=501.0),
        3.0,
        9.0,
    ),
    Seed(
        "interval_from_trials",
        _set_up(
            rule="interval_from_trials",
            rows=["control"],
            low="interval_low_mbps",
            high="interval_high_mbps",
            trials="3",
            grid=[518.0, 520.0, 521.0, 522.0, 523.0, 524.0],
        ),
        lambda r: changed(r, "set-up", 0, interval_low_mbps=519.0, interval_high_mbps=525.5),
        3.25,
        # The nearest is that of 521, 523 and 523: t(0.975, 2) sqrt(4/3) / sqrt(3).
        2.86844,
    ),
    Seed(
        "interval_from_trials",
        "results-trials",
        lambda r: changed(r, "values", 2, trials=0),
        0.04,
        0,
        "loss.threshold.ratio",
    ),
    Seed(
        "repeated_rows",
        "latency-copies",
        _repeated_latency,
        _value("latency", 0, "mean_us"),
        _value("latency", 0, "mean_us"),
        _key("latency", 1),
    ),
    # --- rates --------------------------------------------------------------------------------
    Seed(
        "payload_from_counts",
        "sweep-payload",
        lambda r: changed(r, "sweep", SMALL, sent=2 * _value("sweep", SMALL, "sent")),
        32.0,
        64,
        _key("sweep", SMALL),
    ),
    Seed(
        "line_limit",
        "sweep-limit-control",
        lambda r: changed(r, "sweep", SMALL, delivered_mbps=500.0),
        500.0,
        492.308,
        _key("sweep", SMALL),
    ),
    Seed(
        "line_limit",
        "sweep-limit-frer",
        lambda r: changed(r, "sweep", FRER_SWEEP, delivered_mbps=959.0),
        959.0,
        953.368,
        _key("sweep", FRER_SWEEP),
    ),
    Seed(
        "bottleneck_at_line_limit",
        _by_size(
            rule="bottleneck_at_line_limit",
            rate_mbps="clean_mbps",
            payload_bytes="payload_bytes",
            ascribed_to="bottleneck of processing",
        ),
        lambda r: changed(r, "by-size", 5, clean_mbps=957.0),
        957.0,
        957.087,
    ),
    Seed(
        "tcp_ceiling",
        "tcp-limit-frer",
        lambda r: changed(r, "tcp", TCP, goodput_mbps=944.0),
        944.0,
        937.824,
        _key("tcp", TCP),
    ),
    Seed(
        "overhead_of_headers",
        _set_up(
            rule="overhead_of_headers",
            rows=["frer"],
            overhead_mbps="1000 - drain_mbps",
            ascribed_to="replication",
        ),
        lambda r: changed(r, "set-up", 1, drain_mbps=941.4),
        58.6,
        58.5176,
    ),
    Seed(
        "rate_balance",
        "sweep-balance",
        lambda r: changed(
            r,
            "sweep",
            LOSSY,
            loss_percent=10.0,
            delivered_mbps=_value("sweep", LOSSY, "offered_mbps"),
        ),
        _value("sweep", LOSSY, "offered_mbps"),
        0.9 * _value("sweep", LOSSY, "offered_mbps"),
        _key("sweep", LOSSY),
    ),
    Seed(
        "constant_packet_rate",
        _by_size(
            rule="constant_packet_rate", rate_mbps="clean_mbps", payload_bytes="payload_bytes"
        ),
        _constant_packets,
        0.0,
        # Coefficient of variation of 64, 128, 256, 512, 1024, 1472: sqrt(314572.8) / 576.
        97.3729,
    ),
    # --- mechanisms ---------------------------------------------------------------------------
    Seed(
        "number_space_wrap",
        _set_up(
            rule="number_space_wrap",
            packets_per_second="packets_per_second",
            duration_s="duration_s",
            memory_entries="history_length",
        ),
        lambda r: changed(r, "set-up", 1, history_length=65_536),
        65_536 / 45_000,
        30.0,
        "frer",
    ),
    Seed(
        "stuck_after_wrap",
        "sweep-wrap",
        lambda r: changed(r, "sweep", FRER_SWEEP, sent=90_000, received=65_536),
        65_536,
        65_536,
        _key("sweep", FRER_SWEEP),
    ),
    Seed(
        "gate_window",
        _by_size(rule="gate_window", window_us="gate_us", frame_bytes="payload_bytes + 46"),
        lambda r: changed(r, "by-size", 5, gate_us=10.0),
        1250.0,
        1518.0,
        "1472",
    ),
    Seed(
        "range_by_definition",
        _by_size(
            rule="range_by_definition",
            low="0",
            high="phase_high_ns",
            defined_low="0",
            defined_high="10000",
            quantity="time modulo the cycle",
        ),
        lambda r: changed(r, "by-size", 0, phase_high_ns=10_000.0),
        10_000.0,
        10_000.0,
    ),
    # --- trials -------------------------------------------------------------------------------
    Seed(
        "round_trip_convention",
        "latency-round-trip",
        lambda r: changed(r, "latency", LATENCY, mean_us=2 * _value("latency", LATENCY, "mean_us")),
        # Twice the mean: one n mean now fills the test, 98 % of its valid time.
        0.98 * _value("latency", LATENCY, "valid_seconds"),
        _value("latency", LATENCY, "valid_seconds"),
        _key("latency", LATENCY),
    ),
    Seed(
        "limit_under_convention",
        _set_up(
            rule="limit_under_convention",
            value="half_round_trip_us",
            limit="limit_us",
            because="the tool prints half round trips",
        ),
        lambda r: changed(r, "set-up", 1, half_round_trip_us=90.0),
        180.0,
        150.0,
        "frer",
    ),
    Seed("timeout_as_result", "sweep-duration", _killed_by_the_clock, 8.004, 2),
    Seed(
        "timeout_as_result",
        "tcp-duration",
        lambda r: changed(r, "tcp", TCP, seconds=3.1),
        3.1,
        5,
        _key("tcp", TCP),
    ),
    Seed(
        "zero_loss_bound",
        _set_up(
            rule="zero_loss_bound",
            datagrams="packets_per_second * duration_s",
            criterion_percent="0.001",
        ),
        lambda r: changed(r, "set-up", 0, duration_s=5.0),
        # 1 - 0.05^(1/225000), in percent.
        0.00133142,
        0.001,
        "control",
    ),
    Seed(
        "loss_below_threshold",
        {
            "rule": "loss_below_threshold",
            "place": _place("frer", "threshold_mbps"),
            "threshold_mbps": 'cell("measured", "set-up", "frer", "threshold_mbps")',
            "points": [
                {
                    "table": "measured/sweep",
                    "where": {"configuration": "frer", "payload_bytes": 1472},
                    "rate_mbps": "target_mbps",
                    "loss_percent": "loss_percent",
                    "label": "sweep",
                }
            ],
        },
        lambda r: changed(
            r,
            "sweep",
            _row("sweep", configuration="frer", payload_bytes=1472, target_mbps=190.7),
            loss_percent=0.01,
        ),
        511.0,
        190.7,
    ),
    Seed("equal_treatment", "sweep-groups", _unequal_durations, "2", "5"),
    Seed("equal_treatment", "tcp-groups", _one_trial_less, 3, 2),
    Seed(
        "planned_points",
        {**SIZES, "planned": ["64", "128", "256", "512", "1024", "1472"], "quantity": "sizes"},
        lambda r: changed(r, "by-size", 1, payload_bytes=64),
        6,
        1,
    ),
    Seed(
        "dropped_rows",
        {
            "rule": "dropped_rows",
            "printed": {"table": "measured/by-size", "rows": ["64", "256", "512", "1472"]},
            "printed_value": "payload_bytes",
            "data": {"table": "measured/sweep", "where": {"configuration": "control"}},
            "data_value": "payload_bytes",
            "notable": "loss_percent > 50",
            "notable_value": "loss_percent",
        },
        lambda r: changed(r, "sweep", SMALL, payload_bytes=300, loss_percent=60.0),
        300,
        60.0,
    ),
    # --- arithmetic ---------------------------------------------------------------------------
    Seed(
        "derived_value",
        "sweep-loss-percent",
        lambda r: changed(r, "sweep", LOSSY, loss_percent=0.053),
        0.053,
        100 * _value("sweep", LOSSY, "lost") / _value("sweep", LOSSY, "sent"),
        _key("sweep", LOSSY),
    ),
    Seed(
        "sum_of_ranges",
        {
            "rule": "sum_of_ranges",
            "parts": {"table": "measured/by-size"},
            "low": "part_low_percent",
            "high": "part_high_percent",
            "place": _place("frer", "total_percent"),
        },
        lambda r: changed(r, "set-up", 1, total_percent=70.0),
        70.0,
        66.0,
    ),
    Seed(
        "parts_of_whole",
        "sweep-places",
        lambda r: changed(r, "sweep", SMALL, drop_listener_socket=7),
        _value("sweep", SMALL, "sent"),
        _value("sweep", SMALL, "sent") + 7,
        _key("sweep", SMALL),
    ),
    Seed(
        "common_denominator",
        _by_size(
            rule="common_denominator",
            value="clean_mbps",
            percent="share_percent",
            denominators={"the payload limit": "limit_mbps", "the line": "1000"},
        ),
        lambda r: changed(r, "by-size", 0, share_percent=_value("by-size", 0, "clean_mbps") / 10),
        _value("by-size", 0, "clean_mbps") / 10,
        _value("by-size", 0, "share_percent"),
        "64",
    ),
    Seed(
        "bound",
        "latency-observations",
        lambda r: changed(r, "latency", LATENCY, received=10),
        _value("latency", LATENCY, "observations"),
        10,
        _key("latency", LATENCY),
    ),
    Seed(
        "unit_of_column",
        "sweep-units",
        lambda r: changed(r, "sweep", SMALL, loss_percent=104.0),
        104.0,
        100.0,
        _key("sweep", SMALL),
    ),
    # --- consistency --------------------------------------------------------------------------
    Seed(
        "same_quantity",
        {
            "rule": "same_quantity",
            "quantity": "threshold of the control",
            "places": [
                "measured/values/loss.threshold.control.mbps/value",
                _place("control", "threshold_mbps"),
            ],
        },
        lambda r: changed(r, "set-up", 0, threshold_mbps=530.0),
        520.0,
        530.0,
        "control",
    ),
    Seed(
        "same_column",
        {
            "rule": "same_column",
            "quantity": "clean rate",
            "first": {"table": "measured/by-size"},
            "first_value": "clean_mbps",
            "first_key": ["payload_bytes"],
            "second": {"table": "measured/by-size"},
            "second_value": "share_percent * limit_mbps / 100",
            "second_key": ["payload_bytes"],
        },
        lambda r: changed(r, "by-size", 2, share_percent=50.0),
        _value("by-size", 2, "clean_mbps"),
        0.5 * _value("by-size", 2, "limit_mbps"),
        "256",
    ),
    Seed(
        "same_thing",
        {
            "rule": "same_thing",
            "thing": "version of iperf3",
            "places": [_place("control", "iperf3"), _place("frer", "iperf3")],
            "pattern": r"3\.\d+",
        },
        lambda r: changed(r, "set-up", 1, iperf3="iperf 3.9"),
        "3.12",
        "3.9",
        "frer",
    ),
    Seed(
        "same_thing",
        {
            "rule": "same_thing",
            "thing": "topology",
            "places": [_place("control", "topology"), _place("frer", "topology")],
            "classes": {"direct": "no switch", "both switches": "two switches"},
        },
        lambda r: changed(r, "set-up", 0, topology="direct connection"),
        "no switch",
        "two switches",
        "frer",
    ),
    Seed(
        "value_under_two_labels",
        {
            "rule": "value_under_two_labels",
            "places": ["measured/by-size/64/clean_mbps", "measured/by-size/128/clean_mbps"],
            "labels": ["payload_bytes", "payload_bytes"],
            "label": "payload",
        },
        lambda r: changed(r, "by-size", 1, clean_mbps=_value("by-size", 0, "clean_mbps")),
        "64",
        "128",
    ),
    Seed(
        "outside_record",
        {
            "rule": "outside_record",
            "place": _place("frer", "threshold_mbps"),
            "value": 'cell("measured", "set-up", "frer", "threshold_mbps")',
            "record": {"table": "measured/sweep", "where": {"payload_bytes": 1472}},
            "record_value": "target_mbps",
            "quantity": "rates tried",
        },
        lambda r: changed(r, "set-up", 1, threshold_mbps=100.0),
        100.0,
        190.7,
    ),
    Seed(
        "range_covers_data",
        _set_up(
            rule="range_covers_data",
            rows=["frer"],
            low="0",
            high="limit_us",
            record={"table": "measured/latency"},
            record_value="max_us",
            quantity="highest latency",
        ),
        lambda r: changed(r, "latency", LATENCY, max_us=170.0),
        150.0,
        170.0,
    ),
    Seed(
        "circular_input",
        _set_up(
            rule="circular_input",
            rows=["control"],
            input="drain_mbps",
            result="threshold_mbps",
            input_label="drain rate",
            unit="Mb/s",
        ),
        lambda r: changed(r, "set-up", 0, drain_mbps=523.0),
        523.0,
        520.0,
    ),
    Seed(
        "loaded_against_idle",
        _by_size(rule="loaded_against_idle", idle="idle_us", loaded="loaded_us", unit="us"),
        lambda r: changed(r, "by-size", 3, loaded_us=8.0),
        8.0,
        20 + 5.12,
        "512",
    ),
]


def _close(value, expected):
    if isinstance(expected, str):
        return value == expected
    return value == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda s: f"{s.name}-{s.bound().id}")
def test_a_seeded_defect_is_found_with_its_numbers_and_nothing_before(seed):
    check = seed.bound()
    assert check.rule.name == seed.name
    assert _find(check, RECORD) == []
    findings = _find(check, seed.make(RECORD))
    assert findings, "the seeded defect was not seen"
    found = [
        finding
        for finding in findings
        if _close(finding.first.value, seed.first) and _close(finding.second.value, seed.second)
    ]
    assert found, [(f.first, f.second) for f in findings]
    finding = found[0]
    assert finding.source == "model/quick"
    assert finding.formula
    assert finding.explanation.endswith(".")
    if seed.row is not None:
        assert finding.row == seed.row


def test_every_rule_has_a_seeded_defect():
    assert {seed.name for seed in SEEDS} == set(RULES)


def test_every_built_in_check_of_a_measured_record_sees_its_own_tables():
    for check in BUILT_IN.values():
        assert "measured/" in check.parameters.model_dump_json()
