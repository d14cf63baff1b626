"""A sound record has no findings; each rule finds the defect that is seeded into it."""

import dataclasses

import pytest
import synthetic_record
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_record import catalog, changed, rows

from tsnrepro.published.checks import MEASURED_CHECKS, load_checks, make_check, run_checks
from tsnrepro.published.rules import RULES

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
    # Not all experiments were run.
    idle = {one.check.split("-")[0] for one in not_run}
    assert idle == {"rfc2544", "mausezahn", "failure", "results"}
    assert all(one.idle for one in not_run)


@settings(max_examples=20, deadline=None)
@given(st.integers(min_value=10, max_value=10_000))
def test_any_sound_record_has_no_findings(seed):
    record = synthetic_record.tables(seed)
    findings, _ = run_checks(BUILT_IN.values(), catalog(record), lenient=True)
    assert findings == []


@dataclasses.dataclass
class Seed:
    """A defect: the check that is to see it, how to make it, and what it is to report."""

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


FRER_SWEEP = _row("loss", configuration="frer", payload_bytes=1472)
FAST = rows(RECORD, "loss", configuration="frer", payload_bytes=1472)
LOSSY = next(row for row in FAST if _value("loss", row, "lost") > 0)
SMALL = _row("loss", configuration="control", payload_bytes=64)
LATENCY = _row("latency", configuration="control", payload_bytes=64)
TCP = _row("tcp", configuration="frer", duration_s=5)


def _unequal_durations(record):
    chosen = rows(record, "loss", configuration="frer", payload_bytes=512)
    for row in chosen:
        record = changed(record, "loss", row, duration_s=5, send_seconds=5.0)
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
    for row in range(len(record["loss"]["trial"])):
        record = changed(record, "loss", row, send_seconds=8.004)
    return record


def _constant_packets(record):
    for row, payload in enumerate(record["by-size"]["payload_bytes"]):
        record = changed(record, "by-size", row, clean_mbps=40_000 * 8 * payload / 1e6)
    return record


def _one_tail(record):
    for row in range(len(record["latency"]["trial"])):
        record = changed(record, "latency", row, p99_us=79.5)
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
        "latency-order",
        lambda r: changed(r, "latency", LATENCY, max_us=20.5),
        _value("latency", LATENCY, "p50_us"),
        20.5,
        _key("latency", LATENCY),
    ),
    Seed("latency-placeholders", _placeholders, 0.5, 0.0),
    Seed(
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
        "results-trials",
        lambda r: changed(r, "values", 2, trials=0),
        0.04,
        0,
        "loss.threshold.ratio",
    ),
    Seed(
        "latency-copies",
        _repeated_latency,
        _value("latency", 0, "mean_us"),
        _value("latency", 0, "mean_us"),
        _key("latency", 1),
    ),
    # --- rates --------------------------------------------------------------------------------
    Seed(
        "loss-payload",
        lambda r: changed(r, "loss", SMALL, sent=2 * _value("loss", SMALL, "sent")),
        32.0,
        64,
        _key("loss", SMALL),
    ),
    Seed(
        "loss-limit-control",
        lambda r: changed(r, "loss", SMALL, delivered_mbps=500.0),
        500.0,
        492.308,
        _key("loss", SMALL),
    ),
    Seed(
        "loss-limit-frer",
        lambda r: changed(r, "loss", FRER_SWEEP, delivered_mbps=959.0),
        959.0,
        953.368,
        _key("loss", FRER_SWEEP),
    ),
    Seed(
        _by_size(
            rule="bottleneck_at_line_limit",
            rate_mbps="clean_mbps",
            limit_mbps="limit_mbps",
            ascribed_to="bottleneck of processing",
        ),
        lambda r: changed(r, "by-size", 5, clean_mbps=957.0),
        957.0,
        957.087,
    ),
    Seed(
        "tcp-limit-frer",
        lambda r: changed(r, "tcp", TCP, goodput_mbps=944.0),
        944.0,
        937.824,
        _key("tcp", TCP),
    ),
    Seed(
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
        "loss-balance",
        lambda r: changed(
            r,
            "loss",
            LOSSY,
            loss_percent=10.0,
            delivered_mbps=_value("loss", LOSSY, "offered_mbps"),
        ),
        _value("loss", LOSSY, "offered_mbps"),
        0.9 * _value("loss", LOSSY, "offered_mbps"),
        _key("loss", LOSSY),
    ),
    Seed(
        _by_size(
            rule="constant_packet_rate", rate_mbps="clean_mbps", payload_bytes="payload_bytes"
        ),
        _constant_packets,
        0.0,
        # Coefficient of variation of 64, 128, 256, 512, 1024, 1472: sqrt(314572.8) / 576.
        97.3729,
    ),
    Seed(
        "loss-limit-control",
        # Ten times a line of 100 Mb/s: the rate of the line is the testbed's.
        lambda r: changed(r, "loss", SMALL, link_rate_mbps=10.0),
        _value("loss", SMALL, "delivered_mbps"),
        4.92308,
        _key("loss", SMALL),
    ),
    Seed(
        "results-threshold",
        lambda r: changed(r, "values", 0, value=1024.0),
        1024.0,
        957.087,
        "loss.threshold.control.mbps",
    ),
    Seed(
        "results-threshold-interval",
        lambda r: changed(r, "values", 0, high=1100.0),
        1100.0,
        957.087,
        "loss.threshold.control.mbps",
    ),
    Seed(
        "results-possible",
        lambda r: changed(r, "values", 3, low=-19.7),
        -19.7,
        0.0,
        "latency.mean.control.us",
    ),
    # Gb/s for Mb/s, and goodput alike.
    Seed(
        "loss-unit",
        lambda r: changed(
            r, "loss", LOSSY, offered_mbps=_value("loss", LOSSY, "offered_mbps") / 1000
        ),
        _value("loss", LOSSY, "offered_mbps") / 10,
        _value("loss", LOSSY, "target_mbps"),
        _key("loss", LOSSY),
    ),
    Seed("tcp-unit", lambda r: changed(r, "tcp", TCP, goodput_mbps=0.9412), 0.9412, 2.0),
    Seed(
        "latency-positive",
        lambda r: changed(r, "latency", LATENCY, min_us=-7.16),
        -7.16,
        0.0,
        _key("latency", LATENCY),
    ),
    Seed("shaping-positive", lambda r: changed(r, "shaping", 1, min_us=-7.16), -7.16, 0.0),
    Seed("latency-constant", _one_tail, 79.5, 18),
    # --- mechanisms ---------------------------------------------------------------------------
    Seed(
        "loss-wrap",
        lambda r: changed(r, "loss", FRER_SWEEP, sent=90_000, received=65_536),
        65_536,
        65_536,
        _key("loss", FRER_SWEEP),
    ),
    Seed(
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
        "latency-round-trip",
        lambda r: changed(r, "latency", LATENCY, mean_us=2 * _value("latency", LATENCY, "mean_us")),
        # Twice the mean: one n mean now fills the test, 98 % of its valid time.
        0.98 * _value("latency", LATENCY, "valid_seconds"),
        _value("latency", LATENCY, "valid_seconds"),
        _key("latency", LATENCY),
    ),
    Seed("loss-duration", _killed_by_the_clock, 8.004, 2),
    Seed(
        "tcp-duration",
        lambda r: changed(r, "tcp", TCP, seconds=3.1),
        3.1,
        5,
        _key("tcp", TCP),
    ),
    Seed(
        {
            "rule": "loss_below_threshold",
            "place": _place("frer", "threshold_mbps"),
            "threshold_mbps": 'cell("measured", "set-up", "frer", "threshold_mbps")',
            "points": [
                {
                    "table": "measured/loss",
                    "where": {"configuration": "frer", "payload_bytes": 1472},
                    "rate_mbps": "target_mbps",
                    "loss_percent": "loss_percent",
                    "label": "loss",
                }
            ],
        },
        lambda r: changed(
            r,
            "loss",
            _row("loss", configuration="frer", payload_bytes=1472, target_mbps=190.7),
            loss_percent=0.01,
        ),
        511.0,
        190.7,
    ),
    Seed("loss-groups", _unequal_durations, "2", "5"),
    Seed("tcp-groups", _one_trial_less, 3, 2),
    Seed(
        {**SIZES, "planned": ["64", "128", "256", "512", "1024", "1472"], "quantity": "sizes"},
        lambda r: changed(r, "by-size", 1, payload_bytes=64),
        6,
        1,
    ),
    Seed(
        {
            "rule": "dropped_rows",
            "printed": {"table": "measured/by-size", "rows": ["64", "256", "512", "1472"]},
            "printed_value": "payload_bytes",
            "data": {"table": "measured/loss", "where": {"configuration": "control"}},
            "data_value": "payload_bytes",
            "notable": "loss_percent > 50",
            "notable_value": "loss_percent",
        },
        lambda r: changed(r, "loss", SMALL, payload_bytes=300, loss_percent=60.0),
        300,
        60.0,
    ),
    # --- arithmetic ---------------------------------------------------------------------------
    Seed(
        "loss-percent",
        lambda r: changed(r, "loss", LOSSY, loss_percent=0.053),
        0.053,
        100 * _value("loss", LOSSY, "lost") / _value("loss", LOSSY, "sent"),
        _key("loss", LOSSY),
    ),
    Seed(
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
        "loss-places",
        lambda r: changed(r, "loss", SMALL, drop_listener_socket=7),
        _value("loss", SMALL, "sent"),
        _value("loss", SMALL, "sent") + 7,
        _key("loss", SMALL),
    ),
    Seed(
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
        "latency-observations",
        lambda r: changed(r, "latency", LATENCY, received=10),
        _value("latency", LATENCY, "observations"),
        10,
        _key("latency", LATENCY),
    ),
    Seed(
        "loss-units",
        lambda r: changed(r, "loss", SMALL, loss_percent=104.0),
        104.0,
        100.0,
        _key("loss", SMALL),
    ),
    # --- consistency --------------------------------------------------------------------------
    Seed(
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
]


def _close(value, expected):
    if isinstance(expected, str):
        return value == expected
    return value == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda s: f"{s.bound().rule}-{s.bound().id}")
def test_a_seeded_defect_is_found_with_its_numbers_and_nothing_before(seed):
    check = seed.bound()
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


@pytest.mark.parametrize(("seconds", "found"), [(0.28, 0), (0.32, 1)])
def test_a_short_trial_may_be_late_by_a_stall_and_no_more(seconds, found):
    short = changed(RECORD, "loss", 3, duration_s=0.2, send_seconds=seconds)
    assert len(_find(BUILT_IN["loss-duration"], short)) == found


def test_every_rule_has_a_seeded_defect():
    assert {seed.bound().rule for seed in SEEDS} == set(RULES)


def test_every_built_in_check_of_a_measured_record_sees_its_own_tables():
    for check in BUILT_IN.values():
        assert "measured/" in check.model_dump_json()


def _with_paths(frer=(2, 2, 2, 3, 3, 3)):
    """Return the sound record with a part ``paths`` at a load of the sweep, of other trials."""
    loss = {column: [*cells] for column, cells in RECORD["loss"].items()}
    count = len(loss["trial"])
    loss |= {"question": ["sweep"] * count, "paths": [None] * count}
    configured = [("control", 2)] * 3 + [("frer", paths) for paths in frer]
    load = {"payload_bytes": 1472, "target_mbps": _value("loss", FRER_SWEEP, "target_mbps")}
    for number, (configuration, paths) in enumerate(configured):
        row = _row("loss", configuration=configuration, **load)
        factors = {"trial": f"paths-{number}", "question": "paths", "paths": paths, "duration_s": 3}
        for column, cells in loss.items():
            cells.append(factors[column] if column in factors else cells[row])
    return {**RECORD, "loss": loss}


def test_control_stands_beside_each_number_of_paths():
    """Each of 2 and 3 paths has as many trials of FRER as there are of control."""
    check = BUILT_IN["loss-groups"]
    assert _find(check, _with_paths()) == []
    (finding,) = _find(check, _with_paths((2, 2, 3, 3, 3)))
    assert (finding.first.value, finding.second.value) == (3, 2)
    assert "question paths, link_rate_mbps 1000, paths 2: 3 against 2 trials" in finding.explanation
    (finding,) = _find(check, _with_paths(()))
    assert "3 against 0 trials" in finding.explanation
