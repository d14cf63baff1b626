"""A recovery function under test: the second switch, fed with crafted frames from the first."""

import os
import struct
import subprocess
import time
from contextlib import contextmanager
from itertools import chain

import pytest

from tsnrepro.tools.frerctl import parse_counters

CLAUSE_10 = ("out_of_order", "rogue", "passed", "discarded", "lost", "tagless", "resets")
MACS = b"\x02\x00\x00\x00\x00\x02" + b"\x02\x00\x00\x00\x00\x01"
R_TAG = 0xF1C1
EXPERIMENTAL = 0x88B5  # IEEE Std 802, local experimental EtherType 1: nobody answers it
HEAD = MACS + struct.pack("!H", EXPERIMENTAL) + b"recovery"
ARRIVAL_SECONDS = 5.0
# Below the links' burst, so that no frame waits for the token bucket's timer.
FRAMES_AT_ONCE = 100


@contextmanager
def on_one_processor():
    """Keep this thread where it is: frames that two processors hand on may change places."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class RecoveringSwitch:
    """Switch sw2, whose member ports are fed by raw sockets on the member ports of sw1."""

    def __init__(self, testbed, frerctl, sockets, frames_arrived) -> None:
        self._frerctl = frerctl
        self._frames_arrived = frames_arrived
        self._members = [sockets.raw(testbed, "sw1", port) for port in testbed.member_ports()]
        self._listener = sockets.raw(testbed, "listener", "eth0")
        self._sent = 0

    def set(self, **options) -> None:
        """Start recovery afresh with ``frerctl set`` options, FRER on; counters go on."""
        chosen = {"frer": "on", "algorithm": "vector", "history": 8, "reset_ms": 3_600_000}
        chosen |= {"take_no_sequence": "off"} | options
        words = ((f"--{name.replace('_', '-')}", str(value)) for name, value in chosen.items())
        self._run("set", "p0", *chain(*words))
        self._before = self.document()
        self._frames_arrived(self._listener)
        self._sent = 0

    def document(self) -> dict:
        """Return what ``frerctl counters`` prints, stations parsed."""
        return parse_counters(self._run("counters", "p0"))

    def _run(self, *arguments: str) -> str:
        done = self._frerctl("sw2", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def inject(self, *numbers: int | None, path: int = 0) -> None:
        """Send one frame for each number into a member port; ``None`` stands for no tag."""
        with on_one_processor():
            for sequence in numbers:
                tag = b"" if sequence is None else struct.pack("!HHH", R_TAG, 0, sequence)
                self._members[path].send(MACS + tag + HEAD[12:] + struct.pack("!I", self._sent))
                self._sent += 1
                if self._sent % FRAMES_AT_ONCE == 0:
                    time.sleep(0.002)

    def outcome(self) -> tuple[list[int], dict[str, int]]:
        """Return what happened since :meth:`set`, once every frame has come through.

        That is: which of the frames came out (counted from 0, in order), and by how much each
        counter of clause 10 grew.
        """
        after = self._all_arrived()
        frames = [f for f in self._frames_arrived(self._listener) if f.startswith(MACS)]
        # What passes has lost its tag and nothing else.
        assert all(f.startswith(HEAD) and len(f) == len(HEAD) + 4 for f in frames)
        out = after["ports"]["p0"]["out"] - self._before["ports"]["p0"]["out"]
        assert out.frames == len(frames)
        counters, earlier = after["recovery"], self._before["recovery"]
        grown = {name: counters[name] - earlier[name] for name in CLAUSE_10}
        return [struct.unpack("!I", frame[len(HEAD) :])[0] for frame in frames], grown

    def _all_arrived(self) -> dict:
        end = time.monotonic() + ARRIVAL_SECONDS
        while True:
            now, before = self.document()["ports"], self._before["ports"]
            arrived = sum((now[m]["in"] - before[m]["in"]).frames for m in now if m != "p0")
            if arrived == self._sent:
                return self.document()
            assert time.monotonic() < end, f"{arrived} of {self._sent} frames came to sw2"


@pytest.fixture(scope="module")
def frerctl(testbed):
    """Return the function that runs frerctl on a host.

    It enters the host directly: an SSH session for each of hundreds of commands takes minutes.
    """

    def run(host: str, *arguments: str) -> subprocess.CompletedProcess:
        argv = testbed._spaces[host].enter([testbed.frerctl, *arguments])
        return subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)

    return run


@pytest.fixture(scope="module")
def switch(testbed, frerctl, module_sockets, frames_arrived):
    """Return the switch under test; meanwhile the talker is off, so no frame is from elsewhere."""
    talker = testbed.hosts["talker"]
    talker.run(["ip", "link", "set", "eth0", "down"], deadline_s=10).check()
    yield RecoveringSwitch(testbed, frerctl, module_sockets, frames_arrived)
    talker.run(["ip", "link", "set", "eth0", "up"], deadline_s=10).check()
