"""Shaping's analysis against records made by hand: phases, counts, intervals, published columns."""

import datetime
from dataclasses import replace
from math import nan

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from gate_lists import two_windows
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from tsnrepro.common.errors import RecordError
from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.config.registry import experiment
from tsnrepro.experiments.shaping import (
    analysis as shaping,
)
from tsnrepro.experiments.shaping import (
    figures as shaping_figures,
)
from tsnrepro.experiments.shaping import (
    modes as shaping_modes,
)
from tsnrepro.experiments.shaping import (
    published as shaping_published,
)
from tsnrepro.experiments.shaping import (
    values as shaping_values,
)
from tsnrepro.experiments.shaping.log import LISTENER_DTYPE
from tsnrepro.experiments.shaping.media import DifferentMediaError
from tsnrepro.experiments.shaping.phase import Gate, adherence
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.settings import BOARD_MEDIUM, ShapingPart
from tsnrepro.native.streams.log import TALKER_DTYPE, with_queue_times
from tsnrepro.stats.estimate import Estimate

DAY_NS = 1_790_000_000 * 10**9  # a time of day, which a float cannot hold to the nanosecond
GATES = two_windows(20_000, 80_000, scheduled=5, others=[0])
EXACT = {"source": "test", "before_stamp_ns": 0, "frame_ns": 0, "uncertainty_ns": 0}


def log_of(latencies_us, stamps_ns=None):
    log = np.zeros(len(latencies_us), LISTENER_DTYPE)
    log["sequence"] = np.arange(len(latencies_us))
    log["sent_ns"] = DAY_NS + 1_000_000 * np.arange(len(latencies_us))
    late_ns = np.round(np.asarray(latencies_us) * 1000).astype(np.int64)
    log["received_ns"] = log["sent_ns"].astype(np.int64) + late_ns
    log["stamped_ns"] = log["received_ns"] if stamps_ns is None else stamps_ns
    return log


def part(kind="end-station", **changes):
    values = {
        "name": "test",
        "kind": kind,
        "modes": ["tas", "prio", "fifo"],
        "gates": GATES,
        "payload_bytes": 256,
        "packets": 100,
        "interval_us": 300.0,
        "loads_mbps": [0.0, 900.0],
    }
    return ShapingPart.model_validate(values | changes)


def run_of(logs, *, kind="end-station", egress=EXACT, media=None, loads=(0.0, 900.0), **changes):
    """Return a run of logs by (mode, load in Mb/s, repetition)."""
    documents, named = {}, {}
    modes = list(dict.fromkeys(mode for mode, _, _ in logs))
    settings_ = part(kind, modes=modes, loads_mbps=list(loads), idle_slope_mbps=20.0, **changes)
    for order, ((mode, load, repetition), log) in enumerate(logs.items()):
        name = f"{mode}-{load}-{repetition}"
        counts = {"sent": len(log) + 1, "received": len(log), "lost": 1, "out_of_order": 0}
        rates = {"load_offered_mbps": load, "load_delivered_mbps": load / 2}
        documents[name] = {
            "trial": name,
            "sha256": f"{order:064x}",
            "repetition": repetition,
            "order": order,
            "started": datetime.datetime.now(datetime.UTC).isoformat(),
            "factors": Factors.one(settings_, mode, load).stored(),
            "values": {
                "result": counts | rates,
                "medium": (media or {}).get(mode, "model"),
                "egress": egress,
            },
        }
        named[name] = log
    return shaping.assemble(documents, named)


def gate(gates=GATES, **changes):
    return Gate(gates, 5, **(EXACT | changes))


# Phases


def test_phases_of_a_time_of_day_are_exact():
    starts = DAY_NS + 100_000 * np.arange(5) + np.array([0, 1, 19_999, 20_000, 99_999])
    log = log_of(np.ones(5), starts)
    assert gate().phases_ns(log).tolist() == [0, 1, 19_999, 20_000, 99_999]


def test_a_frame_began_its_time_on_the_line_before_its_stamp():
    log = log_of(np.ones(2), DAY_NS + np.array([2_505, 2_504]))
    found = gate(before_stamp_ns=2_505)
    assert found.phases_ns(log).tolist() == [0, 99_999]


def test_base_time_shifts_the_cycle():
    shifted = GATES.model_copy(update={"base_time_ns": 30_000})
    log = log_of(np.ones(1), np.array([DAY_NS + 31_000]))
    assert gate(shifted).phases_ns(log).tolist() == [1_000]


def test_misses_say_how_far_and_on_which_side():
    phases = np.array([0.0, 20_000.0, 20_001.0, 59_000.0, 61_000.0, 99_999.0])
    assert gate().miss_ns(phases).tolist() == [0, 0, 1, 39_000, -39_000, -1]


def test_with_a_guard_band_the_end_of_the_frame_counts():
    phases = np.array([17_500.0, 17_501.0])
    assert gate(frame_ns=2_500).miss_ns(phases).tolist() == [0, 1]
    loose = GATES.model_copy(update={"guard_band": False})
    assert gate(loose, frame_ns=2_500).miss_ns(phases).tolist() == [0, 0]


def test_counts_outside_and_without_stamp():
    stamps = DAY_NS + np.array([10_000, 24_000, 26_000, 98_000, 90_000])
    stamps = np.concatenate([stamps, [0]])
    found = adherence(gate(uncertainty_ns=5_000), log_of(np.ones(6), stamps))
    assert (found.frames, found.without_stamp) == (5, 1)
    assert (found.early, found.late, found.outside) == (1, 1, 2)
    assert (found.worst_early_ns, found.worst_late_ns) == (10_000, 6_000)


def test_the_run_is_the_unit_of_what_a_gate_let_through_outside():
    """Three runs of 100 frames, one of which let 30 out at once: not 30 of 300 draws."""
    inside, outside = DAY_NS + 10_000, DAY_NS + 50_000
    logs = {
        ("tas", 0.0, repetition): log_of(
            np.ones(100), np.repeat([outside, inside], [count, 100 - count])
        )
        for repetition, count in ((1, 30), (2, 0), (3, 0))
    }
    found = shaping.adherence_over_runs(run_of(logs, loads=(0.0,)), "test", "tas", "idle")
    assert found is not None
    assert found.sum("outside") == 30
    assert found.outside_percent.value == pytest.approx(10)
    assert (found.outside_percent.low, found.outside_percent.high) == (0, 30)
    # Clopper and Pearson, 1 of 3: the table's 0.84 ... 90.57 %.
    assert found.runs_percent.value == pytest.approx(100 / 3)
    assert found.runs_percent.low == pytest.approx(0.84, abs=0.01)
    assert found.runs_percent.high == pytest.approx(90.57, abs=0.01)


entries = st.lists(st.tuples(st.booleans(), st.integers(1, 5_000)), min_size=2, max_size=8).filter(
    lambda found: any(is_open for is_open, _ in found)
)


@settings(max_examples=80, deadline=None)
@given(entries, st.integers(0, 10**6))
def test_a_frame_without_extent_is_inside_exactly_where_its_class_is_open(found, start):
    gates = GateControlList(
        entries=[
            GateWindow(open_classes=[5] if is_open else [0], interval_ns=length)
            for is_open, length in found
        ]
    )
    place, at = start % gates.cycle, 0
    states = []
    for is_open, length in found:
        if at <= place <= at + length:  # at an edge, either neighbour's state holds
            states.append(is_open)
        at += length
    if place == 0:
        states.append(found[-1][0])
    miss = gate(gates).miss_ns(np.array([float(place)]))[0]
    assert bool(miss == 0) is any(states)


# Tables


def two_modes(**options):
    logs = {}
    for repetition in (1, 2, 3):
        base = 10 + repetition
        for load, factor in ((0.0, 1.0), (900.0, 1.1)):
            logs["tas", load, repetition] = log_of(np.full(500, base * factor))
            # Not the same ratio to the last digit, which would be no spread to judge it by.
            slower = (1 + load / 90) * (1.0001**repetition if load else 1)
            logs["fifo", load, repetition] = log_of(np.full(500, base * factor * slower))
    return run_of(logs, **options)


def test_statistics_have_the_run_as_their_unit():
    table = shaping.statistics_table(two_modes(), part())
    idle = table[(table["mode"] == "tas") & (table["load"] == "idle")].set_index("statistic")
    for name in ("mean", "p99"):
        assert tuple(idle.loc[name, ["low_us", "value_us", "high_us"]]) == (11, 12, 13)
        assert idle.loc[name, "method"].startswith("range over 3 runs")
    assert idle.loc["max", "value_us"] == 13
    assert pd.isna(idle.loc["max", "high_us"])
    assert set(idle["runs"]) == {3}


def test_one_run_tells_only_of_itself():
    run = run_of({("tas", 0.0, 1): log_of(np.arange(1, 101))}, loads=(0.0,))
    table = shaping.statistics_table(run, part(modes=["tas"], loads_mbps=[0.0]))
    median = table.set_index("statistic").loc["p50"]
    assert median["value_us"] == 50
    # Samples that only rise are one observation.
    assert np.isnan(median["low_us"])
    assert "samples are correlated" in median["method"]


def test_jitter_is_p99_above_the_smallest():
    logs = {("tas", 0.0, r): log_of(np.tile(np.arange(5, 105), 10)) for r in (1, 2)}
    found = shaping.estimates(run_of(logs, loads=(0.0,)), "test", "tas", "idle")
    assert found["jitter"].value == pytest.approx(103 - 5)


def few_frames(count, repetitions):
    """Return runs of two modes with so many frames each, of latencies that all differ."""
    return run_of(
        {
            (mode, load, repetition): log_of(start + repetition + np.arange(count))
            for mode, start in (("cbs", 20.0), ("tas", 10.0))
            for load in (0.0, 900.0)
            for repetition in range(1, repetitions + 1)
        },
        kind="bridge",
    )


def test_the_largest_of_a_run_is_no_quantile():
    """Of 600 frames P99.9 is the largest, in however many runs; of P99 six a run lie beyond."""
    run = few_frames(600, 20)
    found = shaping.estimates(run, "test", "cbs", "loaded")
    assert np.isnan(found["p99_9"].value)
    assert found["p99_9"].method == "no interval: no sample of a run lies beyond it"
    assert found["p99"].value == pytest.approx(624, abs=1)
    assert found["jitter"].value == pytest.approx(593)
    results = shaping_values.analyse(run)
    against = "shaping.test.cbs_against_tas.loaded"
    for key in (
        "shaping.test.cbs.loaded.p99_9.us",
        "shaping.test.cbs.loaded.load_effect.p99_9.difference.us",
        *(f"{against}.p99_9.{name}" for name in ("difference.us", "ratio", "unadjusted.verdict")),
    ):
        assert results.of(key).value is None, key
        assert "no sample of a run lies beyond it" in results.of(key).method
        assert experiment("shaping").declares_key(key)
    assert results.of(f"{against}.p99.unadjusted.verdict").value == "higher"
    table = shaping_modes.mode_against_mode(run, "cbs", "tas")
    figure = shaping_figures.mode_against_mode(table, "model")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["P90", "P99"]
    plt.close(figure)


def test_a_tail_of_few_frames_in_all_runs_is_unknown():
    found = shaping.estimates(few_frames(300, 3), "test", "tas", "idle")
    assert "9 samples of all runs lie beyond it, fewer than 10" in found["p99"].method
    assert np.isnan(found["jitter"].value)
    assert found["p95"].value == pytest.approx(296, abs=1)
    assert shaping.estimates(few_frames(300, 4), "test", "tas", "idle")["p99"].value > 300


def test_an_unknown_row_takes_no_part_in_the_family():
    """P90 and P99 of two loads: the least p value counts four times, not six."""
    table = shaping_modes.mode_against_mode(few_frames(600, 20), "cbs", "tas")
    assert len(table) == 6
    assert table["p_value"].notna().sum() == 4
    least = table["p_value"].idxmin()
    assert table.loc[least, "p_adjusted"] == pytest.approx(4 * table.loc[least, "p_value"])


def test_pairs_find_what_the_spread_of_repetitions_would_hide():
    table = shaping_modes.against_reference(two_modes(), part())
    found = table.set_index(["load", "statistic"])
    loaded = found.loc[("loaded", "mean")]
    # The same in every repetition: the reference is (1 + 900 / 90) times as long.
    assert loaded["ratio"] == pytest.approx(1 / 11, abs=1e-3)
    assert loaded["ratio"] < 1
    assert loaded["p_adjusted"] < 0.05
    assert found.loc[("idle", "mean"), "p_adjusted"] > 0.05


def test_one_repetition_cannot_tell():
    latencies = {"tas": [5.0, 6.0], "fifo": [9.0, 9.0]}
    logs = {(mode, 0.0, 1): log_of(np.tile(found, 5000)) for mode, found in latencies.items()}
    run = run_of(logs, loads=(0.0,))
    found = shaping_modes.against_reference(run, run.part("test"))
    assert not (found["p_adjusted"] < 0.05).any()


def spread_modes(rng, ratio, modes=("tas", "prio"), kind="end-station", repetitions=8):
    """Return runs of two modes whose latencies have a ratio, and shifts that repetitions share."""
    logs = {}
    for repetition in range(1, repetitions + 1):
        shift = 100 * rng.lognormal(0, 0.5)
        for mode, factor in zip(modes, (ratio, 1.0), strict=True):
            for load in (0.0, 900.0):
                # Often enough that frames lie beyond every quantile.
                noise = np.tile(rng.lognormal(0, 0.02, 50), 40)
                logs[mode, load, repetition] = log_of(shift * factor * noise)
    return run_of(logs, kind=kind)


def test_power_allows_for_stalls_that_ranks_leave_out():
    rng = np.random.default_rng(2)
    run = spread_modes(rng, 1.0, repetitions=12)
    before = shaping_modes.mode_against_mode(run, "tas", "prio")
    rows = run.trials.copy()
    stalled = rows.index[(rows["mode"] == "tas") & (rows["repetition"] == 3)]
    rows.loc[stalled, "p50_us"] *= 40
    after = shaping_modes.mode_against_mode(replace(run, trials=rows), "tas", "prio")
    grown = after["detectable_percent"] / before["detectable_percent"]
    assert (grown[after["statistic"] == "p50"] > 5).all()


def test_tas_against_prio_is_one_family_over_quantiles_and_loads():
    run = spread_modes(np.random.default_rng(1), 2.0)
    table = shaping_modes.mode_against_mode(run, "tas", "prio")
    assert set(zip(table["statistic"], table["load"], strict=True)) == {
        (statistic, load)
        for statistic in ("p50", "p95", "p99", "max")
        for load in ("idle", "loaded")
    }
    assert (table["ratio"] > 1).all()
    assert (table["p_adjusted"] < 0.05).all()
    assert ((table["ratio_low"] < 2) & (table["ratio_high"] > 2)).all()
    assert (table["ratio_high"] / table["ratio_low"] < 1.2).all()
    # Holm: the least of eight p values counts eight times.
    least = table["p_value"].idxmin()
    assert table.loc[least, "p_adjusted"] == pytest.approx(8 * table.loc[least, "p_value"])


def test_cbs_against_tas_is_of_bridges():
    rng = np.random.default_rng(2)
    run = spread_modes(rng, 1.5, ("cbs", "tas"), kind="bridge")
    table = shaping_modes.mode_against_mode(run, "cbs", "tas")
    assert set(table["statistic"]) == {"p90", "p99", "p99_9"}
    assert (table["difference_us"] > 0).all()
    assert shaping_modes.mode_against_mode(run, "tas", "prio").empty


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.0, "equivalent"), (1.01, "equivalent"), (1.3, "different")]
)
def test_idle_alike_is_shown_and_not_merely_not_refuted(ratio, verdict):
    run = spread_modes(np.random.default_rng(3), ratio, ("prio", "fifo"))
    (row,) = shaping_modes.idle_alike(run, run.part("test")).to_dict("records")
    assert (row["mode"], row["alone"]) == ("prio", verdict)


def test_too_few_runs_show_no_likeness():
    run = spread_modes(np.random.default_rng(4), 1.0, ("prio", "fifo"), repetitions=2)
    (row,) = shaping_modes.idle_alike(run, run.part("test")).to_dict("records")
    assert row["alone"] == "cannot tell"


def test_modes_of_different_media_are_not_compared():
    run = two_modes(media={"tas": "i225"})
    with pytest.raises(DifferentMediaError, match="tas idle on i225, fifo idle on model"):
        shaping_modes.against_reference(run, part())


def launched():
    logs = {}
    for repetition in (1, 2, 3):
        logs["etf", 0.0, repetition] = log_of(np.tile([-7.0, -6.0, 2.0 + repetition], 4))
        logs["fifo", 0.0, repetition] = log_of(np.tile([20.0, 21.0, 22.0 + repetition], 4))
    return run_of(logs, loads=(0.0,))


def test_a_time_since_the_launch_is_no_latency():
    run = launched()
    assert shaping_modes.against_reference(run, run.part("test")).empty
    assert shaping_modes.idle_alike(run, run.part("test")).empty
    table = shaping.statistics_table(run, run.part("test"))
    quantities = dict(zip(table["mode"], table["quantity"], strict=True))
    assert quantities == {"etf": "deviation from the launch time", "fifo": "latency"}
    beside = shaping_published.beside_published(table, "tas-i210-i225")
    assert "etf" not in set(beside["mode"])
    results = shaping_values.analyse(run)
    assert results.of("shaping.test.etf.idle.deviation.p50.us").value == pytest.approx(-6)
    assert not [key for key in results.keys if key.startswith("shaping.test.etf.idle.p")]


def test_the_load_adds_what_it_adds():
    found = shaping_modes.load_effect(two_modes(), part()).set_index(["mode", "statistic"])
    assert found.loc[("tas", "mean"), "difference_us"] == pytest.approx(1.2)


def test_a_switch_costs_what_the_direct_link_has_not():
    logs = {}
    for repetition in (1, 2, 3):
        logs["direct", 0.0, repetition] = log_of(np.full(9, 10.0 + repetition))
        logs["cbs", 0.0, repetition] = log_of(np.full(9, 51.0 + 1.5 * repetition))
    run = run_of(logs, kind="bridge", loads=(0.0,))
    (cost,) = shaping_modes.bridge_cost(run, run.part("test")).to_dict("records")
    assert cost["difference_us"] == pytest.approx(42)
    # Three repetitions are too few for limits of the median: what was seen, and called so.
    assert cost["difference_low_us"] == pytest.approx(41.5)
    assert cost["difference_limits"] == "range"


def test_only_gates_can_miss():
    stamps = DAY_NS + 100_000 * np.arange(4) + 50_000
    logs = {(mode, 0.0, 1): log_of(np.ones(4), stamps) for mode in ("tas", "fifo")}
    table = shaping.adherence_table(run_of(logs, loads=(0.0,)))
    assert table["mode"].tolist() == ["tas"]
    assert table["outside"].tolist() == [4]


def test_results_carry_their_trials():
    results = shaping_values.analyse(two_modes())
    item = results.of("shaping.test.tas.loaded.p99.us")
    assert len(item.trials) == 3
    assert results.of("shaping.test.tas.loaded.outside.count").value is not None
    assert results.of("shaping.test.tas.loaded.mean.unadjusted.verdict").value == "lower"
    assert results.of("shaping.test.tas.loaded.max.below_1ms").value == "yes"
    assert len(results.of("shaping.test.tas.loaded.load_effect.mean.difference.us").trials) == 6
    assert results.of("shaping.medium").value == "model"


def test_the_arithmetic_of_a_schedule_stands_among_the_results():
    """The document's 5 us of 10 us at 1 Gb/s: 625 bytes, where a full frame needs 12.304 us."""
    gates = two_windows(5_000, 5_000, scheduled=5, others=[0])
    logs = {("tas", 0.0, 1): log_of(np.ones(3))}
    results = shaping_values.analyse(run_of(logs, loads=(0.0,), gates=gates, payload_bytes=64))
    found = {
        name: results.of(f"shaping.test.schedule.{name}").value
        for name in ("cycle.us", "window.us", "window.bytes", "frame.bytes", "frame_window.us")
    }
    assert list(found.values()) == [10, 5, 625, 130, pytest.approx(1.04)]
    assert results.of("shaping.test.schedule.full_frame_window.us").value == pytest.approx(12.304)


def test_a_latency_above_the_limit_fails_the_requirement():
    run = run_of({("fifo", 0.0, 1): log_of([5.0, 10_000.0])}, loads=(0.0,))
    results = shaping_values.analyse(run)
    key = "shaping.test.fifo.idle.max.below_"
    words = [results.of(f"{key}{limit}ms").value for limit in (1, 10, 50)]
    assert words == ["no", "no", "yes"]


def test_every_result_is_declared():
    declared = experiment("shaping")
    bridges = spread_modes(np.random.default_rng(5), 1.5, ("cbs", "tas"), kind="bridge")
    for run in (two_modes(), launched(), spread_modes(np.random.default_rng(6), 2.0), bridges):
        assert [
            key for key in shaping_values.analyse(run).keys if not declared.declares_key(key)
        ] == []
    assert not declared.declares_key("shaping.bridge.tas.idle.p98.us")
    assert not declared.declares_key("shaping.long_cycle.etf.idle.mean.us")


def test_virtual_time_is_on_every_label():
    run = two_modes()
    assert run.label("model testbed") == "model testbed"
    name = next(iter(run.documents))
    run.documents[name]["values"]["guest"] = {"virtual_time": True}
    assert run.label("guest testbed") == "guest testbed, virtual time"
    assert run.label("guest (virtual time)") == "guest (virtual time)"


def test_a_record_that_does_not_fit_the_schema_is_refused():
    run = two_modes()
    broken = {name: doc | {"sha256": "short"} for name, doc in run.documents.items()}
    with pytest.raises(RecordError, match="schema"):
        shaping.assemble(broken, run.logs)


# Published columns


def test_published_statistics_are_the_documents_own():
    end = shaping_published.published_statistics("tas-i210-i225")
    rows = end.set_index(["mode", "load", "statistic"])["published_us"]
    assert rows["tas", "loaded", "mean"] == 194.215
    assert rows["prio", "loaded", "p99"] == 15.679
    assert rows["fifo", "idle", "max"] == 186.095
    assert len(end) == 5 * 5
    bridge = shaping_published.published_statistics("software-bridge")
    rows = bridge.set_index(["mode", "load", "statistic"])["published_us"]
    assert rows["tas", "loaded", "p99_9"] == 582
    assert rows["direct", "idle", "mean"] == 244
    assert len(bridge) == 12


def test_published_stands_beside_and_empty_cells_stay_empty():
    table = shaping.statistics_table(two_modes(), part())
    beside = shaping_published.beside_published(table, "tas-i210-i225")
    printed = shaping_published.percentile_table(beside, ["mean", "p99_9"])
    cell = printed.loc[("loaded", "tas")]
    assert cell["mean", "published"] == "194.2"
    assert cell["mean", "here"].startswith("13.2 [")
    assert cell["p99_9", "published"] == ""
    assert printed.loc[("loaded", "prio")]["mean", "here"] == ""
    assert set(beside["published_medium"]) == {"Intel i210/i225 network cards"}


# Figures


def test_scatter_draws_phases_over_the_window():
    stamps = DAY_NS + 100_000 * np.arange(50) + 1_000 * np.arange(50) % 20_000
    logs = {(mode, 0.0, 1): log_of(np.ones(50), stamps) for mode in ("tas", "fifo")}
    run = run_of(logs, loads=(0.0,))
    figure = shaping_figures.phase_scatter(run, shaping_figures.gated_parts(run), "model")
    axes = figure.axes[0]
    assert axes.get_xlim() == (0, 100)
    drawn = np.concatenate([c.get_offsets() for c in axes.collections])
    assert len(drawn) == 100
    assert drawn[:, 0].max() < 20
    plt.close(figure)


def test_scatter_draws_the_frames_whose_time_in_the_queue_is_known():
    stamps = DAY_NS + 100_000 * np.arange(50)
    departures = np.zeros(49, TALKER_DTYPE)
    departures["stamped_ns"] = stamps[:49] - 5_000
    log = with_queue_times(log_of(np.ones(50), stamps), departures)
    run = run_of({("tas", 0.0, 1): log}, loads=(0.0,))
    figure = shaping_figures.phase_scatter(run, shaping_figures.gated_parts(run), "model")
    drawn = np.concatenate([c.get_offsets() for c in figure.axes[0].collections])
    np.testing.assert_allclose(drawn[:, 1], np.full(49, 5.0))
    plt.close(figure)


def test_tails_begin_with_all_and_keep_their_colours_beside_what_is_published():
    figure = shaping_figures.distributions(two_modes(kind="bridge"), part("bridge"), "model")
    drawn = figure.axes[0].get_lines()
    lines = [line for line in drawn if line.get_linestyle() != "None"]
    labels = [line.get_label() for line in lines]
    assert labels == ["TAS", "best effort", "TAS, loaded", "best effort, loaded"]
    assert all(line.get_ydata()[0] == 100 for line in lines)
    (crosses,) = [line for line in drawn if line not in lines and len(line.get_xdata())]
    # Figure 4 of the document: P90, P99 and P99.9 of TAS under load.
    assert list(crosses.get_xdata()) == [476, 560, 582]
    np.testing.assert_allclose(crosses.get_ydata(), [10, 1, 0.1])
    assert to_rgb(lines[0].get_color()) == to_rgb(lines[2].get_color())
    plt.close(figure)


@pytest.mark.parametrize("draw", ["histogram_and_tail", "loaded_tails", "distributions"])
def test_figures_without_data_say_so(draw):
    empty = part(name="other")
    figure = getattr(shaping_figures, draw)(two_modes(), empty, "model")
    assert "not measured" in [text.get_text() for text in figure.axes[0].texts]
    plt.close(figure)


def test_ratios_are_drawn_for_each_part_and_load():
    run = spread_modes(np.random.default_rng(7), 2.0)
    table = shaping_modes.mode_against_mode(run, "tas", "prio")
    figure = shaping_figures.mode_against_mode(table, "model")
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    assert [t.get_text() for t in axes.get_xticklabels()] == ["P50", "P95", "P99", "max"]
    assert {c.get_label() for c in axes.containers} == {"idle", "loaded"}
    plt.close(figure)
    empty = shaping_figures.mode_against_mode(table.iloc[:0], "model")
    assert "not measured" in [text.get_text() for text in empty.axes[0].texts]
    plt.close(empty)


def test_latencies_are_drawn_over_the_cycle_by_mode_and_talker():
    run = spread_modes(np.random.default_rng(7), 2.0)
    figure = shaping_figures.latency_by_cycle(run, "model")
    for axes, title in zip(figure.axes, ("P50", "P99"), strict=True):
        assert axes.get_title() == title
        labels = {container.get_label() for container in axes.containers}
        assert labels == {"TAS, synchronised", "Prio, synchronised"}
    plt.close(figure)
    empty = shaping_figures.latency_by_cycle(
        spread_modes(np.random.default_rng(7), 2.0, kind="bridge"), "model"
    )
    assert all("not measured" in [t.get_text() for t in axes.texts] for axes in empty.axes)
    plt.close(empty)


@pytest.mark.parametrize(
    ("value", "low", "high", "printed"),
    [
        *((32.418, 31.9, 33.2, 2), (1234.5, 1190.0, 1280.0, 1), (3793.9, 246.1, 58490.9, 0)),
        *((45.25, nan, nan, 2), (718.0, nan, nan, 1), (22850.1, nan, nan, 0)),
    ],
)
def test_no_decimal_is_printed_that_the_interval_makes_meaningless(value, low, high, printed):
    assert shaping_values.decimals(Estimate(value, low, high, 0.95, "invented", 3, "us")) == printed


@pytest.mark.parametrize(
    ("medium", "division", "word"),
    [
        ("emulated veth", {"switch": "bridge"}, "one"),
        ("emulated veth", {"switch": "bridge", "threads": 2}, "two"),
        ("emulated veth", {"switch": "bridge", "receivers": "each"}, "each"),
        ("emulated veth", {}, None),
        ("model", {"switch": "bridge"}, None),
    ],
)
def test_how_the_bridges_threads_divide_the_work_is_a_result(medium, division, word):
    logs = {("tas", 0.0, 1): log_of(np.ones(3))}
    run = run_of(logs, kind="bridge", media={"tas": medium}, loads=(0.0,), **division)
    assert shaping_values.analyse(run).of("shaping.test.conditions.threads").value == word


def test_the_size_of_queues_is_a_result_where_it_is_known():
    """262,144 bytes, which a line of 100 Mb/s empties in 21.0 ms."""
    logs = {("tas", 0.0, 1): log_of(np.ones(3))}
    for medium, known in (("emulated veth", (262_144, 20.97152)), (BOARD_MEDIUM, (None, None))):
        run = run_of(logs, kind="bridge", media={"tas": medium}, loads=(0.0,), link_rate_mbps=100.0)
        found = shaping_values.analyse(run)
        keys = [f"shaping.test.conditions.queue.{unit}" for unit in ("bytes", "ms")]
        assert tuple(found.of(key).value for key in keys) == known
