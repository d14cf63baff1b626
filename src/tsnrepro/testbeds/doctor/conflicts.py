"""Checks for other software that would interfere: network managers and firewalls."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tsnrepro.testbeds.doctor.findings import PASS, WARN, ExaminedHost, Finding
from tsnrepro.testbeds.hosts import ports

# States of a device in NetworkManager: 10 is unmanaged.
_NM_STATE = re.compile(r"^(\d+) \(")
_NM_UNMANAGED = 10
_NETWORKD_UNMANAGED = "unmanaged"


def network_managers(host: ExaminedHost) -> Iterator[Finding]:
    """Check for network managers that would configure a measured card.

    They do so when its link comes up again, as some cards' do after a change of their MTU.
    """
    if host.is_board:
        return
    for device in host.devices.values():
        managers = [name for name, manages in _MANAGERS.items() if manages(host, device)]
        remedy = " and ".join(_REMEDIES[name].format(device=device) for name in managers)
        found = ", ".join(managers) or "none"
        check = f"network manager of {device}"
        yield host.finding(check, WARN if managers else PASS, found, remedy)


def _by_network_manager(host: ExaminedHost, device: str) -> bool:
    output = host.output("nmcli", "-g", "GENERAL.STATE", "device", "show", device)
    state = _NM_STATE.search(output)
    return state is not None and int(state[1]) > _NM_UNMANAGED


def _by_networkd(host: ExaminedHost, device: str) -> bool:
    """Read the last column of ``networkctl list``, whether networkd has set the link up."""
    words = host.output("networkctl", "--no-legend", "--no-pager", "list", device).split()
    return len(words) > 1 and words[1] == device and words[-1] != _NETWORKD_UNMANAGED


_MANAGERS = {"NetworkManager": _by_network_manager, "systemd-networkd": _by_networkd}
_REMEDIES = {
    "NetworkManager": "`nmcli device set {device} managed no`",
    "systemd-networkd": "`Unmanaged=yes` in a .network file for {device}",
}


def masters(host: ExaminedHost) -> Iterator[Finding]:
    """Check that no measured card is a port of a bridge or bond, which its frames would reach."""
    if host.is_board:
        return
    for device in host.devices.values():
        master = ports.link_of(host.shell, device).get("master")
        remedy = f"`ip link set {device} nomaster`"
        found = f"port of {master}" if master else "of none"
        yield host.finding(f"bridge of {device}", WARN if master else PASS, found, remedy)


def firewall(host: ExaminedHost) -> Iterator[Finding]:
    """Check for rules that would drop measured frames or a tool's own connection."""
    if not host.is_station:
        return
    chains = _dropping(host.output("nft", "-j", "list", "ruleset"))
    if re.search(r"^-P INPUT (DROP|REJECT)", host.output("iptables", "-S", "INPUT"), re.MULTILINE):
        chains.append("iptables INPUT")
    remedy = f"Accept all from {', '.join(host.devices.values())}, or stop it for the campaign"
    found = f"{', '.join(chains)} may drop received frames" if chains else "accepts everything"
    yield host.finding("firewall", WARN if chains else PASS, found, remedy)


def _dropping(text: str) -> list[str]:
    """Return the nftables chains that see received frames and may drop them."""
    try:
        listed: list[dict[str, Any]] = json.loads(text or "{}").get("nftables", [])
    except json.JSONDecodeError:
        return ["nftables (unreadable rules)"]
    input_chains = {
        (each["chain"]["family"], each["chain"]["table"], each["chain"]["name"]): each["chain"]
        for each in listed
        if each.get("chain", {}).get("hook") == "input"
    }
    dropping = {key for key, chain in input_chains.items() if chain.get("policy") == "drop"}
    for each in listed:
        rule = each.get("rule", {})
        key = rule.get("family"), rule.get("table"), rule.get("chain")
        # The verdict of a rule without a match is that of all frames.
        drops = [e for e in rule.get("expr", []) if "drop" in e or "reject" in e]
        if key in input_chains and drops and not any("match" in e for e in rule["expr"]):
            dropping.add(key)
    return [f"nftables {table} {name}" for _, table, name in sorted(dropping)]
