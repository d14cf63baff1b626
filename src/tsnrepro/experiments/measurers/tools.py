"""Measuring with iperf3 and sockperf on the hosts of a testbed."""

import json
import time
from dataclasses import asdict

from tsnrepro.experiments import iperf3_trial
from tsnrepro.experiments.iperf3_trial import OVERHEAD_SECONDS, command, serving
from tsnrepro.experiments.measurers.paced_tools import paced
from tsnrepro.experiments.measurers.round_trips import LOG
from tsnrepro.experiments.measurers.round_trips_tools import round_trips
from tsnrepro.experiments.measurers.several_tools import several
from tsnrepro.experiments.measurers.sleeping_generator import (
    HEADERS_AND_FCS_BYTES,
    Sending,
    delay_us,
    target_pps,
    values,
)
from tsnrepro.experiments.run import Measurement
from tsnrepro.records.accounting import account
from tsnrepro.records.store import Trial
from tsnrepro.testbed.emulated import CARD, HOST_PORT, LISTENER, TALKER, EmulatedTestbed
from tsnrepro.testbed.host import Completed
from tsnrepro.tools import iperf3, mausezahn, sockperf
from tsnrepro.tools.frerctl import StreamFilter

__all__ = [
    "paced",
    "ping_pong",
    "round_trips",
    "several",
    "sleeping_generator",
    "tcp_bulk",
    "udp_bursts",
]

UDP_STREAM = StreamFilter("udp", iperf3.PORT, iperf3.MIN_UDP_PAYLOAD_BYTES)
TCP_STREAM = StreamFilter("tcp", iperf3.PORT)
PING_PONG_STREAM = StreamFilter("udp", sockperf.PORT)
MAUSEZAHN_STREAM = StreamFilter("udp", mausezahn.PORT)
FILE_SECONDS = 120
SAMPLES = 8
SAMPLE_SECONDS = 20


def udp_bursts(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Send by ``iperf3 -u``, count what arrived, and say where the rest went."""
    factors = trial.factors
    client = iperf3.udp_client(
        testbed.address(LISTENER),
        factors["payload_bytes"],
        factors["rate_mbps"],
        factors["duration_s"],
    )
    settle = iperf3_trial.settle_seconds(factors["payload_bytes"])
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


def sleeping_generator(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Run mausezahn and see at the first switch how fast frames come."""
    factors = trial.factors
    target = target_pps(
        factors["frame_bytes"], factors["load_percent"], testbed.settings.link_rate_mbps
    )
    frames = max(1, round(target * factors["duration_s"]))
    payload = factors["frame_bytes"] - HEADERS_AND_FCS_BYTES
    ends = mausezahn.Ends(
        CARD, testbed.address(TALKER), testbed.address(LISTENER), _card_address(testbed)
    )
    command_line = mausezahn.udp(ends, payload, frames, delay_us(target))
    testbed.configure(factors["configuration"], MAUSEZAHN_STREAM)
    before = testbed.snapshot()
    measured.outputs["counters-before.json.gz"] = json.dumps(before.raw, indent=1)
    argv = testbed.bound(TALKER, command_line)
    process = testbed.hosts[TALKER].start(argv, deadline_s=factors["deadline_s"])
    samples = _frames_over_time(testbed, factors["duration_s"])
    done = process.wait()
    time.sleep(iperf3_trial.SETTLE_SECONDS)
    after = testbed.snapshot()
    measured.outputs |= {
        "counters-after.json.gz": json.dumps(after.raw, indent=1),
        "samples.json": json.dumps(samples),
        "mausezahn.stderr.txt": done.stderr,
    }
    measured.commands.append(command(done))
    timed_out = done.exit_status in TIMED_OUT
    if not timed_out:
        done.check()
    sw1 = after.hosts["sw1"].station["ports"][HOST_PORT]["in"]
    entered = sw1 - before.hosts["sw1"].station["ports"][HOST_PORT]["in"]
    card_in = after.hosts[LISTENER].station[CARD]["in"] - before.hosts[LISTENER].station[CARD]["in"]
    sending = Sending(
        target_pps=target,
        delay_us=delay_us(target),
        planned_frames=frames,
        into_first_switch=entered.stream_frames,
        at_listener=card_in.stream_frames,
        achieved_pps=_slope(samples),
        timed_out=timed_out,
        run_seconds=done.seconds,
    )
    measured.values |= {
        "result": values(trial, sending),
        "recovery": after.hosts["sw2"].station["recovery"],
    }


# Exit status of timeout(1): it ended the command by TERM, by KILL.
TIMED_OUT = (124, 137)


def _card_address(testbed: EmulatedTestbed) -> str:
    shown = testbed.hosts[LISTENER].run(
        ["ip", "-j", "link", "show", CARD], deadline_s=SAMPLE_SECONDS
    )
    return json.loads(shown.check().stdout)[0]["address"]


def _frames_over_time(testbed: EmulatedTestbed, duration_s: float) -> list[tuple[float, int]]:
    """Return seconds and frames received by the first switch, read while a generator runs."""
    samples = []
    for _ in range(SAMPLES):
        time.sleep(duration_s / (SAMPLES + 2))
        argv = ["cat", "/proc/uptime", "/proc/net/dev"]
        shown = testbed.hosts["sw1"].run(argv, deadline_s=SAMPLE_SECONDS).check().stdout
        port = next(line for line in shown.splitlines() if line.strip().startswith(f"{HOST_PORT}:"))
        samples.append((float(shown.split()[0]), int(port.split(":")[1].split()[1])))
    return samples


def _slope(samples: list[tuple[float, int]]) -> float:
    """Return frames a second from the first sample to the last that still brought frames."""
    moving = [samples[0]]
    for sample in samples[1:]:
        if sample[1] == moving[-1][1]:
            break
        moving.append(sample)
    # The last interval may hold the end of sending.
    if 2 < len(moving) < len(samples):
        moving.pop()
    seconds = moving[-1][0] - moving[0][0]
    return (moving[-1][1] - moving[0][1]) / seconds if seconds > 0 else 0.0
