"""Remote hosts of a rack or NIC pair: connections, and the state that a campaign changes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tsnrepro.common.errors import TestbedError
from tsnrepro.config.nic_pair import NicPairSettings
from tsnrepro.config.rack import Access, RackSettings
from tsnrepro.testbeds.hosts import ports, programs
from tsnrepro.testbeds.hosts.shell import CommandSink, Shell
from tsnrepro.testbeds.hosts.ssh import SshHost

JUMP = "jump host"
# Two network cards negotiate a speed within about 3 s.
_LINK_SECONDS = 30
_POLL_SECONDS = 0.2
_IDENTITY = ["sh", "-c", "cat /proc/sys/kernel/random/boot_id && readlink /proc/self/ns/net"]
SAME_HOST_REMEDY = "Set the address of each role's own host: no kernel sends to itself by a cable"
_RESET = "Reboot {}, which resets it, and remove the testbed's file in data/racks"


Unreachable = dict[str, TestbedError]
"""Why hosts cannot be reached, by role."""


def connect(
    settings: RackSettings | NicPairSettings,
    roles: tuple[str, ...],
    stack: ExitStack,
    unreachable: Unreachable | None = None,
) -> dict[str, SshHost]:
    """Connect to each host, by role; ``stack`` closes the connections.

    ``settings``: settings of the testbed. ``unreachable``: gets the hosts that cannot be reached,
    which are left out; None is to raise. Raises UnreachableError if hosts cannot be reached, their
    host keys are not in ``known_hosts``, or they refuse the login.
    """
    jump = None
    if settings.jump_host:
        jump = _connect(settings, JUMP, settings.jump_host, None)
        stack.callback(jump.close)
    connections: dict[str, SshHost] = {}
    problems = {} if unreachable is None else unreachable
    for role in roles:
        try:
            connections[role] = _connect(settings, role, getattr(settings.hosts, role), jump)
            stack.callback(connections[role].close)
        except TestbedError as error:
            problems[role] = error
    if problems and unreachable is None:
        raise UnreachableError(problems)
    return connections


class UnreachableError(TestbedError):
    """Hosts that cannot be reached; ``problems`` has the error of each by role."""

    def __init__(self, problems: dict[str, TestbedError]) -> None:
        self.problems = problems
        first, *others = problems.values()
        further = [f"{error.what} ({error.where})" for error in others]
        super().__init__("; ".join([first.what, *further]), first.where, first.remedy)


def _connect(
    settings: RackSettings | NicPairSettings, role: str, access: Access, jump: SshHost | None
) -> SshHost:
    known_hosts = Path(settings.known_hosts).expanduser()
    if not known_hosts.is_file():
        raise TestbedError(
            "there is no known_hosts file",
            str(known_hosts),
            f"Log in to {role} once by hand and verify its host key, or set `known_hosts`",
        )
    key = Path(access.key_file).expanduser() if access.key_file else None
    if key and not key.is_file():
        raise TestbedError(
            "there is no such key file",
            f"{key}, of {role}",
            "Without key_file the SSH agent is used",
        )
    address = (access.address, access.port)
    sock = jump.open_tunnel(address) if jump else None
    return SshHost(role, known_hosts, access.user, key, sock=sock, address=address)


class HostDriver(Protocol):
    """Configures one host, and restores its state."""

    devices: dict[str, str]
    """Network devices of the host by their names in the topology."""

    def save(self) -> dict[str, Any]:
        """Return the state of everything that the other methods change, as JSON values."""
        ...

    def check(self, state: dict[str, Any]) -> None:
        """Refuse a host, by its saved state, whose own configuration would be lost."""
        ...

    def prepare(self) -> None:
        """Set up what all configurations need."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`save` returned, whatever the present state is."""
        ...


class RemoteHosts:
    """Connected hosts.

    ``connections``: connections by role. ``sink``: receives the commands that change hosts, for a
    dry run, see :class:`Shell`. ``unreachable``: hosts without a connection, for a rollback of the
    others.
    """

    def __init__(
        self,
        connections: dict[str, SshHost],
        sink: CommandSink | None = None,
        unreachable: Unreachable | None = None,
    ) -> None:
        self.connections = connections
        self._unreachable = unreachable or {}
        self.shells = {role: Shell(host, sink) for role, host in connections.items()}

    @property
    def drivers(self) -> Mapping[str, HostDriver]:
        """Driver of each host, by role."""
        raise NotImplementedError

    @property
    def program_hosts(self) -> list[str]:
        """The hosts that run our programs."""
        raise NotImplementedError

    def save(self) -> dict[str, Any]:
        """Return the state of every host."""
        return in_parallel(lambda role: self.drivers[role].save(), list(self.drivers))

    def check(self, state: dict[str, Any]) -> None:
        """Refuse hosts whose own configuration a campaign would overwrite.

        Raises TestbedError if a device is in use, the SSH connection uses a measured port, or two
        roles are on one host.
        """
        if same := same_hosts(self.shells):
            what = f"{' and '.join(same)} are the same host"
            raise TestbedError(what, same[0], SAME_HOST_REMEDY)
        for role, driver in self.drivers.items():
            driver.check(state[role])
            ports.check_login(self.shells[role], [*driver.devices.values()])

    def prepare(self) -> None:
        """Install our programs and set up what all configurations need."""
        in_parallel(lambda role: programs.install(self.shells[role]), self.program_hosts)
        in_parallel(lambda role: self.drivers[role].prepare(), list(self.drivers))

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state on every host, and verify it.

        Raises TestbedError if a host could not be reached or restored, or differs from its saved
        state. All others were restored as far as possible.
        """
        problems = {role: str(error) for role, error in self._unreachable.items()}

        def restore(role: str) -> None:
            try:
                with saved_state_of(role, _RESET.format(role)):
                    try:
                        self.drivers[role].restore(state[role])
                    finally:
                        if role in self.program_hosts:
                            programs.remove(self.shells[role])
                    if not self.shells[role].dry_run:
                        _verify_restored(self.drivers[role].save(), state[role])
            except TestbedError as error:
                problems[role] = str(error)

        in_parallel(restore, list(self.drivers))
        if problems:
            raise TestbedError(
                "; ".join(problems[role] for role in sorted(problems)),
                ", ".join(sorted(problems)),
                "`tsnrepro restore` tries again",
            )


def same_hosts(shells: Mapping[str, Shell]) -> list[str]:
    """Return the first roles that are on one host, under whatever names, or none.

    A host is a network namespace of a kernel that runs, so namespaces of one machine differ.
    """
    roles: dict[str, list[str]] = {}
    for role, done in in_parallel(lambda role: shells[role].query(_IDENTITY), [*shells]).items():
        known = not done.exit_status and done.stdout.strip()
        roles.setdefault(known or role, []).append(role)
    return next((same for same in roles.values() if len(same) > 1), [])


@contextmanager
def saved_state_of(name: str, remedy: str = "") -> Iterator[None]:
    """Name a saved state that is damaged in what restores by it.

    Raises TestbedError.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise TestbedError(
            f"the saved state of {name} is damaged: {problem}"[:300], remedy=remedy
        ) from error


def in_parallel(action: Callable[[str], Any], roles: Sequence[str]) -> dict[str, Any]:
    """Call ``action`` for several hosts in parallel and return the results by role."""
    with ThreadPoolExecutor(len(roles)) as pool:
        return dict(zip(roles, pool.map(action, roles), strict=True))


def _verify_restored(now: dict[str, Any], saved: dict[str, Any]) -> None:
    if differing := [key for key in saved if now.get(key) != saved[key]]:
        shown = "; ".join(f"{key} is {now.get(key)} and was {saved[key]}" for key in differing)
        raise TestbedError(f"not restored: {shown}"[:1500])


def wait_for_links(shells: Mapping[str, Shell], devices: Mapping[str, Mapping[str, str]]) -> None:
    """Wait until every port has a carrier.

    igb (i210) and e1000e restart a running card when its MTU or features are set, and copper then
    takes some seconds to negotiate again. No path of the network would explain the frames that
    are lost meanwhile.

    ``shells``: commands on the hosts, by role; ``devices``: ports of each host by their names in
    the topology. Raises TestbedError if ports have no carrier after the time-out; the message
    lists them.
    """
    end = time.monotonic() + _LINK_SECONDS
    while missing := _without_carrier(shells, devices):
        if time.monotonic() > end:
            raise TestbedError(
                f"no link within {_LINK_SECONDS} s: {', '.join(missing)}",
                "cables of the measured network",
                "Check the cables and both ends: `tsnrepro doctor` reports each port",
            )
        time.sleep(_POLL_SECONDS)


def _without_carrier(
    shells: Mapping[str, Shell], devices: Mapping[str, Mapping[str, str]]
) -> list[str]:
    found = in_parallel(lambda role: _without_carrier_on(shells[role], devices[role]), [*devices])
    return [f"{role} {name}" for role, names in found.items() for name in names]


def _without_carrier_on(shell: Shell, devices: Mapping[str, str]) -> list[str]:
    # The file cannot be read while the port is down.
    commands = [["cat", f"/sys/class/net/{device}/carrier"] for device in devices.values()]
    completed = shell.query_all(commands)
    return [
        f"{name} ({device})"
        for (name, device), (status, output) in zip(devices.items(), completed, strict=True)
        if status or output.strip() != "1"
    ]
