"""Elimination at the listener, on the wire: what passes, what is counted where, what refuses."""

import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.ethernet import payload_limit_mbps
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.registry import experiment
from tsnrepro.config.testbeds import EmulatedSettings
from tsnrepro.experiments.failure import measure as failure
from tsnrepro.experiments.latency import measure as latency
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.tcp import measure as tcp
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends.hosts import HostsBackend
from tsnrepro.runner.load import IntendedLoad
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.choose import unsupported_reason
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

BOTH = pytest.mark.parametrize("configuration", ["frer", "control"])
LOAD = {"payload_bytes": 1472, "duration_s": 1, "generator": "talker"}
LAST_QUEUE = "sw2 queue p0"


@pytest.fixture
def eliminating(bring_up):
    """The testbed where the listener eliminates."""
    return bring_up(elimination="listener")


def measured(testbed, module, **factors) -> dict:
    found = Measurement()
    name = module.__name__.split(".")[-2]
    module.measure(testbed, Trial(name, "label", factors, 1), found)
    return found.values


def said(testbed, host: str, *argv: str) -> str:
    return testbed.hosts[host].run(list(argv), deadline_s=10).check().stdout


@pytest.mark.namespaces
@BOTH
@pytest.mark.parametrize("payload", [18, 1472, 3000])
def test_the_stream_arrives_once_and_all_copies_end_at_the_listener(
    eliminating, configuration, payload
):
    factors = LOAD | {"configuration": configuration, "payload_bytes": payload}
    # A thousand datagrams of any size a second: what a busy machine's listener reads in time.
    values = measured(eliminating, loss, rate_mbps=8e-3 * payload, **factors)
    sent, accounting = values["result"]["sent"], values["accounting"]
    assert sent == pytest.approx(1000, rel=0.01)
    assert (values["result"]["lost"], accounting["unaccounted"]) == (0, 0)
    assert accounting["copies"] == accounting["eliminated"]
    assert accounting["copies"] == (sent if configuration == "frer" else 0)
    counted = eliminating.snapshot().hosts
    assert counted["sw2"].station["recovery"]["passed"] == 0
    if configuration == "frer":
        assert counted["listener"].station["recovery"]["passed"] >= sent


@pytest.mark.namespaces
def test_a_last_link_that_is_too_slow_drops_copies_that_are_all_accounted_for(bring_up):
    """By bits: a link of 20 Mb/s carries 9.53 Mb/s of payload twice."""
    # The link makes up for 20 ms in which its machine stood still.
    narrow = {"link_rate_mbps": 20, "queue_bytes": 60_000, "burst_bytes": 50_000}
    testbed = bring_up(elimination="listener", **narrow)
    values = measured(testbed, loss, configuration="frer", rate_mbps=14.0, **LOAD)
    accounting, sent = values["accounting"], values["result"]["sent"]
    assert accounting["unaccounted"] == 0
    dropped = accounting["drops"][LAST_QUEUE]
    assert accounting["copies"] + sent == (
        accounting["eliminated"] + values["result"]["received"] + dropped
    )
    limit = payload_limit_mbps(1472, tagged=True, rate_mbps=20, copies=2)
    share = dropped / (2 * sent)
    # Of 2377 frames the queue keeps 38, and the bucket has let 32 go at once.
    expected = 1 - limit / 14 - (38 + 32) / 2377
    assert share == pytest.approx(expected, abs=0.02)


@pytest.mark.namespaces
@pytest.mark.parametrize("configuration", ["frer", pytest.param("control", marks=pytest.mark.slow)])
def test_both_directions_work(eliminating, configuration):
    values = measured(eliminating, tcp, configuration=configuration, duration_s=1)
    assert values["result"]["goodput_mbps"] > 10
    factors = {"configuration": configuration, "payload_bytes": 1472, "duration_s": 1}
    values = measured(eliminating, latency, **factors)
    assert values["result"]["dropped"] == values["result"]["duplicated"] == 0


@pytest.mark.namespaces
def test_frames_of_other_protocols_reach_the_stack_as_what_they_are(eliminating):
    """ARP and neighbour discovery belong to the one stream, so they come tagged and twice."""
    eliminating.configure("frer", StreamFilter("udp", 9000))
    for host in ("talker", "listener"):
        said(eliminating, host, "ip", "neigh", "flush", "dev", "eth0")
    assert " 0% packet loss" in said(
        eliminating, "talker", "ping", "-c", "3", "-i", "0.2", "-W", "1", "10.0.100.2"
    )
    shown = said(eliminating, "listener", "ip", "-6", "-o", "addr", "show", "dev", "eth0")
    address = next(word for word in shown.split() if word.startswith("fe80")).split("/")[0]
    pinged = said(
        eliminating, "talker", "ping", "-c", "3", "-i", "0.2", "-W", "1", f"{address}%eth0"
    )
    assert " 0% packet loss" in pinged
    assert "DUP!" not in pinged


@pytest.mark.namespaces
def test_several_streams_are_recovered_apart(eliminating):
    streams = [SwitchStream(StreamFilter("udp", port)) for port in (5202, 5203)]
    eliminating.configure_streams(streams)
    station = eliminating.snapshot().hosts["listener"].station
    assert [stream["frer"] for stream in station["streams"]] == [True, True]
    with pytest.raises(TestbedError, match="one link for all member paths"):
        eliminating.configure_streams([SwitchStream(StreamFilter("udp", 5202), individual="match")])


@pytest.mark.namespaces
@pytest.mark.parametrize("scenario", ["restart-sw2", "silent-death"])
def test_frer_hides_a_failure_that_the_listener_need_not_know_of(eliminating, scenario):
    common = {
        "payload_bytes": 256,
        "rate_pps": 1000,
        "delay_ms": None,
        "paths": None,
        "duration_s": 2,
        "loss_percent": 1.0,
        "duplicate_percent": 1.0,
        "latent": LatentSettings(period_ms=200, reset_ms=15_000).model_dump(),
    }
    factors = common | {"scenario": scenario, "configuration": "frer"}
    values = measured(eliminating, failure, **factors)
    assert values["accounting"]["unaccounted"] == 0
    assert (values["result"]["lost"], values["result"]["duplicated"]) == (0, 0)
    # Nothing but a dead path is a latent error, and the listener's recovery forgot nothing.
    assert bool(values["alarms"]) == (scenario == "silent-death")
    assert values["recovery"]["resets"] == 0


@pytest.mark.namespaces
def test_the_sleeping_generator_is_counted_once(eliminating):
    trial, load = Trial("mausezahn", "label", {}, 1), IntendedLoad("frer", 1472, 100, 1)
    backend = HostsBackend(eliminating, trial, Measurement())
    outcome = backend.mausezahn_load(load, 10, 5001)
    assert outcome.received_total == outcome.sent > 0


@pytest.mark.parametrize("name", ["capture", "shaping"])
def test_what_cannot_run_with_it_says_so(name):
    settings = EmulatedSettings(elimination="listener")
    assert "elimination:" in unsupported_reason(experiment(name), settings)
    assert not unsupported_reason(experiment(name), EmulatedSettings())
    assert not unsupported_reason(experiment("loss"), settings)
