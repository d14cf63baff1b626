"""Shaping's analysis against records made by hand: phases, counts, intervals, published columns."""

import datetime

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from tsnrepro.analysis import shaping, shaping_figures, shaping_published
from tsnrepro.analysis.shaping_phase import Gate, held
from tsnrepro.audit.media import DifferentMediaError
from tsnrepro.errors import RecordError
from tsnrepro.experiments.shaping.log import LISTENER_DTYPE
from tsnrepro.experiments.shaping.plan import factors_of
from tsnrepro.experiments.shaping.schedule import GateControlList, GateWindow, two_windows
from tsnrepro.settings.shaping import ShapingPart

DAY_NS = 1_790_000_000 * 10**9  # a time of day, which a float cannot hold to the nanosecond
GATES = two_windows(20_000, 80_000, scheduled=5, others=[0])
EXACT = {"source": "test", "before_stamp_ns": 0, "frame_ns": 0, "uncertainty_ns": 0}


def log_of(latencies_us, stamps_ns=None):
    log = np.zeros(len(latencies_us), LISTENER_DTYPE)
    log["sequence"] = np.arange(len(latencies_us))
    log["sent_ns"] = DAY_NS + 1_000_000 * np.arange(len(latencies_us))
    log["received_ns"] = log["sent_ns"] + (np.asarray(latencies_us) * 1000).astype(np.uint64)
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


def run_of(logs, *, kind="end-station", egress=EXACT, media=None, loads=(0.0, 900.0)):
    """Return a run of logs by (mode, load in Mb/s, repetition)."""
    documents, named = {}, {}
    modes = list(dict.fromkeys(mode for mode, _, _ in logs))
    settings_ = part(kind, modes=modes, loads_mbps=list(loads), idle_slope_mbps=20.0)
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
            "factors": factors_of(settings_, mode, load),
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
    found = held(gate(uncertainty_ns=5_000), log_of(np.ones(6), stamps))
    assert (found.frames, found.without_stamp) == (5, 1)
    assert (found.early, found.late, found.outside) == (1, 1, 2)
    assert (found.worst_early_ns, found.worst_late_ns) == (10_000, 6_000)
    assert (found + found).outside_percent.n == 10
    # Clopper and Pearson, 2 of 5: the table's 5.27 ... 85.34 %.
    assert found.outside_percent.low == pytest.approx(5.27, abs=0.01)
    assert found.outside_percent.high == pytest.approx(85.34, abs=0.01)


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
            logs["tas", load, repetition] = log_of(np.full(50, base * factor))
            logs["fifo", load, repetition] = log_of(np.full(50, base * factor * (1 + load / 90)))
    return run_of(logs, **options)


def test_statistics_have_the_run_as_their_unit():
    table = shaping.statistics_table(two_modes(), part())
    idle = table[(table["mode"] == "tas") & (table["load"] == "idle")].set_index("statistic")
    assert idle.loc["mean", "value_us"] == pytest.approx(12)
    # Student's t of 11, 12, 13: 12 -+ 4.303 / sqrt(3).
    assert idle.loc["p99", "low_us"] == pytest.approx(12 - 4.3027 / 3**0.5, abs=1e-3)
    assert idle.loc["max", "value_us"] == 13
    assert pd.isna(idle.loc["max", "high_us"])
    assert set(idle["runs"]) == {3}


def test_one_run_gives_order_statistics():
    run = run_of({("tas", 0.0, 1): log_of(np.arange(1, 101))}, loads=(0.0,))
    table = shaping.statistics_table(run, part(modes=["tas"], loads_mbps=[0.0]))
    median = table.set_index("statistic").loc["p50"]
    assert median["value_us"] == 50
    assert median["low_us"] < 50 < median["high_us"]
    assert "order statistics" in median["method"]


def test_pairs_find_what_the_spread_of_repetitions_would_hide():
    found = shaping.comparisons(two_modes(), part()).set_index(["load", "statistic"])
    loaded = found.loc[("loaded", "mean")]
    # A tenth of the reference in every repetition, and nothing that varies.
    assert loaded["difference_percent"] == pytest.approx(100 * (1 / 11 - 1), abs=0.01)
    assert loaded["verdict"] == "lower"
    assert found.loc[("idle", "mean"), "verdict"] == "cannot tell"


def test_one_repetition_cannot_tell():
    logs = {("tas", 0.0, 1): log_of([5.0, 6.0]), ("fifo", 0.0, 1): log_of([9.0, 9.0])}
    found = shaping.comparisons(run_of(logs, loads=(0.0,)), part(loads_mbps=[0.0]))
    assert set(found["verdict"]) == {"cannot tell"}


def test_modes_of_different_media_are_not_compared_unless_asked():
    run = two_modes(media={"tas": "i225"})
    with pytest.raises(DifferentMediaError, match="tas on i225, fifo on model"):
        shaping.comparisons(run, part())
    asked = shaping.comparisons(run, part(), across_media=True)
    assert set(asked["note"]) == {"across media: tas on i225, fifo on model"}


def test_the_load_adds_what_it_adds():
    found = shaping.load_effect(two_modes(), part()).set_index(["mode", "statistic"])
    assert found.loc[("tas", "mean"), "difference_us"] == pytest.approx(1.2)


def test_a_switch_costs_what_the_direct_link_has_not():
    logs = {}
    for repetition in (1, 2):
        logs["direct", 0.0, repetition] = log_of(np.full(9, 10.0 + repetition))
        logs["cbs", 0.0, repetition] = log_of(np.full(9, 51.0 + repetition))
    run = run_of(logs, kind="bridge", loads=(0.0,))
    cost = shaping.bridge_cost(run, run.part("test"))
    assert cost["difference_us"].tolist() == [41.0]
    assert cost["p_value"].tolist() == [0.0]


def test_only_gates_can_miss():
    stamps = DAY_NS + 100_000 * np.arange(4) + 50_000
    logs = {(mode, 0.0, 1): log_of(np.ones(4), stamps) for mode in ("tas", "fifo")}
    table = shaping.held_table(run_of(logs, loads=(0.0,)))
    assert table["mode"].tolist() == ["tas"]
    assert table["outside"].tolist() == [4]


def test_results_carry_their_trials():
    results = shaping.analyse(two_modes())
    item = results.of("shaping.test.tas.loaded.p99.us")
    assert len(item["trials"]) == 3
    assert results.of("shaping.test.tas.loaded.outside.count")["value"] is not None
    assert results.of("shaping.test.tas.loaded.mean.verdict")["value"] == "lower"
    assert results.of("shaping.medium")["value"] == "model"


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


def test_distributions_reach_one_and_keep_their_colours():
    figure = shaping_figures.distributions(two_modes(kind="bridge"), part("bridge"), "model")
    lines = figure.axes[0].get_lines()
    labels = [drawn.get_label() for drawn in lines]
    assert labels == ["TAS", "best effort", "TAS, loaded", "best effort, loaded"]
    assert all(drawn.get_ydata()[-1] == 1 for drawn in lines)
    assert to_rgb(lines[0].get_color()) == to_rgb(lines[2].get_color())
    plt.close(figure)


@pytest.mark.parametrize("draw", ["histogram_and_cdf", "loaded_histogram", "distributions"])
def test_figures_without_data_say_so(draw):
    empty = part(name="other")
    figure = getattr(shaping_figures, draw)(two_modes(), empty, "model")
    assert "not measured" in [text.get_text() for text in figure.axes[0].texts]
    plt.close(figure)
