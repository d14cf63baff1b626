"""A host of a rack as experiments see it: with the names of the topology.

An experiment's commands are the same on every testbed: they name ports as the topology does and
programs by their paths here. What those are called on the rack's host is put in their place when a
command is sent, so a record has neither.
"""

import re
from typing import Any

from tsnrepro.testbed import facts
from tsnrepro.testbed.host import Completed, RemoteHost, RemoteProcess

_OF_DEVICE = re.compile(r"(?<=/sys/class/net/)[^/]+")
_QUOTED = re.compile(r'"([^"]*)"')


class RackHost:
    """See :class:`tsnrepro.testbed.host.RemoteHost`.

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
        done = self._inner.run(
            self.translated(argv), deadline_s=deadline_s, limit_bytes=limit_bytes
        )
        return Completed(
            done.host,
            tuple(argv),
            *(done.exit_status, done.stdout, done.stderr, done.started_s, done.seconds),
        )

    def start(self, argv: list[str], *, deadline_s: float) -> RemoteProcess:
        """Start a command and return at once."""
        return self._inner.start(self.translated(argv), deadline_s=deadline_s)

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

    def in_topology(self, document: str) -> str:
        """Return JSON that a tool printed, its devices under the names of the topology."""
        known = {device: name for name, device in self._devices.items()}
        # Another device of the host may happen to be called as the topology calls one of its own.
        others = {name: f"the host's own {name}" for name in self._devices if name not in known}
        names = others | known
        return _QUOTED.sub(lambda found: f'"{names.get(found[1], found[1])}"', document)


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
