"""Test of FRER on a rack: frames are tagged, replicated and eliminated, and paths are disjoint.

Unlike the doctor's checks this configures the rack, as a campaign would, and restores it.
"""

import time
from collections.abc import Iterator

from tsnrepro.common.topology import CARD, LISTENER, SWITCHES, TALKER
from tsnrepro.config import BenchSettings, RackSettings
from tsnrepro.native import streams
from tsnrepro.native.streams.command import Pacing, StopCondition, talker
from tsnrepro.testbeds.bench.switched import SwitchedBench
from tsnrepro.testbeds.doctor.findings import PASS, STOP, Finding
from tsnrepro.testbeds.quiescence import settle
from tsnrepro.testbeds.rack.testbed import RackTestbed
from tsnrepro.tools.frerctl import StreamFilter
from tsnrepro.tools.snapshot import CounterDifferences

_PORT = 5202
_DATAGRAMS = 200
_INTERVAL_NS = 500_000
_PAYLOAD_BYTES = 256
_SECONDS = 10
_LINK_SECONDS = 3.0
"""Time of a copper link to come up."""


def verify_frer(testbed: RackTestbed, *, link_s: float = _LINK_SECONDS) -> list[Finding]:
    """Send some datagrams over all paths, and over each path alone, of a rack that is up.

    With one member path there is no FRER: the datagrams prove that frames are forwarded.
    """
    members = testbed.member_ports()
    several = len(members) > 1
    testbed.configure("frer" if several else "control", StreamFilter("udp", _PORT))
    testbed.pin_neighbours()
    findings = list(_all_paths(testbed))
    for path in members if several else ():
        others = [member for member in members if member != path]
        try:
            for other in others:
                testbed.set_member_link(other, up=False)
            time.sleep(link_s / 3)
            findings.append(_one_path(testbed, path, others))
        finally:
            for other in others:
                testbed.set_member_link(other, up=True)
            time.sleep(link_s)
    return findings


def verify_frer_on(settings: RackSettings | BenchSettings, name: str) -> list[Finding]:
    """Configure a rack for FRER, or a bench's switches, verify that it works, and restore them."""
    purpose = "tsnrepro doctor --frer"
    if isinstance(settings, RackSettings):
        with RackTestbed(settings, name, purpose) as testbed:
            return verify_frer(testbed)
    with SwitchedBench(settings, name, purpose) as bench:
        return verify_frer(bench)


def _send(testbed: RackTestbed) -> CounterDifferences:
    """Send the datagrams and return the differences of all counters."""
    before = testbed.snapshot()
    program = str(streams.talker())
    argv = talker(
        program,
        testbed.address(LISTENER),
        _PORT,
        Pacing(_INTERVAL_NS),
        StopCondition(_DATAGRAMS, _SECONDS / 2),
        payload_bytes=_PAYLOAD_BYTES,
    )
    # Without a listener program: frames are counted at the listener's card.
    testbed.hosts[TALKER].run(argv, deadline_s=_SECONDS).check()
    settle(testbed, _PAYLOAD_BYTES)
    return CounterDifferences(before, testbed.quiescent_snapshot())


def _received(counters: CounterDifferences, member: str) -> int:
    return counters.port(SWITCHES[1], member, "in").stream_frames


def _all_paths(testbed: RackTestbed) -> Iterator[Finding]:
    counters = _send(testbed)
    received = {member: _received(counters, member) for member in testbed.member_ports()}
    shown = ", ".join(f"{frames} over {member}" for member, frames in received.items())
    good = all(frames == _DATAGRAMS for frames in received.values())
    several = len(received) > 1
    yield Finding(
        "replication" if several else "forwarding",
        SWITCHES[0],
        PASS if good else STOP,
        f"of {_DATAGRAMS} datagrams {SWITCHES[1]} received {shown}",
        "Check the cables against member_ports, and `ethtool -S` of the ports between",
    )
    if several:
        yield _elimination(counters, _DATAGRAMS * (len(received) - 1))
    delivered = counters.port(LISTENER, CARD, "in").stream_frames
    yield Finding(
        "delivery",
        LISTENER,
        PASS if delivered == _DATAGRAMS else STOP,
        f"{delivered} of {_DATAGRAMS} datagrams received",
        "If more, recovery does not eliminate; if fewer, frames are lost after it",
    )


def _elimination(counters: CounterDifferences, expected: int) -> Finding:
    recovery = counters.recovery()
    copies = counters.at(SWITCHES[1], "eliminated")
    # A frame without R-TAG would be counted as tagless.
    good = recovery["tagless"] == 0 and copies == expected
    return Finding(
        "elimination",
        SWITCHES[1],
        PASS if good else STOP,
        f"{copies} copies of {expected} eliminated, {recovery['tagless']} frames without R-TAG",
        "Check recovery: history length, reset time, and that R-TAGs pass between the switches",
    )


def _one_path(testbed: RackTestbed, path: str, others: list[str]) -> Finding:
    counters = _send(testbed)
    delivered = counters.port(LISTENER, CARD, "in").stream_frames
    on_others = sum(_received(counters, other) for other in others)
    good = delivered == _DATAGRAMS and not on_others
    return Finding(
        f"path {path} alone",
        "rack",
        PASS if good else STOP,
        f"{delivered} of {_DATAGRAMS} datagrams received, {on_others} over other paths",
        "Check its cable: it is connected elsewhere, or shares a link with the other path",
    )
