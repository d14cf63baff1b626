"""The analysis of studies of the threshold, on tables with known effects."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.common.ethernet import udp_truesizes
from tsnrepro.experiments.studies import threshold_analysis as analysis
from tsnrepro.experiments.studies import threshold_figures as figures
from tsnrepro.experiments.studies.tables import read_table

PAYLOADS, BUFFERS, STALLS, QUEUES = (18, 1472), (106_496, 425_984), (1.0, 4.0), (16_384, 65_536)


def row(part, seed, payload, buffer, stall, queue, configuration, **values):
    return {
        "part": part,
        "replication": seed,
        "configuration": configuration,
        "payload_bytes": payload,
        "receive_buffer_bytes": buffer,
        "stall_length_ms": stall,
        "switch_queue_bytes": queue,
        "path_loss_probability": 0.0,
        "background_mbps": 0.0,
        "censored": "",
        "line_limit_mbps": 957.0,
    } | values


def invented(frer_hosts=1.0, frer_paths=2.0, spread=0.01, power=(1.0, -1.0)):
    """Return a study with threshold = buffer^a x stall^b x noise of the seed x effect of FRER."""
    noise = np.random.default_rng(7).normal(0, spread, 6)
    rows = []
    for seed, payload, buffer, stall, queue, configuration in product(
        range(1, 6), PAYLOADS, BUFFERS, STALLS, QUEUES, ("control", "frer")
    ):
        held = buffer // sum(udp_truesizes(payload)) + 1
        kpps = held ** power[0] * stall ** power[1] * np.exp(noise[seed])
        frer = configuration == "frer"
        rows.append(
            row("hosts", seed, payload, buffer, stall, queue, configuration)
            | {"threshold_kpps": kpps * (frer_hosts if frer else 1)}
        )
        if buffer == BUFFERS[0] and stall == STALLS[0]:
            for others in ({}, {"path_loss_probability": 1e-4}, {"background_mbps": 300.0}):
                factor = frer_paths if frer and others else 1
                rows.append(
                    row("paths", seed, payload, buffer, stall, queue, configuration, **others)
                    | {"threshold_kpps": kpps * factor}
                )
    table = pd.DataFrame(rows)
    mbps = table["threshold_kpps"] * table["payload_bytes"] * 8 / 1000
    return table.assign(threshold_mbps=mbps)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "study.parquet"
    path.write_bytes(b"a table")
    return path


def test_ratios_are_paired_by_combination_and_seed(source):
    results = analysis.analyse(invented(frer_hosts=1.1, frer_paths=2.0), source)
    # Equal seeds have no spread, so there is no interval.
    assert results.interval("study.ratio.hosts") == (pytest.approx(1.1), None, None)
    assert results.interval("study.ratio.clean") == (pytest.approx(1.0), None, None)
    assert results.of("study.ratio.loss_1e_4").value == pytest.approx(2.0)
    assert results.of("study.ratio.background_300").value == pytest.approx(2.0)
    assert results.of("study.third.hosts").value == "nowhere"
    assert results.of("study.third.hosts.count").value == 0
    assert results.of("study.third.loss_1e_4").value == "everywhere"
    assert results.of("study.combinations.hosts.count").value == 16


def test_a_ratio_of_a_third_more_is_found(source):
    results = analysis.analyse(invented(frer_hosts=1.34), source)
    assert results.of("study.third.hosts").value == "everywhere"
    table = invented(frer_hosts=1.0)
    lifted = (table["part"] == "hosts") & (table["configuration"] == "frer")
    lifted &= table["switch_queue_bytes"] == QUEUES[1]
    table.loc[lifted, "threshold_mbps"] *= 1.5
    results = analysis.analyse(table, source)
    assert results.of("study.third.hosts").value == "in some combinations"
    assert results.of("study.third.hosts.count").value == 8
    assert results.of("study.ratio.hosts.highest").value == pytest.approx(1.5)
    assert results.of("study.ratio.hosts").value == pytest.approx(1.5**0.5)


@pytest.mark.parametrize("power", [(1.0, -1.0), (0.5, -2.0)])
def test_exponents_are_recovered(power):
    found = analysis.exponents(invented(power=power))
    assert found["buffer"].to_numpy() == pytest.approx([power[0]] * 5)
    assert found["stall"].to_numpy() == pytest.approx([power[1]] * 5)


def test_searches_that_ended_at_the_limit_are_left_out_of_exponents():
    table = invented()
    capped = (table["stall_length_ms"] == 1.0) & (table["receive_buffer_bytes"] == BUFFERS[1])
    table.loc[capped, ["threshold_kpps", "censored"]] = [81.3, "line limit"]
    found = analysis.exponents(table)
    assert found["buffer"].mean() == pytest.approx(1.0)


def test_shares_of_two_equal_effects_are_a_half_each():
    """Two factors of two levels with the same effect: half of the variance each, none left."""
    table = invented(spread=0.0)
    size = np.where(table["receive_buffer_bytes"] == BUFFERS[0], 1.0, 3.0)
    time = np.where(table["stall_length_ms"] == STALLS[0], 1.0, 1 / 3)
    shares = analysis.shares(table.assign(threshold_kpps=size * time), "threshold_kpps")
    assert shares["receive_buffer_bytes"].to_numpy() == pytest.approx([50.0] * 5)
    assert shares["stall_length_ms"].to_numpy() == pytest.approx([50.0] * 5)
    for none in ("payload_bytes", "configuration", "switch_queue_bytes", "interactions"):
        assert shares[none].to_numpy() == pytest.approx([0.0] * 5, abs=1e-9)


def test_joint_effects_are_interactions():
    table = invented(spread=0.0)
    both = (table["receive_buffer_bytes"] == BUFFERS[0]) == (table["stall_length_ms"] == STALLS[0])
    shares = analysis.shares(
        table.assign(threshold_kpps=np.where(both, 2.0, 1.0)), "threshold_kpps"
    )
    assert shares["interactions"].to_numpy() == pytest.approx([100.0] * 5)


def test_a_search_below_its_lowest_load_has_no_ratio(source):
    table = invented()
    below = (table["path_loss_probability"] > 0) & (table["configuration"] == "control")
    below &= table["payload_bytes"] == 18
    table.loc[below, "threshold_mbps"] = np.nan
    paired = analysis.pairs(table)
    assert paired["ratio"].isna().sum() == 5 * 2
    results = analysis.analyse(table, source)
    assert results.of("study.ratio.loss_1e_4").value == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda table: table.drop(columns="threshold_mbps"), "threshold_mbps"),
        (lambda table: table[table["configuration"] == "frer"], "control and frer"),
    ],
)
def test_a_table_of_another_study_is_refused(tmp_path, spoil, message):
    path = tmp_path / "study.parquet"
    spoil(invented()).to_parquet(path)
    with pytest.raises(RecordError, match=message):
        read_table(path, analysis.COLUMNS)
    with pytest.raises(RecordError, match="no such study"):
        read_table(tmp_path / "other.parquet", analysis.COLUMNS)


def test_figures_show_every_condition():
    table = invented()
    figure = figures.replication(table)
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert len(labels) == 3
    assert any("300 Mb/s" in label for label in labels)
    assert len(figures.dependence(table).axes) == len(PAYLOADS)
    bars = figures.effects(table).axes[0].patches
    assert len(bars) == 2 * len(figures.FACTOR_LABELS)
