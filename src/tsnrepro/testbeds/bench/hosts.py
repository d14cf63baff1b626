"""Hosts of a bench that are namespaces of this machine, with its ports in them."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import paramiko

from tsnrepro.common.topology import CARD, HOST_PORT, STATIONS, SWITCHES
from tsnrepro.config import BenchSettings
from tsnrepro.testbeds.bench.ports import Port, give_back, local_shell, moved
from tsnrepro.testbeds.emulated.namespace import NamespaceHost, cable, missing_requirements
from tsnrepro.testbeds.emulated.servers import SshServers
from tsnrepro.testbeds.emulated.testbed import LOCK
from tsnrepro.testbeds.hosts import facts
from tsnrepro.testbeds.hosts.host import RemoteHost
from tsnrepro.testbeds.hosts.lease import TestbedLock
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.ssh import SshHost
from tsnrepro.testbeds.requirements import require_none_missing


def reserve(stack: ExitStack, journal: Journal, purpose: str) -> None:
    """Lock a bench and this machine until the stack ends, and give back ports left by a kill.

    Raises
    ------
    TestbedError
        The bench or the machine is in use; the message names ``purpose`` of who uses it.
    """
    for lock in (LOCK, journal.testbed):
        stack.enter_context(TestbedLock(lock, purpose))
    give_back(journal)


def hosts_here(
    stack: ExitStack,
    settings: BenchSettings,
    journal: Journal,
    purpose: str,
    *,
    roles: Collection[str],
    listed: list[Port],
) -> dict[str, SshHost]:
    """Make hosts of a bench, with ports of this machine in them, and connect to them.

    A station is cabled to its switch if that is here too. The stack undoes everything.

    Parameters
    ----------
    stack
        Ends the hosts, and gives the ports back.
    settings
        Settings of the testbed.
    journal
        Journal of the ports.
    purpose
        Purpose of the campaign, for others who find the bench in use.
    roles
        The hosts to make.
    listed
        The ports, and where each goes.

    Raises
    ------
    TestbedError
        The machine does not meet a requirement, or the bench or a port is in use.
    """
    require_none_missing(missing_requirements(), settings.kind)
    reserve(stack, journal, purpose)
    spaces: dict[str, NamespaceHost] = {}
    for role in roles:
        spaces[role] = NamespaceHost(role)
        stack.callback(spaces[role].close)
    for station, switch in zip(STATIONS, SWITCHES, strict=True):
        if switch in spaces:
            cable(spaces[station], CARD, spaces[switch], HOST_PORT)
    pids = {port.host: spaces[port.host].pid for port in listed}
    stack.enter_context(moved(local_shell(), settings, journal, pids, listed))
    servers, key, hosts = SshServers(stack), paramiko.ECDSAKey.generate(), {}
    for role, space in spaces.items():
        hosts[role] = servers.connect(space, key)
        stack.callback(hosts[role].close)
    return hosts


def cards(hosts: Mapping[str, RemoteHost], listed: Iterable[Port]) -> dict[str, Any]:
    """Return the facts about the cards of ports, by role and name in the topology."""
    return {f"{p.role} {p.name}": facts.card(hosts[p.host], p.name) for p in listed}


def recorded(settings: BenchSettings) -> dict[str, Any]:
    """Return the settings of a bench as records have them, without names of devices here."""
    return settings.recorded(exclude={"ports"}) | {"paths": settings.paths}
