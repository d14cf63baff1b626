"""What ping prints, as iputils 20221126 printed it."""

import pytest
from sound_outputs import PING

from tsnrepro.common.errors import ToolError
from tsnrepro.tools.ping import parse, ping, quantiles_us


def test_counts_and_round_trips():
    found = parse(PING)
    assert (found.sent, found.received) == (4, 3)
    assert found.round_trips_us == pytest.approx([45, 31, 1200])
    assert quantiles_us(found)["median_us"] == pytest.approx(45)
    assert quantiles_us(found)["max_us"] == pytest.approx(1200)


def test_no_reply_has_no_quantile():
    lines = PING.splitlines()
    none = "\n".join([lines[0], "4 packets transmitted, 0 received, 100% packet loss, time 31ms"])
    assert parse(none).round_trips_us == []
    assert quantiles_us(parse(none))["p99_us"] is None


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("ping: unknown host", "no summary"),
        (PING.replace("3 received", "2 received"), "3 replies, 2 counted"),
        (PING.replace("4 packets", "2 packets"), "3 counted, 2 sent"),
    ],
)
def test_what_does_not_add_up_is_refused(printed, says):
    with pytest.raises(ToolError, match=says):
        parse(printed)


REPLY = "64 bytes from 10.0.0.2: icmp_seq=4 ttl=64 time=1.20 ms"


@pytest.mark.parametrize("mark", [" (BAD CHECKSUM!)", " (DUP!) (BAD CHECKSUM!)"])
def test_a_reply_with_a_wrong_checksum_is_none(mark):
    """As by ping itself, which does not count it among the received."""
    found = parse(PING.replace(REPLY, REPLY + mark).replace("3 received", "2 received"))
    assert (found.received, found.round_trips_us) == (2, pytest.approx([45, 31]))


def test_a_truncated_reply_is_none():
    """Ping counts it among the received, and prints no time."""
    found = parse(PING.replace(REPLY, REPLY.partition(" time")[0] + " (truncated)"))
    assert (found.received, found.round_trips_us) == (2, pytest.approx([45, 31]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"icmp_seq": "seq", "3 received": "3 packets received"}, "BusyBox.*iputils-ping"),
        ({"3 received": "3 packets received"}, "not ping of iputils"),
        # Toybox, whose times are whole milliseconds.
        ({"PING": "Ping", "time=1.20": "time=1"}, "not ping of iputils"),
        ({"time=1.20": "time=1,20"}, "another language.*LC_ALL=C"),
        ({"time=": "Zeit="}, "another language"),
        ({"packets transmitted": "paquetes transmitidos"}, "another language"),
        ({"time=1.20": "time<1"}, "below its resolution"),
        ({" time=0.045 ms": ""}, "no room for a time stamp"),
        (
            {"rtt min": "ping: Warning: time of day goes back (-8us), taking c\n"},
            "clock was set back",
        ),
    ],
)
def test_other_pings_and_unsound_times_are_named(changes, says):
    text = PING
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(ToolError, match=says):
        parse(text)


def test_the_command():
    assert ping("10.0.0.2", 56, 10, 20) == [
        *("ping", "-n", "-c", "10", "-i", "0.02", "-s", "56", "-W", "1", "10.0.0.2"),
    ]


HEADER = "PING 192.0.2.2 (192.0.2.2) 56(84) bytes of data.\n"
ONE = "64 bytes from 192.0.2.2: icmp_seq=1 ttl=64 time=0.251 ms\n"
END = "\n--- 192.0.2.2 ping statistics ---\n{} packets transmitted, 1 received, 0% packet loss\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}{ONE}{END.format(1)}".replace("\n", "\r\n"),
        f"{HEADER}[1764338400.123456] {ONE}{END.format(1)}",
        f"{HEADER}{ONE.replace('192.0.2.2', 'listener (192.0.2.2)')}{END.format(1)}",
        f"{HEADER}{ONE}{END.format(1)}".replace("192.0.2.2", "2001:db8::2"),
        f"{HEADER}{ONE}From 192.0.2.1 icmp_seq=2 Destination Host Unreachable\n{END.format(2)}",
        f"{HEADER}no answer yet for icmp_seq=2\n{ONE}{END.format(2)}",
        f"{HEADER}{ONE}{ONE.strip()} (DUP!)\n{END.format(1)}",
        f"{HEADER}{ONE.strip()} (DIFFERENT ADDRESS!)\n{END.format(1)}",
        f"{HEADER}{ONE}wrong data byte #16 should be 0x10 but was 0x11\n{END.format(1)}",
        f"{HEADER}{ONE}{END.format(1)}rtt min/avg/max/mdev = 0.251/0.251/0.251/0.0 ms, pipe 2\n",
    ],
)
def test_one_reply_in_many_forms(text):
    assert parse(text).round_trips_us == [251]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Reply from 192.0.2.2: bytes=32 time<1ms TTL=64\n", "not ping of iputils"),
        ("Antwort von 192.0.2.2: Bytes=32 Zeit=2ms TTL=64\n", "not ping of iputils"),
        (
            HEADER + ONE.replace("64 bytes from", "64 octets de").replace("time", "temps"),
            "language",
        ),
        (HEADER + ONE.replace("time", "시간") + "--- 192.0.2.2 핑 통계 ---\n", "another language"),
        ("--- 192.0.2.2 ping 統計 ---\n送信パケット数 2, 受信パケット数 0\n", "another language"),
        ("BusyBox v1.36.1 () multi-call binary.\n\nUsage: ping [OPTIONS] HOST\n", "of BusyBox"),
        ("ping: connect: Network is unreachable\n", "at last: ping: connect: Network is unre"),
        ("bash: ping: command not found\n", "at last: bash: ping: command not found"),
        ("", "at last: nothing"),
        (2 * f"{HEADER}{ONE}{END.format(1)}", "2 replies, 1 counted"),
    ],
)
def test_other_outputs_are_named(text, says):
    with pytest.raises(ToolError, match=says):
        parse(text)
