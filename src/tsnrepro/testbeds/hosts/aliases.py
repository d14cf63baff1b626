"""A host under the topology's names.

An experiment's commands are the same on every testbed: they name network devices as the topology
does, and programs by their paths on this machine. The host's own names replace them when a command
is sent, and are replaced in its output, so that no record contains them.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.hosts.host import Completed, RemoteHost, RemoteProcess

_DEVICE = re.compile(r"(?<=/sys/class/net/)[^/]+")
_QUOTED = re.compile(r'"([^"]*)"')


class AliasedHost:
    """See :class:`tsnrepro.testbeds.hosts.host.RemoteHost`.

    ``inner``: the connection; ``devices``: network devices of the host by their names in the
    topology; ``programs``: paths on the host by paths on this machine.
    """

    def __init__(
        self, inner: RemoteHost, devices: dict[str, str], programs: dict[str, str]
    ) -> None:
        self.name, self._inner = inner.name, inner
        self._devices, self._programs = devices, programs

    def run(self, argv: list[str], *, deadline_s: float, limit_bytes: int = 16 << 20) -> Completed:
        """Run a command to its end; the result has the command as requested."""
        with self.errors_as_requested(argv):
            completed = self._inner.run(
                self.resolve(argv), deadline_s=deadline_s, limit_bytes=limit_bytes
            )
        return self.as_requested(completed, argv)

    def start(self, argv: list[str], *, deadline_s: float) -> RemoteProcess:
        """Start a command without waiting for it; the result has the command as requested."""
        with self.errors_as_requested(argv):
            process = self._inner.start(self.resolve(argv), deadline_s=deadline_s)
        return _AliasedProcess(self, process, argv)

    @contextmanager
    def errors_as_requested(self, argv: list[str]) -> Iterator[None]:
        """Let errors of a command name it as requested."""
        try:
            yield
        except (CommandError, TestbedError) as error:
            sent, requested = shlex.join(self.resolve(argv)), shlex.join(argv)
            where = error.where.replace(sent, requested)
            raise type(error)(self._rename_devices(error.what), where, error.remedy) from error

    def as_requested(self, completed: Completed, argv: list[str]) -> Completed:
        """Return a command as requested, with the topology's names in its messages."""
        return replace(completed, argv=tuple(argv), stderr=self._rename_devices(completed.stderr))

    def write(self, path: str, content: bytes, *, deadline_s: float) -> None:
        """Create or replace an executable file in an existing folder."""
        self._inner.write(path, content, deadline_s=deadline_s)

    def resolve(self, argv: Sequence[str]) -> list[str]:
        """Return a command with the host's own names."""
        return [self._resolve(word) for word in argv]

    def _resolve(self, word: str) -> str:
        if word in self._programs:
            return self._programs[word]
        names = word.split(",")
        if all(name in self._devices for name in names):
            return ",".join(self._devices[name] for name in names)
        return _DEVICE.sub(lambda found: self._devices.get(found[0], found[0]), word)

    def _rename_devices(self, text: str) -> str:
        """Replace the host's devices in a message by their names in the topology."""
        aliases = {device: name for name, device in self._devices.items()}
        if not aliases:
            return text
        # The longest first: one device's name may begin with another's.
        either = "|".join(re.escape(each) for each in sorted(aliases, key=len, reverse=True))
        return re.sub(rf"(?<![\w-])(?:{either})(?![\w-])", lambda found: aliases[found[0]], text)

    def rename_in_json(self, document: str) -> str:
        """Replace the host's devices in a tool's JSON by their names in the topology."""
        aliases = {device: name for name, device in self._devices.items()}
        # Another device of the host may have a name that the topology uses.
        others = {name: f"the host's own {name}" for name in self._devices if name not in aliases}
        names = others | aliases
        return _QUOTED.sub(lambda found: f'"{names.get(found[1], found[1])}"', document)


class _AliasedProcess:
    """A running command of an :class:`AliasedHost`; see ``RemoteProcess``."""

    def __init__(self, host: AliasedHost, inner: RemoteProcess, argv: list[str]) -> None:
        self._host, self._inner, self._argv = host, inner, argv

    @property
    def running(self) -> bool:
        return self._inner.running

    def stop(self) -> None:
        """Terminate the command; :meth:`wait` still returns its output."""
        with self._host.errors_as_requested(self._argv):
            self._inner.stop()

    def send_line(self, line: str) -> str:
        """Write one line to standard input and return the next line of standard output."""
        with self._host.errors_as_requested(self._argv):
            return self._inner.send_line(line)

    def read_line(self) -> str:
        with self._host.errors_as_requested(self._argv):
            return self._inner.read_line()

    def wait(self) -> Completed:
        with self._host.errors_as_requested(self._argv):
            return self._host.as_requested(self._inner.wait(), self._argv)
