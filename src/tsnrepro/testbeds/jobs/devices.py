"""Existing network devices of remote hosts: checked, set up for a job, and restored.

Only devices in the job's topology are changed. A device in use is refused: its queues, its bridge
and its IPv4 routes could not be restored. IPv6 routes are not checked, and not restored.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts import ports
from tsnrepro.testbeds.hosts.host import RemoteHost, run_checked
from tsnrepro.testbeds.hosts.remote import wait_for_links
from tsnrepro.testbeds.hosts.rollback import Rollback
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.jobs import network
from tsnrepro.testbeds.jobs.job import Job, LinkEnd

_DELETE = '[ ! -e "/sys/class/net/$1" ] || exec ip link delete dev "$1"'


class Devices:
    """The devices of a job on the hosts that it names.

    Raises TestbedError if a device is missing or in use, or a device that the job creates already
    exists.
    """

    def __init__(self, job: Job, hosts: Mapping[str, RemoteHost]) -> None:
        self._job, self._hosts = job, hosts
        self._shells = {name: Shell(host) for name, host in hosts.items()}
        network.addresses(job)
        self._before = {
            _key(port): _unused(self._shells[port.host], port.device) for port in job.ports()
        }
        for name, device in network.created_devices(job):
            if ports.links(self._shells[name], [device]):
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
        devices: dict[str, dict[str, str]] = {}
        for port in self._job.ports():
            devices.setdefault(port.host, {})[port.device] = port.device
        wait_for_links(self._shells, devices)

    def _run(self, commands: Iterator[network.Command]) -> None:
        for name, argv in commands:
            run_checked(self._hosts[name], argv)

    def _prepare(self, port: LinkEnd, rollback: Rollback) -> None:
        """Set a device down, and reset what the job would inherit."""
        shell, device = self._shells[port.host], port.device
        for address in self._before[_key(port)]["addr_info"]:
            if arguments := _address_arguments(address):
                add = ["ip", "address", "add", *arguments, "dev", device]
                rollback.defer(shell.change, add)
        rollback.defer(ports.restore, shell, device, ports.save(shell, device))
        rollback.defer(shell.change, ["ip", "address", "flush", "dev", device])
        rollback.defer(_delete_queues, shell, device)
        rollback.defer(shell.change, ["ip", "link", "set", "dev", device, "down"])
        shell.change_all([*network.reset(port)])


def _key(port: LinkEnd) -> tuple[str, str]:
    return port.host, port.device


def _unused(shell: Shell, device: str) -> dict[str, Any]:
    """Return a device with its addresses, or refuse it if it is in use."""
    ports.check_master(shell, device)
    ports.check_login(shell, [device])
    ports.check_filters(shell, device, ports.save(shell, device))
    ports.check_queues(shell, device)
    for row in ports.read_json(shell, ["ip", "-j", "route", "show", "dev", device]):
        if row.get("protocol") != "kernel":
            raise TestbedError(
                f"{device} carries the route to {row.get('dst')}, which a job would remove",
                shell.name,
                f"`ip route del {row.get('dst')} dev {device}` if nothing needs it, or use "
                "another device",
            )
    (shown,) = ports.read_json(shell, ["ip", "-j", "address", "show", "dev", device])
    return shown


def _delete_queues(shell: Shell, device: str) -> None:
    if ports.configured_qdiscs(shell, device):
        shell.change(["tc", "qdisc", "del", "dev", device, "root"])


def _address_arguments(shown: Mapping[str, Any]) -> list[str]:
    """Return the arguments of ``ip address add``, empty for the kernel's own addresses."""
    if shown["family"] == "inet6" and shown.get("scope") == "link":
        return []
    length = f"/{shown['prefixlen']}"
    peer = ["peer", shown["address"] + length] if "address" in shown else []
    broadcast = ["broadcast", shown["broadcast"]] if "broadcast" in shown else []
    return [shown["local"] + ("" if peer else length), *peer, *broadcast]
