"""How many repetitions find an effect is said before measuring, from a record that is named."""

import os

import pytest
from synthetic_results import entry, write_run

from tsnrepro.cli import main
from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.stats.power import Scatter, repetitions_to_find
from tsnrepro.workflow import detect
from tsnrepro.workflow.detect import expected, parse_percent

KEY = "latency.p50"


def record(results, testbed, deviation, age=0, campaign="quick", observed=6):
    folder = results / testbed / campaign / "latency"
    items = [
        entry(f"{KEY}.power.scatter.percent", deviation, unit="%", digits=2),
        entry(f"{KEY}.power.observed.count", observed if deviation else None),
        entry("latency.p50.control.us", 12.0, unit="us"),
    ]
    write_run(folder, items, experiment="latency", testbed=testbed)
    os.utime(folder / "values.json", (10**9 - age, 10**9 - age))


def test_the_testbeds_own_last_record_shows_its_scatter(tmp_path):
    record(tmp_path, "emulated", 4.0, age=9)
    record(tmp_path, "emulated", 2.0, campaign="soak")
    record(tmp_path, "rack", 9.0)
    (found,) = expected(5.0, "emulated", None, tmp_path)
    assert (found.testbed, found.campaign) == ("emulated", "soak")
    (needed,) = found.needed
    assert needed.comparison == KEY
    assert needed.repetitions == repetitions_to_find(Scatter(0.02, 6, 5), 5.0, 0.05)


def test_without_one_another_testbed_stands_in_and_last_the_model(tmp_path):
    record(tmp_path, "model", 1.0)
    record(tmp_path, "rack", 9.0, age=9)
    assert [each.testbed for each in expected(5.0, "emulated", "latency", tmp_path)] == ["rack"]
    record(tmp_path, "rack", None)
    assert [each.testbed for each in expected(5.0, "emulated", "latency", tmp_path)] == ["model"]


def test_without_any_record_the_message_says_what_to_do(tmp_path):
    with pytest.raises(RecordError, match="Simulate the campaign first"):
        list(expected(5.0, None, None, tmp_path))
    with pytest.raises(ConfigurationError, match="unknown experiment"):
        list(expected(5.0, None, "nothing", tmp_path))


@pytest.mark.parametrize(("text", "percent"), [("5%", 5.0), ("0.5", 0.5), (" 12 %", 12.0)])
def test_effects_are_percent(text, percent):
    assert parse_percent(text) == percent


@pytest.mark.parametrize("text", ["", "five", "-1%", "0", "nan", "1e9"])
def test_what_is_no_effect_is_refused(text):
    with pytest.raises(ConfigurationError, match="no effect in percent"):
        parse_percent(text)


def test_the_command_prints_what_is_needed_and_whose_record_it_is(tmp_path, monkeypatch, capsys):
    record(tmp_path / "results", "model", 2.0)
    monkeypatch.setattr(detect, "root", lambda: tmp_path)
    monkeypatch.setattr("sys.argv", ["tsnrepro", "plan", "--detect", "5%", "--testbed", "emulated"])
    main()
    printed = capsys.readouterr().out
    assert "latency, by the scatter on testbed model, quick" in printed
    (line,) = (line.split() for line in printed.splitlines() if line.startswith(f"  {KEY}"))
    assert line == [KEY, "2.00", "%", "6", str(repetitions_to_find(Scatter(0.02, 6, 5), 5.0, 0.05))]
    assert "+" not in printed


def test_few_repetitions_on_record_give_a_number_at_least(tmp_path, monkeypatch, capsys):
    record(tmp_path / "results", "model", 2.0, observed=3)
    monkeypatch.setattr(detect, "root", lambda: tmp_path)
    monkeypatch.setattr("sys.argv", ["tsnrepro", "plan", "--detect", "5%"])
    main()
    printed = capsys.readouterr().out
    needed = repetitions_to_find(Scatter(0.02, 3, 2), 5.0, 0.05)
    (line,) = (line.split() for line in printed.splitlines() if line.startswith(f"  {KEY}"))
    assert line[-1] == f"{needed}+"
    assert "+ at least: fewer than 6 repetitions on record show no tail" in printed
