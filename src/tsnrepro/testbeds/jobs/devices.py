"""Devices that a host has before a job and keeps after it: looked at, set up, given back.

Only what the job's topology names is touched. A device that somebody uses is refused: its queues,
its place in a bridge or its IPv4 routes could not be given back as they were. IPv6 routes that
somebody gave it are not looked for, and do not come back.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.host import RemoteHost
from tsnrepro.testbeds.jobs import network
from tsnrepro.testbeds.jobs.job import Job, LinkEnd
from tsnrepro.testbeds.jobs.rollback import Undo, run_checked

# Two cards agree on their speed within some 3 s; ten times that is no agreement.
_CARRIER_SECONDS = 30
_LOOK_SECONDS = 0.05
# The kernel gives its own queueing disciplines no number.
_NO_HANDLE = "0:"
_DELETE = '[ ! -e "/sys/class/net/$1" ] || exec ip link delete dev "$1"'
_SERVER_ADDRESS = 'set -- $SSH_CONNECTION; echo "$3"'


class Devices:
    """The devices of a job on the hosts that it names.

    Raises
    ------
    TestbedError
        A host lacks a device, somebody uses it, or a device that the job makes is there already.
    """

    def __init__(self, job: Job, hosts: Mapping[str, RemoteHost]) -> None:
        self._job, self._hosts = job, hosts
        network.addresses(job)
        self._before = {_key(port): _look(hosts[port.host], port.device) for port in job.ports()}
        for port in job.ports():
            for reason in _uses(hosts[port.host], self._before[_key(port)]):
                raise TestbedError(
                    f"device {port.device} is in use: {reason}",
                    f"job {job.name}, host {port.host}",
                    "Give the job another device, or free this one",
                )
        for name, device in network.made(job):
            if _shown(hosts[name], device):
                raise TestbedError(
                    f"there is a device {device} already",
                    f"job {job.name}, host {name}",
                    f"Remove it: ip link delete dev {device}",
                )

    def set_up(self, undo: Undo) -> None:
        """Set all devices up as the job has them, and leave them down.

        Raises
        ------
        TestbedError
            A command failed, for instance because a device takes no such MTU.
        """
        for port in self._job.ports():
            self._prepare(port, undo)
        made = network.made(self._job)
        for name, device in made:
            undo.defer(run_checked, self._hosts[name], ["sh", "-c", _DELETE, "sh", device])
        self._run(network.set_up(self._job))
        self._run((name, network.without_ipv6(device)) for name, device in made)

    def bring_up(self) -> None:
        """Bring all devices up and wait until every link is.

        Raises
        ------
        TestbedError
            A command failed, or a link did not come up.
        """
        self._run(network.up(self._job, lambda port: self._before[_key(port)]["address"]))
        end = time.monotonic() + _CARRIER_SECONDS
        for port in self._job.ports():
            while _look(self._hosts[port.host], port.device)["operstate"] != "UP":
                if time.monotonic() > end:
                    raise TestbedError(
                        f"device {port.device} did not come up within {_CARRIER_SECONDS} s",
                        f"job {self._job.name}, host {port.host}",
                        "Look at the cable and at the device at its other end",
                    )
                time.sleep(_LOOK_SECONDS)

    def _run(self, commands: Iterator[network.Command]) -> None:
        for name, argv in commands:
            run_checked(self._hosts[name], argv)

    def _prepare(self, port: LinkEnd, undo: Undo) -> None:
        """Take a device down, and from it what the job might inherit."""
        host, device, before = self._hosts[port.host], port.device, self._before[_key(port)]
        link, ipv6 = ["ip", "link", "set", "dev", device], f"net/ipv6/conf/{device}/disable_ipv6"
        flush = ["ip", "address", "flush", "dev", device]
        ipv6_was = run_checked(host, ["sysctl", "--ignore", "-n", ipv6]).strip()
        if "UP" in before["flags"]:
            undo.defer(run_checked, host, [*link, "up"])
        for address in before["addr_info"]:
            if words := _address(address):
                undo.defer(run_checked, host, ["ip", "address", "add", *words, "dev", device])
        if ipv6_was:
            undo.defer(run_checked, host, ["sysctl", "-qw", f"{ipv6}={ipv6_was}"])
        undo.defer(run_checked, host, [*link, "mtu", str(before["mtu"])])
        undo.defer(_restore_offloads, host, device, _offloads(host, device))
        undo.defer(run_checked, host, flush)
        undo.defer(_clear_queues, host, device)
        undo.defer(run_checked, host, [*link, "down"])
        for argv in network.taken(port):
            run_checked(host, argv)


def _key(port: LinkEnd) -> tuple[str, str]:
    return port.host, port.device


def _shown(host: RemoteHost, device: str) -> dict[str, Any] | None:
    """Return what ``ip`` tells of a device, None where the host has no such device."""
    rows = _json(host, ["ip", "-j", "address", "show"])
    return next((row for row in rows if row.get("ifname") == device), None)


def _look(host: RemoteHost, device: str) -> dict[str, Any]:
    shown = _shown(host, device)
    if shown is None:
        raise TestbedError(
            f"there is no device {device}",
            f"host {host.name}",
            "Correct the job, or plug the network card in whose name this is",
        )
    return shown


def _uses(host: RemoteHost, before: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a device is used for by others than the job."""
    device = before["ifname"]
    if "master" in before:
        yield f"it is a port of {before['master']}"
    server = run_checked(host, ["sh", "-c", _SERVER_ADDRESS]).strip().partition("%")[0]
    if server in [address.get("local") for address in before["addr_info"]]:
        yield "the SSH session comes in over it"
    for row in _json(host, ["ip", "-j", "route", "show", "dev", device]):
        if row.get("protocol") != "kernel":
            yield f"a route to {row.get('dst')} goes over it"
    for row in _queues(host, device):
        yield f"it has the queueing discipline {row['kind']} {row['handle']}"


def _json(host: RemoteHost, argv: list[str]) -> list[dict[str, Any]]:
    return json.loads(run_checked(host, argv).strip() or "[]")


def _queues(host: RemoteHost, device: str) -> list[dict[str, Any]]:
    """Return the queueing disciplines that somebody gave a device."""
    rows = _json(host, ["tc", "-j", "qdisc", "show", "dev", device])
    return [row for row in rows if row["handle"] != _NO_HANDLE]


def _clear_queues(host: RemoteHost, device: str) -> None:
    rows = _queues(host, device)
    places = ["root"] if any(row.get("root") for row in rows) else []
    places += [row["kind"] for row in rows if row["kind"] in ("clsact", "ingress")]
    for place in places:
        run_checked(host, ["tc", "qdisc", "delete", "dev", device, place])


def _address(shown: Mapping[str, Any]) -> list[str]:
    """Return the words that give a device an address again; the kernel makes its own itself."""
    if shown["family"] == "inet6" and shown.get("scope") == "link":
        return []
    length = f"/{shown['prefixlen']}"
    peer = ["peer", shown["address"] + length] if "address" in shown else []
    broadcast = ["broadcast", shown["broadcast"]] if "broadcast" in shown else []
    return [shown["local"] + ("" if peer else length), *peer, *broadcast]


def _offloads(host: RemoteHost, device: str) -> dict[str, str]:
    """Return the offloads of a device that can be changed, each ``on`` or ``off``."""
    lines = run_checked(host, ["ethtool", "-k", device]).splitlines()[1:]
    pairs = (line.split(":", 1) for line in lines if "[fixed]" not in line and ":" in line)
    return {name.strip(): state.split()[0] for name, state in pairs}


def _restore_offloads(host: RemoteHost, device: str, before: Mapping[str, str]) -> None:
    now = _offloads(host, device)
    changed = [(name, state) for name, state in before.items() if now.get(name) != state]
    if changed:
        run_checked(host, ["ethtool", "-K", device, *(word for pair in changed for word in pair)])
