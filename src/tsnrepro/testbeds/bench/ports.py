"""A bench's ports: checked, moved into namespaces for a campaign, and given back.

The namespaces have names, so that they, with the ports in them, outlive a campaign that is killed;
``tsnrepro restore`` takes the ports out of them by the journal. After a power failure there are no
namespaces, and the ports are where they were.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tsnrepro.common.errors import TestbedError, TsnreproError
from tsnrepro.common.topology import CARD, HOST_PORT, LISTENER, SWITCHES, TALKER, member_names
from tsnrepro.config import BenchSettings
from tsnrepro.testbeds.bench.clocks import missing_tools
from tsnrepro.testbeds.hosts import nic_timestamps, ports
from tsnrepro.testbeds.hosts.local import LocalHost
from tsnrepro.testbeds.hosts.remote import saved_state_of
from tsnrepro.testbeds.hosts.rollback import Journal, Rollback
from tsnrepro.testbeds.hosts.shell import CommandSink, Shell
from tsnrepro.tools.ethtool import missing_timestamping
from tsnrepro.tools.parsing import json_rows

HERE = "this machine"
ROLES = dict(zip((TALKER, LISTENER), SWITCHES, strict=True))
"""The host whose namespaces a role's ports are moved into: the role's own if that has a driver."""
_REMEDY = (
    "Plug in a port that is missing; remove this file once every port is as it should be, which a "
    "reboot does"
)
_LINK_LOCAL_ROUTES = ("fe80::/64", "multicast", "ff00::/8")


@dataclass(frozen=True)
class Port:
    """A port: its role, its device on this machine, and its name in the namespaces of ``host``."""

    role: str
    device: str
    host: str
    name: str

    def namespace(self, testbed: str) -> str:
        """Return the name of the network namespace that a campaign on a testbed moves it into."""
        return namespace(testbed, self.host)


def namespace(testbed: str, host: str) -> str:
    """Return the name of the network namespace of a host of a bench."""
    return f"tsnrepro-{testbed}-{host}"


def ports_of(settings: BenchSettings) -> list[Port]:
    """Return the ports of a bench."""
    found = []
    for role, switch in ROLES.items():
        driven, devices = switch in settings.driven, getattr(settings.ports, role)
        names = [CARD] if driven else member_names(len(devices))
        host = role if driven else switch
        found += [Port(role, d, host, n) for d, n in zip(devices, names, strict=True)]
    return found


def local_shell(sink: CommandSink | None = None) -> Shell:
    """Return the commands on this machine."""
    return Shell(LocalHost(HERE), sink)


# --- refusals ---------------------------------------------------------------------------------


def check(shell: Shell, settings: BenchSettings) -> None:
    """Refuse ports that are in use, or that would not measure what records say.

    Raises
    ------
    TestbedError
        A port does not exist, is a loopback or virtual device, has another name, is below a bridge,
        bond or VLAN, carries the login, an address or a route, has filters or queues, or runs at
        another speed.
    """
    listed = ports_of(settings)
    for port in listed:
        _check_device(shell, port.device, virtual=settings.virtual_ports)
    ports.check_login(shell, [port.device for port in listed])
    for port in listed:
        _check_unused(shell, port.device)
        ports.check_filters(shell, port.device, ports.save(shell, port.device))
        ports.check_queues(shell, port.device)
        if "UP" in ports.link_of(shell, port.device)["flags"]:
            ports.check_speed(shell, port.device, settings.link_rate_mbps)


def _check_device(shell: Shell, device: str, *, virtual: bool) -> None:
    """Refuse a device that is none, has another name, or is not a card's."""
    shown = shell.query(["ip", "-j", "link", "show", "dev", device])
    if shown.exit_status:
        raise ports.no_device(shell, device)
    (link,) = json_rows(shown.stdout, "ip")
    if link["ifname"] != device:
        raise TestbedError(
            f"{device} is another name of {link['ifname']}", HERE, f"Name it {link['ifname']}"
        )
    if "LOOPBACK" in link["flags"]:
        raise TestbedError(f"{device} is a loopback device", HERE, "Name a network card's port")
    in_hardware = shell.query(["test", "-e", f"/sys/class/net/{device}/device"]).exit_status == 0
    if not (in_hardware or virtual):
        raise TestbedError(
            f"{device} is a virtual device, not a network card's port",
            HERE,
            "Name a network card's port, or set `virtual_ports: true` to try the bench without one",
        )


def _check_unused(shell: Shell, device: str) -> None:
    """Refuse a port whose own traffic a campaign would cut off."""
    ports.check_master(shell, device)
    entries = shell.query(["ls", f"/sys/class/net/{device}"]).stdout.split()
    if uppers := [name.removeprefix("upper_") for name in entries if name.startswith("upper_")]:
        raise TestbedError(
            f"{device} is the lower device of {', '.join(uppers)}",
            HERE,
            f"`ip link del dev {uppers[0]}` if nothing needs it, or name another port",
        )
    if found := _addresses(shell, device):
        raise TestbedError(
            f"{device} has the address {found[0]}, which a campaign would remove",
            HERE,
            f"`ip addr del {found[0]} dev {device}` if nothing needs it, or name another port",
        )
    if routes := _routes(shell, device):
        raise TestbedError(
            f"{device} carries the route to {routes[0]}, which a campaign would remove",
            HERE,
            f"`ip route del {routes[0]} dev {device}` if nothing needs it, or name another port",
        )


def _addresses(shell: Shell, device: str) -> list[str]:
    """Return the addresses of a port, without IPv6's link-local ones, which any port has."""
    shown = ports.read_json(shell, ["ip", "-j", "addr", "show", "dev", device])
    found = [each for link in shown for each in link.get("addr_info", [])]
    return [
        f"{each['local']}/{each['prefixlen']}"
        for each in found
        if each["family"] == "inet" or each["scope"] != "link"
    ]


def _routes(shell: Shell, device: str) -> list[str]:
    found = [
        route.get("dst", "default")
        for family in ("-4", "-6")
        for route in ports.read_json(shell, ["ip", "-j", family, "route", "show", "dev", device])
    ]
    return [each for each in found if each not in _LINK_LOCAL_ROUTES]


# --- state ------------------------------------------------------------------------------------


def save(shell: Shell, settings: BenchSettings) -> dict[str, Any]:
    """Return the state of the ports by device: what a campaign changes, and the MAC address."""
    return {port.device: _save(shell, port.device) for port in ports_of(settings)}


def _save(shell: Shell, device: str) -> dict[str, Any]:
    return {
        "mac": ports.link_of(shell, device)["address"],
        "port": ports.save(shell, device),
        "stamps": _stamps(shell, device),
    }


def _stamps(shell: Shell, device: str) -> list[int] | None:
    """Return the time stamping of a card that a campaign may change, None of any other."""
    shown = shell.query(["ethtool", "-T", device]).stdout
    if missing_timestamping(shown, every_frame=True) or missing_tools(shell):
        return None
    return nic_timestamps.policy(shell, device)


def _restore(shell: Shell, device: str, state: dict[str, Any]) -> None:
    """Restore the state of a port that is back on this machine, and verify it."""
    ports.restore(shell, device, state["port"])
    stamps = state.get("stamps")
    if stamps is not None and nic_timestamps.policy(shell, device) != stamps:
        nic_timestamps.set_policy(shell, device, stamps)
    now = ports.save(shell, device)
    if now != now | state["port"] and not shell.dry_run:
        raise TestbedError(f"{device} is not restored: it is {now} and was {state['port']}", HERE)


# --- moving -----------------------------------------------------------------------------------


@contextmanager
def moved(
    shell: Shell,
    settings: BenchSettings,
    journal: Journal,
    pids: Mapping[str, int],
    listed: list[Port] | None = None,
) -> Iterator[None]:
    """Move the ports into the network namespaces of hosts for a block, and give them back after it.

    Parameters
    ----------
    shell
        Commands on this machine.
    settings
        Settings of the testbed.
    journal
        Gets the ports' state before the first is moved.
    pids
        A process in the namespaces of each host.
    listed
        Where each port goes; by default as :func:`ports_of` says.

    Raises
    ------
    TestbedError
        A port is in use or cannot be moved, or is not back as it was; all others are.
    """
    check(shell, settings)
    listed = listed or ports_of(settings)
    entry: dict[str, Any] = {"settings": settings.model_dump(mode="json"), "token": ""}
    entry["ports"] = [asdict(port) for port in listed]
    journal.write(entry | {"state": save(shell, settings)})
    with Rollback() as rollback:
        rollback.defer(give_back, journal)
        for host, pid in pids.items():
            shell.change(["ip", "netns", "attach", namespace(journal.testbed, host), str(pid)])
        for port in listed:
            _move(shell, port.device, port.name, pids[port.host])
        yield


def _move(shell: Shell, device: str, name: str, pid: int, source: tuple[str, ...] = ()) -> None:
    ip = ["ip", *source]
    # A device that is up cannot be renamed.
    shell.change([*ip, "link", "set", "dev", device, "down"])
    shell.change([*ip, "link", "set", "dev", device, "netns", str(pid), "name", name])


def give_back(journal: Journal, sink: CommandSink | None = None) -> bool:
    """Give back the ports of a campaign by its journal, wherever it left them.

    Parameters
    ----------
    journal
        Journal of the testbed.
    sink
        Receives the commands that would change something, for a dry run.

    Returns
    -------
    bool
        Whether there was anything to give back.

    Raises
    ------
    TestbedError
        A port is missing or not as it was. All others are given back.
    """
    entry = journal.read()
    if entry is None:
        return False
    states = entry["state"] or {}
    shell, problems, spaces, lost = local_shell(sink), [], set(), {*states}
    listed = entry.get("ports")
    if not listed or not isinstance(listed, list):
        # Journals of former releases do not list the ports.
        listed = map(asdict, ports_of(journal.settings(entry, BenchSettings)))
    for saved in listed:
        try:
            with saved_state_of(f"port {saved}"):
                port = Port(**saved)
                if not all(isinstance(value, str) for value in saved.values()):
                    raise TypeError("each value is a name")
            lost.discard(port.device)
            spaces.add(port.namespace(journal.testbed))
            with saved_state_of(port.device):
                _give_back(shell, journal.testbed, port, states.get(port.device))
        except TsnreproError as error:
            problems.append(str(error))
    problems += [f"the saved state of {device} lacks where it was moved" for device in lost]
    for space in spaces:
        # With a port in it that the journal does not find, it is kept.
        if not (problems and {*_devices_in(shell, space)} - {"lo", HOST_PORT}):
            _remove_namespace(shell, space)
    if problems:
        raise TestbedError("; ".join(problems), str(journal.path), _REMEDY)
    if sink is None:
        journal.remove()
    return True


def _give_back(shell: Shell, testbed: str, port: Port, state: Any) -> None:
    """Bring a port here and restore its state; one without a state is brought here."""
    state = state if isinstance(state, dict) else {}
    if _bring_here(shell, testbed, port, state.get("mac", "")):
        _restore(shell, port.device, state)


def _bring_here(shell: Shell, testbed: str, port: Port, mac: str) -> bool:
    """Move a port back and return whether it is here, which on a dry run it need not be."""
    space = port.namespace(testbed)
    inside = _devices_in(shell, space)
    named = [name for name in (port.name, port.device) if name in inside]
    # Renamed meanwhile.
    named += [name for name, address in inside.items() if address == mac]
    if named:
        _move(shell, named[0], port.device, os.getpid(), ("-n", space))
        return not shell.dry_run
    if ports.links(shell, [port.device]):
        return True
    # The kernel moves a card out of a namespace that ends, under the name that it had there.
    renamed = _device_with(shell, mac) if mac else None
    if renamed is None:
        raise TestbedError(f"{port.device} ({mac}) is neither here nor in {space}", HERE)
    shell.change(["ip", "link", "set", "dev", renamed, "down"])
    shell.change(["ip", "link", "set", "dev", renamed, "name", port.device])
    return not shell.dry_run


def _devices_in(shell: Shell, space: str) -> dict[str, str]:
    """Return the devices in a network namespace with their MAC addresses."""
    shown = shell.query(["ip", "-n", space, "-j", "link", "show"])
    rows = [] if shown.exit_status else json_rows(shown.stdout, "ip")
    return {row["ifname"]: row["address"] for row in rows if "address" in row}


def _device_with(shell: Shell, mac: str) -> str | None:
    """Return the device of this machine that has a MAC address."""
    named = shell.query(["sh", "-c", 'grep -ilx "$1" /sys/class/net/*/address', "sh", mac])
    found = named.stdout.split()
    return found[0].split("/")[-2] if found else None


def _remove_namespace(shell: Shell, space: str) -> None:
    if shell.query(["test", "-e", f"/run/netns/{space}"]).exit_status == 0:
        shell.change(["ip", "netns", "delete", space])
