"""A host of a rack as experiments see it: with the names of the topology.

An experiment's commands are the same on every testbed: they name ports as the topology does and
programs by their paths here. What those are called on the rack's host is put in their place when a
command is sent, so a record has neither.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds import facts
from tsnrepro.testbeds.host import Completed, RemoteHost, RemoteProcess

_OF_DEVICE = re.compile(r"(?<=/sys/class/net/)[^/]+")
_QUOTED = re.compile(r'"([^"]*)"')


class RackHost:
    """See :class:`tsnrepro.testbeds.host.RemoteHost`.

    Parameters
    ----------
    inner
        The connection.
    devices
        The network devices by their names in the topology.
    programs
        Paths on the host by paths on this machine.
    """

    def __init__(
        self, inner: RemoteHost, devices: dict[str, str], programs: dict[str, str]
    ) -> None:
        self.name, self._inner = inner.name, inner
        self._devices, self._programs = devices, programs

    def run(self, argv: list[str], *, deadline_s: float, limit_bytes: int = 16 << 20) -> Completed:
        """Run a command to its end; the record keeps it as it was asked for."""
        with self.as_asked(argv):
            done = self._inner.run(
                self.translated(argv), deadline_s=deadline_s, limit_bytes=limit_bytes
            )
        return self.told(done, argv)

    def start(self, argv: list[str], *, deadline_s: float) -> RemoteProcess:
        """Start a command and return at once; the record keeps it as it was asked for."""
        with self.as_asked(argv):
            process = self._inner.start(self.translated(argv), deadline_s=deadline_s)
        return _RackProcess(self, process, argv)

    @contextmanager
    def as_asked(self, argv: list[str]) -> Iterator[None]:
        """Let errors of a command tell of it as it was asked for."""
        try:
            yield
        except (CommandError, TestbedError) as error:
            sent, asked = shlex.join(self.translated(argv)), shlex.join(argv)
            where = error.where.replace(sent, asked)
            raise type(error)(self._in_names(error.what), where, error.remedy) from error

    def told(self, done: Completed, argv: list[str]) -> Completed:
        """Return a command as it was asked for, with the names of the topology in what it says."""
        return replace(done, argv=tuple(argv), stderr=self._in_names(done.stderr))

    def write(self, path: str, content: bytes, *, deadline_s: float) -> None:
        """Write an executable file in place of what is there; its folder has to exist."""
        self._inner.write(path, content, deadline_s=deadline_s)

    def translated(self, argv: list[str]) -> list[str]:
        """Return a command in the host's own names."""
        return [self._word(word) for word in argv]

    def _word(self, word: str) -> str:
        if word in self._programs:
            return self._programs[word]
        names = word.split(",")
        if all(name in self._devices for name in names):
            return ",".join(self._devices[name] for name in names)
        return _OF_DEVICE.sub(lambda found: self._devices.get(found[0], found[0]), word)

    def _in_names(self, text: str) -> str:
        """Return what a command says to people, devices under the names of the topology."""
        known = {device: name for name, device in self._devices.items()}
        if not known:
            return text
        # The longest first: one name may begin as another does.
        either = "|".join(re.escape(each) for each in sorted(known, key=len, reverse=True))
        return re.sub(rf"(?<![\w-])(?:{either})(?![\w-])", lambda found: known[found[0]], text)

    def in_topology(self, document: str) -> str:
        """Return JSON that a tool printed, its devices under the names of the topology."""
        known = {device: name for name, device in self._devices.items()}
        # Another device of the host may happen to be called as the topology calls one of its own.
        others = {name: f"the host's own {name}" for name in self._devices if name not in known}
        names = others | known
        return _QUOTED.sub(lambda found: f'"{names.get(found[1], found[1])}"', document)


class _RackProcess:
    """A command that goes on, told as it was asked for; see ``RemoteProcess``."""

    def __init__(self, host: RackHost, inner: RemoteProcess, argv: list[str]) -> None:
        self._host, self._inner, self._argv = host, inner, argv

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return self._inner.running

    def stop(self) -> None:
        """End the command now; its output can still be read with :meth:`wait`."""
        with self._host.as_asked(self._argv):
            self._inner.stop()

    def send_line(self, line: str) -> str:
        """Write one line to its standard input and return the next line it prints."""
        with self._host.as_asked(self._argv):
            return self._inner.send_line(line)

    def read_line(self) -> str:
        """Return the next line that the command prints."""
        with self._host.as_asked(self._argv):
            return self._inner.read_line()

    def wait(self) -> Completed:
        """Wait for the command's end (its deadline bounds this)."""
        with self._host.as_asked(self._argv):
            return self._host.told(self._inner.wait(), self._argv)


def facts_by_role(host: RemoteHost, ports: list[str], role: str) -> dict[str, Any]:
    """Return the facts of somebody's host without its name and its addresses."""
    found = facts.host(host, ports)
    node = host.run(["uname", "-n"], deadline_s=facts.SECONDS).check().stdout.strip()
    # Mausezahn tells the addresses of all devices along with its version.
    version = [n for n in found["mausezahn"].splitlines() if n.startswith("Mausezahn ")]
    return found | {
        "kernel": found["kernel"].replace(node, role),
        "mausezahn": "".join(version) or "unknown",
    }
