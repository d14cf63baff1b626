"""Loading, comparing and simulating, and the examples of the documentation."""

import re
import shutil

import numpy as np
import pandas as pd
import pytest

import tsnrepro
from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.explore import figures as explore_figures
from tsnrepro.explore import load as explore
from tsnrepro.explore import widgets as explore_widgets


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
        (lambda found: found.samples("tcp"), "'tcp' has no single latencies"),
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


@pytest.mark.parametrize("page", ["README.md", "README.ko.md", "docs/record.md", "docs/use.md"])
def test_the_example_of_a_page_runs(page, results, tmp_path, monkeypatch):
    text = (root() / page).read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shutil.copytree(results / "model" / "short", tmp_path / "results" / "model" / "quick")
    (tmp_path / "data").symlink_to(results.parent / "data")
    monkeypatch.setattr(explore, "root", lambda: tmp_path)
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
