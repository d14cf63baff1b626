"""Network ports of a Linux host: their configuration for a campaign, and their saved state."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tsnrepro.common.errors import TestbedError, ToolError
from tsnrepro.testbeds.hosts.host import command_line
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.tools import ethtool
from tsnrepro.tools.parsing import json_rows

# Room for the R-TAG and a VLAN tag.
MEMBER_MTU = 1600

STATION_MTU = 1500
"""What campaigns assume of talker and listener."""

LOGIN_REMEDY = "Assign the host an address on another port, and log in there"
NO_DEVICE = re.compile("does not exist|Cannot find device|can't find device")
"""What ip(8) and tc(8) print of a device that the host lacks."""
# SSH_CONNECTION has the client's address and port, then the server's.
_SERVER = 'set -- $SSH_CONNECTION; echo "$3"'


def read_json(shell: Shell, argv: list[str]) -> list[dict[str, Any]]:
    """Return the JSON that ip(8), tc(8) or bridge(8) prints, an empty list if it prints nothing.

    Raises TestbedError if it is not a list of objects.
    """
    return _parsed(shell, argv[0], shell.read(argv))


def _parsed(shell: Shell, tool: str, text: str) -> list[dict[str, Any]]:
    try:
        return json_rows(text if text.strip() else "[]", tool)
    except ToolError as error:
        remedy = error.remedy or "Install iproute2"
        raise TestbedError(error.what, shell.name, remedy) from error


def links(shell: Shell, devices: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return those of some network devices that exist, as ``ip -j -d link`` describes them.

    Others are not asked for: what ip prints of an unrelated device may be broken JSON.

    Raises TestbedError if the host's ip does not print JSON.
    """
    found = {}
    for device in devices:
        try:
            rows = read_json(shell, ["ip", "-j", "-d", "link", "show", "dev", device])
        except TestbedError as error:
            if not NO_DEVICE.search(str(error)):
                raise
            rows = []
        found |= {row["ifname"]: row for row in rows if row.get("ifname") == device}
    return found


def link_of(shell: Shell, device: str) -> dict[str, Any]:
    """Return a network device of the host.

    Raises TestbedError if the host has no such device; the message lists its devices.
    """
    found = links(shell, [device])
    if device not in found:
        raise no_device(shell, device)
    return found[device]


def no_device(shell: Shell, device: str) -> TestbedError:
    """Return the error for a network device that the host lacks."""
    names = shell.query(["ls", "/sys/class/net"]).stdout.split()
    devices = f"Its devices: {', '.join(sorted(names))}"
    return TestbedError(f"there is no network device '{device}'", shell.name, devices)


def addresses(shell: Shell, device: str) -> list[str]:
    """Return the IPv4 addresses of a device with their prefix lengths, sorted."""
    shown = read_json(shell, ["ip", "-j", "-4", "addr", "show", "dev", device])
    found = [entry for link in shown for entry in link.get("addr_info", [])]
    return sorted(f"{e['local']}/{e['prefixlen']}" for e in found if e["family"] == "inet")


def login_device(shell: Shell, measured: list[str]) -> str | None:
    """Return the device of the SSH connection: the measured port below it, if there is one."""
    # A link-local address has its device after a percent sign.
    server = shell.read(["sh", "-c", _SERVER]).strip().partition("%")[0]
    shown = read_json(shell, ["ip", "-j", "addr", "show"])
    links = [link for link in shown if "ifname" in link]
    for link in links:
        if server and any(each.get("local") == server for each in link.get("addr_info", [])):
            name = link["ifname"]
            return next((port for port in measured if name in _with_uppers(links, port)), name)
    return None


def _with_uppers(links: list[dict[str, Any]], device: str) -> set[str]:
    """Return a device with all above it: its bridge or bond, its VLANs, and theirs."""
    found, further = set(), {device}
    while further:
        found |= further
        above = {link["ifname"] for link in links if link.get("link") in further}
        above |= {
            link["master"] for link in links if link["ifname"] in further and "master" in link
        }
        further = above - found
    return found


def check_login(shell: Shell, measured: list[str]) -> None:
    """Refuse a host whose SSH connection uses a measured port: setting it up would cut it."""
    device = login_device(shell, measured)
    if device in measured:
        raise TestbedError(
            f"the SSH connection uses the measured port {device}", shell.name, LOGIN_REMEDY
        )


def check_master(shell: Shell, device: str) -> None:
    """Refuse a port of a bridge or bond, which measured frames would reach."""
    if master := link_of(shell, device).get("master"):
        raise TestbedError(
            f"{device} is a port of {master}, a bridge or bond",
            shell.name,
            f"`ip link set dev {device} nomaster` on the host, or use another port",
        )


def save(shell: Shell, device: str) -> dict[str, Any]:
    """Return the state of a port that :func:`restore` restores."""
    link = link_of(shell, device)
    commands = [
        ["ethtool", "-k", device],
        ["tc", "-j", "qdisc", "show", "dev", device],
        # Without IPv6 there is no such key, and nothing is printed.
        ["sysctl", "--ignore", "-n", _ipv6_key(device)],
    ]
    completed = shell.query_all(commands)
    for argv, (status, output) in zip(commands, completed, strict=True):
        if status:
            raise TestbedError(output.strip()[-300:], command_line(shell.name, argv))
    features, qdiscs, ipv6 = (output for _, output in completed)
    kinds = [row.get("kind") for row in _parsed(shell, "tc", qdiscs)]
    return {
        "up": "UP" in link["flags"],
        "promiscuous": "PROMISC" in link["flags"],
        "mtu": link["mtu"],
        "offloads": ethtool.changeable_features(features),
        "clsact": any(kind in ("clsact", "ingress") for kind in kinds),
        "disable_ipv6": ipv6.strip(),
    }


def configured_qdiscs(shell: Shell, device: str) -> list[str]:
    """Return the kinds of the queueing disciplines that were configured on a port."""
    shown = read_json(shell, ["tc", "-j", "qdisc", "show", "dev", device])
    filters = ("clsact", "ingress")
    # The kernel's defaults have no handle.
    return [r["kind"] for r in shown if r["handle"] != "0:" and r["kind"] not in filters]


def check_filters(shell: Shell, device: str, state: dict[str, Any]) -> None:
    """Refuse a port that already has programs or filters attached."""
    if state["clsact"]:
        raise TestbedError(
            f"{device} already has filters attached",
            shell.name,
            f"`tsnrepro restore` if a campaign left them, else `tc qdisc del dev {device} "
            "clsact` on the host",
        )


def check_queues(shell: Shell, device: str) -> None:
    """Refuse a port with a configured queueing discipline, which would shape what is measured."""
    if queues := configured_qdiscs(shell, device):
        raise TestbedError(
            f"{device} has configured queues: {', '.join(queues)}",
            shell.name,
            f"`tc qdisc del dev {device} root` on the host, or use another port",
        )


def check_mtu(shell: Shell, device: str, state: dict[str, Any]) -> None:
    """Refuse a station's card that cannot send the frames of a campaign.

    Raises TestbedError if its MTU is too small.
    """
    if state["mtu"] < STATION_MTU:
        raise TestbedError(
            f"{device} has an MTU of {state['mtu']} bytes, and campaigns need {STATION_MTU}",
            shell.name,
            f"`ip link set dev {device} mtu {STATION_MTU}` on the host",
        )


def speed_and_duplex(
    shell: Shell, device: str, rate_mbps: float, *, card: bool = False
) -> tuple[str, bool | None]:
    """Return a port's speed and duplex as text, and whether they are full duplex at a rate.

    None is unknown: the driver does not tell, or the port is none of a card, and has no speed.
    ``card`` says that it is one, else its device tells.
    """
    folder = f"/sys/class/net/{device}"
    speed, duplex = (
        shell.query(["cat", f"{folder}/{name}"]).stdout.strip() for name in ("speed", "duplex")
    )
    shown = f"{speed or 'unknown'} Mb/s, {duplex or 'unknown'} duplex"
    if speed == f"{rate_mbps:g}" and duplex == "full":
        return shown, True
    of_card = card or shell.query(["test", "-e", f"{folder}/device"]).exit_status == 0
    return shown, False if of_card and speed.isdigit() else None


def check_speed(shell: Shell, device: str, rate_mbps: float, *, card: bool = False) -> None:
    """Refuse a card at another speed, or at half duplex."""
    shown, good = speed_and_duplex(shell, device, rate_mbps, card=card)
    if good is False:
        raise TestbedError(
            f"{device} runs at {shown}, and link_rate_mbps is {rate_mbps:g}",
            shell.name,
            f"`ethtool -s {device} speed {rate_mbps:g} duplex full` on the host",
        )


def prepare(shell: Shell, device: str, mtu: int | None, *, silent: bool) -> None:
    """Set a port up for measuring: no offloads, room for tags, link up.

    ``silent`` makes it a switch's: it sends no neighbour discovery of IPv6, and takes frames that
    are addressed to others, which a card drops unless it is promiscuous.
    """
    commands = [ethtool.disable_offloads(device)]
    if silent:
        commands.append(["sysctl", "--ignore", "-qw", f"{_ipv6_key(device)}=1"])
    options = ["mtu", str(mtu)] if mtu else []
    options += ["promisc", "on"] if silent else []
    shell.change_all([*commands, ["ip", "link", "set", "dev", device, *options, "up"]])


def restore(shell: Shell, device: str, state: dict[str, Any]) -> None:
    """Restore a port's state from :func:`save`, changing only what differs.

    Raises TestbedError if a command failed, or the state is damaged: what it has is restored.
    """
    now, commands = save(shell, device), []
    # Journals from before the promiscuous mode was set do not have it.
    lacking = now.keys() - state.keys() - {"promiscuous"}
    state = now | state
    if now["clsact"] and not state["clsact"]:
        commands.append(["tc", "qdisc", "del", "dev", device, "clsact"])
    differing = [name for name, on in state["offloads"].items() if now["offloads"].get(name) != on]
    if differing:
        values = [word for n in differing for word in (n, "on" if state["offloads"][n] else "off")]
        commands.append(["ethtool", "-K", device, *values])
    if now["disable_ipv6"] != state["disable_ipv6"]:
        commands.append(["sysctl", "-qw", f"{_ipv6_key(device)}={state['disable_ipv6']}"])
    shell.change_all([*commands, *link_commands(device, now, state)])
    if lacking:
        lacks = ", ".join(sorted(lacking))
        raise TestbedError(f"the saved state of {device} is damaged: it lacks {lacks}", shell.name)


def link_commands(device: str, now: dict[str, Any], state: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the commands that restore a port's MTU, and its link's and promiscuous state."""
    # Journals from before the promiscuous mode was set do not have it.
    if now.get("promiscuous") != state.get("promiscuous", now.get("promiscuous")):
        mode = "on" if state["promiscuous"] else "off"
        yield ["ip", "link", "set", "dev", device, "promisc", mode]
    if now["mtu"] != state["mtu"]:
        yield ["ip", "link", "set", "dev", device, "mtu", str(state["mtu"])]
    if now["up"] != state["up"]:
        yield ["ip", "link", "set", "dev", device, "up" if state["up"] else "down"]


def _ipv6_key(device: str) -> str:
    # With slashes, because a VLAN's device has a dot in its name.
    return f"net/ipv6/conf/{device}/disable_ipv6"
