"""The commands that the testbed gives to frerctl, and how its answers are read."""

import json

import pytest
from sound_outputs import ALARM

from tsnrepro.common.errors import ConfigurationError, RecordError, ToolError
from tsnrepro.config import FrerSettings
from tsnrepro.tools import frerctl
from tsnrepro.tools.frerctl import Drops, FrameCounts, FrerctlAlarm, StreamFilter, SwitchStream
from tsnrepro.tools.host_counters import HostCounters
from tsnrepro.tools.snapshot import Snapshot


def test_a_range_of_ports_is_one_stream():
    stream = StreamFilter("udp", 9000, 16, last_port=9003)
    assert stream.options() == ["--stream", "udp:9000-9003", "--min-payload", "16"]
    assert stream.line() == "udp:9000-9003 16"
    assert StreamFilter("tcp", 5201).line() == "tcp:5201 0"


def test_each_stream_has_its_options_behind_its_name():
    slow = FrerSettings(algorithm="match", history_length=9, reset_ms=50, take_no_sequence=True)
    streams = [
        SwitchStream(StreamFilter("udp", 1)),
        SwitchStream(StreamFilter("udp", 2), "control", slow, "vector"),
    ]
    argv = frerctl.configure_streams("frerctl", "p0", FrerSettings(), streams)
    assert argv[:3] == ["frerctl", "streams", "p0"]
    assert argv.count("--stream") == 2
    one, other = " ".join(argv).split("--stream ")[1:]
    assert one.split()[0] == "udp:1"
    assert "--frer on" in one
    assert "--individual off" in one
    assert other.split()[0] == "udp:2"
    for words in ("--frer off", "--algorithm match", "--history 9", "--individual vector"):
        assert words in other


@pytest.mark.parametrize("count", [0, 17])
def test_a_switch_has_room_for_16_streams(count):
    streams = [SwitchStream(StreamFilter("udp", 1 + index)) for index in range(count)]
    with pytest.raises(ConfigurationError, match=f"{count} streams"):
        frerctl.configure_streams("frerctl", "p0", FrerSettings(), streams)


def test_alarms_are_read_and_the_start_is_not_one():
    lines = [{"event": "started", "paths": 2}, {"event": "latent error", **ALARM}]
    assert frerctl.parse_alarms("\n".join(map(json.dumps, lines))) == [FrerctlAlarm(**ALARM)]
    assert frerctl.parse_alarms("") == []


@pytest.mark.parametrize("line", ["killed", "[]", "{}", '{"event": "latent error", "x": 1}'])
def test_a_line_that_is_no_alarm_is_named(line):
    with pytest.raises(ToolError, match="frerctl latent printed"):
        frerctl.parse_alarms(line)


def snapshot() -> Snapshot:
    def station(frames: int) -> dict:
        return {"eth0": {"in": FrameCounts(frames, 0, 0, 0)}}

    several = station(9) | {"streams": [station(4), station(5)]}
    drops = [Drops("f", "r", 1, 1, False, frames, stream) for stream, frames in ((0, 3), (1, 6))]
    host = HostCounters(several, {}, {}, {})
    return Snapshot({"talker": host}, {}, drops)


@pytest.mark.parametrize(("index", "frames", "dropped"), [(0, 4, 3), (1, 5, 6)])
def test_a_stream_has_a_snapshot_of_its_own(index, frames, dropped):
    own = snapshot().of_stream(index)
    assert own.hosts["talker"].station["eth0"]["in"].frames == frames
    assert [drop.frames for drop in own.drops] == [dropped]


def test_one_stream_is_the_whole_snapshot():
    whole = Snapshot({"talker": HostCounters({"eth0": {}}, {}, {}, {})}, {}, None)
    assert whole.of_stream(0) == whole


@pytest.mark.parametrize("index", [-1, 2])
def test_a_stream_that_was_not_counted_is_named(index):
    with pytest.raises(RecordError, match=f"no stream {index} .counters of talker"):
        snapshot().of_stream(index)
