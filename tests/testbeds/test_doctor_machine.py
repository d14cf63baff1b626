"""What the doctor finds on this machine for a testbed that runs on it."""

import json

import pytest

from tsnrepro.cli import build_parser
from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.testbeds.doctor import machine
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN
from tsnrepro.testbeds.doctor.machine import examine_machine


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Make a machine of four idle processors that lacks nothing."""
    monkeypatch.setattr(machine, "missing_on_machine", lambda kind: [])
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (0.2, 3.0, 3.0))


def governors(sys, *names):
    for number, name in enumerate(names):
        path = sys / f"devices/system/cpu/cpu{number}/cpufreq/scaling_governor"
        path.parent.mkdir(parents=True)
        path.write_text(f"{name}\n")


def found(check, sys, name="emulated"):
    (finding,) = [each for each in examine_machine(name, sys=sys) if each.check == check]
    return finding.verdict, finding.found


def test_a_quiet_machine_passes(tmp_path):
    governors(tmp_path, "performance", "performance")
    assert {each.verdict for each in examine_machine("emulated", sys=tmp_path)} <= {PASS, WARN}
    assert found("processors", tmp_path) == (PASS, "4")
    assert found("governor", tmp_path) == (PASS, "performance")
    assert found("other load", tmp_path)[0] == PASS
    verdict, runs = found("experiments", tmp_path)
    assert verdict == PASS
    assert "loss" in runs


def test_a_busy_machine_with_one_processor_is_warned_of(tmp_path, monkeypatch):
    governors(tmp_path, "performance", "powersave")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (1.5, 0.0, 0.0))
    assert found("processors", tmp_path) == (WARN, "1")
    assert found("governor", tmp_path) == (WARN, "performance, powersave")
    assert found("other load", tmp_path)[0] == WARN


def test_a_virtual_machine_has_no_governor(tmp_path):
    assert found("governor", tmp_path)[0] == PASS


def test_what_is_missing_stops_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(machine, "missing_on_machine", lambda kind: ["the program tc"])
    assert found("requirement", tmp_path) == (STOP, "missing: the program tc")
    arguments = build_parser().parse_args(["doctor", "emulated", "--json"])
    with pytest.raises(TestbedError, match="checks failed"):
        arguments.run(arguments)
    printed = json.loads(capsys.readouterr().out)
    assert "the program tc" in str(printed)


def test_what_will_not_run_is_said_with_its_reason(tmp_path):
    said = [each.found for each in examine_machine("model", sys=tmp_path) if each.verdict == WARN]
    assert any(line.startswith("capture will not run: a testbed of kind model") for line in said)


def test_a_rack_is_on_other_machines(tmp_path):
    with pytest.raises(ConfigurationError, match="on other machines"):
        examine_machine("d10-example", sys=tmp_path)
