"""Stall meters beside a trial: what they report, whatever becomes of the trial and of them."""

import pytest

from tsnrepro.common.errors import CommandError, ToolError
from tsnrepro.runner.measurement import Measurement, stalls_metered

pytestmark = pytest.mark.namespaces


class Several:
    """The emulated testbed, as if two of its hosts were machines of their own."""

    machines = ("listener", "talker")

    def __init__(self, testbed) -> None:
        self._testbed = testbed

    def __getattr__(self, name):
        return getattr(self._testbed, name)


def running(testbed) -> str:
    found = testbed.hosts["listener"].run(["pgrep", "-a", "stallmeter"], deadline_s=5)
    return found.stdout


def fail() -> None:
    raise CommandError("no answer", "talker")


def test_a_trial_that_failed_tells_how_steady_its_machines_were(testbed):
    measured = Measurement()
    with pytest.raises(CommandError, match="no answer"), stalls_metered(testbed, measured):
        fail()
    assert measured.values["stalls"]["listener"]["longest_ms"] > 0
    assert "stallmeter" in measured.outputs["stalls-listener.json"]
    assert running(testbed) == ""


@pytest.mark.parametrize("broken", ["stop", "wait"])
def test_a_meter_that_cannot_be_ended_keeps_no_other_running(testbed, monkeypatch, broken):
    measured, several = Measurement(), Several(testbed)
    host, started = testbed.hosts["listener"], []
    start = host.start

    def starting(argv, **limits):
        process = start(argv, **limits)
        started.append((process, getattr(process, broken)))
        setattr(process, broken, fail)
        return process

    monkeypatch.setattr(host, "start", starting)
    with pytest.raises(CommandError, match="no answer"), stalls_metered(several, measured):
        pass
    assert measured.values["stalls"]["talker"]["longest_ms"] > 0
    ((process, end),) = started
    setattr(process, broken, end)
    process.stop()
    assert running(testbed) == ""


def test_a_trials_own_error_comes_before_a_meters(testbed, monkeypatch):
    def refuse(_text):
        raise ToolError("no report")

    monkeypatch.setattr("tsnrepro.runner.measurement.parse_stalls", refuse)
    measured = Measurement()
    with pytest.raises(CommandError, match="no answer"), stalls_metered(testbed, measured):
        fail()
    assert "stallmeter" in measured.outputs["stalls-listener.json"]
