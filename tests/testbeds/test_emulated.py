"""The emulated testbed as it stands: hosts, links, queues and what describes them."""

import json

import pytest

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.emulated.counter_reader import CounterReader
from tsnrepro.testbeds.emulated.testbed import (
    HOST_MTU,
    HOSTS,
    LISTENER,
    MEMBER_MTU,
    SWITCHES,
    TALKER,
)
from tsnrepro.tools.ethtool import OFFLOADS
from tsnrepro.tools.frerctl import StreamFilter

pytestmark = pytest.mark.namespaces

STREAM = StreamFilter("udp", 9000)
LONG_NAMES = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "sg": "scatter-gather",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
    "txvlan": "tx-vlan-offload",
    "rxvlan": "rx-vlan-offload",
}


def said(testbed, host: str, *argv: str) -> str:
    return testbed.hosts[host].run(list(argv), deadline_s=10).check().stdout


def test_every_host_is_itself(testbed):
    for host in HOSTS:
        assert said(testbed, host, "hostname").strip() == host


def test_no_port_listens_anywhere(testbed):
    for host in HOSTS:
        assert said(testbed, host, "ss", "-H", "-n", "-l", "-t", "-u") == ""


def test_offloads_are_off_at_every_port(testbed):
    assert set(LONG_NAMES) == set(OFFLOADS)
    for host in HOSTS:
        for port in testbed._ports(host):
            features = said(testbed, host, "ethtool", "-k", port)
            for name in LONG_NAMES.values():
                assert f"{name}: off" in features, (host, port)


def test_queues_and_links_are_as_configured(testbed):
    settings = testbed.settings
    for host in HOSTS:
        shown = json.loads(said(testbed, host, "tc", "-j", "qdisc", "show"))
        queues = {queue["dev"]: queue for queue in shown if queue["kind"] == "tbf"}
        shown = json.loads(said(testbed, host, "ip", "-j", "link"))
        links = {link["ifname"]: link for link in shown}
        ports = testbed._ports(host)
        assert list(queues) == ports
        assert set(links) == {"lo", *ports}
        for port in ports:
            options = queues[port]["options"]
            assert options["rate"] == settings.link_rate_mbps * 1_000_000 // 8
            assert options["burst"] == settings.burst_bytes
            # tc prints the limit as the time that the queue behind the bucket takes to drain.
            room_us = (settings.queue_bytes - settings.burst_bytes) / options["rate"] * 1e6
            assert options["lat"] == pytest.approx(room_us, rel=0.01)
            member = port in testbed.member_ports()
            assert links[port]["mtu"] == (MEMBER_MTU if member else HOST_MTU)


def test_a_snapshot_has_every_host_and_what_the_tools_printed(testbed):
    snapshot = testbed.snapshot()
    assert set(snapshot.hosts) == set(HOSTS)
    assert set(snapshot.raw) == {*HOSTS, "drops"}
    for switch in SWITCHES:
        assert set(snapshot.hosts[switch].station["ports"]) == {"p0", *testbed.member_ports()}
    for host in (TALKER, LISTENER):
        assert set(snapshot.hosts[host].station) == {"eth0"}
        assert snapshot.hosts[host].stack["UdpNoPorts"] >= 0
    json.dumps(snapshot.raw)


def test_counters_of_two_snapshots_differ_by_the_traffic_between(testbed, sockets):
    testbed.configure("frer", STREAM)
    sender = sockets.udp(testbed, TALKER)
    receiver = sockets.udp(testbed, LISTENER, 9000)
    receiver.settimeout(5)
    before = testbed.snapshot().hosts
    for size in (10, 100, 1000):
        sender.sendto(b"." * size, (testbed.address(LISTENER), 9000))
        receiver.recv(2048)
    after = testbed.snapshot().hosts
    out = after[TALKER].station["eth0"]["out"] - before[TALKER].station["eth0"]["out"]
    assert (out.stream_frames, out.stream_fragments) == (3, 0)
    tagged = after["sw2"].station["ports"]["m0"]["in"] - before["sw2"].station["ports"]["m0"]["in"]
    assert tagged.stream_frames == 3


@pytest.mark.parametrize(
    ("stream", "counted"),
    [
        (StreamFilter("udp", 9000), 4),
        (StreamFilter("udp", 9000, 16), 2),
        (StreamFilter("udp", 9000, 1000), 1),
        (StreamFilter("udp", 9001), 0),
        (StreamFilter("tcp", 9000), 0),
    ],
)
def test_a_stream_is_told_by_protocol_port_and_payload(testbed, sockets, stream, counted):
    testbed.configure("frer", stream)
    sender = sockets.udp(testbed, TALKER)
    receiver = sockets.udp(testbed, LISTENER, 9000)
    receiver.settimeout(5)
    before = testbed.snapshot().hosts[LISTENER].station["eth0"]["in"]
    for size in (4, 15, 16, 1000):
        sender.sendto(b"." * size, (testbed.address(LISTENER), 9000))
        receiver.recv(2048)
    after = testbed.snapshot().hosts[LISTENER].station["eth0"]["in"]
    assert (after - before).stream_frames == counted


def test_the_namespace_of_a_host_is_found_by_its_number(testbed):
    for host in HOSTS:
        inode = int(said(testbed, host, "stat", "-L", "-c", "%i", "/proc/self/ns/net"))
        assert testbed.host_of(inode) == host
    assert testbed.host_of(1) is None


def test_the_description_can_be_understood_years_later(testbed):
    facts = json.loads(json.dumps(testbed.describe()))
    assert facts["testbed"] == "emulated"
    assert facts["settings"] == testbed.settings.recorded()
    assert facts["controller"]["processors"] >= 1
    assert facts["controller"]["commit"]
    assert set(facts["hosts"]) == set(HOSTS)
    for host, known in facts["hosts"].items():
        assert known["iperf3"].startswith("iperf 3")
        assert "sockperf" in known["sockperf"]
        assert "OpenSSH" in known["ssh_server"]
        assert any(line.startswith("qdisc tbf") for line in known["queues"])
        assert any("rmem_max" in line for line in known["sysctl"])
        assert set(known["offloads"]) == set(testbed._ports(host))
        assert "unknown" not in json.dumps({**known, "offloads": None})


def test_a_command_that_the_testbed_needs_and_that_fails(testbed):
    with pytest.raises(TestbedError, match=r"exit status 1.*'m7'.*sw1"):
        testbed._run("sw1", [testbed.frerctl, "counters", "m7"])


def test_a_reader_of_counters_that_has_ended_is_started_again(testbed):
    before = testbed.snapshot()
    process = testbed._readers["sw1"]._process
    process.stop()
    process.wait()
    assert {*testbed.snapshot().hosts} == {*before.hosts}
    assert testbed._readers["sw1"]._process is not process


def test_what_a_reader_cannot_read_names_the_host_and_what_was_asked(testbed):
    reader = CounterReader(testbed.hosts[TALKER], testbed.frerctl, "m7", 5)
    reader.send("counters")
    with pytest.raises(CommandError, match=r"exit status 1.*'m7'.*talker: reading counters"):
        reader.receive()
    # It goes on, and responses are not mixed up.
    reader.send("reset")
    with pytest.raises(CommandError, match="talker: reading reset"):
        reader.receive()


def test_a_reading_that_takes_too_long_is_ended(testbed):
    host, slow = testbed.hosts[TALKER], "/run/slow"
    host.write(slow, b"#!/bin/sh\nexec sleep 9\n", deadline_s=5)
    for what in ("counters", "snapshot"):
        reader = CounterReader(host, slow, "eth0", 0.2)
        reader.send(what)
        with pytest.raises(CommandError, match=f"exit status 124.*reading {what}"):
            reader.receive()
