"""Measuring with iperf3 and sockperf on the hosts of a testbed."""

import json
from dataclasses import asdict

from tsnrepro.experiments import iperf3_trial
from tsnrepro.experiments.iperf3_trial import OVERHEAD_SECONDS, command, serving
from tsnrepro.experiments.latency import LOG
from tsnrepro.experiments.run import Measurement
from tsnrepro.records.accounting import account
from tsnrepro.records.store import Trial
from tsnrepro.testbed.emulated import LISTENER, TALKER, EmulatedTestbed
from tsnrepro.testbed.host import Completed
from tsnrepro.tools import iperf3, sockperf
from tsnrepro.tools.frerctl import StreamFilter

UDP_STREAM = StreamFilter("udp", iperf3.PORT, iperf3.MIN_UDP_PAYLOAD_BYTES)
TCP_STREAM = StreamFilter("tcp", iperf3.PORT)
PING_PONG_STREAM = StreamFilter("udp", sockperf.PORT)
# Beyond this a datagram is several frames on a link with an MTU of 1500 bytes.
LARGEST_UNFRAGMENTED_BYTES = 1472
FILE_SECONDS = 120


def udp_bursts(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Send by ``iperf3 -u``, count what arrived, and say where the rest went."""
    factors = trial.factors
    client = iperf3.udp_client(
        testbed.address(LISTENER),
        factors["payload_bytes"],
        factors["rate_mbps"],
        factors["duration_s"],
    )
    fragmented = factors["payload_bytes"] > LARGEST_UNFRAGMENTED_BYTES
    settle = iperf3_trial.REASSEMBLY_SECONDS if fragmented else iperf3_trial.SETTLE_SECONDS
    done, before, after = iperf3_trial.between(
        testbed, trial, UDP_STREAM, client, measured, settle_s=settle
    )
    result = iperf3.parse_udp(done.stdout)
    accounting = account(before, after, result.sent, result.received, testbed.host_of)
    measured.values |= {
        "result": asdict(result) | {"lost": result.lost},
        "accounting": asdict(accounting) | {"unaccounted": accounting.unaccounted},
        "recovery": after.hosts["sw2"].station["recovery"],
    }
    if accounting.unaccounted:
        print(f"{trial.label}: {accounting.unaccounted} datagrams are not accounted for")


def tcp_bulk(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Run one TCP connection of iperf3."""
    client = iperf3.tcp_client(testbed.address(LISTENER), trial.factors["duration_s"])
    done, _, after = iperf3_trial.between(testbed, trial, TCP_STREAM, client, measured)
    measured.values |= {
        "result": asdict(iperf3.parse_tcp(done.stdout)),
        "recovery": after.hosts["sw2"].station["recovery"],
    }


def ping_pong(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Run ``sockperf ping-pong``; the record keeps every observation."""
    talker = testbed.hosts[TALKER]
    testbed.configure(trial.factors["configuration"], PING_PONG_STREAM)
    before = testbed.snapshot()
    measured.outputs["counters-before.json.gz"] = json.dumps(before.raw, indent=1)
    log = talker.run(["mktemp"], deadline_s=FILE_SECONDS).check().stdout.strip()
    try:
        done = _sockperf(testbed, trial, log)
        measured.commands.append(command(done))
        measured.outputs |= {"sockperf.txt": done.stdout, "sockperf.stderr.txt": done.stderr}
        printed = talker.run(["cat", log], deadline_s=FILE_SECONDS).check()
        measured.outputs[LOG] = printed.stdout
    finally:
        talker.run(["rm", "-f", log], deadline_s=FILE_SECONDS)
    after = testbed.snapshot()
    measured.outputs["counters-after.json.gz"] = json.dumps(after.raw, indent=1)
    measured.values |= {
        "result": asdict(sockperf.parse(done.check().stdout)),
        "recovery": after.hosts["sw2"].station["recovery"],
    }


def _sockperf(testbed: EmulatedTestbed, trial: Trial, log: str) -> Completed:
    address, duration = testbed.address(LISTENER), trial.factors["duration_s"]
    deadline = duration + OVERHEAD_SECONDS
    client = sockperf.ping_pong(address, trial.factors["payload_bytes"], duration, log)
    with serving(
        testbed, sockperf.server(address), "udp", sockperf.PORT, deadline + FILE_SECONDS
    ) as server:
        try:
            return testbed.hosts[TALKER].run(testbed.bound(TALKER, client), deadline_s=deadline)
        finally:
            server.stop()
            server.wait()
