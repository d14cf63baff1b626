"""Existing network devices of remote hosts: checked, set up for a job, and restored.

Only devices in the job's topology are changed. A device in use is refused: its queues, its bridge
and its IPv4 routes could not be restored. IPv6 routes are not checked, and not restored.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts.host import RemoteHost, run_checked
from tsnrepro.testbeds.hosts.ports import NO_DEVICE, qdiscs, read_json, server_address
from tsnrepro.testbeds.hosts.rollback import Rollback
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.jobs import network
from tsnrepro.testbeds.jobs.job import Job, LinkEnd
from tsnrepro.tools import ethtool

# Two network cards negotiate a speed within about 3 s.
_CARRIER_SECONDS = 30
_POLL_SECONDS = 0.05
_DELETE = '[ ! -e "/sys/class/net/$1" ] || exec ip link delete dev "$1"'


class Devices:
    """The devices of a job on the hosts that it names.

    Raises TestbedError if a device is missing or in use, or a device that the job creates already
    exists.
    """

    def __init__(self, job: Job, hosts: Mapping[str, RemoteHost]) -> None:
        self._job, self._hosts = job, hosts
        network.addresses(job)
        self._before = {_key(port): _device(hosts[port.host], port.device) for port in job.ports()}
        for port in job.ports():
            for use in _uses(hosts[port.host], self._before[_key(port)]):
                raise TestbedError(
                    f"device {port.device} is in use: {use}",
                    f"job {job.name}, host {port.host}",
                    "Use another device in the job, or free this one",
                )
        for name, device in network.created_devices(job):
            if _find_device(hosts[name], device):
                raise TestbedError(
                    f"device {device} already exists",
                    f"job {job.name}, host {name}",
                    f"Remove it: ip link delete dev {device}",
                )

    def set_up(self, rollback: Rollback) -> None:
        """Configure all devices for the job, and leave them down.

        Raises TestbedError if a command failed, for instance because a device does not support the
        MTU.
        """
        for port in self._job.ports():
            self._prepare(port, rollback)
        created = network.created_devices(self._job)
        for name, device in created:
            rollback.defer(run_checked, self._hosts[name], ["sh", "-c", _DELETE, "sh", device])
        self._run(network.set_up(self._job))
        self._run((name, network.disable_ipv6(device)) for name, device in created)

    def bring_up(self) -> None:
        """Set all devices up and wait for all links.

        Raises TestbedError if a command failed, or a link did not come up.
        """
        self._run(network.up(self._job, lambda port: self._before[_key(port)]["address"]))
        end = time.monotonic() + _CARRIER_SECONDS
        for port in self._job.ports():
            while _device(self._hosts[port.host], port.device)["operstate"] != "UP":
                if time.monotonic() > end:
                    raise TestbedError(
                        f"device {port.device} did not come up within {_CARRIER_SECONDS} s",
                        f"job {self._job.name}, host {port.host}",
                        "Check the cable and the device at its other end",
                    )
                time.sleep(_POLL_SECONDS)

    def _run(self, commands: Iterator[network.Command]) -> None:
        for name, argv in commands:
            run_checked(self._hosts[name], argv)

    def _prepare(self, port: LinkEnd, rollback: Rollback) -> None:
        """Set a device down, and reset what the job would inherit."""
        host, device, before = self._hosts[port.host], port.device, self._before[_key(port)]
        link, ipv6 = ["ip", "link", "set", "dev", device], f"net/ipv6/conf/{device}/disable_ipv6"
        flush = ["ip", "address", "flush", "dev", device]
        ipv6_before = run_checked(host, ["sysctl", "--ignore", "-n", ipv6]).strip()
        if "UP" in before["flags"]:
            rollback.defer(run_checked, host, [*link, "up"])
        for address in before["addr_info"]:
            if arguments := _address_arguments(address):
                add = ["ip", "address", "add", *arguments, "dev", device]
                rollback.defer(run_checked, host, add)
        if ipv6_before:
            rollback.defer(run_checked, host, ["sysctl", "-qw", f"{ipv6}={ipv6_before}"])
        rollback.defer(run_checked, host, [*link, "mtu", str(before["mtu"])])
        rollback.defer(_restore_offloads, host, device, _offloads(host, device))
        rollback.defer(run_checked, host, flush)
        rollback.defer(_delete_qdiscs, host, device)
        rollback.defer(run_checked, host, [*link, "down"])
        for argv in network.reset(port):
            run_checked(host, argv)


def _key(port: LinkEnd) -> tuple[str, str]:
    return port.host, port.device


def _find_device(host: RemoteHost, device: str) -> dict[str, Any] | None:
    """Return a device from ``ip address show``, None if the host has no such device."""
    try:
        rows = read_json(Shell(host), ["ip", "-j", "address", "show", "dev", device])
    except TestbedError as error:
        if not NO_DEVICE.search(str(error)):
            raise
        return None
    return next((row for row in rows if row.get("ifname") == device), None)


def _device(host: RemoteHost, device: str) -> dict[str, Any]:
    found = _find_device(host, device)
    if found is None:
        raise TestbedError(
            f"there is no device {device}",
            f"host {host.name}",
            "Correct the job, or install the network card of this name",
        )
    return found


def _uses(host: RemoteHost, before: Mapping[str, Any]) -> Iterator[str]:
    device, shell = before["ifname"], Shell(host)
    if "master" in before:
        yield f"it is a port of {before['master']}"
    if server_address(shell) in [address.get("local") for address in before["addr_info"]]:
        yield "the SSH connection uses it"
    for row in read_json(shell, ["ip", "-j", "route", "show", "dev", device]):
        if row.get("protocol") != "kernel":
            yield f"a route to {row.get('dst')} uses it"
    for row in qdiscs(shell, device):
        yield f"it has the queueing discipline {row['kind']} {row['handle']}"


def _delete_qdiscs(host: RemoteHost, device: str) -> None:
    rows = qdiscs(Shell(host), device)
    parents = ["root"] if any(row.get("root") for row in rows) else []
    parents += [row["kind"] for row in rows if row["kind"] in ("clsact", "ingress")]
    for parent in parents:
        run_checked(host, ["tc", "qdisc", "delete", "dev", device, parent])


def _address_arguments(shown: Mapping[str, Any]) -> list[str]:
    """Return the arguments of ``ip address add``, empty for the kernel's own addresses."""
    if shown["family"] == "inet6" and shown.get("scope") == "link":
        return []
    length = f"/{shown['prefixlen']}"
    peer = ["peer", shown["address"] + length] if "address" in shown else []
    broadcast = ["broadcast", shown["broadcast"]] if "broadcast" in shown else []
    return [shown["local"] + ("" if peer else length), *peer, *broadcast]


def _offloads(host: RemoteHost, device: str) -> dict[str, str]:
    """Return the changeable offloads of a device, each ``on`` or ``off``."""
    features = ethtool.parse_features(run_checked(host, ["ethtool", "-k", device]))
    return {name: "on" if on else "off" for name, (on, fixed) in features.items() if not fixed}


def _restore_offloads(host: RemoteHost, device: str, before: Mapping[str, str]) -> None:
    now = _offloads(host, device)
    changed = [(name, state) for name, state in before.items() if now.get(name) != state]
    if changed:
        run_checked(host, ["ethtool", "-K", device, *(word for pair in changed for word in pair)])
