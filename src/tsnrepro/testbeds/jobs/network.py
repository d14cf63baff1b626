"""Commands that configure a job's network on existing devices, each with its host.

In a script they are run in namespaces (:mod:`tsnrepro.testbeds.jobs.script`), in sessions on remote
hosts (:mod:`tsnrepro.testbeds.jobs.sessions`).
"""

import ipaddress
import random
from collections.abc import Callable, Iterator

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.jobs.job import Job, LinkEnd, Vlan
from tsnrepro.tools.ethtool import disable_offloads

Command = tuple[str, list[str]]
"""A host and a command on it."""

# Time for the kernel to start the queues of the links.
_SETTLE_SECONDS = 0.1
# The seed determines when in this time the first step starts: two seeds then start at two phases of
# a gate schedule, and a repetition in virtual time is not a copy.
_PHASE_SECONDS = 0.1


def settle_seconds(job: Job) -> float:
    """Return the time that a job waits between its links and its first step."""
    return _SETTLE_SECONDS + _PHASE_SECONDS * random.Random(job.seed).random()


def disable_ipv6(*devices: str) -> list[str]:
    """Return the command that disables IPv6 on devices, which sends neighbour discovery."""
    # With slashes, because a VLAN device has a dot in its name.
    off = [f"net/ipv6/conf/{device}/disable_ipv6=1" for device in devices]
    return ["sysctl", "--ignore", "-qw", *off]


def reset(port: LinkEnd) -> Iterator[list[str]]:
    """Yield the commands that set a device down and reset what a job would inherit."""
    link = ["ip", "link", "set", "dev", port.device]
    yield [*link, "down"]
    yield ["ip", "address", "flush", "dev", port.device]
    yield disable_ipv6(port.device)
    yield [*link, "mtu", str(port.mtu)]


def created_devices(job: Job) -> list[tuple[str, str]]:
    """Return host and name of every device that a job creates: VLANs and bridges."""
    vlans = [(port.host, vlan_device(port, vlan)) for port in job.ports() for vlan in port.vlans]
    return [*vlans, *((bridge.host, bridge.device) for bridge in job.bridges)]


def vlan_device(port: LinkEnd, vlan: Vlan) -> str:
    """Return the name of a VLAN device."""
    return f"{port.device}.{vlan.vlan_id}"


def set_up(job: Job) -> Iterator[Command]:
    """Yield the commands that disable offloads and create VLANs and bridges, with links down."""
    for port in job.ports():
        yield port.host, disable_offloads(port.device)
        for vlan in port.vlans:
            yield port.host, _vlan(port, vlan)
    for bridge in job.bridges:
        # No group messages of the switch's own.
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
    """Yield the commands that set all devices up, and addresses and neighbour entries.

    Raises TestbedError if an address of the topology is invalid.
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
    """Return all addresses of the topology with their ports and devices.

    Raises TestbedError if an address is invalid.
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
                    raise TestbedError(f"invalid IPv4 address: {error}", where) from error
