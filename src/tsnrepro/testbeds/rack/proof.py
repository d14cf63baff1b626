"""Whether FRER is really active on a rack: tags are there, counters move, and paths are disjoint.

Unlike the rest of the doctor this changes the rack, as a campaign would, and puts it back.
"""

import time
from collections.abc import Iterator

from tsnrepro.common.topology import CARD, LISTENER, SWITCHES, TALKER
from tsnrepro.config import RackSettings
from tsnrepro.native import streams
from tsnrepro.native.streams.command import Pacing, StopCondition, talker
from tsnrepro.testbeds.quiescence import settle
from tsnrepro.testbeds.rack.findings import PASS, STOP, HostFinding
from tsnrepro.testbeds.rack.testbed import HardwareTestbed
from tsnrepro.tools.counters import CounterDifferences
from tsnrepro.tools.frerctl import StreamFilter

_PORT = 5202
_DATAGRAMS = 200
_INTERVAL_NS = 500_000
_PAYLOAD_BYTES = 256
_SECONDS = 10
_LINK_SECONDS = 3.0
"""A copper link takes about that long to come up."""


def prove(testbed: HardwareTestbed, *, link_s: float = _LINK_SECONDS) -> list[HostFinding]:
    """Send a few datagrams through a rack that is up, over all paths and over each alone."""
    testbed.configure("frer", StreamFilter("udp", _PORT))
    testbed.pin_neighbours()
    findings = list(_all_paths(testbed))
    members = testbed.member_ports()
    for alone in members:
        others = [member for member in members if member != alone]
        try:
            for other in others:
                testbed.set_member_link(other, up=False)
            time.sleep(link_s / 3)
            findings.append(_one_path(testbed, alone, others))
        finally:
            for other in others:
                testbed.set_member_link(other, up=True)
            time.sleep(link_s)
    return findings


def prove_rack(settings: RackSettings, name: str) -> list[HostFinding]:
    """Bring a rack up, prove that FRER works on it, and put it back."""
    with HardwareTestbed(settings, name, "the doctor's proof of FRER") as testbed:
        return prove(testbed)


def _send(testbed: HardwareTestbed) -> CounterDifferences:
    """Send the datagrams and return what was counted meanwhile."""
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
    # Nobody listens there, which is the listener's business: what comes to its card counts.
    testbed.hosts[TALKER].run(argv, deadline_s=_SECONDS).check()
    settle(testbed, _PAYLOAD_BYTES)
    return CounterDifferences(before, testbed.quiescent_snapshot())


def _arrived(counted: CounterDifferences, member: str) -> int:
    return counted.port(SWITCHES[1], member, "in").stream_frames


def _all_paths(testbed: HardwareTestbed) -> Iterator[HostFinding]:
    counted = _send(testbed)
    came = {member: _arrived(counted, member) for member in testbed.member_ports()}
    shown = ", ".join(f"{frames} over {member}" for member, frames in came.items())
    good = all(frames == _DATAGRAMS for frames in came.values())
    yield HostFinding(
        "replication",
        SWITCHES[0],
        PASS if good else STOP,
        f"of {_DATAGRAMS} datagrams came to {SWITCHES[1]}: {shown}",
        "Compare the cables with member_ports, and `ethtool -S` of the ports between",
    )
    recovery = counted.recovery()
    copies = counted.at(SWITCHES[1], "eliminated")
    expected = _DATAGRAMS * (len(came) - 1)
    # A frame without R-TAG would count as tagless: so that all were numbered is seen here.
    good = recovery["tagless"] == 0 and copies == expected
    yield HostFinding(
        "elimination",
        SWITCHES[1],
        PASS if good else STOP,
        f"{copies} copies of {expected} eliminated, {recovery['tagless']} frames without R-TAG",
        "Look at recovery: history length, reset time, and whether the tag survives between",
    )
    heard = counted.port(LISTENER, CARD, "in").stream_frames
    yield HostFinding(
        "delivery",
        LISTENER,
        PASS if heard == _DATAGRAMS else STOP,
        f"{heard} of {_DATAGRAMS} datagrams came, each once",
        "Too many is recovery that does not eliminate, too few a loss behind it",
    )


def _one_path(testbed: HardwareTestbed, alone: str, others: list[str]) -> HostFinding:
    counted = _send(testbed)
    heard = counted.port(LISTENER, CARD, "in").stream_frames
    beside = sum(_arrived(counted, other) for other in others)
    good = heard == _DATAGRAMS and not beside
    return HostFinding(
        f"path {alone} alone",
        "rack",
        PASS if good else STOP,
        f"{heard} of {_DATAGRAMS} datagrams came, {beside} over other paths",
        "Its cable leads elsewhere, or shares a link with the other path",
    )
