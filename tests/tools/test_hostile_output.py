"""What tools print, damaged in ten thousand ways: one clear sentence, or a right result."""

import json
import subprocess

import pytest
from damage import damaged_bytes, damaged_json, read_each

from tsnrepro.bridge import counters as bridge
from tsnrepro.streams.command import parse_listener, parse_talker
from tsnrepro.streams.log import read_listener_log
from tsnrepro.streams.stalls import parse_stalls
from tsnrepro.testbed.clocks import parse_phc2sys, parse_ptp_state
from tsnrepro.tools import delayline, dumpcap, frerctl, iperf3, kernel, ping, qdisc, sockperf
from tsnrepro.tools.counters import read_host

NUMBERS = [300, pytest.param(10_000, marks=pytest.mark.long)]
TALKER = {
    **{"tool": "talker", "clock": "tai", "tai_offset_s": 37, "clock_step_ns": -3},
    **{"stamp_clock": "none", "ended_by": "count", "payload_bytes": 18, "attempts": 12, "sent": 10},
    **{"send_errors": {"ENOBUFS": 2}, "refused_reports": 0, "late": 1, "unsent": 0},
    **{"late_tolerance_ns": 10000, "worst_late_ns": 12345, "txtime_missed": 0},
    **{"txtime_invalid": 0, "missing_stamps": 0, "start_ns": 1000, "first_ns": 1010},
    **{"last_ns": 10010, "achieved_pps": 1e6, "payload_mbps": 144.0},
}
STREAM = {
    **{"port": 5001, "received": 5, "unique": 4, "duplicates": 1, "out_of_order": 0},
    **{"short_datagrams": 0, "bytes": 90, "first_ns": 7, "last_ns": 9, "longest_gap_ns": 1},
    **{"longest_gap_after": 3, "missing_stamps": 0, "socket_drops": 0, "buffer_bytes": 425984},
}
LISTENER = {
    **{"tool": "listener", "clock": "tai", "tai_offset_s": 37, "clock_step_ns": 0},
    **{"stamp_clock": "phc", "ended_by": "quiet", "logged": 5, "realtime_priority": 0},
    **{"receive_errors": {}, "streams": [STREAM]},
}
PROCESSOR = {
    **{"processor": 1, "checks": 1000, "used_ns": 4_000_000, "stalls": 2},
    **{"stalled_ns": 5_000_000, "longest_ns": 4_000_000, "kept": [[10, 1000], [20, 4000]]},
}
STALLS = {"tool": "stallmeter", "threshold_ns": 500, "seconds": 1.0, "processors": [PROCESSOR]}
FRAMES = {"frames": 5, "bytes": 500, "stream_frames": 3, "stream_fragments": 1}
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
PING = b"""PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.045 ms
64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=0.040 ms (DUP!)

--- 10.0.0.2 ping statistics ---
2 packets transmitted, 1 received, +1 duplicates, 50% packet loss, time 31ms
rtt min/avg/max/mdev = 0.040/0.042/0.045/0.005 ms
"""
PHC2SYS = b"""phc2sys[10.1]: CLOCK_REALTIME phc offset -12 s2 freq +5 delay 800
phc2sys[11.1]: CLOCK_REALTIME rms 20 max 41 freq +5 +/- 3 delay 800 +/- 4
"""
DUMPCAP = b"""Capturing on 'sw1-p1'
File: /tmp/x.pcapng
Packets captured: 10
Packets received/dropped on interface 'sw1-p1': 10/2 (pcap:2/dumpcap:0/flushed:0) (83.3%)
"""
ALARM = (
    b"""{"event": "latent error", "time_ns": 5, "stream": 0, "difference": 3, "base": 1,
 "passed": 10, "discarded": 7}""".replace(b"\n", b"")
    + b"\n"
)
WAY = dict.fromkeys(("frames", "bytes", "ring_drops", "send_errors"), 5) | {
    "delay_us": dict.fromkeys(("min", "p50", "p90", "p99", "p999", "max"), 9.5)
}
DELAYS = {"wanted_us": 10, "a": WAY, "b": WAY}
PMC = b"""sending: GET CURRENT_DATA_SET
\t1.2.3-0 seq 0 RESPONSE MANAGEMENT CURRENT_DATA_SET
\t\tstepsRemoved     1
\t\toffsetFromMaster -573.0
\t\tmeanPathDelay    1412.0
\t1.2.3-0 seq 1 RESPONSE MANAGEMENT PARENT_DATA_SET
\t\tgrandmasterIdentity 4.5.6
\t1.2.3-1 seq 2 RESPONSE MANAGEMENT PORT_DATA_SET
\t\tportState SLAVE
"""


def delays(printed: str) -> object:
    """Return the delays of both directions."""
    return delayline.parse(printed, forth="a", back="b")


DOCUMENTS = {
    "talker": (TALKER, parse_talker),
    "listener": (LISTENER, parse_listener),
    "stallmeter": (STALLS, parse_stalls),
    "frerctl counters": (COUNTERS, frerctl.parse_counters),
    "frerctl drops": (DROPS, frerctl.parse_drops),
    "tc": (QUEUES, kernel.parse_queues),
    "tc of disciplines": (QUEUES, qdisc.parse_statistics),
    "ip": (LINKS, kernel.parse_links),
    "bridge": (BRIDGE, bridge.parse),
    "delayline": (DELAYS, delays),
}
TEXTS = {
    "ping": (PING, ping.parse),
    "nstat": (b"Udp: NoPorts InErrors\nUdp: 4 5\n", kernel.parse_stack),
    "phc2sys": (PHC2SYS, parse_phc2sys),
    "pmc": (PMC, parse_ptp_state),
    "dumpcap": (DUMPCAP, dumpcap.parse_totals),
    "alarms": (ALARM, frerctl.parse_alarms),
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


@pytest.mark.parametrize("number", NUMBERS)
def test_counters_of_this_machine(number):
    done = subprocess.run(kernel.snapshot("", ""), capture_output=True, check=True)

    def read(content: bytes) -> None:
        read_host(text(content))

    read(done.stdout)
    assert read_each(damaged_bytes(done.stdout, number), read)


@pytest.mark.parametrize("number", NUMBERS)
def test_logs_of_the_listener(number):
    assert read_each(damaged_bytes(bytes(range(256)) * 2, number), read_listener_log)
