"""What the doctor makes of network managers and firewalls of a PC, by what their tools print."""

import json

import pytest
from examined import examined, found

from tsnrepro.common.repository import root
from tsnrepro.config import load_testbed
from tsnrepro.testbeds.doctor import conflicts
from tsnrepro.testbeds.doctor.findings import PASS, WARN

RACK = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")
CARD = "enp2s0"
NMCLI = f"nmcli -g GENERAL.STATE device show {CARD}"
NETWORKCTL = f"networkctl --no-legend --no-pager list {CARD}"


def managed(prints, role="talker"):
    return found(conflicts.network_managers, examined(RACK, role, {"eth0": CARD}, prints))


@pytest.mark.parametrize(
    ("prints", "shown", "remedy"),
    [
        ({}, "none", ""),
        ({NMCLI: "10 (unmanaged)\n"}, "none", ""),
        ({NMCLI: "100 (connected)\n"}, "NetworkManager", f"nmcli device set {CARD} managed no"),
        ({NMCLI: "30 (disconnected)\n"}, "NetworkManager", "managed no"),
        # IDX, LINK, TYPE, OPERATIONAL, SETUP; as networkctl(1) has them.
        ({NETWORKCTL: f"  2 {CARD} ether off unmanaged\n"}, "none", ""),
        ({NETWORKCTL: f"  2 {CARD} ether routable configured\n"}, "systemd-networkd", "Unmanaged"),
        ({NETWORKCTL: f"  2 {CARD} ether no-carrier configuring\n"}, "systemd-networkd", ""),
    ],
)
def test_who_manages_a_measured_card_is_told(prints, shown, remedy):
    finding = managed(prints)[f"network manager of {CARD}"]
    assert finding.found == shown
    assert finding.verdict == (PASS if shown == "none" else WARN)
    assert remedy in finding.remedy


def test_both_are_told_and_of_a_board_neither():
    prints = {NMCLI: "100 (connected)\n", NETWORKCTL: f"2 {CARD} ether routable configured\n"}
    finding = managed(prints)[f"network manager of {CARD}"]
    assert finding.found == "NetworkManager, systemd-networkd"
    assert managed(prints, "sw1") == {}


@pytest.mark.parametrize(
    ("link", "verdict", "shown"),
    [({}, PASS, "of none"), ({"master": "br0"}, WARN, "port of br0")],
)
def test_a_measured_card_in_a_bridge_is_named(link, verdict, shown):
    prints = {f"ip -j -d link show dev {CARD}": json.dumps([{"ifname": CARD} | link])}
    host = examined(RACK, "talker", {"eth0": CARD}, prints)
    finding = found(conflicts.masters, host)[f"bridge of {CARD}"]
    assert (finding.verdict, finding.found) == (verdict, shown)


# --- firewalls --------------------------------------------------------------------------------


def chain(name, policy="accept", hook="input", table="filter"):
    where = {"family": "inet", "table": table, "name": name}
    return {"chain": where | {"hook": hook, "type": "filter", "prio": 0, "policy": policy}}


def rule(name, *expressions, table="filter"):
    where = {"family": "inet", "table": table, "chain": name}
    return {"rule": where | {"expr": list(expressions)}}


MATCH = {"match": {"op": "==", "left": {"ct": {"key": "state"}}, "right": "invalid"}}
REJECT = {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}


@pytest.mark.parametrize(
    ("listed", "ruling"),
    [
        ([], None),
        ([chain("INPUT")], None),
        ([chain("INPUT", policy="drop")], "nftables filter INPUT"),
        ([chain("FORWARD", policy="drop", hook="forward")], None),
        # firewalld's accepts by policy, and refuses by its last rule ...
        (
            [
                chain("filter_INPUT", table="firewalld"),
                rule("filter_INPUT", MATCH, {"drop": None}, table="firewalld"),
                rule("filter_INPUT", REJECT, table="firewalld"),
            ],
            "nftables firewalld filter_INPUT",
        ),
        # ... where a rule for some frames alone refuses nothing that is measured.
        ([chain("INPUT"), rule("INPUT", MATCH, {"drop": None})], None),
        ([chain("INPUT"), rule("OTHER", REJECT)], None),
    ],
)
def test_rules_that_refuse_what_comes_in_are_told(listed, ruling):
    printed = json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *listed]})
    host = examined(RACK, "listener", {"eth0": CARD}, {"nft -j list ruleset": printed})
    finding = found(conflicts.firewall, host)["firewall"]
    assert finding.verdict == (WARN if ruling else PASS)
    assert ruling is None or finding.found.startswith(ruling)
    assert CARD in finding.remedy


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [
        ("-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n", WARN),
        ("-P INPUT ACCEPT\n", PASS),
        (None, PASS),
    ],
)
def test_an_older_firewall_is_told_too(printed, verdict):
    prints = {"iptables -S INPUT": printed} if printed else {}
    host = examined(RACK, "talker", {"eth0": CARD}, prints)
    assert found(conflicts.firewall, host)["firewall"].verdict == verdict


def test_rules_that_cannot_be_read_are_not_taken_for_none():
    host = examined(RACK, "talker", {"eth0": CARD}, {"nft -j list ruleset": "table inet filter {"})
    assert found(conflicts.firewall, host)["firewall"].verdict == WARN
