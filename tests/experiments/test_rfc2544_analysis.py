"""Tables, results and figures of RFC 2544 trials whose truth is known."""

import json
import re

import pandas as pd
import pytest
from matplotlib import pyplot as plt
from rfc2544_documents import CAPACITY_PPS, capacity_pps, record

from tsnrepro.common.repository import root
from tsnrepro.experiments.rfc2544 import analysis as rfc2544
from tsnrepro.experiments.rfc2544 import figures as rfc2544_figures
from tsnrepro.experiments.rfc2544.accuracy import AccuracySettings, run_accuracy
from tsnrepro.experiments.rfc2544.plan import plan
from tsnrepro.experiments.rfc2544.settings import (
    BackToBackSettings,
    FrameLossSettings,
    Rfc2544Settings,
    RfcLatencySettings,
    SystemRecoverySettings,
    ThroughputSettings,
)
from tsnrepro.records.store import RawStore
from tsnrepro.runner.run import manifest, write_manifest
from tsnrepro.workflow.notebooks import execute

SETTINGS = Rfc2544Settings(
    throughput=ThroughputSettings(frames_bytes=[64, 512], payloads_bytes=[64, 1518], repetitions=2),
    frame_loss=FrameLossSettings(frames_bytes=[512], duration_s=60),
    back_to_back=BackToBackSettings(frames_bytes=[64], searches=50, resolution_percent=0.1),
    system_recovery=SystemRecoverySettings(frames_bytes=[64], repetitions=2),
    latency=RfcLatencySettings(frames_bytes=[64], repetitions=20),
)
KEY = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$")


@pytest.fixture(scope="module")
def documents():
    return record(SETTINGS)


def test_what_a_talker_hands_over_faster_than_the_line_is_not_offered(documents):
    (first, *_) = (d for d in documents if d["factors"]["benchmark"] == "throughput")
    goal, result = next(iter(first["values"]["results"].items()))
    times = 1.05 * result["line_pps"] / result["offered_pps"]
    faster = {name: rate * times for name, rate in result["offered"].items()}
    faster = result | {"offered_pps": 1.05 * result["line_pps"], "offered": faster}
    late = first | {"values": first["values"] | {"results": {goal: faster}}}
    (row,) = rfc2544.throughput_table([late]).to_dict("records")
    assert row["offered_wire_mbps"] == pytest.approx(first["values"]["link_rate_mbps"])


def test_throughput_of_every_search_and_layer(documents):
    table = rfc2544.throughput_table(documents)
    assert list(table.columns) == rfc2544.THROUGHPUT_COLUMNS
    assert len(table) == 2 * 2 * 4 * 5  # repetitions, configurations, sizes, goals
    for row in table.itertuples():
        truth = capacity_pps(row.configuration, row.payload_bytes)
        assert row.lower_pps == pytest.approx(truth, rel=0.012)
        assert row.offered_payload_mbps == pytest.approx(row.lower_pps * row.payload_bytes * 8e-6)
        assert row.offered_payload_mbps < row.offered_frame_mbps < row.offered_wire_mbps
    lined = table[table["payload_bytes"] == 1518]
    assert set(lined["limited_by"]) == {"line"}
    assert set(table[table["payload_bytes"] == 466]["limited_by"]) == {"network"}


def test_published_rates_stand_beside_the_payloads_they_were_measured_with(documents):
    beside = rfc2544.throughput_beside_published(rfc2544.throughput_table(documents))
    row = beside.set_index("payload_bytes").loc
    # Table 7A's 64 and 1518 bytes are payloads; the methodology's 64-byte frame has 18 of them.
    assert row[64, "frer_fail_operational_mbps"] == 20.51
    assert row[1518, "frer_fail_operational_mbps"] == 341.47
    assert row[18, "methodology_mbps"] == 20.51
    assert pd.isna(row[18, "frer_fail_operational_mbps"])
    assert row[1518, "plain_payload_mbps"] == pytest.approx(924.482, abs=5e-4)
    assert row[1518, "tagged_payload_mbps"] == pytest.approx(917.775, abs=5e-4)
    expected = CAPACITY_PPS["control"] * 64 * 8e-6
    assert row[64, "zero_loss_control_mbps"] == pytest.approx(expected, rel=0.01)


def test_published_bisection_is_a_limit_per_packet():
    table = rfc2544.published_throughput()
    rate = table[
        (table["document"] == "frer-fail-operational") & (table["printed_size_bytes"] <= 1024)
    ]["zero_loss_pps"]
    assert rate.between(38_000, 42_500).all()
    assert rate.std() / rate.mean() == pytest.approx(0.039, abs=0.006)


def test_loss_points_keep_what_was_asked_and_what_was_offered(documents):
    table = rfc2544.loss_table(documents)
    assert list(table.columns) == rfc2544.LOSS_COLUMNS
    given = table[(table["procedure"] == "at_loads") & (table["configuration"] == "control")]
    assert given["asked_percent"].round(6).tolist() == [
        *(50, 60, 70, 80, 90, 95, 98, 100, 102, 105, 110)
    ]
    downward = table[(table["procedure"] == "downward") & (table["configuration"] == "control")]
    assert downward.sort_values("asked_percent")["lost"].iloc[:2].tolist() == [0, 0]


def test_buffer_recovery_and_latency_tables(documents):
    bursts = rfc2544.burst_table(documents).set_index("configuration")
    assert bursts.loc["control", "buffer_datagrams"] == pytest.approx(250, rel=0.01)
    assert bursts.loc["frer", "buffer_datagrams"] == pytest.approx(200, rel=0.01)
    assert bursts["compliant"].all()
    recovery = rfc2544.recovery_table(documents)
    assert recovery["recovery_ms"].tolist() == [0.0] * 4
    latencies = rfc2544.latency_table(documents)
    # One-way latency with clocks that do not agree: named, without numbers.
    assert latencies["mean_us"].isna().eq(latencies["quantity"] == "one_way").all()
    halves = latencies[latencies["quantity"] == "half_round_trip"]
    wholes = latencies[latencies["quantity"] == "round_trip"]
    assert (wholes["p99_us"].to_numpy() == 2 * halves["p99_us"].to_numpy()).all()


@pytest.mark.parametrize(("repetitions", "compliant"), [(3, False), (20, True)])
def test_few_repetitions_of_latency_are_not_compliant(repetitions, compliant):
    of = RfcLatencySettings(frames_bytes=[64], repetitions=repetitions, loads=["idle"])
    table = rfc2544.latency_table(record(Rfc2544Settings(latency=of))).set_index("quantity")
    assert table.loc["one_way", "compliant"].eq(compliant).all()
    said = "" if compliant else "3 repetitions, not 20 (RFC 2544, 26.2)"
    assert table.loc["one_way", "reasons"].eq(said).all()


def test_results_have_keys_that_a_manuscript_can_name(documents):
    results = rfc2544.analyse(documents)
    frame = results.frame()
    assert all(KEY.match(key) for key in frame["key"])
    key = "rfc2544.throughput.zero_loss.frame_512.control.payload_mbps"
    value, low, high = results.interval(key)
    assert value == pytest.approx(150_000 * 466 * 8e-6, rel=0.01)
    # Two searches of the same answer: no interval, and why.
    assert (low, high) == (None, None)
    assert results.of(key).method.startswith("no interval")
    assert len(results.of(key).trials) == 2
    # A size that was not measured has its results, without a value.
    missing = results.of("rfc2544.throughput.zero_loss.frame_1518.frer.payload_mbps")
    assert missing.value is None
    assert results.of("rfc2544.trials.count").value == len(documents)


def test_results_of_an_empty_run_are_unknown(tmp_path):
    results = rfc2544.analyse([])
    results.write(tmp_path / "values.json")
    written = json.loads((tmp_path / "values.json").read_text(encoding="utf-8"))
    assert {item["value"] for item in written if item["key"].endswith("_mbps")} == {None}


def accuracy_rows():
    rows = []
    for method, answer, _ in rfc2544_figures.ACCURACY_ROWS:
        for stalls in (False, True):
            rows += [
                {
                    "method": method,
                    "answer": answer,
                    "stalls": stalls,
                    "ratio": ratio,
                    "within": ratio > 0.99,
                }
                for ratio in ((0.995, 0.4) if stalls else (0.995, 0.999))
            ]
    return pd.DataFrame(rows)


def test_accuracy_becomes_shares_with_exact_limits():
    results = rfc2544.analyse([])
    rfc2544.add_accuracy(results, accuracy_rows())
    value, low, high = results.interval(
        "rfc2544.accuracy.mlrsearch.zero_loss.stalls.within_percent"
    )
    assert value == 50
    # Clopper-Pearson, 1 of 2: 1 - sqrt(1 - alpha / 2) and its mirror.
    assert low == pytest.approx(100 * (1 - 0.975**0.5))
    assert high == pytest.approx(100 * 0.975**0.5)
    assert all(KEY.match(key) for key in results.frame()["key"])


def marks(figure):
    """Return how many points stand in each panel, lines and scatters together."""
    return [
        sum(len(line.get_xdata()) for line in axes.get_lines() if line.get_marker() != "None")
        + sum(len(found.get_offsets()) for found in axes.collections)
        for axes in figure.axes
    ]


def test_figures_show_every_row(documents):
    throughput = rfc2544.throughput_table(documents)
    figure = rfc2544_figures.throughput(throughput, "test")
    # Five goals and the sweep's threshold, two sizes, configurations and repetitions; 2 published.
    assert marks(figure) == [6 * 8, 6 * 8 + 2]
    figure = rfc2544_figures.accuracy(accuracy_rows())
    assert marks(figure) == [7 * 4]
    loss = rfc2544.loss_table(documents)
    (points,) = marks(rfc2544_figures.frame_loss(loss, "test"))
    assert points == len(loss) + 8  # table 9B
    assert marks(rfc2544_figures.buffer_time(rfc2544.burst_table(documents), "test"))[0] >= 2
    plt.close("all")


# What an emulated testbed tells of itself, as far as the analysis prints it.
ENVIRONMENT = {
    "testbed": "emulated",
    "settings": {
        **{"queue_bytes": 262_144, "link_rate_mbps": 1000, "paths": 2},
        "frer": {"history_length": 512, "reset_ms": 2000},
    },
    "controller": {"kernel": "6.1", "processor": "any", "processors": 2, "commit": "0" * 40},
    "hosts": {
        "talker": {
            "iperf3": "iperf 3.12 (cJSON 1.7.15)",
            "sockperf": "sockperf, version 3.7-0.git",
            "sysctl": ["net.core.rmem_default = 212992"],
        }
    },
}


def test_the_notebook_writes_tables_figures_and_values(documents, tmp_path):
    planned = plan(SETTINGS, 1, "emulated")
    store = RawStore(tmp_path / "raw", "emulated", "rfc2544", "rfc2544")
    environment = store.put_environment(ENVIRONMENT)
    for item, document in zip(planned, documents, strict=True):
        kept = {k: v for k, v in document.items() if k not in ("trial", "sha256")}
        store.put(item.trial, 1, kept | {"environment": environment}, {})
    write_manifest(manifest(store, planned), str(tmp_path / "run.json"))
    accuracy = tmp_path / "accuracy.csv"
    run_accuracy(AccuracySettings(runs=1), 1).to_csv(accuracy, index=False)
    execute(
        root() / "notebooks" / "analyse" / "rfc2544.ipynb",
        tmp_path / "out.ipynb",
        {"run": str(tmp_path / "run.json"), "accuracy": str(accuracy)},
    )
    figures = {path.stem for path in (tmp_path / "figures").glob("*.pdf")}
    assert figures == {"throughput", "frame-loss", "buffer-time", "accuracy"}
    written = json.loads((tmp_path / "values.json").read_text(encoding="utf-8"))
    keys = {item["key"] for item in written}
    assert "rfc2544.accuracy.binary_search_60s.binary_search.stalls.within_percent" in keys
    table = pd.read_csv(tmp_path / "tables" / "throughput.csv")
    assert set(table["trial"]) <= {item.trial.name(1) for item in planned}


def test_figures_without_trials_say_so():
    empty = rfc2544.analyse([])
    assert empty is not None
    for draw, table in (
        (rfc2544_figures.throughput, rfc2544.throughput_table([])),
        (rfc2544_figures.frame_loss, rfc2544.loss_table([])),
        (rfc2544_figures.buffer_time, rfc2544.burst_table([])),
    ):
        figure = draw(table, "test")
        assert figure.axes[0].texts
    plt.close("all")
