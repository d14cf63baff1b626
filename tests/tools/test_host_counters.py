"""Counters of queues, links and the IP stack, from texts and from this machine."""

import json
import re
import subprocess
from pathlib import Path
from string import ascii_letters, ascii_uppercase, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sound_outputs import FRAMES

from tsnrepro.common.errors import ToolError
from tsnrepro.tools import host_counters
from tsnrepro.tools.frerctl import Drops, FrameCounts, StreamFilter, parse_counters, parse_drops
from tsnrepro.tools.host_counters import LinkCounters, QueueCounters, read_host

counts = st.integers(0, 2**63)
# A regular expression is drawn from five times as slowly.
names = st.builds(
    str.__add__, st.sampled_from(ascii_uppercase), st.text(ascii_letters + digits, max_size=15)
)

QUEUES = [
    {"kind": "noqueue", "handle": "0:", "dev": "lo", "root": True, "packets": 0, "bytes": 0,
     "drops": 0, "overlimits": 0, "qlen": 0},
    {"kind": "tbf", "handle": "1:", "dev": "eth0", "root": True, "packets": 31, "bytes": 4000,
     "drops": 7, "overlimits": 9, "qlen": 3},
    {"kind": "bfifo", "handle": "8001:", "dev": "eth0", "parent": "1:1", "packets": 99,
     "bytes": 99, "drops": 99, "overlimits": 0, "qlen": 99},
    {"kind": "clsact", "handle": "ffff:", "dev": "eth0", "parent": "ffff:fff1", "packets": 5,
     "bytes": 5, "drops": 5, "overlimits": 0, "qlen": 0},
]  # fmt: skip


def link(name: str, index: int, **counters: int) -> dict:
    values = {key: counters.get(key, 0) for key in ("rxp", "rxd", "txp", "txd")}
    return {
        "ifindex": index,
        "ifname": name,
        "stats64": {
            "rx": {"packets": values["rxp"], "dropped": values["rxd"]},
            "tx": {"packets": values["txp"], "dropped": values["txd"]},
        },
    }


def test_the_root_queue_of_each_device():
    assert host_counters.parse_queues(json.dumps(QUEUES)) == {
        "lo": QueueCounters(0, 0, 0, 0),
        "eth0": QueueCounters(packets=31, bytes=4000, dropped=7, waiting=3),
    }


def test_links_without_the_loopback():
    text = json.dumps([link("lo", 1, rxp=9), link("m0", 3, rxp=1, rxd=2, txp=3, txd=4)])
    assert host_counters.parse_links(text) == {"m0": LinkCounters(3, 4)}


def test_what_a_card_did_not_take():
    """Drops of the kernel's own are no card's: they are counted as received before."""
    row = link("eth0", 2, rxd=50, txd=4)
    row["stats64"]["rx"] |= {"errors": 3, "missed_errors": 20, "fifo_errors": 7, "crc_errors": 3}
    (card,) = host_counters.parse_links(json.dumps([row])).values()
    assert (card.no_room, card.damaged) == (27, 3)


def test_the_command_prints_why_a_card_lost_what_came():
    """With one ``-s`` this machine's ip leaves it out."""
    command = host_counters.snapshot("", "", ["lo"])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = json.loads(host_counters.split_snapshot(done.stdout)[2])["lo"]
    assert {"errors", "missed_errors", "fifo_errors"} <= set(row["stats64"]["rx"])


def test_counters_of_some_devices_are_those_of_all():
    """By device, and alike, whichever form a record has."""
    alone = [{k: v for k, v in row.items() if k != "dev"} for row in QUEUES[1:]]
    (queues,) = host_counters.parse_queues(json.dumps({"eth0": alone})).items()
    assert queues == ("eth0", host_counters.parse_queues(json.dumps(QUEUES))["eth0"])
    links = {"m0": [link("m0", 3, txd=4)]}
    assert host_counters.parse_links(json.dumps(links)) == {"m0": LinkCounters(3, 4)}


def test_the_command_asks_for_some_devices():
    asked = subprocess.run(
        host_counters.snapshot("", "", ["lo", "lo"]), capture_output=True, text=True, check=True
    )
    assert set(read_host(asked.stdout).queues) == {"lo"}
    none = subprocess.run(
        host_counters.snapshot("", "", ["none"]), capture_output=True, text=True, check=False
    )
    assert none.returncode


HFSC = '[{"kind":"hfsc","handle":"1:",%s"root":true,"options":{default 10 },"bytes":0}]'
ERSPAN = '[{"ifname":"er1","linkinfo":{"info_kind":"erspan","info_data":{"erspan_ver":1 "x":5}}}]'
PENDING = (
    '[{"kind":"taprio","options":{"schedule":[{"index":0,"interval":9}],'
    '{"base_time":17,"schedule":[]}},"bytes":0}]'
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HFSC % '"dev":"wan0",', "JSON of wan0 at hfsc.*iproute2 7.1"),
        ('{"wan0":' + HFSC % "" + "}", "JSON of wan0 at hfsc"),
        (ERSPAN, "JSON of er1 at erspan"),
        (PENDING, "JSON at taprio.*iproute2 6.5"),
    ],
)
def test_invalid_json_names_the_device_and_the_version_that_mends_it(text, says):
    with pytest.raises(ToolError, match=says):
        host_counters.parse_queues(text)


@pytest.mark.parametrize("received", [{"missed_errors": -1}, {"errors": "many"}])
def test_a_counter_of_a_card_that_is_none_is_refused(received):
    row = link("eth0", 2)
    row["stats64"]["rx"] |= received
    with pytest.raises(ToolError, match="ip's stats64 rx"):
        host_counters.parse_links(json.dumps([row]))


@pytest.mark.parametrize(
    ("parse", "tool"), [(host_counters.parse_queues, "tc"), (host_counters.parse_links, "ip")]
)
@pytest.mark.parametrize("text", ["", "Error: no such device", '[{"dev": '])
def test_a_tool_that_printed_no_json_is_named(parse, tool, text):
    with pytest.raises(ToolError, match=rf"^{tool} printed no JSON: {re.escape(text[:5])}"):
        parse(text)


@given(st.dictionaries(names, st.dictionaries(names, counts, min_size=1), min_size=1))
def test_the_stack_is_named_as_nstat_names_it(groups):
    text = ""
    for group, values in groups.items():
        text += f"{group}: {' '.join(values)}\n{group}: {' '.join(map(str, values.values()))}\n"
    expected = {}
    for group, values in groups.items():
        expected |= {group + name: value for name, value in values.items()}
    assert host_counters.parse_stack(text) == expected


def test_negative_counters_are_numbers_too():
    assert host_counters.parse_stack("Tcp: MaxConn\nTcp: -1\n") == {"TcpMaxConn": -1}


def test_lines_that_do_not_pair_are_named():
    with pytest.raises(ToolError, match="Udp: and Tcp: do not match"):
        host_counters.parse_stack("Udp: InErrors\nTcp: 1\n")


@pytest.mark.parametrize("text", ["Udp: InErrors\n", "Udp: A B\nUdp: 1\n", "Udp: A\nUdp: one\n"])
def test_a_cut_stack_is_an_error_of_the_tool(text):
    with pytest.raises(ToolError, match="Udp"):
        host_counters.parse_stack(text)


def test_this_machines_own_counters_can_be_read():
    snmp, netstat = (Path("/proc/net", name).read_text() for name in ("snmp", "netstat"))
    stack = host_counters.parse_stack(snmp + netstat)
    for name in ("UdpInDatagrams", "UdpRcvbufErrors", "UdpNoPorts", "IpReasmFails"):
        assert stack[name] >= 0


# --- the snapshot of a host ---------------------------------------------------------------------

STACK = "Udp: NoPorts\nUdp: 4\n"


def snapshot(*parts: str) -> str:
    return f"\n{host_counters.SEPARATOR}\n".join(parts)


def test_a_snapshot_is_read_whole():
    counters = {"eth0": {"in": FRAMES, "out": FRAMES}}
    parts = [json.dumps(part) for part in (counters, QUEUES, [link("eth0", 2)])]
    host = read_host(snapshot(*parts, STACK))
    assert host.station == {
        "eth0": {"in": FrameCounts(5, 500, 3, 1), "out": FrameCounts(5, 500, 3, 1)}
    }
    assert host.queues["eth0"].dropped == 7
    assert host.indices == {"eth0": 2}
    assert host.stack == {"UdpNoPorts": 4}


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_a_snapshot_that_lacks_a_part_is_no_snapshot(parts):
    with pytest.raises(ToolError, match=f"has {parts} parts instead of 4"):
        host_counters.split_snapshot(snapshot(*["{}"] * parts))


def test_the_command_prints_a_snapshot_on_any_linux_host():
    """Without a switch or station the first part is empty; the rest is every host's."""
    needed = subprocess.run(["sh", "-c", "command -v tc && command -v ip"], check=False)
    if needed.returncode:
        pytest.skip("tc and ip are not installed: run scripts/setup")
    done = subprocess.run(
        host_counters.snapshot("", ""), capture_output=True, text=True, check=True
    )
    host = read_host(done.stdout)
    assert host.station == {}
    assert "UdpInDatagrams" in host.stack


def test_a_switch_that_cannot_be_read_fails_the_snapshot():
    command = host_counters.snapshot("/bin/false", "p0")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


# --- frerctl -----------------------------------------------------------------------------------


@given(st.lists(counts, min_size=4, max_size=4), st.lists(counts, min_size=4, max_size=4))
def test_stations_subtract_count_by_count(after, before):
    difference = FrameCounts(*after) - FrameCounts(*before)
    assert difference == FrameCounts(*(a - b for a, b in zip(after, before, strict=True)))


def test_counters_keep_what_is_no_station():
    text = json.dumps({"frer": True, "ports": {"p0": {"in": FRAMES}}, "recovery": {"lost": 3}})
    assert parse_counters(text) == {
        "frer": True,
        "ports": {"p0": {"in": FrameCounts(5, 500, 3, 1)}},
        "recovery": {"lost": 3},
    }


@pytest.mark.parametrize(
    "text", ["", "frerctl: no network device 'p0'", '{"ports": ', json.dumps({**FRAMES, "x": 1})]
)
def test_counters_that_are_none_are_said(text):
    with pytest.raises(ToolError, match="frerctl counters printed no JSON"):
        parse_counters(text)


def test_drops_come_with_their_place():
    item = {
        "function": "udp_queue_rcv_one_skb",
        "reason": "SKB_DROP_REASON_SOCKET_RCVBUFF",
        "ifindex": 2,
        "netns": 4026532000,
        "later_fragment": False,
        "frames": 17,
    }
    assert parse_drops(json.dumps([item])) == [Drops(**item)]
    assert parse_drops("[]\n") == []
    # A function that frees at two places has a row for each, and is one place of loss.
    again, elsewhere = item | {"frames": 5}, item | {"ifindex": 3}
    assert parse_drops(json.dumps([item, elsewhere, again])) == [
        Drops(**item | {"frames": 22}),
        Drops(**elsewhere),
    ]


@pytest.mark.parametrize("text", ["", "frerctl: cannot attach", "{}x", '[{"function": "f"}]', "7"])
def test_drops_that_are_none_are_said(text):
    with pytest.raises(ToolError, match="frerctl drops printed"):
        parse_drops(text)


def test_a_stream_is_the_same_in_options_and_in_a_line():
    stream = StreamFilter("udp", 5201, 16)
    assert stream.options() == ["--stream", "udp:5201", "--min-payload", "16"]
    assert stream.line() == "udp:5201 16"
