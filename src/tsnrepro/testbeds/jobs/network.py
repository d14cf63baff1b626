"""The commands that make a job's network of devices that are there, each with its host.

A script renders them for namespaces (:mod:`tsnrepro.testbeds.jobs.script`), sessions run them on
hosts reached over SSH (:mod:`tsnrepro.testbeds.jobs.sessions`).
"""

import ipaddress
import random
from collections.abc import Callable, Iterator

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.jobs.job import Job, LinkEnd, Vlan
from tsnrepro.tools.kernel import disable_offloads

Command = tuple[str, list[str]]
"""A host and the words of a command there."""

# Long enough for the kernel to have started the queues of links that came up last.
_SETTLE_SECONDS = 0.1
# The seed decides when in these seconds the first step starts: that is how two seeds meet two
# phases of a gate schedule, and how a repetition in virtual time is more than a copy.
_PHASE_SECONDS = 0.1


def settle_seconds(job: Job) -> float:
    """Return how long a job waits between its links and its first step."""
    return _SETTLE_SECONDS + _PHASE_SECONDS * random.Random(job.seed).random()


def without_ipv6(*devices: str) -> list[str]:
    """Return the command that keeps the kernel's own neighbour discovery off some devices."""
    # With slashes, because a VLAN device has a dot in its name.
    off = [f"net/ipv6/conf/{device}/disable_ipv6=1" for device in devices]
    return ["sysctl", "--ignore", "-qw", *off]


def taken(port: LinkEnd) -> Iterator[list[str]]:
    """Yield what takes a device down, and from it what the job might inherit."""
    link = ["ip", "link", "set", "dev", port.device]
    yield [*link, "down"]
    yield ["ip", "address", "flush", "dev", port.device]
    yield without_ipv6(port.device)
    yield [*link, "mtu", str(port.mtu)]


def made(job: Job) -> list[tuple[str, str]]:
    """Return host and name of every device that a job makes on its ports: VLANs and bridges."""
    vlans = [(port.host, vlan_device(port, vlan)) for port in job.ports() for vlan in port.vlans]
    return [*vlans, *((bridge.host, bridge.device) for bridge in job.bridges)]


def vlan_device(port: LinkEnd, vlan: Vlan) -> str:
    """Return the name of a VLAN device."""
    return f"{port.device}.{vlan.vlan_id}"


def set_up(job: Job) -> Iterator[Command]:
    """Yield what turns offloads off and makes VLAN devices and bridges, while all is down."""
    for port in job.ports():
        yield port.host, disable_offloads(port.device)
        for vlan in port.vlans:
            yield port.host, _vlan(port, vlan)
    for bridge in job.bridges:
        # A switch of static entries: no group messages of its own among the traffic.
        kind = ["type", "bridge", "mcast_snooping", "0"]
        yield bridge.host, ["ip", "link", "add", bridge.device, *kind]
        for port in bridge.ports:
            yield bridge.host, ["ip", "link", "set", port, "master", bridge.device]


def _vlan(port: LinkEnd, vlan: Vlan) -> list[str]:
    add = ["ip", "link", "add", "link", port.device, "name", vlan_device(port, vlan)]
    egress = [f"{priority}:{pcp}" for priority, pcp in vlan.egress_pcp]
    ingress = [f"{pcp}:{priority}" for pcp, priority in vlan.ingress_priority]
    maps = [*(["egress-qos-map", *egress] if egress else [])]
    maps += ["ingress-qos-map", *ingress] if ingress else []
    return [*add, "type", "vlan", "id", str(vlan.vlan_id), *maps]


def up(job: Job, hardware_address: Callable[[LinkEnd], str]) -> Iterator[Command]:
    """Yield what brings all devices up and makes the hosts' addresses known to each other.

    Raises
    ------
    TestbedError
        An address of the topology is none.
    """
    for port in job.ports():
        names = [port.device, *(vlan_device(port, vlan) for vlan in port.vlans)]
        yield from ((port.host, ["ip", "link", "set", name, "up"]) for name in names)
    for bridge in job.bridges:
        yield bridge.host, ["ip", "link", "set", bridge.device, "up"]
    addressed = addresses(job)
    for port, device, address in addressed:
        yield port.host, ["ip", "address", "add", str(address), "dev", device]
    for port, device, address in addressed:
        for other, _, neighbour in addressed:
            if other.host != port.host and neighbour.ip in address.network:
                lladdr = ["lladdr", hardware_address(other), "nud", "permanent"]
                entry = [str(neighbour.ip), *lladdr, "dev", device]
                yield port.host, ["ip", "neighbour", "replace", *entry]


def addresses(job: Job) -> list[tuple[LinkEnd, str, ipaddress.IPv4Interface]]:
    """Return every address of the topology with its port and its device.

    Raises
    ------
    TestbedError
        One is no address.
    """
    return list(_addresses(job))


def _addresses(job: Job) -> Iterator[tuple[LinkEnd, str, ipaddress.IPv4Interface]]:
    for port in job.ports():
        places = [(port.device, port.addresses)]
        places += [(vlan_device(port, vlan), vlan.addresses) for vlan in port.vlans]
        for device, given in places:
            for address in given:
                try:
                    yield port, device, ipaddress.IPv4Interface(address)
                except ValueError as error:
                    where = f"job {job.name}, {port.host} {device}"
                    raise TestbedError(f"no IPv4 address: {error}", where) from error
