"""The experiments on the emulated testbed, each with the real tool."""

import json
import time
from types import SimpleNamespace

import pytest

from tsnrepro.common.errors import CommandError, ToolError
from tsnrepro.experiments.latency import measure as latency
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.tcp import measure as tcp
from tsnrepro.records.store import SOCKPERF_LOG, Trial
from tsnrepro.runner.backends.receiver_options import pinned_to_one_cpu, skipping_warmup
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.emulated.testbed import LISTENER, TALKER
from tsnrepro.tools import iperf3, sockperf

pytestmark = pytest.mark.namespaces

BOTH = pytest.mark.parametrize("configuration", ["frer", "control"])
# Payload of 1472 bytes on a wire of 1 Gb/s, with and without the R-TAG's 6 bytes.
LINE_MBPS = {"control": 957.087, "frer": 953.368}
# 1448-byte segments with time stamps.
TCP_LINE_MBPS = {"control": 941.482, "frer": 937.824}


def measured(testbed, module, **factors) -> Measurement:
    trial = Trial(module.__name__.split(".")[-2], "label", factors, 1)
    found = Measurement()
    module.measure(testbed, trial, found)
    json.dumps(found.values)  # what a record takes
    return found


def left_running(testbed) -> str:
    script = "pgrep -a 'iperf3|sockperf'; ls /run/tmp.* 2>/dev/null"
    return "".join(
        testbed.hosts[host].run(["sh", "-c", script], deadline_s=5).stdout
        for host in (TALKER, LISTENER)
    )


@BOTH
def test_sweep_without_loss(testbed, configuration):
    found = measured(
        testbed, loss, configuration=configuration, payload_bytes=200, rate_mbps=1.0, duration_s=1
    )
    result, accounting = found.values["result"], found.values["accounting"]
    expected = 1e6 / 8 / 200
    assert result["sent"] == pytest.approx(expected, rel=0.05)
    # iperf3 may close its socket with a last datagram in it: no loss of the path.
    unread = accounting["unread"]
    assert unread <= 2, accounting
    assert result["lost"] == unread, accounting
    assert result["payload_bytes"] == 200
    assert accounting["sent"] == accounting["received"] + unread == result["sent"]
    assert accounting["copies"] == (result["sent"] if configuration == "frer" else 0)
    assert accounting["unaccounted"] == 0
    assert sum(accounting["drops"].values()) == unread, accounting
    assert set(found.outputs) == {
        *("iperf3.json", "iperf3.stderr.txt"),
        *("counters-before.json.gz", "counters-after.json.gz"),
    }
    assert iperf3.parse_udp(found.outputs["iperf3.json"]).sent == result["sent"]
    (command,) = found.commands
    assert (command["host"], command["argv"][0], command["exit_status"]) == ("talker", "iperf3", 0)
    assert left_running(testbed) == ""


@BOTH
def test_sweep_beyond_the_line(testbed, configuration):
    """More is offered than a link carries: the line's payload is the most that arrives."""
    found = measured(
        testbed,
        loss,
        configuration=configuration,
        payload_bytes=1472,
        rate_mbps=3000.0,
        duration_s=1,
    )
    result, accounting = found.values["result"], found.values["accounting"]
    # The queues and buckets give what they hold beside the line's rate.
    held_mbps = 4 * (testbed.settings.queue_bytes + testbed.settings.burst_bytes) * 8 / 1e6
    assert result["delivered_mbps"] <= LINE_MBPS[configuration] + held_mbps
    assert accounting["unaccounted"] == 0
    if configuration == "control":
        assert sum(accounting["drops"].values()) == result["lost"]


def test_sweep_of_fragmented_datagrams(testbed):
    found = measured(
        testbed, loss, configuration="frer", payload_bytes=4000, rate_mbps=600.0, duration_s=1
    )
    assert found.values["accounting"]["unaccounted"] == 0


@BOTH
def test_tcp(testbed, configuration):
    found = measured(testbed, tcp, configuration=configuration, duration_s=1)
    result = found.values["result"]
    assert 1 < result["goodput_mbps"] < TCP_LINE_MBPS[configuration] * 1.02
    assert result["seconds"] == pytest.approx(1, rel=0.1)
    recovery = found.values["recovery"]
    assert (recovery["discarded"] > 0) or configuration == "control"
    assert left_running(testbed) == ""


@BOTH
def test_latency(testbed, configuration):
    found = measured(testbed, latency, configuration=configuration, payload_bytes=64, duration_s=1)
    result = found.values["result"]
    log = sockperf.parse_log(found.outputs[SOCKPERF_LOG])
    assert len(log) == result["observations"] > 100
    assert log["half_round_trip_us"].mean() == pytest.approx(result["mean_us"], rel=0.01)
    assert log["sent_s"].is_monotonic_increasing
    rows = [line.split(",") for line in found.outputs[SOCKPERF_LOG].splitlines()]
    rows = [[float(cell) for cell in row] for row in rows if len(row) == 4 and row[0].isdigit()]
    for (_, sent_s, received_s, printed_us), half_us in zip(
        rows, log["half_round_trip_us"], strict=True
    ):
        assert printed_us == half_us
        assert (received_s - sent_s) * 1e6 / 2 == pytest.approx(half_us, abs=0.01)
    # One request at a time: the round trips fill the time, and no more than it.
    assert 2 * result["mean_us"] * result["observations"] < 1.3e6
    assert result["min_us"] <= result["percentiles_us"]["50.000"] <= result["max_us"]
    assert left_running(testbed) == ""


def test_sockperf_waits_on_a_rack_only(testbed):
    client = sockperf.ping_pong("192.0.2.1", 64, 1, "log")
    assert skipping_warmup(SimpleNamespace(kind="rack"), client) == client
    argv = skipping_warmup(testbed, client)
    assert argv[-len(client) :] == client
    assert skipping_warmup(testbed, client, 100)[:3] == [*argv[:2], "RESEND_MS=100"]
    # What is loaded is there, and loads: a missing library would only be warned of.
    found = testbed.hosts[TALKER].run([*argv[:2], "true"], deadline_s=5)
    assert argv[1].startswith("LD_PRELOAD=")
    assert found.check().stderr == ""


def test_programs_that_take_turns_run_on_one_processor(testbed):
    """Which hosts share here; on a rack each has its own."""
    show = ["grep", "Cpus_allowed_list", "/proc/self/status"]
    argv = pinned_to_one_cpu(testbed, show)
    shown = {
        testbed.hosts[host].run(argv, deadline_s=5).check().stdout for host in (TALKER, LISTENER)
    }
    (allowed,) = shown
    assert allowed.split()[1].isdigit()
    assert pinned_to_one_cpu(SimpleNamespace(kind="rack"), show) == show


def test_a_client_that_cannot_connect_is_a_failed_trial_that_keeps_what_was_said(testbed):
    """And no server is left that would answer the next trial in the wrong configuration."""
    found, began = Measurement(), time.monotonic()
    factors = {"configuration": "frer", "payload_bytes": 200, "rate_mbps": 1.0, "duration_s": 1}
    route = ["unreachable", testbed.address(LISTENER)]
    run = testbed.hosts[TALKER].run
    run(["ip", "route", "add", *route], deadline_s=5).check()
    try:
        with pytest.raises((CommandError, ToolError), match=r"No route to host"):
            loss.measure(testbed, Trial("loss", "label", factors, 1), found)
    finally:
        run(["ip", "route", "del", *route], deadline_s=5).check()
    assert "error" in json.loads(found.outputs["iperf3.json"])
    assert "counters-before.json.gz" in found.outputs
    assert found.commands[0]["argv"][0] == "iperf3"
    assert time.monotonic() - began < 5, "the server was waited for, and nobody would come"
    assert left_running(testbed) == ""


def test_a_server_that_does_not_start_is_named(testbed, monkeypatch):
    monkeypatch.setattr("tsnrepro.runner.backends.hosts.READY_SECONDS", 0.3)
    monkeypatch.setattr(iperf3, "server", lambda: ["iperf3", "--server", "--no-such-option"])
    factors = {"configuration": "frer", "payload_bytes": 200, "rate_mbps": 1.0, "duration_s": 1}
    with pytest.raises(CommandError, match=r"does not listen.*no-such-option"):
        loss.measure(testbed, Trial("loss", "label", factors, 1), Measurement())


@pytest.mark.parametrize("delay_us", [80_000, 100_000])
def test_what_comes_late_over_a_long_path_is_waited_for(bring_up, delay_us):
    slow = bring_up(delay_us=[0, delay_us])
    factors = {"payload_bytes": 200, "rate_mbps": 5.0, "duration_s": 1}
    accounting = measured(slow, loss, configuration="frer", **factors).values["accounting"]
    assert accounting["unaccounted"] == 0
    assert accounting["eliminated"] == accounting["copies"] > 0
