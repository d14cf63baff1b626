"""Examination of a bench: its ports, and this machine, without changing anything."""

import re
from collections.abc import Iterator
from itertools import chain
from types import SimpleNamespace

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import BenchSettings
from tsnrepro.testbeds.bench.ports import ROLES, check, local_shell, ports_of
from tsnrepro.testbeds.doctor import conflicts, host, ports
from tsnrepro.testbeds.doctor.examine import CONTROLLER, space_here
from tsnrepro.testbeds.doctor.findings import (
    PASS,
    STOP,
    WARN,
    ExaminedHost,
    Finding,
    run_check,
)
from tsnrepro.testbeds.emulated.namespace import missing_requirements
from tsnrepro.testbeds.hosts.ports import links

_CLOCK = re.compile(r"(?:PTP Hardware Clock|provider index):\s*(\d+)")
_STAMPS = {"hardware-receive": "the card", "software-receive": "the kernel"}


def examine(settings: BenchSettings) -> list[Finding]:
    """Examine a bench's ports and this machine; nothing is changed."""
    shell = local_shell()
    # One that is missing is a finding of `port_use`.
    there = links(shell, [port.device for port in ports_of(settings)])
    listed = [port for port in ports_of(settings) if port.device in there]
    devices = {r: {p.device: p.device for p in listed if p.role == r} for r in ROLES}
    testbed = SimpleNamespace(
        settings=settings,
        shells=dict.fromkeys((CONTROLLER, *ROLES), shell),
        drivers={
            role: SimpleNamespace(devices=devices.get(role, {})) for role in (CONTROLLER, *ROLES)
        },
    )
    here = ExaminedHost(testbed, CONTROLLER)
    checks = (ports.links, ports.hardware, time_stamps, conflicts.network_managers)
    findings = [
        *run_check(requirements, here),
        *run_check(port_use, here),
        *run_check(host.governor, here),
        space_here(root()),
    ]
    for role in ROLES:
        examined = ExaminedHost(testbed, role)
        findings += chain.from_iterable(
            run_check(each, examined) for each in (*checks, ports.idle_traffic)
        )
    return findings


def requirements(here: ExaminedHost) -> Iterator[Finding]:
    """Check what this machine needs for namespaces as hosts."""
    missing = missing_requirements()
    found = f"missing: {', '.join(missing)}" if missing else "root, programs and namespaces"
    remedy = "Install the packages; a campaign on a bench runs as root"
    yield here.finding("requirements", STOP if missing else PASS, found, remedy)


def port_use(here: ExaminedHost) -> Iterator[Finding]:
    """Check that nothing uses the ports, as a campaign does before it moves them."""
    try:
        check(here.shell, here.testbed.settings)
    except TestbedError as error:
        yield here.finding("ports", STOP, error.what, error.remedy)
    else:
        yield here.finding("ports", PASS, "not in use")


def time_stamps(examined: ExaminedHost) -> Iterator[Finding]:
    """Check what can time stamp the frames of each port; both ends' clock is this machine's."""
    for device in examined.devices:
        text = examined.output("ethtool", "-T", device)
        able = [name for capability, name in _STAMPS.items() if capability in text]
        clock = _CLOCK.search(text)
        found = f"by {' and '.join(able)}" if able else "none"
        found += f", whose clock is /dev/ptp{clock[1]}" if clock else ""
        remedy = "Use another card: its driver lets the kernel stamp no arrivals"
        verdict = PASS if "software-receive" in text else WARN
        yield examined.finding(f"time stamps of {device}", verdict, found, remedy)
