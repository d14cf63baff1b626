"""A PC with switches between its ports that have drivers, reached over SSH: frames are real."""

import json
import os
import signal
import subprocess
import sys

import pytest
from benches import MEASURE, SENT, write_repository
from racks import AroundPc, fingerprint

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import BenchSettings, parse
from tsnrepro.config.registry import experiment
from tsnrepro.testbeds.choose import unsupported_reason, unsupported_trial_reason

NAME = "driven-bench"
PRELUDE = """\
import json, sys
from pathlib import Path
from tsnrepro.config import BenchSettings, parse
from tsnrepro.testbeds.bench.switched import SwitchedBench, restore
settings = parse(BenchSettings, json.loads(sys.argv[1]), "a bench of a test")
folder = Path(sys.argv[3])
testbed = SwitchedBench(settings, sys.argv[2], "a test", folder)
"""
SEND = f"""{SENT}
with testbed:
    found = []
    for configuration in ("control", "frer"):
        testbed.configure(configuration, StreamFilter("udp", 5202))
        testbed.pin_neighbours()
        found.append(sent(200))
    facts = testbed.describe()
print("RESULT" + json.dumps([*found, facts["testbed"], facts["settings"]["device"]]))
"""
KILLED = """\
import os, signal
with testbed:
    print("up", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
DRIVERS = [
    *(("ebpf", "ebpf"), ("kernel", "kernel"), ("lan966x", None)),
    pytest.param(("ebpf", None), marks=pytest.mark.long),  # the doctor below sends frames over it
]


@pytest.fixture(params=DRIVERS, ids=str)
def pc(request, tmp_path, alone):
    with around_pc(tmp_path, request.param) as made:
        yield made


def around_pc(folder, drivers):
    made = AroundPc(folder, tuple(driver or "ebpf" for driver in drivers), action_frer=True)
    if drivers[1] is None:
        del made.drivers["sw2"]
    return made


def python(pc, body):
    argv = [sys.executable, "-c", PRELUDE + body, json.dumps(pc.document()), NAME, str(pc.folder)]
    return subprocess.run(
        pc.spaces["talker"].enter(argv),
        capture_output=True,
        text=True,
        check=False,
        # The test holds this machine's lock.
        env={**os.environ, "TMPDIR": str(pc.folder)},
    )


@pytest.mark.namespaces
@pytest.mark.slow
def test_switches_with_drivers_replicate_and_eliminate(pc):
    before = fingerprint(pc)
    done = python(pc, SEND)
    assert "RESULT" in done.stdout, done.stderr[-3000:]
    control, frer, kind, device = json.loads(done.stdout.partition("RESULT")[2])
    assert control == [[200, 0], 0, 200]
    assert frer == [[200, 200], 200, 200]
    assert (kind, device) == ("bench", "D10")
    assert fingerprint(pc) == before
    assert not [*pc.folder.glob("*.json")]


@pytest.mark.namespaces
@pytest.mark.slow
def test_a_killed_campaign_gives_back_the_ports_and_restores_the_switches(tmp_path, alone):
    with around_pc(tmp_path, ("ebpf", None)) as pc:
        before = fingerprint(pc)
        done = python(pc, KILLED)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert fingerprint(pc) != before
        done = python(pc, "print(restore(sys.argv[2], folder))")
        assert "True" in done.stdout, done.stderr
        assert fingerprint(pc) == before
        assert not [*pc.folder.glob("*.json")]


# --- one device that forwards -----------------------------------------------------------------

FORWARD = f"""{SENT}
with testbed:
    testbed.configure("control", StreamFilter("udp", 5202))
    testbed.pin_neighbours()
    found = sent(200)
print("RESULT" + json.dumps(found))
"""


@pytest.fixture
def forwarding(request, tmp_path, alone):
    """Return a PC with one device between two ports, which a driver sets up."""
    made = AroundPc(tmp_path, (request.param, request.param))
    del made.drivers["sw2"]
    made.members = 1
    with made:
        yield made


@pytest.mark.namespaces
@pytest.mark.slow
@pytest.mark.parametrize("forwarding", ["ebpf", "lan966x"], indirect=True)
def test_one_device_with_a_driver_forwards_between_two_ports(forwarding):
    before = fingerprint(forwarding)
    done = python(forwarding, FORWARD)
    assert "RESULT" in done.stdout, done.stderr[-3000:]
    assert json.loads(done.stdout.partition("RESULT")[2]) == [[200], 0, 200]
    assert_forwarding_is_found(forwarding)
    assert fingerprint(forwarding) == before


def assert_forwarding_is_found(forwarding):
    done = python(forwarding, EXAMINE)
    assert "RESULT" in done.stdout, done.stderr[-3000:]
    found = {each["check"]: each for each in json.loads(done.stdout.partition("RESULT")[2])}
    assert not [each for each in found.values() if each["verdict"] == "stop"], found
    assert found["forwarding"]["found"] == "of 200 datagrams sw2 received 200 over m0"
    assert "elimination" not in found


@pytest.mark.namespaces
@pytest.mark.slow
@pytest.mark.parametrize("forwarding", ["kernel"], indirect=True)
def test_experiments_run_over_one_device_with_a_driver(forwarding):
    before = fingerprint(forwarding)
    write_repository(forwarding, NAME)
    done = python(forwarding, MEASURE)
    assert "RESULT" in done.stdout, done.stderr[-3000:]
    assert "FRER needs two member paths" in done.stdout
    for name, run in json.loads(done.stdout.partition("RESULT")[2]).items():
        assert run["records"], name
        for record in run["records"]:
            assert record["status"] == "measured", (name, record)
            assert record["factors"]["configuration"] == "control"
    assert_forwarding_is_found(forwarding)
    assert fingerprint(forwarding) == before


# --- the doctor -------------------------------------------------------------------------------

EXAMINE = """\
from tsnrepro.testbeds.doctor import examine, frer
findings = examine.examine_switches(settings)
frer.SwitchedBench = lambda *arguments: SwitchedBench(*arguments, folder)
frer.verify_frer.__kwdefaults__["link_s"] = 0.05
findings += frer.verify_frer_on(settings, sys.argv[2])
print("RESULT" + json.dumps([each.as_dict() for each in findings]))
"""


@pytest.mark.namespaces
@pytest.mark.slow
def test_the_doctor_examines_the_switches_and_proves_frer_by_frames(tmp_path, alone):
    with around_pc(tmp_path, ("ebpf", None)) as pc:
        before = fingerprint(pc)
        done = python(pc, EXAMINE)
        assert fingerprint(pc) == before
    assert "RESULT" in done.stdout, done.stderr[-3000:]
    found = json.loads(done.stdout.partition("RESULT")[2])
    assert {"reachable", "login shell"} <= {f["check"] for f in found if f["role"] == "sw1"}
    assert not [f for f in found if f["verdict"] == "stop"]
    assert [f for f in found if "alone" in f["found"] or "alone" in f["check"]], found


SWITCH = {"driver": "ebpf", "address": "192.0.2.2", "host_port": "e0", "member_ports": ["e1", "e2"]}
GOOD = {
    "kind": "bench",
    "device": "D10",
    "ports": {"talker": ["a"], "listener": ["b", "c"]},
    "switches": {"sw1": SWITCH},
}


ONE = GOOD | {
    "ports": {"talker": ["a"], "listener": ["b"]},
    "switches": {"sw1": SWITCH | {"member_ports": ["e1"]}},
}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *(("loss", ""), ("latency", ""), ("rfc2544", ""), ("failure", "")),
        *(("streams", "two member paths"), ("shaping", "no switches that it configures")),
    ],
)
def test_experiments_of_one_device_that_forwards(name, says):
    settings = parse(BenchSettings, ONE, "here")
    assert settings.paths == 1
    found = unsupported_reason(experiment(name), settings)
    assert says in found if says else not found
    frer = unsupported_trial_reason((), (), settings, configuration="frer")
    assert "FRER needs two member paths" in frer
    assert not unsupported_trial_reason((), (), settings, configuration="control")


def test_what_has_no_driver_is_here():
    settings = parse(BenchSettings, GOOD, "here")
    assert (settings.driven, settings.paths) == (("sw1",), 2)
    assert settings.rack.hosts.sw2.member_ports == ["m0", "m1"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"device": "none"}, "there are switches: name the device"),
        ({"switches": {}}, "neither sw1 nor sw2"),
        ({"queue_bytes": 100_000}, "the ports' own queues are used"),
        ({"ports": {"talker": ["a"], "listener": ["b"]}}, "the n-th of one is cabled to"),
        ({"ports": {"talker": ["a", "d"], "listener": ["b", "c"]}}, "sw1 is cabled to one"),
        ({"switches": {"sw1": SWITCH, "sw2": SWITCH}}, "listener has 2 ports, and sw2"),
        ({"switches": None}, "talker has 1 port and listener 2"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, says):
    with pytest.raises(ConfigurationError, match=says):
        parse(BenchSettings, GOOD | changes, "here")
