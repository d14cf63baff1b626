"""What else on a PC has a hand in the measured network: who manages its cards, who drops frames."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tsnrepro.testbeds.rack.findings import PASS, WARN, ExaminedHost, HostFinding

# States of a device as NetworkManager numbers them: 10 is one that it leaves alone.
_NM_STATE = re.compile(r"^(\d+) \(")
_NM_UNMANAGED = 10
_NETWORKD_UNMANAGED = "unmanaged"


def managers(host: ExaminedHost) -> Iterator[HostFinding]:
    """Find network managers that would take a measured card's address or its link away.

    They set a card up anew when its link comes back, which some cards' does when their MTU is set.
    """
    if host.board:
        return
    for device in host.devices.values():
        by = [name for name, told in _MANAGERS.items() if told(host, device)]
        remedy = " and ".join(_LEFT_ALONE[name].format(device=device) for name in by)
        found = ", ".join(by) or "no manager of networks"
        check = f"manager of {device}"
        yield host.finding(check, WARN if by else PASS, found, remedy)


def _by_network_manager(host: ExaminedHost, device: str) -> bool:
    told = host.said("nmcli", "-g", "GENERAL.STATE", "device", "show", device)
    state = _NM_STATE.search(told)
    return state is not None and int(state[1]) > _NM_UNMANAGED


def _by_networkd(host: ExaminedHost, device: str) -> bool:
    """Read the last column of networkctl's list, which says whether it has set the link up."""
    words = host.said("networkctl", "--no-legend", "--no-pager", "list", device).split()
    return len(words) > 1 and words[1] == device and words[-1] != _NETWORKD_UNMANAGED


_MANAGERS = {"NetworkManager": _by_network_manager, "systemd-networkd": _by_networkd}
_LEFT_ALONE = {
    "NetworkManager": "`nmcli device set {device} managed no`",
    "systemd-networkd": "`Unmanaged=yes` in a .network file for {device}",
}


def firewall(host: ExaminedHost) -> Iterator[HostFinding]:
    """Find rules that keep what was measured, or a tool's own connection, from its program."""
    if not host.station:
        return
    ruling = _dropping(host.said("nft", "-j", "list", "ruleset"))
    if re.search(r"^-P INPUT (DROP|REJECT)", host.said("iptables", "-S", "INPUT"), re.MULTILINE):
        ruling.append("iptables INPUT")
    remedy = f"Let {', '.join(host.devices.values())} through, or stop it for the campaign"
    found = f"{', '.join(ruling)} may refuse what comes in" if ruling else "lets everything in"
    yield host.finding("firewall", WARN if ruling else PASS, found, remedy)


def _dropping(printed: str) -> list[str]:
    """Return the chains of nftables that see what comes in, and may end in a refusal."""
    try:
        listed: list[dict[str, Any]] = json.loads(printed or "{}").get("nftables", [])
    except json.JSONDecodeError:
        return ["nftables (its rules cannot be read)"]
    into = {
        (each["chain"]["family"], each["chain"]["table"], each["chain"]["name"]): each["chain"]
        for each in listed
        if each.get("chain", {}).get("hook") == "input"
    }
    refusing = {key for key, chain in into.items() if chain.get("policy") == "drop"}
    for each in listed:
        rule = each.get("rule", {})
        key = rule.get("family"), rule.get("table"), rule.get("chain")
        # Its last statement says what becomes of the frame; without another it is of any frame.
        refuses = [e for e in rule.get("expr", []) if "drop" in e or "reject" in e]
        if key in into and refuses and not any("match" in e for e in rule["expr"]):
            refusing.add(key)
    return [f"nftables {table} {name}" for _, table, name in sorted(refusing)]
