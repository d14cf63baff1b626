"""Another program on a server's port, or frames of another sender: the trial fails."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tsnrepro.common.errors import CommandError, TestbedError, ToolError
from tsnrepro.records.accounting import Accounting
from tsnrepro.runner.backends import hosts
from tsnrepro.runner.backends.hosts import HostsBackend
from tsnrepro.runner.faults import Fault
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.hosts.host import Completed

STRANGER = 'LISTEN 0 4096 *:5201 *:* users:(("iperf3",pid=7,fd=3))'
SENT = json.dumps(
    {
        "start": {"test_start": {"blksize": 200}},
        "end": {
            "sum_sent": {"seconds": 1.0, "packets": 100},
            "sum_received": {"bytes": 20_000, "jitter_ms": 0.1},
        },
        "server_output_json": {"end": {"streams": [{"udp": {}}]}},
    }
)
LOAD = IntendedLoad("frer", 200, 100.0, 1.0)


class Host:
    """A host on whose port a program listens before a server is started, or only then."""

    def __init__(self, listens_before, server_status):
        self._listening, self._server_status = listens_before, server_status
        self.started = []

    def run(self, argv, *, deadline_s):
        printed = STRANGER if argv[0] == "ss" and self._listening else ""
        return self._ended(argv, 0, printed if argv[0] == "ss" else SENT)

    def start(self, argv, *, deadline_s):
        self.started.append(argv)
        self._listening = True
        ended = self._ended(argv, self._server_status, '{"error": "unable to start listener"}')
        return SimpleNamespace(stop=lambda: None, wait=lambda: ended, running=False)

    def _ended(self, argv, status, output):
        return Completed("listener", tuple(argv), status, output, "", 0.0, 0.0)


def backend(listener):
    settings = SimpleNamespace(receive_buffer_bytes=None, listener_sched_fifo=False)
    testbed = SimpleNamespace(
        hosts={"talker": Host(False, 0), "listener": listener},
        settings=settings,
        address=lambda role: "192.0.2.2",
        configure=lambda *words: None,
        kind="rack",
    )
    return HostsBackend(testbed, SimpleNamespace(label="one", experiment="own"), Measurement())


@pytest.fixture(autouse=True)
def no_counters(monkeypatch):
    around = (SimpleNamespace(apart=True), SimpleNamespace(apart=True))
    counted = SimpleNamespace(recovery=dict, of_stream=lambda _: around)
    monkeypatch.setattr(HostsBackend, "_counted", lambda *_, **__: nullcontext(counted))


def test_a_stranger_on_iperf3s_port_fails_the_trial_and_is_named():
    listener = Host(True, 0)
    with pytest.raises(CommandError, match=r"TCP port 5201 is in use.*pid=7"):
        backend(listener).udp(LOAD, nullcontext())
    assert not listener.started


@pytest.mark.parametrize("fault", [Fault(0.0, "cut", 0), Fault(0.0, "impair", 0, 2.0)])
def test_round_trips_that_a_rack_cannot_count_are_refused_with_the_reason(fault):
    listener = Host(True, 0)
    with pytest.raises(TestbedError, match="kind rack: sockperf there waits for a lost answer"):
        backend(listener).round_trips("control", 64, 1, faults=(fault,))
    assert not listener.started
    with pytest.raises(AttributeError):  # with FRER it goes on, to a switch that is not there
        backend(listener).round_trips("frer", 64, 1, faults=(fault,))


def test_a_stranger_on_sockperfs_port_fails_the_trial_and_is_named():
    listener = Host(True, 0)
    with pytest.raises(CommandError, match="UDP port 11111 is in use"):
        backend(listener).round_trips("frer", 200, 1.0)
    assert not listener.started


def test_a_server_that_failed_did_not_measure(monkeypatch):
    monkeypatch.setattr(hosts, "settle", lambda *_: None)
    with pytest.raises(CommandError, match="unable to start listener"):
        backend(Host(False, 1)).udp(LOAD, nullcontext())


@pytest.mark.parametrize("gained", [0, 5])
def test_frames_of_another_sender_fail_the_trial(monkeypatch, gained):
    monkeypatch.setattr(hosts, "settle", lambda *_: None)
    drops = {"talker socket": -gained}
    found = Accounting(sent=100, copies=0, received=100, eliminated=0, drops=drops)
    monkeypatch.setattr(hosts, "account_separate_hosts", lambda *_: found)
    told = "5 frames more behind the location 'talker socket'.*one"
    with pytest.raises(ToolError, match=told) if gained else nullcontext():
        assert backend(Host(False, 0)).udp(LOAD).sent == 100
