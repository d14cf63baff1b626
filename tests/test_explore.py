"""The README's example, and what it reads, on trials of the model measured here."""

import re
import shutil

import numpy as np
import pytest

import tsnrepro
from tsnrepro import campaigns, explore
from tsnrepro.analysis import latency as latency_analysis
from tsnrepro.analysis import tcp as tcp_analysis
from tsnrepro.analysis.output import RunOutput
from tsnrepro.errors import ConfigurationError, RecordError
from tsnrepro.experiments import measuring
from tsnrepro.repository import root

CAMPAIGN = """\
description: Two short experiments
tcp: {repetitions: 3, durations_s: [1, 2, 3]}
latency: {repetitions: 3, payloads_bytes: [1472], duration_s: 1}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the results of a campaign on the model, in a repository of its own."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(root() / "config", folder / "config")
    (folder / "config/campaigns/short.yaml").write_text(CAMPAIGN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaigns, "root", lambda: folder)
        patch.setattr(measuring, "raw_root", lambda: folder / "data" / "raw")
        for name, analyse in (("tcp", _tcp), ("latency", _latency)):
            run = folder / "results" / "model" / "short" / name / "run.json"
            run.parent.mkdir(parents=True)
            measuring.run_experiment(name, "model", "short", str(run))
            output = RunOutput(run)
            output.values(analyse(output))
    return folder / "results"


def _tcp(output):
    return tcp_analysis.analyse(output.trials, 1000.0)


def _latency(output):
    return latency_analysis.analyse(output.trials, latency_analysis.samples(output.run))


@pytest.fixture
def short(results):
    return tsnrepro.load("short", results)


def test_a_campaign_is_found_by_its_name(short, results):
    assert short.testbeds == {"latency": "model", "tcp": "model"}
    assert tsnrepro.load("model/short", results).experiments == ["latency", "tcp"]
    with pytest.raises(RecordError, match=r"nothing analysed is called 'long'.*model/short"):
        tsnrepro.load("long", results)


def test_what_was_measured_comes_before_the_models(short, results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    shutil.copytree(results / "model", tmp_path / "results" / "emulated")
    shutil.rmtree(tmp_path / "results" / "emulated" / "short" / "tcp")
    both = tsnrepro.load("short", tmp_path / "results")
    assert both.testbeds == {"latency": "emulated", "tcp": "model"}


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


def test_a_trial_down_to_its_outputs(short):
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
    ("ask", "says"),
    [
        (lambda found: found.trials("loss"), "'loss' was not measured.*latency, tcp"),
        (lambda found: found.samples("tcp"), "'tcp' keeps no single latencies"),
    ],
)
def test_what_is_not_there_is_said(short, ask, says):
    with pytest.raises(RecordError, match=says):
        ask(short)


def test_two_campaigns_side_by_side(short):
    table = tsnrepro.compare(short, short)
    assert len(table) > 10
    assert (table["difference"] == 0).all()
    assert not table["apart"].any()
    assert np.allclose(table["ratio"].dropna(), 1)


def test_a_what_if_has_a_row_a_combination():
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


def test_the_example_of_the_readme_runs(results, tmp_path, monkeypatch):
    readme = (root() / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    shutil.copytree(results / "model" / "short", tmp_path / "results" / "model" / "quick")
    loss = tmp_path / "results/model/quick/loss"
    shutil.copytree(results / "model" / "short" / "tcp", loss)
    (loss / "values.json").write_text("[]", encoding="utf-8")
    monkeypatch.setattr(explore, "root", lambda: tmp_path)
    exec(compile(example, "README.md", "exec"), {})
