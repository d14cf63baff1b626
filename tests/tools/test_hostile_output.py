"""What tools print, damaged in ten thousand ways: one clear sentence, or a right result."""

import json
import re
import subprocess

import pytest
from damage import damaged_bytes, damaged_json, read_each
from sound_outputs import ALARM, FRAMES, LISTENER, PHC2SYS, PING, RECEIVER, STALLS, TALKER

from tsnrepro.common.errors import ToolError
from tsnrepro.native.bridge import counters as bridge
from tsnrepro.native.streams.command import parse_listener, parse_talker
from tsnrepro.native.streams.log import read_listener_log
from tsnrepro.native.streams.stalls import parse_stalls
from tsnrepro.tools import delayline, dumpcap, frerctl, host_counters, iperf3, ping, qdisc, sockperf
from tsnrepro.tools.host_counters import read_host
from tsnrepro.tools.linuxptp import parse_phc2sys, parse_ptp_state

NUMBERS = [300, pytest.param(10_000, marks=pytest.mark.long)]
COUNTERS = {
    "frer": True,
    "ports": {"p0": {"in": FRAMES, "out": FRAMES}},
    "recovery": {"passed": 3, "lost": 3},
    "latent": {"tests": 5, "alarms": 0, "resets": 1, "base": -4014},
}
DROPS = [
    {
        **{"function": "udp_queue_rcv_one_skb", "reason": "SKB_DROP_REASON_SOCKET_RCVBUFF"},
        **{"ifindex": 2, "netns": 4026532000, "later_fragment": False, "frames": 17},
    }
]
QUEUES = [
    {"kind": "noqueue", "handle": "0:", "dev": "lo", "root": True, "options": {}, "bytes": 0}
    | {"packets": 0, "drops": 0, "overlimits": 0, "requeues": 0, "backlog": 0, "qlen": 0}
]
LINKS = [
    {
        **{"ifindex": 2, "ifname": "eth0", "mtu": 1500},
        "stats64": {
            "rx": {"bytes": 9, "packets": 1, "errors": 0, "dropped": 0},
            "tx": {"bytes": 9, "packets": 1, "errors": 0, "dropped": 0},
        },
    }
]
BRIDGE_PORT = dict.fromkeys(
    (name for name in bridge.PortCounters.model_fields if name not in ("port", "up", "queues")), 0
)
BRIDGE = {
    "table_full": 0,
    "ports": [
        BRIDGE_PORT
        | {"port": "p0", "up": True}
        | {"queues": [dict.fromkeys(bridge.ClassQueueCounters.model_fields, 0)]}
    ],
}
DUMPCAP = b"""Capturing on 'sw1-p1'
File: /tmp/x.pcapng
Packets captured: 10
Packets received/dropped on interface 'sw1-p1': 10/2 (pcap:2/dumpcap:0/flushed:0) (83.3%)
"""
ALARMS = json.dumps({"event": "latent error", **ALARM}) + "\n"
WAY = dict.fromkeys(("frames", "bytes", "ring_drops", "send_errors"), 5) | {
    "delay_us": dict.fromkeys(("min", "p50", "p90", "p99", "p999", "max"), 9.5)
}
DELAYS = {"wanted_us": 10, "jitter_us": 5, "a": WAY, "b": WAY}


def delays(printed: str) -> object:
    """Return the delays of both directions."""
    return delayline.parse(printed, forth="a", back="b")


DOCUMENTS = {
    "talker": (TALKER, parse_talker),
    "listener": (LISTENER, parse_listener),
    "stallmeter": (STALLS, parse_stalls),
    "frerctl counters": (COUNTERS, frerctl.parse_counters),
    "frerctl drops": (DROPS, frerctl.parse_drops),
    "tc": (QUEUES, host_counters.parse_queues),
    "tc of disciplines": (QUEUES, qdisc.parse_statistics),
    "ip": (LINKS, host_counters.parse_links),
    "bridge": (BRIDGE, bridge.parse),
    "delayline": (DELAYS, delays),
}
TEXTS = {
    "ping": (PING.encode(), ping.parse),
    "nstat": (b"Udp: NoPorts InErrors\nUdp: 4 5\n", host_counters.parse_stack),
    "phc2sys": (PHC2SYS.encode(), parse_phc2sys),
    "pmc": (RECEIVER.encode(), parse_ptp_state),
    "dumpcap": (DUMPCAP, dumpcap.parse_totals),
    "alarms": (ALARMS.encode(), frerctl.parse_alarms),
}


def text(content: bytes) -> str:
    """Return what a host's output is decoded to."""
    return content.decode("utf-8", "replace")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_of_tools(name, number):
    sound, parse = DOCUMENTS[name]
    parse(json.dumps(sound))
    assert read_each(damaged_json(sound, number // 2), lambda c: parse(text(c)))
    inputs = damaged_bytes(json.dumps(sound).encode(), number // 2)
    assert read_each(inputs, lambda c: parse(text(c)))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_tools(name, number):
    sound, parse = TEXTS[name]
    parse(text(sound))
    assert read_each(damaged_bytes(sound, number), lambda c: parse(text(c)))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_iperf3(protocol, number, request):
    printed = request.getfixturevalue(f"{protocol}_output")
    parse = {"udp": iperf3.parse_udp, "tcp": iperf3.parse_tcp}[protocol]
    parse(printed)
    assert read_each(damaged_json(json.loads(printed), number // 2), lambda c: parse(text(c)))
    assert read_each(damaged_bytes(printed.encode(), number // 2), lambda c: parse(text(c)))


@pytest.mark.parametrize("number", NUMBERS)
def test_sockperf(ping_pong_output, number):
    def summary(content: bytes) -> object:
        return sockperf.parse(text(content))

    printed, log = ping_pong_output
    few = b"\n".join([*log.splitlines()[:60], b""])
    sockperf.parse_log(few)  # it imports pandas
    assert read_each(damaged_bytes(printed.encode(), number // 2), summary)
    assert read_each(damaged_bytes(few, number // 2), sockperf.parse_log)


def test_a_count_of_thousands_of_digits_is_no_count(ping_pong_output):
    printed, _ = ping_pong_output
    for name in ("SentMessages", "ReceivedMessages", "dropped messages "):
        before, found, behind = printed.rpartition(name)
        count = re.match(r"\W*\d+", behind)
        changed = f"{before}{found}{count[0]}{'9' * 5000}{behind[count.end() :]}"
        with pytest.raises(ToolError):
            sockperf.parse(changed)


@pytest.mark.parametrize("number", NUMBERS)
def test_counters_of_this_machine(number):
    done = subprocess.run(host_counters.snapshot("", ""), capture_output=True, check=True)

    def read(content: bytes) -> None:
        read_host(text(content))

    read(done.stdout)
    assert read_each(damaged_bytes(done.stdout, number), read)


@pytest.mark.parametrize("number", NUMBERS)
def test_logs_of_the_listener(number):
    assert read_each(damaged_bytes(bytes(range(256)) * 2, number), read_listener_log)
