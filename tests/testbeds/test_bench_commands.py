"""The commands for a bench, without one."""

import json

import pytest

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.config import BenchSettings, parse
from tsnrepro.config.files import campaign
from tsnrepro.runner.testbed import NOT_MEASURED, open_for
from tsnrepro.testbeds import commands
from tsnrepro.testbeds.bench.ports import give_back
from tsnrepro.testbeds.doctor import bench, bench_frames
from tsnrepro.testbeds.doctor.findings import PASS, STOP, Finding
from tsnrepro.testbeds.hosts import rollback
from tsnrepro.testbeds.hosts.rollback import Journal

NAME = "bench-of-commands"
SETTINGS = parse(
    BenchSettings,
    {"kind": "bench", "device": "none", "ports": {"talker": ["enp3s0"], "listener": ["enp4s0"]}},
    "a bench",
)


@pytest.fixture(autouse=True)
def _named(monkeypatch, tmp_path):
    monkeypatch.setattr(commands, "testbed_settings", lambda _: SETTINGS)
    monkeypatch.setattr(rollback, "root", lambda: tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_without_a_journal_there_is_nothing_to_restore(capsys):
    commands.restore_rack(NAME, dry_run=False)
    assert capsys.readouterr().out == f"{NAME}: nothing to restore\n"


def test_a_journal_of_another_kind_is_an_error(tmp_path):
    journal = Journal(NAME, tmp_path)
    journal.write({"settings": {"kind": "rack"}, "token": "", "state": {}})
    with pytest.raises(ConfigurationError) as error:
        give_back(journal)
    assert error.value.where == str(journal.path)


@pytest.mark.parametrize(
    ("verdict", "sends"), [(PASS, True), (STOP, False)], ids=["sound", "a stop"]
)
def test_frames_are_sent_unless_a_check_stops(monkeypatch, capsys, verdict, sends):
    sent = Finding("frames", "bench", STOP, "0 of 20 came", "Check the cables")
    monkeypatch.setattr(bench, "examine", lambda _: [Finding("link", "talker", verdict, "up")])
    monkeypatch.setattr(bench_frames, "send", lambda *_: [sent])
    with pytest.raises(TestbedError, match="checks failed"):
        commands.doctor(NAME, as_json=True, frer=True)
    shown = json.loads(capsys.readouterr().out)
    assert [each["check"] for each in shown] == (["link", "frames"] if sends else ["link"])


def test_a_bench_is_configured_by_no_command():
    with pytest.raises(ConfigurationError, match="not of kind rack"):
        commands.configure(NAME, "frer", dry_run=True)


def test_a_bench_that_is_only_shown_is_not_measured(monkeypatch):
    """Its missing trials would be measured through the device of the selected bench."""
    monkeypatch.setenv(NOT_MEASURED, "cable bench-example")
    with pytest.raises(TestbedError, match=r"'bench-example' lacks trials.*testbed=bench-example"):
        open_for("loss", "bench-example", campaign("quick"), "a test")
    monkeypatch.setenv(NOT_MEASURED, "cable")
    open_for("loss", "bench-example", campaign("quick"), "a test")
