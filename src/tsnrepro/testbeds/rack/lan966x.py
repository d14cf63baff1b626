"""A Microchip LAN966x board as FRER switch, through the Linux shell of Microchip's BSP.

Frames from the host port are sent over the member ports: with FRER sequenced and tagged, as control
untagged over the first. Frames from a member port pass through recovery to the host port. Rules of
the chip's first classifier (VCAP IS1) assign each frame to an ingress flow (ISDX) by its port and
by whether it belongs to the measured stream, which so has sequence numbers, recovery functions and
counters of its own.

Sources: Microchip's BSP documentation 2025.12 (pages FRER and VCAP tool) and the source code of its
qos-utils. Their tool ``frer`` may exit with status 0 after a failure, so its output is checked and
its settings are read back.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from time import sleep
from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import HOST_PORT, member_names
from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.config.rack import Lan966xSwitch
from tsnrepro.testbeds.hosts import ports
from tsnrepro.testbeds.hosts.aliases import AliasedHost
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.rack.switch import merge_kernel_counters, stream_frames
from tsnrepro.tools.frerctl import StreamFilter

# The member streams that a campaign has allocated: the chip's tool cannot list them, and a reboot
# of the board removes them and this file.
_MEMBER_STREAMS = "/run/tsnrepro-member-streams"
_ALLOCATE = f'id=$(frer msa "$1") && echo "$2 $id" >>{_MEMBER_STREAMS} && echo "$id"'
_ALLOCATED = f"cat {_MEMBER_STREAMS} 2>/dev/null || true"
# A member stream that no longer exists counts as freed, since freeing may have been interrupted.
_FREE = (
    'frer ms "$1" "$2" --enable 0 --cs_id 0; output=$(frer msf "$2" 2>&1)'
    ' || case $output in *"Invalid input"*) ;; *) echo "$output"; exit 1 ;; esac'
    f'; sed -i "/ $2\\$/d" {_MEMBER_STREAMS}'
)

# Our rules in the classifier: ten numbers per port. A lower priority is matched first.
_FIRST_RULE = 7100
_PRIORITIES = {"stream": 10, "ipv4": 20, "rest": 30}
_EVERY_PORT_BIT = "0x1ff"
_PROTOCOLS = {"udp": 17, "tcp": 6}
# Compound streams by traffic.
_COMPOUND = {"stream": 0, "others": 1}

_COUNTERS = {
    "OutOfOrderPackets": "out_of_order",
    "RoguePackets": "rogue",
    "PassedPackets": "passed",
    "DiscardedPackets": "discarded",
    "LostPackets": "lost",
    "TaglessPackets": "tagless",
    "Resets": "resets",
}
_COUNTED = re.compile(r"^(\w+)\s*:\s*(\d{1,20})\s*$", re.MULTILINE)
_FIELD = re.compile(r"^(\w+):\s+(\S+)\s*$", re.MULTILINE)
_HITS = re.compile(r"counter\S*?\s*[:=]\s*(\d{1,20})\b", re.IGNORECASE)
_STATISTIC = re.compile(r"^\s*([\w.]+):\s*(\d{1,20})\s*$", re.MULTILINE)
_FAILED = re.compile(r"failed|unknown command|missing argument|usage:", re.IGNORECASE)
_LATENESS_SECONDS = 0.05


@dataclass(frozen=True)
class _Flow:
    """An ingress flow: the port of its frames, and whether they are the measured stream's."""

    port: str
    number: int
    """0 for the host port, 1 and more for the member ports."""
    traffic: str

    @property
    def isdx(self) -> int:
        return 1 + 2 * self.number + (self.traffic != "stream")


class Lan966xDriver:
    """See :class:`tsnrepro.testbeds.rack.switch.SwitchDriver`.

    ``trunk`` tags the frames on member paths with the measured VLAN, as between two boards; the
    other end of any else neither sends nor expects that tag.
    """

    needs_programs = False

    def __init__(self, shell: Shell, settings: Lan966xSwitch, *, trunk: bool = True) -> None:
        self._shell, self._settings, self._trunk = shell, settings, trunk
        listed = [settings.host_port, *settings.member_ports]
        self._names = [HOST_PORT, *member_names(len(settings.member_ports))]
        self.devices = {name: port.device for name, port in zip(self._names, listed, strict=True)}
        self._chip_ports = {n: p.chip_port for n, p in zip(self._names, listed, strict=True)}
        self._aliases = AliasedHost(shell.host, self.devices, {})
        self._configured: tuple[Configuration, FrerSettings, StreamFilter] | None = None
        # Of this campaign, by flow.
        self._member_streams: dict[int, str] = {}
        # Pending commands, and the settings that they must result in.
        self._pending: list[list[str]] = []
        self._expected: dict[tuple[str, ...], dict[str, str]] = {}

    @property
    def _members(self) -> list[str]:
        return self._names[1:]

    @cached_property
    def _flows(self) -> list[_Flow]:
        return [
            _Flow(name, number, traffic)
            for number, name in enumerate(self._names)
            for traffic in _COMPOUND
        ]

    # --- state ------------------------------------------------------------

    def _links(self) -> dict[str, dict[str, Any]]:
        return ports.links(self._shell, [*self.devices.values(), self._settings.bridge])

    def save(self) -> dict[str, Any]:
        """Return the state of bridge, VLANs, links, flows and compound streams."""
        links = self._links()
        for device in self.devices.values():
            if device not in links:
                raise ports.no_device(self._shell, device)
        bridge = links.get(self._settings.bridge)
        vlan = str(self._settings.vlan)
        flows, compound = [str(f.isdx) for f in self._flows], [str(c) for c in _COMPOUND.values()]
        kinds = [("iflow", i) for i in flows] + [("cs", c) for c in compound] + [("vlan", vlan)]
        settings = self._frer_all(kinds)
        return {
            "ports": {device: _port(links[device]) for device in self.devices.values()},
            "bridge": bridge and {"up": "UP" in bridge["flags"], "filtering": _filtering(bridge)},
            "vlans": self._vlans(),
            "flooding": settings["vlan", vlan],
            "flows": {i: settings["iflow", i] for i in flows},
            "compound": {c: settings["cs", c] for c in compound},
            "rules": self._present_rules(),
        }

    def check(self, state: dict[str, Any]) -> None:
        """Refuse a board whose classifier has rules with our numbers."""
        if state["rules"]:
            raise TestbedError(
                f"the classifier already has rules {', '.join(map(str, state['rules']))}",
                self._shell.name,
                "`tsnrepro restore` if a campaign left them, else `vcap del` on the board",
            )

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state, changing only what differs."""
        now = self.save()
        for rule in now["rules"]:
            if rule not in state["rules"]:
                self._change(["vcap", "del", str(rule)])
        for isdx, flow in state["flows"].items():
            self._restore_frer(["iflow", isdx], now["flows"][isdx], flow)
        self._free_member_streams()
        for cs, stream in state["compound"].items():
            self._restore_frer(["cs", cs], now["compound"][cs], stream)
        self._restore_bridge(now, state)
        vlan = ["vlan", str(self._settings.vlan)]
        self._restore_frer(vlan, now["flooding"], state["flooding"])
        self._run_pending()

    def _restore_frer(self, of: list[str], now: dict[str, str], was: dict[str, str]) -> None:
        if now != was:
            self._set_frer(of, was)

    def _restore_bridge(self, now: dict[str, Any], state: dict[str, Any]) -> None:
        bridge = self._settings.bridge
        for device, port in state["ports"].items():
            if now["ports"][device]["master"] != port["master"]:
                master = ["master", port["master"]] if port["master"] else ["nomaster"]
                self._change(["ip", "link", "set", "dev", device, *master])
            for link in ports.link_commands(device, now["ports"][device], port):
                self._change(link)
        self._run_pending()
        vlans = self._vlans()
        for device, entries in state["vlans"].items():
            if vlans[device] != entries:
                self._restore_vlans(device, vlans[device], entries)
        if now["bridge"] and not state["bridge"]:
            self._change(["ip", "link", "del", "dev", bridge])
        elif state["bridge"] and now["bridge"] != state["bridge"]:
            kind = ["type", "bridge", "vlan_filtering", str(state["bridge"]["filtering"])]
            self._change(["ip", "link", "set", "dev", bridge, *kind])
            up = "up" if state["bridge"]["up"] else "down"
            self._change(["ip", "link", "set", "dev", bridge, up])

    # --- for all configurations ------------------------------------------------------------------

    def prepare(self) -> None:
        """Create the bridge, its VLAN without flooding, and the host port's member streams."""
        vlan = ["vlan", str(self._settings.vlan)]
        self._set_frer(vlan, {"flood_disable": "1", "learn_disable": "1"})
        self._prepare_bridge()
        self._prepare_ports()
        self._run_pending()
        self._allocate_member_streams()

    def _prepare_bridge(self) -> None:
        bridge, links = self._settings.bridge, self._links()
        if bridge not in links:
            self._change(["ip", "link", "add", "name", bridge, "type", "bridge"])
        if bridge not in links or not _filtering(links[bridge]):
            kind = ["type", "bridge", "vlan_filtering", "1"]
            self._change(["ip", "link", "set", "dev", bridge, *kind])
        for device in self.devices.values():
            if links[device].get("master") != bridge:
                self._change(["ip", "link", "set", "dev", device, "master", bridge])
        self._run_pending()
        self._change(["ip", "link", "set", "dev", bridge, "up"])

    def _prepare_ports(self) -> None:
        vlan, vlans = str(self._settings.vlan), self._vlans()
        for name, device in self.devices.items():
            # Two cables in one flooding VLAN would be a loop.
            self._leave_vlans(device, [e for e in vlans[device] if str(e["vlan"]) != vlan])
            tagged = self._trunk and name in self._members
            access = [] if tagged else ["pvid", "untagged"]
            self._change(["bridge", "vlan", "add", "dev", device, "vid", vlan, *access])
            mtu = ["mtu", str(ports.MEMBER_MTU)] if name in self._members else []
            self._change(["ip", "link", "set", "dev", device, *mtu, "up"])

    def _vlans(self) -> dict[str, list[dict[str, Any]]]:
        shown = ports.read_json(self._shell, ["bridge", "-j", "vlan", "show"])
        known = {entry["ifname"]: entry.get("vlans", []) for entry in shown}
        return {device: known.get(device, []) for device in self.devices.values()}

    def _leave_vlans(self, device: str, entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            vid = ["vid", str(entry["vlan"])]
            self._change(["bridge", "vlan", "del", "dev", device, *vid])

    def _restore_vlans(
        self, device: str, now: list[dict[str, Any]], entries: list[dict[str, Any]]
    ) -> None:
        self._leave_vlans(device, now)
        for entry in entries:
            flags = [word.lower() for word in entry.get("flags", [])]
            words = [word for word in ("pvid", "untagged") if any(word in flag for flag in flags)]
            vid = ["vid", str(entry["vlan"])]
            self._change(["bridge", "vlan", "add", "dev", device, *vid, *words])

    # --- member streams ------------------------------------------------------------

    def _allocate_member_streams(self) -> None:
        """Allocate a member stream per flow, and list them in a file on the board."""
        flows = [flow for flow in self._flows if flow.port != HOST_PORT]
        allocate = ["sh", "-c", _ALLOCATE, "sh", self.devices[HOST_PORT]]
        outputs = self._shell.change_all([[*allocate, str(flow.isdx)] for flow in flows])
        for flow, output in zip(flows, map(str.strip, outputs), strict=True):
            if not output.isdigit() and not self._shell.dry_run:
                raise TestbedError(
                    f"no member stream: {output or 'frer msa printed nothing'}", self._shell.name
                )
            self._member_streams[flow.isdx] = output or f"MEMBER-STREAM-{flow.isdx}"

    def _free_member_streams(self) -> None:
        allocated = self._shell.read(["sh", "-c", _ALLOCATED]).split()
        for number in allocated[1::2]:
            self._change(["sh", "-c", _FREE, "sh", self.devices[HOST_PORT], number])
        self._change(["rm", "-f", _MEMBER_STREAMS])

    # --- a configuration ------------------------------------------------------------

    def configure(
        self, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
    ) -> None:
        """Set the rules to the stream and the flows to FRER or control."""
        on = configuration == "frer"
        for cs in _COMPOUND.values():
            # Off and on again resets it.
            self._set_frer(["cs", str(cs)], {"enable": "0"})
            if on:
                self._set_frer(["cs", str(cs)], _recovery(frer))
        before = self._configured
        if before is None or before[:2] != (configuration, frer):
            for flow in self._flows:
                self._set_flow(flow, on, frer)
        self._set_rules(before[2] if before else None, stream)
        self._clear_counters()
        self._run_pending()
        self._configured = configuration, frer, stream

    def _set_flow(self, flow: _Flow, on: bool, frer: FrerSettings) -> None:
        of = ["iflow", str(flow.isdx)]
        if flow.port == HOST_PORT:
            out = [self.devices[name] for name in self._members[: 2 if on else 1]]
            devices = dict(zip(("dev1", "dev2"), [*out, "-", "-"], strict=False))
            self._set_frer(of, {"generation": str(int(on)), **devices})
            return
        member = self._member_streams[flow.isdx]
        if on:
            settings = {
                "enable": "1",
                # It discards repetitions on one path only; the compound function does the rest.
                "alg": "1",
                "reset_time": str(frer.reset_ms),
                "cs_id": str(_COMPOUND[flow.traffic]),
            }
            self._set_frer(["ms", self.devices[HOST_PORT], member], settings)
        recovered = {"ms_enable": str(int(on)), "ms_id": member, "pop": str(int(on))}
        self._set_frer(of, {**recovered, "dev1": self.devices[HOST_PORT]})

    def _set_rules(self, before: StreamFilter | None, stream: StreamFilter) -> None:
        """Add all rules the first time, later replace those of the stream."""
        if before == stream:
            return
        for number, name in enumerate(self._names):
            for kind, rule in self._rules_of(number).items():
                if before and kind != "stream":
                    continue
                if before:
                    self._change(["vcap", "del", str(rule)])
                self._change(self._add_rule(kind, rule, number, name, stream))

    def _add_rule(
        self, kind: str, rule: int, number: int, name: str, stream: StreamFilter
    ) -> list[str]:
        keys = ["IF_IGR_PORT_MASK", f"0x{1 << self._chip_ports[name]:03x}", _EVERY_PORT_BIT]
        if kind == "stream":
            keys += ["L3_IP_PROTO", str(_PROTOCOLS[stream.protocol]), "0xff"]
            # The first four bytes after the IP header: source port, destination port.
            keys += ["IP_PAYLOAD_5TUPLE", f"0x{stream.port:08x}", "0x0000ffff"]
        keyset = "VCAP_KFS_NORMAL" if kind == "rest" else "VCAP_KFS_5TUPLE_IP4"
        traffic = "stream" if kind == "stream" else "others"
        isdx = str(_Flow(name, number, traffic).isdx)
        actions = ["VCAP_AFS_S1", "ISDX_REPLACE_ENA", "1", "ISDX_ADD_VAL", isdx]
        place = ["is1", str(_PRIORITIES[kind]), "0"]
        return ["vcap", "add", str(rule), *place, keyset, *keys, *actions]

    def _clear_counters(self) -> None:
        """Clear the counters of the measured stream."""
        self._frer(["cs", str(_COMPOUND["stream"]), "--clr"])
        for flow in self._stream_flows():
            member = [self.devices[HOST_PORT], self._member_streams[flow.isdx]]
            self._frer(["ms", *member, "--clr"])
        for number in range(len(self._names)):
            self._change(["vcap", "reset", str(self._rules_of(number)["stream"])])

    def reset_recovery(self, frer: FrerSettings) -> None:
        """Wait until the recovery functions have timed out: then they accept any number."""
        if not self._shell.dry_run:
            sleep(frer.reset_ms / 1000 + _LATENESS_SECONDS)

    def set_link(self, port: str, *, up: bool) -> None:
        """Set a port's link up or down."""
        state = "up" if up else "down"
        self._shell.change(["ip", "link", "set", "dev", self.devices[port], state])

    # --- the classifier ------------------------------------------------------------

    @staticmethod
    def _rules_of(number: int) -> dict[str, int]:
        return {kind: _FIRST_RULE + 10 * number + n for n, kind in enumerate(_PRIORITIES)}

    def _present_rules(self) -> list[int]:
        """Return the rules with our numbers."""
        numbers = range(len(self._names))
        rules = [*chain.from_iterable(self._rules_of(number).values() for number in numbers)]
        completed = self._shell.query_all([["vcap", "get", str(rule)] for rule in rules])
        return [
            rule
            for rule, (status, output) in zip(rules, completed, strict=True)
            if status == 0 and _HITS.search(output)
        ]

    # --- Microchip's tool ------------------------------------------------------------

    def _frer_all(self, kinds: "list[tuple[str, ...]]") -> dict[tuple[str, ...], dict[str, str]]:
        """Return the settings of flows, streams or VLANs."""
        completed = self._shell.query_all([["frer", *of] for of in kinds])
        found = {}
        for of, (_, output) in zip(kinds, completed, strict=True):
            found[of] = dict(_FIELD.findall(output))
            if _FAILED.search(output) or not found[of]:
                raise TestbedError(
                    f"frer {' '.join(of)} printed {output.strip()[:300]!r}",
                    self._shell.name,
                    "Use a LAN966x with Microchip's kernel and qos-utils",
                )
        return found

    def _set_frer(self, of: list[str], settings: dict[str, str]) -> None:
        """Set fields, which are verified when the pending commands have run."""
        self._frer([*of, *chain.from_iterable((f"--{k}", v) for k, v in settings.items())])
        self._expected.setdefault(tuple(of), {}).update(settings)

    def _frer(self, arguments: list[str]) -> None:
        self._change(["frer", *arguments])

    def _change(self, argv: list[str]) -> None:
        self._pending.append(argv)

    def _run_pending(self) -> None:
        """Run the pending commands and verify their effect."""
        commands, self._pending = self._pending, []
        expected, self._expected = self._expected, {}
        outputs = self._shell.change_all(commands)
        for argv, output in zip(commands, outputs, strict=True):
            if argv[0] == "frer" and _FAILED.search(output):
                text = output.strip()[:300]
                raise TestbedError(f"{' '.join(argv)} failed: {text}", self._shell.name)
        if self._shell.dry_run:
            return
        actual = self._frer_all([*expected])
        for of, settings in expected.items():
            self._verify(of, settings, actual[of])

    def _verify(
        self, of: tuple[str, ...], settings: dict[str, str], actual: dict[str, str]
    ) -> None:
        if wrong := {k: actual.get(k) for k, v in settings.items() if actual.get(k) != v}:
            requested = ", ".join(f"{name} {settings[name]}" for name in wrong)
            found = ", ".join(f"{name} {value}" for name, value in wrong.items())
            raise TestbedError(
                f"frer {' '.join(of)} was set to {requested} and has {found}",
                self._shell.name,
                "The chip may not support a value: check `frer` in the testbed's file",
            )

    # --- counters ------------------------------------------------------------

    def counters(self) -> str:
        """Return the chip's counters in the form of frerctl's, and the kernel's.

        A counter that the chip lacks is null. A measuring tool's handshake is excluded from the
        stream, as frerctl does by the size of its frames.
        """
        outputs = self._read_counters()
        on = self._configured is not None and self._configured[0] == "frer"
        stream = _counters(outputs["frer cs"], self._shell.name)
        members = [
            _counters(outputs[f"frer ms of {flow.port}"], self._shell.name)
            for flow in self._stream_flows()
        ]
        station = {
            "replicates": 2 if on and len(self._members) > 1 else 1,
            "ports": {
                name: {
                    "in": stream_frames(self._without_handshake(_hits(outputs[f"vcap of {name}"]))),
                    "out": None,
                }
                for name in self._names
            },
            "recovery": {
                name: self._without_handshake(value) if name in ("passed", "discarded") else value
                for name, value in stream.items()
            },
            "dropped": {name: _dropped(outputs[f"ethtool of {name}"]) for name in self._names},
        }
        for reason, counter in _DISCARDED.items():
            total = stream[counter] + sum(member[counter] for member in members)
            frames = self._without_handshake(total) if reason == "eliminated" else total
            station[reason] = stream_frames(frames)
        station["printed"] = outputs
        return merge_kernel_counters(station, self._shell, self.devices, self._aliases)

    def _stream_flows(self) -> list[_Flow]:
        return [f for f in self._flows if f.port != HOST_PORT and f.traffic == "stream"]

    def _read_counters(self) -> dict[str, str]:
        """Return the tools' outputs, by tool and port."""
        host_port = self.devices[HOST_PORT]
        commands = {"frer cs": ["frer", "cs", str(_COMPOUND["stream"]), "--cnt"]}
        for flow in self._stream_flows():
            member = ["ms", host_port, self._member_streams[flow.isdx]]
            commands[f"frer ms of {flow.port}"] = ["frer", *member, "--cnt"]
        for number, name in enumerate(self._names):
            commands[f"vcap of {name}"] = ["vcap", "get", str(self._rules_of(number)["stream"])]
            commands[f"ethtool of {name}"] = ["ethtool", "-S", self.devices[name]]
        completed = self._shell.query_all([*commands.values()])
        return {name: text for name, (_, text) in zip(commands, completed, strict=True)}

    def _without_handshake(self, frames: int) -> int:
        """Exclude a handshake's datagram, which frerctl recognizes by its size."""
        if self._configured is None or not self._configured[2].min_payload_bytes:
            return frames
        return max(0, frames - 1)


# Reasons of discarded frames by the counters of the recovery functions.
_DISCARDED = {"eliminated": "discarded", "rogue": "rogue", "tagless": "tagless"}


def _recovery(frer: FrerSettings) -> dict[str, str]:
    return {
        "enable": "1",
        "alg": str(int(frer.algorithm == "match")),
        "hlen": str(frer.history_length),
        "reset_time": str(frer.reset_ms),
        "take_no_seq": str(int(frer.take_no_sequence)),
    }


def _port(link: dict[str, Any]) -> dict[str, Any]:
    return {"up": "UP" in link["flags"], "mtu": link["mtu"], "master": link.get("master")}


def _filtering(link: dict[str, Any]) -> int:
    return int(link.get("linkinfo", {}).get("info_data", {}).get("vlan_filtering", 0))


def _hits(text: str) -> int:
    """Return the number of frames that matched a rule, 0 before a stream is set."""
    found = _HITS.search(text)
    return int(found[1]) if found else 0


def _dropped(text: str) -> int:
    """Return the frames that the chip dropped at a port, of all traffic."""
    return sum(
        int(value)
        for statistic, value in _STATISTIC.findall(text)
        if statistic.startswith("dr_") or "drop" in statistic
    )


def _counters(text: str, where: str) -> dict[str, int]:
    """Return the counters of a recovery function.

    Raises
    ------
    TestbedError
        A counter is missing.
    """
    found = {_COUNTERS[n]: int(value) for n, value in _COUNTED.findall(text) if n in _COUNTERS}
    if missing := set(_COUNTERS.values()) - set(found):
        names = ", ".join(sorted(missing))
        raise TestbedError(f"frer --cnt prints no {names}: {text.strip()[:300]!r}", where)
    return found
