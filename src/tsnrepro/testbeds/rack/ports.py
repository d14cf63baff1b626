"""Ports of a Linux host: what is changed of them for a campaign, and their state before."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.rack.shell import Shell, as_line
from tsnrepro.tools import kernel

# Room for the R-TAG and a VLAN tag.
MEMBER_MTU = 1600

OTHER_WAY_IN = "Give the host an address on another card or port, and log in there"
# SSH_CONNECTION has the client's address and port, and then the server's.
_SERVER = 'set -- $SSH_CONNECTION; echo "$3"'

# What ethtool -K calls a feature and what ethtool -k calls it.
_FEATURES = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "sg": "scatter-gather",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
    "txvlan": "tx-vlan-offload",
    "rxvlan": "rx-vlan-offload",
}
_FEATURE = re.compile(r"^([a-z0-9-]+): (on|off)( \[fixed\])?", re.MULTILINE)


def links(shell: Shell) -> dict[str, dict[str, Any]]:
    """Return the host's network devices by name, as ``ip -j -d link`` describes them.

    Raises
    ------
    TestbedError
        The host's ip prints no JSON.
    """
    text = shell.read(["ip", "-j", "-d", "link", "show"])
    try:
        return {link["ifname"]: link for link in json.loads(text)}
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise TestbedError(
            f"ip printed no JSON: {text.strip()[:200]}", shell.name, "Install iproute2"
        ) from error


def link_of(shell: Shell, device: str) -> dict[str, Any]:
    """Return one device of the host.

    Raises
    ------
    TestbedError
        The host has no such device; the message names those it has.
    """
    found = links(shell)
    if device not in found:
        raise no_device(shell, device, found)
    return found[device]


def no_device(shell: Shell, device: str, found: dict[str, Any]) -> TestbedError:
    """Return the error for a device that a host does not have."""
    has = f"It has: {', '.join(sorted(found))}"
    return TestbedError(f"there is no network device '{device}'", shell.name, has)


def login_over(shell: Shell, measured: list[str]) -> str | None:
    """Return the device that the login comes over: a measured port also where it is its VLAN's."""
    # A link-local address has the device behind a percent sign.
    server = shell.read(["sh", "-c", _SERVER]).strip().partition("%")[0]
    for link in json.loads(shell.read(["ip", "-j", "addr", "show"]) or "[]"):
        if server and any(each.get("local") == server for each in link.get("addr_info", [])):
            names = (link["ifname"], link.get("link"))
            return next((name for name in names if name in measured), names[0])
    return None


def refuse_login_over(shell: Shell, measured: list[str]) -> None:
    """Refuse a host that is reached over a measured port: setting it up would cut the way off.

    Raises
    ------
    TestbedError
        It is.
    """
    device = login_over(shell, measured)
    if device in measured:
        raise TestbedError(
            f"the login comes over the measured port {device}", shell.name, OTHER_WAY_IN
        )


def save(shell: Shell, device: str) -> dict[str, Any]:
    """Return the state of a port, as far as :func:`restore` brings it back."""
    link = link_of(shell, device)
    asked = [
        ["ethtool", "-k", device],
        ["tc", "-j", "qdisc", "show", "dev", device],
        # A kernel without IPv6 has no such key, and prints nothing.
        ["sysctl", "--ignore", "-n", _ipv6_key(device)],
    ]
    ended = shell.ask_all(asked)
    for argv, (status, printed) in zip(asked, ended, strict=True):
        if status:
            raise TestbedError(printed.strip()[-300:], as_line(shell.name, argv))
    offloads, queues, ipv6 = (printed for _, printed in ended)
    return {
        "up": "UP" in link["flags"],
        "mtu": link["mtu"],
        "offloads": _offloads(offloads),
        "clsact": any(q["kind"] in ("clsact", "ingress") for q in json.loads(queues or "[]")),
        "disable_ipv6": ipv6.strip(),
    }


def own_queues(shell: Shell, device: str) -> list[str]:
    """Return the kinds of the queueing disciplines that somebody gave a port."""
    shown = json.loads(shell.read(["tc", "-j", "qdisc", "show", "dev", device]) or "[]")
    filters = ("clsact", "ingress")
    # The kernel gives its own no number.
    return [r["kind"] for r in shown if r["handle"] != "0:" and r["kind"] not in filters]


def refuse_filters(shell: Shell, device: str, state: dict[str, Any]) -> None:
    """Refuse a port where somebody's own programs or filters hang already.

    Raises
    ------
    TestbedError
        There are some.
    """
    if state["clsact"]:
        raise TestbedError(
            f"filters hang on {device} already",
            shell.name,
            f"`tsnrepro restore` where a campaign left them, else `tc qdisc del dev {device} "
            "clsact` on the host",
        )


def prepare(shell: Shell, device: str, mtu: int | None, *, silent: bool) -> None:
    """Set a port up for measuring: one packet a frame, room for tags, link up.

    ``silent`` keeps the kernel from speaking on the port by itself, as befits a switch's.
    """
    commands = [kernel.disable_offloads(device)]
    if silent:
        commands.append(["sysctl", "--ignore", "-qw", f"{_ipv6_key(device)}=1"])
    size = ["mtu", str(mtu)] if mtu else []
    shell.change_all([*commands, ["ip", "link", "set", "dev", device, *size, "up"]])


def restore(shell: Shell, device: str, state: dict[str, Any]) -> None:
    """Bring a port back to a state that :func:`save` returned; what is as it was is left alone."""
    now, commands = save(shell, device), []
    if now["clsact"] and not state["clsact"]:
        commands.append(["tc", "qdisc", "del", "dev", device, "clsact"])
    differing = [name for name, on in state["offloads"].items() if now["offloads"].get(name) != on]
    if differing:
        words = [word for n in differing for word in (n, "on" if state["offloads"][n] else "off")]
        commands.append(["ethtool", "-K", device, *words])
    if now["disable_ipv6"] != state["disable_ipv6"]:
        commands.append(["sysctl", "-qw", f"{_ipv6_key(device)}={state['disable_ipv6']}"])
    shell.change_all([*commands, *link_commands(device, now, state)])


def link_commands(device: str, now: dict[str, Any], state: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the commands that bring back a port's MTU and whether it is up."""
    if now["mtu"] != state["mtu"]:
        yield ["ip", "link", "set", "dev", device, "mtu", str(state["mtu"])]
    if now["up"] != state["up"]:
        yield ["ip", "link", "set", "dev", device, "up" if state["up"] else "down"]


def _ipv6_key(device: str) -> str:
    # sysctl takes slashes for dots, and a VLAN's device has a dot in its name.
    return f"net/ipv6/conf/{device}/disable_ipv6"


def features(printed: str) -> dict[str, tuple[bool, bool]]:
    """Return whether each feature that ``ethtool -k`` printed is on, and whether it is fixed."""
    found = _FEATURE.findall(printed)
    return {name: (value == "on", bool(fixed)) for name, value, fixed in found}


def _offloads(printed: str) -> dict[str, bool]:
    """Return the features that :func:`prepare` turns off, where the card lets them be set."""
    known = features(printed)
    found = {short: known.get(long) for short, long in _FEATURES.items()}
    return {short: state[0] for short, state in found.items() if state and not state[1]}
