"""Hosts that are connected: what is set up on each, and how all are brought back."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.rack import ports, programs
from tsnrepro.testbeds.rack.shell import CommandSink, Shell
from tsnrepro.testbeds.ssh import SshHost


class HostPart(Protocol):
    """What is changed on one host."""

    devices: dict[str, str]
    """The host's network devices by their names in the topology."""

    def save(self) -> dict[str, Any]:
        """Return the state of all that the other methods change, as JSON can hold it."""
        ...

    def refuse(self, state: dict[str, Any]) -> None:
        """Refuse a host, by its saved state, on which a campaign would destroy something."""
        ...

    def prepare(self) -> None:
        """Make what every configuration needs."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Bring back a state that :meth:`save` returned, from whatever state the host is in."""
        ...


class Connected:
    """Hosts of somebody's, connected.

    Parameters
    ----------
    connections
        To each host, by its role.
    tell
        Where changes are told instead of made, see :class:`Shell`.
    """

    def __init__(self, connections: dict[str, SshHost], tell: CommandSink | None = None) -> None:
        self.connections = connections
        self.shells = {role: Shell(host, tell) for role, host in connections.items()}

    @property
    def parts(self) -> Mapping[str, HostPart]:
        """What is changed on every host, by role."""
        raise NotImplementedError

    @property
    def with_programs(self) -> list[str]:
        """The hosts that our programs are needed on."""
        raise NotImplementedError

    def save(self) -> dict[str, Any]:
        """Return the state of every host."""
        return everywhere(lambda role: self.parts[role].save(), list(self.parts))

    def refuse(self, state: dict[str, Any]) -> None:
        """Refuse a rack on which a campaign would destroy something of somebody's.

        Raises
        ------
        TestbedError
            Something is in use, or a host is logged in to over a port that is measured.
        """
        for role, part in self.parts.items():
            part.refuse(state[role])
            ports.refuse_login_over(self.shells[role], [*part.devices.values()])

    def prepare(self) -> None:
        """Bring our programs to the hosts and set everything up for measuring."""
        everywhere(lambda role: programs.install(self.shells[role]), self.with_programs)
        everywhere(lambda role: self.parts[role].prepare(), list(self.parts))

    def restore(self, state: dict[str, Any]) -> None:
        """Bring every host back to a saved state, and see that it is.

        Raises
        ------
        TestbedError
            A host cannot be brought back, or something still differs; all others were brought
            back as far as they can be.
        """
        problems: dict[str, str] = {}

        def on(role: str) -> None:
            try:
                self.parts[role].restore(state[role])
                if role in self.with_programs:
                    programs.remove(self.shells[role])
                if not self.shells[role].dry:
                    _see_that_equal(self.parts[role].save(), state[role])
            except TestbedError as error:
                problems[role] = str(error)

        everywhere(on, list(self.parts))
        if problems:
            raise TestbedError(
                "; ".join(problems[role] for role in sorted(problems)),
                ", ".join(sorted(problems)),
                "`tsnrepro restore` tries again",
            )


def everywhere(action: Callable[[str], Any], roles: "tuple[str, ...] | list[str]") -> dict:
    """Do something for several hosts at the same time and return what came of it, by role."""
    with ThreadPoolExecutor(len(roles)) as pool:
        return dict(zip(roles, pool.map(action, roles), strict=True))


def _see_that_equal(now: dict[str, Any], was: dict[str, Any]) -> None:
    if differing := [key for key in was if now.get(key) != was[key]]:
        shown = "; ".join(f"{key} is {now.get(key)} and was {was[key]}" for key in differing)
        raise TestbedError(f"not as before: {shown}"[:1500])
