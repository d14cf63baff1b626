"""Command lines, and reports that are read whole or refused."""

import json

import pytest
from sound_outputs import LISTENER, STREAM, TALKER

from tsnrepro.common.errors import ToolError
from tsnrepro.native.streams import command
from tsnrepro.native.streams.command import Pacing, StopCondition


def test_reports_are_read_with_their_types():
    sent = command.parse_talker(json.dumps(TALKER))
    assert (sent.sent, sent.send_errors, sent.achieved_pps) == (10, {"ENOBUFS": 2}, 1e6)
    got = command.parse_listener("ready\n" + json.dumps(LISTENER))
    assert got.stream(5001).duplicates == 1
    with pytest.raises(ToolError, match="no port 5002"):
        got.stream(5002)


@pytest.mark.parametrize("name", sorted(set(TALKER) - {"tool"}))
def test_a_talkers_report_without_a_field_is_none(name):
    values = {key: value for key, value in TALKER.items() if key != name}
    with pytest.raises(ToolError, match=rf"lacks {name}"):
        command.parse_talker(json.dumps(values))


@pytest.mark.parametrize("name", sorted(STREAM))
def test_a_streams_report_without_a_field_is_none(name):
    values = {key: value for key, value in STREAM.items() if key != name}
    with pytest.raises(ToolError, match=rf"listener's report lacks streams.0.{name}"):
        command.parse_listener(json.dumps(LISTENER | {"streams": [values]}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sent": "10"}, "sent is '10'"),
        ({"sent": True}, "sent is True"),
        ({"sent": None}, "sent is None"),
        ({"late": 1.5}, "late is 1.5"),
        ({"more": 1}, "more is 1: Unexpected"),
        ({"sent": 11}, "tried 12 datagrams, sent 11 and failed 2"),
        ({"tool": "listener"}, "not the report of a talker"),
    ],
)
def test_a_talkers_report_that_cannot_be_is_refused(change, message):
    with pytest.raises(ToolError, match=message):
        command.parse_talker(json.dumps(TALKER | change))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "printed no JSON: nothing"),
        ("ready\n", "printed no JSON: ready"),
        ('{"tool": "listener", ', "damaged JSON"),
        (json.dumps(LISTENER | {"streams": []}), "streams is \\[\\]"),
        (json.dumps(LISTENER | {"streams": [3]}), "streams.0 is 3"),
        (
            json.dumps(LISTENER | {"streams": [STREAM | {"unique": 5}]}),
            "5 received are not 5 unique and 1 duplicates",
        ),
    ],
)
def test_a_listeners_report_that_cannot_be_is_refused(text, message):
    with pytest.raises(ToolError, match=message):
        command.parse_listener(text)


def test_a_payload_rate_is_an_interval():
    """1250-byte payloads at 100 Mb/s: 10,000 a second."""
    assert Pacing.at_rate(100, 1250).interval_ns == 100_000
    assert Pacing.at_rate(100, 1250, burst=4).interval_ns == 400_000


def test_options_that_are_not_given_are_not_passed():
    argv = command.talker(
        "talker",
        "10.0.0.2",
        5001,
        Pacing(1000),
        StopCondition(count=3),
        payload_bytes=18,
        priority=0,
    )
    assert argv == [
        *("talker", "--address", "10.0.0.2", "--port", "5001", "--payload", "18"),
        *("--clock", "tai", "--count", "3", "--priority", "0", "--interval-ns", "1000"),
    ]
    pacing = Pacing(1000, burst=(3, 1))
    argv = command.talker("t", "10.0.0.2", 5001, pacing, StopCondition(count=4), payload_bytes=18)
    assert argv[-4:] == ["--interval-ns", "1000", "--burst", "3,1"]
    argv = command.listener("listener", [1, 2], StopCondition(seconds=2.5), quiet_ms=100)
    assert argv == [
        *("listener", "--port", "1", "--port", "2", "--seconds", "2.5"),
        *("--clock", "tai", "--quiet-ms", "100"),
    ]


def test_what_cannot_be_is_refused_before_it_runs():
    with pytest.raises(ValueError, match="11 bytes has no room"):
        command.talker("t", "10.0.0.2", 1, Pacing(1), StopCondition(count=1), payload_bytes=11)
    with pytest.raises(ValueError, match="at least one port"):
        command.listener("l", [], StopCondition(count=1))
