"""Loading, comparing and simulating, and the examples of the documentation."""

import doctest
import json
import re
import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from synthetic_results import entry, write_run

import tsnrepro
from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.explore import figures as explore_figures
from tsnrepro.explore import load as explore
from tsnrepro.explore import widgets as explore_widgets
from tsnrepro.explore.load import Measured
from tsnrepro.explore.show import RawTrial
from tsnrepro.native.streams.log import LISTENER_DTYPE, compress
from tsnrepro.published.tables import UnknownNameError
from tsnrepro.records.store import RawStore, Trial


@pytest.fixture(scope="module")
def results(short_repository):
    return short_repository / "results"


@pytest.fixture
def short(results):
    return tsnrepro.load("model/short", results)


def test_a_campaign_is_loaded_by_name(short, results):
    assert short.testbeds == {"latency": "model", "loss": "model", "tcp": "model"}
    assert tsnrepro.load("model/short", results).experiments == ["latency", "loss", "tcp"]
    with pytest.raises(RecordError, match=r"no analysed campaign 'long'.*model/short"):
        tsnrepro.load("long", results)


def test_measured_runs_take_precedence_over_simulated_ones(short, results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    shutil.copytree(results / "model", tmp_path / "results" / "emulated")
    shutil.rmtree(tmp_path / "results" / "emulated" / "short" / "tcp")
    taken = "latency, loss from emulated/short; tcp, simulated, from model/short"
    with pytest.warns(explore.TestbedsWarning, match=taken):
        both = tsnrepro.load("short", tmp_path / "results")
    assert both.testbeds == {"latency": "emulated", "loss": "emulated", "tcp": "model"}


def test_a_name_without_testbed_says_what_is_simulated(results):
    """While a testbed measures the campaign, only the model has results of it."""
    with pytest.warns(explore.TestbedsWarning, match="latency, loss, tcp, simulated, from model"):
        tsnrepro.load("short", results)


def test_a_name_that_leaves_nothing_open_does_not_warn(results, tmp_path, recwarn):
    tsnrepro.load("model/short", results)
    shutil.copytree(results / "model", tmp_path / "results" / "emulated")
    tsnrepro.load("short", tmp_path / "results")
    assert not [each for each in recwarn if each.category is explore.TestbedsWarning]


def test_trials_samples_and_values(short):
    trials = short.trials("tcp")
    assert len(trials) == 18
    samples = short.samples("latency")
    assert {*samples["trial"]} == {*short.trials("latency")["trial"]}
    counted = samples.groupby("trial").size()
    expected = short.trials("latency").set_index("trial")["observations"]
    assert (counted == expected.loc[counted.index]).all()
    value = short.values.loc["tcp.goodput.frer.mbps"]
    frer = trials[trials["configuration"] == "frer"]["goodput_mbps"]
    assert frer.min() <= value["value"] <= frer.max()
    assert value["low"] <= value["value"] <= value["high"]


def test_a_trial_has_a_record_and_outputs(short):
    name = short.trials("latency")["trial"].iloc[0]
    trial = short.raw(name)
    assert trial.record["trial"] == name
    packed = next(each for each in trial.outputs if each.endswith(".npy.gz"))
    assert trial.output(packed).startswith(b"\x93NUMPY")
    with pytest.raises(RecordError, match="no output 'nothing'"):
        trial.output("nothing")
    with pytest.raises(RecordError, match="no trial 'nothing'"):
        short.raw("nothing")


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (lambda found: found.trials("ping"), "'ping' was not measured.*latency, loss, tcp"),
        (lambda found: found.samples("tcp"), "'tcp' declares no single values"),
    ],
)
def test_missing_data_are_an_error(short, access, message):
    with pytest.raises(RecordError, match=message):
        access(short)


def test_two_campaigns_side_by_side(short):
    table = tsnrepro.compare(short, short)
    assert len(table) > 10
    assert (table["difference"] == 0).all()
    assert not table["apart"].any()
    assert np.allclose(table["ratio"].dropna(), 1)


class _Values:
    """A campaign of one result."""

    def __init__(self, value, low, high, method):
        row = {"value": value, "low": low, "high": high, "unit": "Mb/s", "method": method}
        self.values = pd.DataFrame([row], index=pd.Index(["tcp.goodput.frer.mbps"], name="key"))


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((10, 9, 11, "Student's t"), (20, 19, 21, "Student's t"), True),
        ((10, 9, 11, "Student's t"), (20, None, None, "no interval: one run"), None),
        ((10, 9, 11, "range of 3 runs"), (20, 19, 21, "Student's t"), None),
        ((10, 9, 11, "range of 3 runs"), (20, 19, 21, "range of 5 runs"), None),
        ((10, 9, 11, "Student's t"), (20, 10, 21, "Student's t"), False),
        ((10, None, 11, "bound"), (20, 19, None, "bound"), True),
    ],
)
def test_ranges_are_not_apart(one, other, apart):
    """Nothing is concluded from the range of a few runs, see docs/numbers.md."""
    table = tsnrepro.compare(_Values(*one), _Values(*other))
    (found,) = table["apart"]
    assert found is pd.NA if apart is None else found == apart
    figure = explore_figures.compared(table)
    lines, points = figure.axes[0].collections
    assert (lines.get_linestyle()[0][1] is not None) == (apart is None)
    red = (*explore_figures.sns.color_palette("colorblind")[3], 1)
    assert (tuple(points.get_facecolor()[0]) == red) == (apart is True)


def test_a_simulation_has_one_row_per_combination():
    found = tsnrepro.simulate(
        rate_mbps=[100, 900], configuration=["control", "frer"], stall_length_ms=4
    )
    assert len(found) == 4
    assert (found["sent"] == found["lost"] + found["goodput_mbps"] * 0.5e6 / 8 / 1472).all()
    # A buffer of the default size holds 16 ms at 100 Mb/s, and less than 2 ms at 900 Mb/s.
    assert (found[found["rate_mbps"] == 100]["lost"] == 0).all()
    assert (found[found["rate_mbps"] == 900]["lost"] > 0).all()
    with pytest.raises(ConfigurationError, match="recieve_buffer_bytes"):
        tsnrepro.simulate(rate_mbps=100, recieve_buffer_bytes=1)
    with pytest.raises(ConfigurationError, match="no load to simulate"):
        tsnrepro.simulate()


@pytest.fixture
def quick(results, tmp_path, monkeypatch):
    """A repository in which the examples run: campaign ``quick`` of the model, with a figure."""
    shutil.copytree(results / "model" / "short", tmp_path / "results" / "model" / "quick")
    (tmp_path / "data").symlink_to(results.parent / "data")
    figures = tmp_path / "results/model/quick/tcp/figures"
    figures.mkdir(exist_ok=True)
    for suffix in ("png", "pdf"):
        (figures / f"goodput.{suffix}").write_bytes(b"drawn")
    monkeypatch.setattr(explore, "root", lambda: tmp_path)
    return tsnrepro.load("model/quick")


_DOCUMENTED = [
    *(tsnrepro.campaigns, tsnrepro.load, tsnrepro.compare, tsnrepro.simulate),
    *(tsnrepro.planned, explore.Measured, RawTrial),
]


@pytest.mark.parametrize("of", _DOCUMENTED, ids=lambda of: of.__name__)
def test_the_examples_of_a_docstring_run(of, quick):
    examples = doctest.DocTestFinder().find(of, of.__name__, globs={"tsnrepro": tsnrepro})
    assert sum(len(each.examples) for each in examples)
    for each in examples:
        said = []
        doctest.DocTestRunner(verbose=False).run(each, out=said.append)
        assert not said, "".join(said)


@pytest.mark.parametrize(
    ("words", "agreement"),
    [
        (("equivalent", "equivalent"), ["alike"]),
        (("cannot tell", "cannot tell"), ["alike"]),
        (("equivalent", "cannot tell"), ["one decides"]),
        (("different", "equivalent"), ["reversed"]),
        ((None, "equivalent"), []),
    ],
)
def test_another_run_concludes_alike_or_not(words, agreement, tmp_path):
    runs = []
    for number, word in enumerate(words):
        p_value = {None: None, "cannot tell": 0.4}.get(word, 0.001)
        items = [
            entry("tcp.limit.equivalence.unadjusted.p", p_value),
            entry("tcp.limit.equivalence.unadjusted.verdict", word),
            # No conclusion of a paper rests on it.
            entry("tcp.equivalence.unadjusted.p", 0.001),
            entry("tcp.equivalence.unadjusted.verdict", "different"),
        ]
        write_run(tmp_path / str(number), items)
        runs.append(Measured({"tcp": tmp_path / str(number)}))
    found = runs[0].verdicts_beside(runs[1])
    assert found["agreement"].to_list() == agreement
    assert set(found.index) <= {"tcp.limit.equivalence.verdict"}


def test_campaigns_have_trials_and_times(quick):
    (row,) = tsnrepro.campaigns().to_dict("records")
    assert (row["testbed"], row["campaign"]) == ("model", "quick")
    assert row["trials"] == sum(len(quick.trials(name)) for name in quick.experiments)
    assert row["first"] == min(
        pd.to_datetime(quick.trials(n)["started"], utc=True).min() for n in quick.experiments
    )
    assert row["first"] <= row["last"]


def test_without_results_there_are_no_campaigns(tmp_path):
    assert tsnrepro.campaigns(tmp_path).empty


def test_repeated_trials_have_a_reason(quick):
    """Of an attempt that failed the manifest has its name and why."""
    path = quick._runs["tcp"] / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    counts = run["trials"][0]["trial"]
    failed = counts.removesuffix("1") + "2"
    run["failed_attempts"] = [{"trial": failed, "reason": "the machine stalled for 99 ms"}]
    path.write_text(json.dumps(run), encoding="utf-8")
    assert quick.repeated.to_dict("records") == [
        {
            "experiment": "tcp",
            "trial": failed,
            "counts": counts,
            "reason": "the machine stalled for 99 ms",
        }
    ]


def test_limits_are_printed_with_their_kind(quick):
    found = quick.limits("tcp.goodput.frer.mbps").iloc[0]
    assert re.fullmatch(r"[\d.]+ \([\d.]+ … [\d.]+\) Mb/s", found["printed"])
    assert found["kind"] == "range"
    kinds = quick.limits().join(quick.values, lsuffix="_printed")
    bare = kinds[kinds["low"].isna() & kinds["high"].isna()]
    assert {*bare["kind"]} == {"no interval"}
    with pytest.raises(
        RecordError, match=r"no result 'tcp\.goodput\.fre'.*Near: .*tcp\.goodput\.frer"
    ):
        quick.limits("tcp.goodput.fre")


def test_units_are_printed_in_one_way(quick):
    """Records have ``us`` and ``µs``, ``bytes`` and ``B``."""
    units = {*quick.values["unit"]}
    assert {"Mb/s", "µs", "B"} <= units
    assert not units & {"us", "bytes"}
    (printed,) = quick.limits("loss.payload_bytes")["printed"]
    assert printed == "1472 B"


def test_figures_are_found_by_experiment(quick):
    assert quick.figure("tcp/goodput.pdf").suffix == ".pdf"
    with pytest.raises(
        RecordError, match=r"no figure 'loss/loss-against-load'.*There are: tcp/goodput$"
    ):
        quick.figure("loss/loss-against-load")


def test_published_tables_have_headings_and_units(quick):
    tables = quick.published("frer-udp")
    latency = tables["table-4-4"]
    assert latency.attrs["units"]["frer_latency_us"] == "µs"
    assert {*latency.attrs["headings"]} == {*latency.columns}
    assert "unit" in tables["text-values"]
    assert "value" not in tables["text-values"].attrs["units"]
    with pytest.raises(UnknownNameError, match=r"no document .frer-..*frer-udp"):
        quick.published("frer-")


def test_arrivals_of_a_trial_are_a_table(tmp_path):
    trial = Trial("soak", "one", {}, 1)
    records = np.zeros(3, LISTENER_DTYPE)
    records["sequence"], records["received_ns"] = [0, 2, 1], [10, 20, 30]
    store = RawStore(tmp_path, "model", "quick", "soak")
    folder = store.put(trial, 1, {"status": "measured"}, {"arrivals.parquet": compress(records)})
    raw = RawTrial(store, store.read(folder))
    assert raw.tables == ["arrivals"]
    assert raw.table("arrivals")[["sequence", "received_ns"]].values.tolist() == [
        [0, 10],
        [2, 20],
        [1, 30],
    ]
    with pytest.raises(RecordError, match=r"no table 'latencies'.*There are: arrivals"):
        raw.table("latencies")


def test_latencies_of_a_trial_are_those_of_its_series(quick):
    for name, series in quick.series("latency").items():
        assert (quick.raw(name).table("latencies")["half_round_trip_us"] == series).all()


@pytest.mark.parametrize("page", ["README.md", "README.ko.md", "docs/record.md", "docs/use.md"])
def test_the_example_of_a_page_runs(page, results, tmp_path, monkeypatch):
    text = (root() / page).read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    clone = tmp_path / "clone"
    shutil.copytree(results / "model" / "short", clone / "results" / "model" / "quick")
    (clone / "data").symlink_to(results.parent / "data")
    (tmp_path / "second-clone").symlink_to(clone)
    monkeypatch.chdir(clone)
    monkeypatch.setattr(explore, "root", lambda: clone)
    exec(compile("\n".join(examples), page, "exec"), {})


def test_nested_settings_are_not_factors_of_a_figure():
    """Trials of shaping have gates as a nested setting."""
    trials = pd.DataFrame(
        {"mode": ["tas", "cbs"], "gates": [{"entries": [1]}, {"entries": [2]}], "lost": [0, 1]}
    )
    controls, _ = explore_widgets._factors(trials).children
    assert [each.options for each in controls.children] == [
        ("lost",),
        ("mode", "lost"),
        ("none", "mode", "lost"),
    ]


def test_a_colour_without_values_has_no_legend():
    trials = pd.DataFrame({"load": [1, 2, 3], "lost": [0, 5, None], "kind": [None, None, "a"]})
    (panel,) = explore_figures.any_factor(trials, "load", "lost", "kind").axes
    assert panel.get_legend() is None
    (panel,) = explore_figures.any_factor(trials.fillna({"lost": 7}), "load", "lost", "kind").axes
    assert [text.get_text() for text in panel.get_legend().get_texts()]


def _trials_of(configurations, payloads=(1472,)):
    rows = [
        {"trial": f"{configuration}-{size}", "configuration": configuration, "payload_bytes": size}
        for configuration in configurations
        for size in payloads
    ]
    loads = {"target_mbps": 100.0, "offered_mbps": 99.0, "loss_percent": 1.0, "lost": 3, "sent": 9}
    return pd.DataFrame(rows).assign(question="sweep", **loads)


def _legend(panel):
    """Return the colour of each entry of a legend."""
    legend = panel.get_legend()
    shown = zip(legend.get_texts(), legend.legend_handles, strict=True)
    return {text.get_text().lower(): to_hex(_colour_of(handle)) for text, handle in shown}


def _colour_of(handle):
    if isinstance(handle, Line2D):
        lines = handle.get_color(), handle.get_markerfacecolor()
        return lines[1] if handle.get_linestyle() == "None" else lines[0]
    return handle.get_facecolor()[0]


@pytest.mark.parametrize("order", [("control", "frer"), ("frer", "control"), ("frer",)])
def test_a_configuration_has_its_colour_in_every_figure(order):
    """Whichever is the first row of a table, or alone in it."""
    trials = _trials_of(order)
    expected = {name: to_hex(explore_figures.COLOURS[name]) for name in order}
    (curves,) = explore_figures.loss_curves(trials).axes
    (factors,) = explore_figures.any_factor(trials, "offered_mbps", "lost", "configuration").axes
    assert _legend(curves) == _legend(factors) == expected


def test_modes_have_the_same_colours_in_all_panels():
    trials = pd.DataFrame(
        [("a", "one", "tas"), ("b", "two", "cbs"), ("c", "two", "tas")],
        columns=["trial", "part", "mode"],
    )
    series = {name: np.array([1.0, 2.0]) for name in trials["trial"]}
    one, two = explore_figures.latency_distributions(trials, series, "latency_us").axes
    of = {line.get_label(): line.get_color() for line in two.lines}
    assert one.lines[0].get_color() == of["tas"] != of["cbs"]


def test_every_payload_has_a_panel_and_what_is_left_out_is_said():
    trials = _trials_of(["control"], (64, 128, 256, 512, 1024, 1280, 1472))
    figure = explore_figures.loss_curves(trials)
    shown = [panel.get_title().split()[0] for panel in figure.axes if panel.get_visible()]
    assert shown == ["1472", "1280", "1024", "512", "256", "128", "64"]
    assert figure.get_suptitle() == ""
    marks = [len(panel.collections[0].get_paths()[0].vertices) for panel in figure.axes[:7]]
    assert min(marks) > 1, "a panel has no marks"
    trials.loc[0, "loss_percent"] = None
    trials.loc[1, "question"] = "paths"
    said = explore_figures.loss_curves(trials).get_suptitle()
    assert said.startswith("2 of 7 trials are not drawn")
    said = explore_figures.any_factor(trials, "offered_mbps", "loss_percent").get_suptitle()
    assert said == "1 of 7 trials are not drawn: without offered_mbps or loss_percent"


def test_losses_of_a_smaller_payload_are_drawn_if_the_largest_has_none():
    trials = _trials_of(["control"], (64, 512, 1472))
    trials.loc[2, "lost"] = 0
    figure = explore_figures.where_lost(trials)
    assert figure.axes[0].get_title() == "control, 512 bytes"
    assert figure.get_suptitle() == "losses of 64 bytes are not drawn"


def test_two_campaigns_begin_with_a_shared_experiment(monkeypatch):
    ran = {"a/x": ["ping"], "b/x": ["loss"], "b/y": ["loss", "tcp"], "c/z": ["soak"]}
    measured = {name: explore.Measured(dict.fromkeys(each)) for name, each in ran.items()}
    monkeypatch.setattr(explore_widgets, "_loaded", measured.__getitem__)
    pair = partial(explore_widgets._pair, list(ran))
    assert pair("", "") == ("b/x", "b/y")
    assert pair("b/y", "") == ("b/y", "b/x")
    assert pair("a/x", "c/z") == ("a/x", "c/z")
    assert explore_widgets._pair(["a/x"], "", "") == ("a/x", "a/x")


def test_a_long_table_says_how_much_of_it_is_not_shown():
    shown, more = explore_widgets._first_rows(pd.DataFrame({"a": range(50)}))
    assert (len(shown), more.value) == (40, "<p>10 further rows</p>")
    assert len(explore_widgets._first_rows(pd.DataFrame({"a": range(40)}))) == 1
