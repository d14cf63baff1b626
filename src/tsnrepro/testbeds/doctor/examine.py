"""Examination of a rack or NIC pair: all checks on all hosts, without changing anything."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import BenchSettings, NicPairSettings, RackSettings
from tsnrepro.testbeds.doctor import clocks, conflicts, host, ports
from tsnrepro.testbeds.doctor.findings import (
    PASS,
    STOP,
    WARN,
    Check,
    ExaminedHost,
    Finding,
    run_check,
)
from tsnrepro.testbeds.hosts.remote import (
    SAME_HOST_REMEDY,
    UnreachableError,
    in_parallel,
    same_hosts,
)
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.hosts.ssh import read_known_hosts
from tsnrepro.testbeds.nic_pair.hosts import NicPairHosts
from tsnrepro.testbeds.rack.testbed import RackHosts

# Of this machine, where records are written: some campaigns need gigabytes.
_MIN_FREE_MIB, _FREE_MIB = 500, 5000
CONTROLLER = "here"
"""Role of this machine in findings."""
_CHECKS: tuple[Check, ...] = (
    *(
        host.login_shell,
        clocks.system_clock,
        host.privileges,
        ports.login_port,
        host.sessions,
        host.tools,
        host.our_programs,
    ),
    *(host.space, host.governor, ports.links, ports.hardware, clocks.hardware_clock),
    *(clocks.rx_timestamping, clocks.time_services, conflicts.network_managers, conflicts.masters),
    *(conflicts.firewall, host.other_servers, host.port_use, ports.idle_traffic),
)


def examine(settings: RackSettings | NicPairSettings) -> list[Finding]:
    """Examine every host of a rack or NIC pair, and this machine; nothing is changed."""
    is_pair = isinstance(settings, NicPairSettings)
    connected = partial(NicPairHosts if is_pair else RackHosts, settings)
    return [*examine_hosts(settings, connected), space_here(root())]


def examine_switches(settings: BenchSettings) -> list[Finding]:
    """Examine the switches of a bench that have drivers; nothing is changed."""
    rack = settings.rack
    return examine_hosts(rack, partial(RackHosts, rack, roles=settings.driven))


def examine_hosts(
    settings: RackSettings | NicPairSettings, connected: Callable[[ExitStack], Any]
) -> list[Finding]:
    """Examine the hosts that ``connected`` connects to; nothing is changed."""
    findings: list[Finding] = []
    with ExitStack() as stack:
        try:
            testbed = connected(stack)
        except UnreachableError as error:
            reached = _known_hosts(settings)
            return [*reached, *(_unreachable(e, role) for role, e in error.problems.items())]
        except TestbedError as error:
            return [*_known_hosts(settings), _unreachable(error, error.where or "rack")]
        findings += [_reachable(role) for role in testbed.drivers]
        findings += _same_hosts(testbed.shells)
        examined = in_parallel(
            lambda role: _examine_host(ExaminedHost(testbed, role)), [*testbed.drivers]
        )
        findings += chain.from_iterable(examined.values())
    return [*findings, *_known_hosts(settings)]


def _examine_host(examined: ExaminedHost) -> list[Finding]:
    return [*chain.from_iterable(run_check(check, examined) for check in _CHECKS)]


def _reachable(role: str) -> Finding:
    return Finding("reachable", role, PASS, "logged in, host key verified")


def _same_hosts(shells: Mapping[str, Shell]) -> Iterator[Finding]:
    """Check that no two roles are on one host, which may have several names."""
    same = same_hosts(shells)
    for role in same[1:]:
        yield Finding("host", role, STOP, f"the same as {same[0]}", SAME_HOST_REMEDY)


def _unreachable(error: TestbedError, role: str) -> Finding:
    return Finding("reachable", role, STOP, error.what, error.remedy)


def _known_hosts(settings: RackSettings | NicPairSettings) -> list[Finding]:
    """Check for lines of known_hosts that are not used; without the file no host is reached."""
    path = Path(settings.known_hosts).expanduser()
    if not path.is_file():
        return []
    problems = read_known_hosts(path)[1]
    remedy = f"Correct {path}, and list each host's own key"
    found = "; ".join(problems) or "every line is used"
    return [Finding("known_hosts", CONTROLLER, WARN if problems else PASS, found, remedy)]


def space_here(folder: Path) -> Finding:
    """Check the disk space of this machine, where a campaign's records are written."""
    free = shutil.disk_usage(folder).free >> 20
    verdict = STOP if free < _MIN_FREE_MIB else WARN if free < _FREE_MIB else PASS
    remedy = "Free disk space on this machine, which stores a campaign's records"
    return Finding("space", CONTROLLER, verdict, f"{free} MiB free for records", remedy)
