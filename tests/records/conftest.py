"""Trials of known datagrams over the emulated testbed, with drops forced at a chosen location."""

import struct
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from drops_of_the_agent import drops_of_the_agent

from tsnrepro.records.accounting import Accounting, account
from tsnrepro.tools.frerctl import Drops, StreamFilter
from tsnrepro.tools.snapshot import Snapshot

PORT = 9000
STREAM = StreamFilter("udp", PORT)
ROOM_BYTES = 8_000_000
SETTLE_SECONDS = 0.15
# Reassembly times out after a second on the testbed.
REASSEMBLY_SECONDS = 1.6
# The kernel frees what a closed socket held after an RCU grace period, long on a busy machine.
FREED_SECONDS = 1.0
_TRIALS = 3


class Bench:
    """Sends and receives itself, so that both counts are known without a tool."""

    def __init__(self, testbed, sockets) -> None:
        self.testbed, self._sockets = testbed, sockets
        self.sender = sockets.udp(testbed, "talker")
        self._target = (testbed.address("listener"), PORT)

    def run(self, host: str, *argv: str) -> None:
        self.testbed.hosts[host].run(list(argv), deadline_s=10).check()

    def configure(self, configuration: str) -> None:
        """Configure the testbed and let the hosts resolve each other's address."""
        self.testbed.configure(configuration, STREAM)
        self.run("talker", "ping", "-c", "1", "-W", "2", self.testbed.address("listener"))

    def trial(self, *counts: int, **options) -> Accounting:
        """Run a trial whose trace has every drop."""
        found = self._repeated_if_untraced(*counts, **options)
        assert not found.untraced, found
        return found

    def incompletely_traced_trial(self, missed: int, **options) -> Accounting:
        """Run a trial, and remove some drops from its trace."""
        return self._repeated_if_untraced(missed=missed, **options)

    def _repeated_if_untraced(self, *counts: int, missed: int = 0, **options) -> Accounting:
        """Run a trial, again if the kernel did not report a drop to the trace."""
        for _ in range(_TRIALS):
            with drops_of_the_agent() as unseen:
                found = self._trial(*counts, missed=missed, **options)
                if found.untraced + abs(found.unaccounted) <= missed or not unseen():
                    break
        return found

    def _trial(
        self,
        datagrams: int = 400,
        payload_bytes: int = 1000,
        *,
        listen: bool = True,
        read: bool = True,
        receive_bytes: int = ROOM_BYTES,
        pause_s: float = 0.0,
        settle_s: float = SETTLE_SECONDS,
        missed: int = 0,
    ) -> Accounting:
        """Send ``datagrams`` and account for them; the receiver reads after traffic has drained."""
        receiver = (
            self._sockets.udp(self.testbed, "listener", PORT, receive_bytes) if listen else None
        )
        before = self.testbed.snapshot()
        for index in range(datagrams):
            self.sender.sendto(struct.pack("!I", index).ljust(payload_bytes, b"."), self._target)
            if pause_s:
                time.sleep(pause_s)
        time.sleep(settle_s)
        received = 0
        if receiver:
            received = _read_all(receiver) if read else 0
            receiver.close()
        deadline = time.monotonic() + FREED_SECONDS
        while True:
            after = _without(self.testbed.snapshot(), before, missed)
            found = account(before, after, datagrams, received, self.testbed.host_of)
            if found.untraced <= missed or time.monotonic() > deadline:
                return found

    @contextmanager
    def throttled(self, host: str, port: str, rate: str, burst: int, limit: int):
        """Give a queue another rate, burst (bytes) and limit (bytes) during the block."""
        command = self.testbed._queue(host, port)
        restored = [word if word != "add" else "change" for word in command]
        changed = list(restored)
        for option, value in (("rate", rate), ("burst", str(burst)), ("limit", str(limit))):
            changed[changed.index(option) + 1] = value
        self.run(host, *changed)
        try:
            yield
        finally:
            self.run(host, *restored)

    @contextmanager
    def during(self, host: str, command: str, undo: str):
        """Run a command before the block and another after it."""
        self.run(host, *command.split())
        try:
            yield
        finally:
            self.run(host, *undo.split())


def _without(after: Snapshot, before: Snapshot, missed: int) -> Snapshot:
    """Return a snapshot with some drops of first fragments removed from its trace."""
    seen = {_key(item): item.frames for item in before.drops or []}
    kept = []
    for item in after.drops or []:
        new = 0 if item.later_fragment else item.frames - seen.get(_key(item), 0)
        taken = min(new, missed)
        missed -= taken
        kept.append(replace(item, frames=item.frames - taken))
    return after if after.drops is None else replace(after, drops=kept)


def _key(item: Drops) -> tuple:
    return item.function, item.reason, item.ifindex, item.netns, item.later_fragment


def _read_all(receiver) -> int:
    receiver.setblocking(False)
    count = 0
    while True:
        try:
            receiver.recv(65536)
        except BlockingIOError:
            return count
        count += 1


def dropped(accounting: Accounting) -> dict[str, int]:
    """Return the drop_locations where something was dropped."""
    return {place: count for place, count in accounting.drops.items() if count}


@pytest.fixture
def bench(testbed, sockets):
    """Return the bench on the default testbed."""
    return Bench(testbed, sockets)


@pytest.fixture
def make_bench(sockets):
    """Return the function that creates a bench on a testbed."""
    return lambda testbed: Bench(testbed, sockets)


@pytest.fixture(scope="session")
def drop_locations():
    """Return the function that returns an accounting's locations with drops."""
    return dropped
