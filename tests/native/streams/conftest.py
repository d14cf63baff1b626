"""Talker and listener as processes of this machine, on loopback."""

import socket
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tsnrepro.native import streams
from tsnrepro.native.streams import command
from tsnrepro.native.streams.command import ListenerResult, Pacing, StopCondition, TalkerResult

DEADLINE_SECONDS = 60


def free_ports(count: int = 1) -> list[int]:
    """Return UDP ports that nobody uses now."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for _ in range(count)
        ]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Listening:
    """A listener that is ready; :meth:`result` waits for its end."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if line != command.READY:
            output = self.process.communicate(timeout=DEADLINE_SECONDS)
            pytest.fail(f"the listener printed {line!r} and {output}")

    def result(self) -> ListenerResult:
        out, err = self.process.communicate(timeout=DEADLINE_SECONDS)
        assert (self.process.returncode, err) == (0, "")
        return command.parse_listener(out)


@dataclass
class Loopback:
    """Makes talkers and listeners; what still runs after the test is ended."""

    talker: str
    listener: str
    stack: ExitStack

    def listen(self, ports: list[int], stop: StopCondition | None = None, **options) -> Listening:
        options.setdefault("bind", "127.0.0.1")
        options.setdefault("buffer_bytes", 32_000_000)
        argv = command.listener(self.listener, ports, stop or StopCondition(seconds=30), **options)
        listening = Listening(argv)
        self.stack.callback(listening.process.wait)
        self.stack.callback(listening.process.kill)
        return listening

    def argv(self, port: int, pacing: Pacing, stop: StopCondition, **options) -> list[str]:
        options.setdefault("payload_bytes", 18)
        return command.talker(self.talker, "127.0.0.1", port, pacing, stop, **options)

    def talk(self, port: int, pacing: Pacing, stop: StopCondition, **options) -> TalkerResult:
        argv = self.argv(port, pacing, stop, **options)
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return command.parse_talker(done.stdout)


@pytest.fixture
def loopback():
    """Return the maker of talkers and listeners on this machine."""
    with ExitStack() as stack:
        yield Loopback(str(streams.talker()), str(streams.listener()), stack)


@pytest.fixture
def ports():
    """Return the function that finds free UDP ports."""
    return free_ports
