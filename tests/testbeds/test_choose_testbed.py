"""The choice of a testbed: what is missing and what else can be chosen, in one sentence."""

import os
import subprocess
import sys

import pytest

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import BenchSettings, parse
from tsnrepro.config.files import campaign
from tsnrepro.config.registry import experiment
from tsnrepro.testbeds import choose
from tsnrepro.testbeds.emulated import namespace


def test_without_root_the_model_is_chosen_and_the_reason_says_why(monkeypatch):
    monkeypatch.setattr(namespace.os, "geteuid", lambda: 1000)
    choose.missing_on_machine.cache_clear()
    name, reason = choose.choose(experiment("loss"))
    choose.missing_on_machine.cache_clear()
    assert name == "model"
    assert "root (run with sudo)" in reason
    assert "\n" not in reason


def test_an_experiment_without_a_testbed_has_a_reason(monkeypatch):
    monkeypatch.setattr(choose, "missing_on_machine", lambda kind: ["root"])
    assert choose.choose(experiment("capture")) == ("", "for emulated this machine lacks root")


def test_a_campaign_of_the_software_bridge_asks_nothing_of_the_kernel(monkeypatch):
    monkeypatch.setattr(choose, "missing_on_machine", lambda kind: [])
    monkeypatch.setattr("tsnrepro.testbeds.choose.missing_qdiscs", lambda: ["taprio"])
    shaping = experiment("shaping")
    assert choose.choose(shaping) == (
        "guest",
        "for emulated this machine lacks taprio in its kernel",
    )
    assert choose.choose(shaping, campaign("bridge").shaping)[0] == "emulated"


def test_a_missing_tool_is_named(monkeypatch):
    monkeypatch.setattr(namespace.os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespace.shutil, "which", lambda name, path: None)
    missing = namespace.missing_requirements()
    assert "the program iperf3" in missing
    assert "the program clang" in missing


def test_an_unknown_testbed_is_refused_with_the_known_ones():
    with pytest.raises(
        ConfigurationError,
        match=r"emulatd.*auto, bench-example, d10-example, emulated, emulated-listener, guest, "
        "i210-example, lan966x-example, model",
    ):
        choose.check_name("emulatd", [])


@pytest.mark.namespaces
def test_a_workflow_of_an_ordinary_user_takes_the_model(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to become an ordinary user")
    code = (
        "import os\n"
        "from tsnrepro.config.registry import experiment\n"
        "from tsnrepro.testbeds.choose import choose\n"
        "loss = experiment('loss')\n"
        "os.setuid(65534)\n"
        "print(*choose(loss))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root()
    )
    assert done.stdout.startswith("model "), done.stderr
    assert "root (run with sudo)" in done.stdout
    assert done.stdout.count("\n") == 1


def _bench(*ports):
    document = {"kind": "bench", "device": "none"}
    listeners = [f"{port}l" for port in ports]
    return parse(
        BenchSettings, document | {"ports": {"talker": [*ports], "listener": listeners}}, "a bench"
    )


@pytest.mark.parametrize(
    ("changes", "ports", "configuration", "says"),
    [
        ([], ["a"], "control", ""),
        ([], ["a"], "frer", "FRER needs two member paths"),
        ([], ["a", "b"], "frer", ""),
        (["link_rate_mbps"], ["a", "b"], "control", "a bench's link_rate_mbps cannot be changed"),
        (["paths"], ["a", "b"], "frer", "a testbed of kind bench has no setting paths"),
        (["receive_buffer_bytes"], ["a"], "control", ""),
    ],
)
def test_a_bench_measures_what_its_ports_allow(changes, ports, configuration, says):
    reason = choose.unsupported_trial_reason(changes, (), _bench(*ports), "", configuration)
    assert reason.startswith(says) if says else reason == ""


def test_several_streams_need_two_paths_of_a_bench():
    streams = experiment("streams")
    assert "two member paths" in choose.unsupported_reason(streams, _bench("a"))
    assert choose.unsupported_reason(streams, _bench("a", "b")) == ""
