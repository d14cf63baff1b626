"""Examination of a bench: its ports, and this machine, without changing anything."""

from collections.abc import Iterator
from itertools import chain
from types import SimpleNamespace

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import BenchSettings
from tsnrepro.testbeds.bench.clocks import TOOLS, missing_tools, one_port_each, stamping_clocks
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
from tsnrepro.tools import ethtool

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
        *run_check(clocks, here),
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
        clock = ethtool.clock_index(text)
        found = f"by {' and '.join(able)}" if able else "none"
        found += "" if clock is None else f", whose clock is /dev/ptp{clock}"
        remedy = "Use another card: its driver lets the kernel stamp no arrivals"
        verdict = PASS if "software-receive" in text else WARN
        yield examined.finding(f"time stamps of {device}", verdict, found, remedy)


def clocks(here: ExaminedHost) -> Iterator[Finding]:
    """Check which clock stamps arrivals of `shaping`, and what sets it to the system's."""
    settings = here.testbed.settings
    if settings.switches or settings.paths > 1:
        return
    shown = {role: here.output("ethtool", "-T", getattr(settings.ports, role)[0]) for role in ROLES}
    found = stamping_clocks(shown)
    check, kernel = "clock of arrivals", "the kernel stamps them"
    if not found:
        yield here.finding(check, PASS, f"{kernel}, by the clock that sends")
        return
    if missing := missing_tools(here.shell):
        remedy = "Install linuxptp, and the cards stamp them"
        yield here.finding(check, WARN, f"{kernel}: missing are {', '.join(missing)}", remedy)
        return
    running = {*here.shell.read(["ps", "-e", "-o", "comm="]).split()}
    others = [name for name in ("ptp4l", *TOOLS) if name in running]
    names = [f"/dev/ptp{found[role]}" for role in one_port_each(found)]
    shared = "one for both ports, " if len(names) == 1 else ""
    what = f"{shared}{' and '.join(names)}, set to the system's by phc2sys during a trial"
    if others:
        what += f"; running already: {', '.join(others)}"
    remedy = f"Stop {' and '.join(others)}: two would set one clock"
    yield here.finding(check, STOP if others else PASS, what, remedy if others else "")
