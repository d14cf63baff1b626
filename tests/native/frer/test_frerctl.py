"""frerctl as a program: the JSON of its counters, and errors in its arguments."""

import json
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from tsnrepro.config import FrerSettings
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

pytestmark = pytest.mark.namespaces


class Exact(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Station(Exact):
    frames: NonNegativeInt
    bytes: NonNegativeInt
    stream_frames: NonNegativeInt
    stream_fragments: NonNegativeInt


class Port(Exact):
    out: Station
    into: Station = Field(alias="in")


class Fault(Exact):
    dropped: Station
    copied: Station


class Generator(Exact):
    numbered: NonNegativeInt
    next: NonNegativeInt
    gso_refused: NonNegativeInt
    stuck: bool


class Recovery(Exact):
    """The variables and counters of IEEE Std 802.1CB-2017, clause 10, for one function."""

    algorithm: Literal["vector", "match"]
    history_length: NonNegativeInt
    reset_ms: NonNegativeInt
    take_any: bool
    recov_seq_num: NonNegativeInt
    out_of_order: NonNegativeInt
    rogue: NonNegativeInt
    passed: NonNegativeInt
    discarded: NonNegativeInt
    lost: NonNegativeInt
    tagless: NonNegativeInt
    resets: NonNegativeInt


class Latent(Exact):
    """IEEE Std 802.1CB-2017, 7.4.4."""

    tests: NonNegativeInt
    alarms: NonNegativeInt
    resets: NonNegativeInt
    base: int
    difference: NonNegativeInt
    tested_ns: NonNegativeInt
    latent_error: bool


class Stations(Exact):
    ports: dict[str, Port]
    faults: dict[str, Fault]
    eliminated: Station
    rogue: Station
    tagless: Station


class OneStream(Stations):
    frer: bool
    paths: NonNegativeInt
    generator: Generator
    recovery: Recovery
    latent: Latent


class Switch(OneStream):
    unidentified: Station


class Filter(Exact):
    protocol: Literal["udp", "tcp"]
    port: NonNegativeInt
    last_port: NonNegativeInt
    min_payload_bytes: NonNegativeInt


class OneOfSeveral(OneStream):
    filter: Filter
    individual: dict[str, Recovery] | None = None


class SeveralStreams(Switch):
    streams: list[OneOfSeveral]
    best_effort: Stations


def counters(frerctl, host: str, port: str) -> str:
    done = frerctl(host, "counters", port)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("switch", ["sw1", "sw2"])
def test_the_counters_of_a_switch(testbed, frerctl, switch):
    printed = Switch.model_validate_json(counters(frerctl, switch, "p0"))
    assert list(printed.ports) == ["p0", *testbed.member_ports()]
    assert printed.paths == testbed.settings.paths
    assert printed.generator.next == printed.generator.numbered % 65536


def test_every_port_of_a_switch_names_the_same_switch(frerctl):
    """A member port's programs share the recovery function with the host port's."""
    documents = [json.loads(counters(frerctl, "sw1", port)) for port in ("p0", "m0", "m1")]
    for document in documents:
        document.pop("generator")
        document.pop("ports")  # traffic may pass between the three readings
    assert documents[0]["recovery"].keys() == documents[1]["recovery"].keys()
    assert documents[1].keys() == documents[2].keys()


def test_the_counters_of_several_streams(testbed, frerctl):
    streams = [
        SwitchStream(StreamFilter("udp", 9000, 16, last_port=9003)),
        SwitchStream(StreamFilter("tcp", 9000), "control"),
        SwitchStream(StreamFilter("udp", 9100), "frer", FrerSettings(algorithm="match"), "vector"),
    ]
    testbed.configure_streams(streams)
    printed = SeveralStreams.model_validate_json(counters(frerctl, "sw2", "p0"))
    names = [(s.filter.protocol, s.filter.port, s.filter.last_port) for s in printed.streams]
    assert names == [("udp", 9000, 9003), ("tcp", 9000, 9000), ("udp", 9100, 9100)]
    assert [s.filter.min_payload_bytes for s in printed.streams] == [16, 0, 0]
    assert [s.frer for s in printed.streams] == [True, False, True]
    assert [s.recovery.algorithm for s in printed.streams] == ["vector", "vector", "match"]
    assert [sorted(s.individual or ()) for s in printed.streams] == [[], [], ["m0", "m1"]]
    on_host = json.loads(counters(frerctl, "talker", "eth0"))
    assert set(on_host) == {"eth0", "streams", "best_effort"}
    assert [stream["filter"]["port"] for stream in on_host["streams"]] == [9000, 9000, 9100]
    testbed.configure("frer", StreamFilter("udp", 9000))
    assert set(json.loads(counters(frerctl, "talker", "eth0"))) == {"eth0"}
    Switch.model_validate_json(counters(frerctl, "sw2", "p0"))


@pytest.mark.parametrize("host", ["talker", "listener"])
def test_the_counters_of_a_host(frerctl, host):
    printed = json.loads(counters(frerctl, host, "eth0"))
    assert list(printed) == ["eth0"]
    Port.model_validate_json(json.dumps(printed["eth0"]))


def test_a_set_variable_shows(testbed, frerctl):
    frer = FrerSettings(algorithm="match", history_length=77, reset_ms=1234)
    options = ["--algorithm", "match", "--history", "77", "--reset-ms", "1234", "--frer", "on"]
    assert frerctl("sw2", "set", "p0", *options).returncode == 0
    printed = Switch.model_validate_json(counters(frerctl, "sw2", "p0"))
    assert printed.frer is True
    assert printed.recovery.algorithm == frer.algorithm
    assert printed.recovery.history_length == frer.history_length
    assert printed.recovery.reset_ms == frer.reset_ms
    testbed.configure("control", StreamFilter("udp", 9000))
    restored = Switch.model_validate_json(counters(frerctl, "sw2", "p0"))
    assert restored.frer is False
    assert restored.recovery.algorithm == testbed.settings.frer.algorithm
    assert restored.recovery.history_length == testbed.settings.frer.history_length


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["counters", "eth7"], "'eth7'"),
        (["counters", "lo"], "no switch and no station runs on 'lo'"),
        (["set", "p0", "--history", "1"], "--history takes a whole number from 2 to 2048"),
        (["set", "p0", "--history", "2049"], "--history takes a whole number"),
        (["set", "p0", "--history", "12x"], "--history takes a whole number"),
        (["set", "p0", "--history", ""], "--history takes a whole number"),
        (["set", "p0", "--reset-ms", "0"], "--reset-ms takes a whole number"),
        (["set", "p0", "--reset-ms", "-1"], "--reset-ms takes a whole number"),
        (["set", "p0", "--algorithm", "best"], "'best'"),
        (["set", "p0", "--frer", "yes"], "--frer takes 'on' or 'off', not 'yes'"),
        (["set", "p0", "--stream", "sctp:9"], "'sctp:9'"),
        (["set", "p0", "--stream", "udp:65536"], "port takes a whole number"),
        (["set", "p0", "--speed", "9"], "unknown option"),
        (["set", "p0", "--individual", "both"], "'both'"),
        (["set", "p0", "--stream", "udp:9-8"], "last port takes a whole number from 9"),
        (["streams", "p0"], "at least one --stream"),
        (["streams", "p0", "--frer", "on"], "at least one --stream"),
        (
            ["streams", "p0", "--stream", "udp:5-9", "--stream", "udp:9"],
            "streams 0 and 1 have a port in common",
        ),
        (
            ["streams", "p0", *(word for n in range(1, 18) for word in ("--stream", f"udp:{n}"))],
            "more than 16 streams",
        ),
        (["fault", "m0", "--drop-ppm", "1000001"], "--drop-ppm takes a whole number"),
        (["fault", "p0", "--drop-ppm", "1"], "'p0' is not a member port"),
        (["fault", "m0", "--delay", "1"], "unknown option"),
        (["generator", "p0"], "--stuck on or --stuck off"),
        (["generator", "p0", "--stuck", "on", "--stream-index", "1"], "there is no stream 1"),
        (["latent", "p0", "--period-ms", "0"], "--period-ms takes a whole number"),
        (["latent", "p0", "--paths", "9"], "--paths takes a whole number"),
        (["restart", "m7"], "'m7'"),
        (["set", "p0", "extra"], "unexpected argument 'extra'"),
        (["switch", "p0"], "at least one member port"),
        (["switch", "p0,m0,m0x"], "'m0x'"),
        (["switch", "p0,m0", "--reset-ms", "2000"], "needs --history and --reset-ms"),
        (["switch", "p0,m0", "--history", "512"], "needs --history and --reset-ms"),
        (["switch", "p0,m0,m1,m0,m1,m0,m1,m0,m1,m0"], "more than 8 member ports"),
        (["rotate"], "unknown command 'rotate'"),
        ([], "a command is needed"),
    ],
)
def test_wrong_arguments_are_named_and_change_nothing(testbed, frerctl, arguments, names):
    testbed.configure("control", StreamFilter("udp", 9000))
    before = json.loads(counters(frerctl, "sw1", "p0"))["recovery"]
    done = frerctl("sw1", *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert names in done.stderr
    assert json.loads(counters(frerctl, "sw1", "p0"))["recovery"] == before
