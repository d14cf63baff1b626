"""A LAN966x board between network cards: its configuration for a campaign, and its saved state.

A campaign creates a bridge of its three ports with one VLAN, which frames are tagged with. The
ports of talker and loader trust the priority in the tag. A trial configures the priorities of the
listener's port (:mod:`tsnrepro.experiments.shaping.board_queues`); this restores what a kill
leaves of them.
"""

from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import LOADER, TALKER
from tsnrepro.config.nic_pair import ShapingSwitch
from tsnrepro.testbeds.hosts import ports, programs
from tsnrepro.testbeds.hosts.shell import Shell

_TRUSTED = (TALKER, LOADER)


class InlineSwitch:
    """Configures the switch; see :class:`tsnrepro.testbeds.hosts.remote.HostDriver`.

    ``shell``: commands on the board; ``settings``: the board's section in the testbed's file.
    """

    def __init__(self, shell: Shell, settings: ShapingSwitch) -> None:
        self._shell, self._settings = shell, settings
        self.devices = settings.ports

    def save(self) -> dict[str, Any]:
        """Return the state of ports, queues and priorities, and whether the bridge exists."""
        links = ports.links(self._shell, [*self.devices.values(), self._settings.bridge])
        found = {}
        for device in self.devices.values():
            if device not in links:
                raise ports.no_device(self._shell, device)
            link = links[device]
            found[device] = {
                "up": "UP" in link["flags"],
                "mtu": link["mtu"],
                "queues": ports.configured_qdiscs(self._shell, device),
            }
        trusted = [self.devices[role] for role in _TRUSTED]
        return {
            "ports": found,
            "bridge": self._settings.bridge in links,
            "priorities": {device: self._priorities(device) for device in trusted},
            "trust": {device: self._trust(device) for device in trusted},
        }

    def check(self, state: dict[str, Any]) -> None:
        """Refuse ports that are in use, and an existing bridge.

        Raises TestbedError if a port is in a bridge or has queues, or there is a bridge of this
        name.
        """
        bridge = self._settings.bridge
        for device in state["ports"]:
            ports.check_master(self._shell, device)
            ports.check_queues(self._shell, device)
        if state["bridge"]:
            raise TestbedError(
                f"device {bridge} already exists", self._shell.name, "Set another `bridge`"
            )

    def prepare(self) -> None:
        """Configure forwarding between the three ports, by the priority in the tag."""
        bridge, vlan = self._settings.bridge, str(self._settings.vlan)
        kind = ["type", "bridge", "vlan_filtering", "1", "mcast_snooping", "0"]
        commands = [
            ["ip", "link", "add", "name", bridge, *kind],
            # No IPv6 traffic of the kernel.
            ["ip", "link", "set", "dev", bridge, "addrgenmode", "none"],
        ]
        for device in self.devices.values():
            link = ["ip", "link", "set", "dev", device]
            commands += [
                [*link, "mtu", str(ports.MEMBER_MTU)],
                [*link, "master", bridge],
                ["bridge", "vlan", "add", "dev", device, "vid", vlan],
                [*link, "up"],
            ]
        commands += [_trust_command(self.devices[role], ["pcp"]) for role in _TRUSTED]
        self._shell.change_all([*commands, ["ip", "link", "set", "dev", bridge, "up"]])

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a saved state, changing only what differs."""
        now, commands = self.save(), []
        for device, port in state["ports"].items():
            if now["ports"][device]["queues"] and not port["queues"]:
                commands.append(["tc", "qdisc", "del", "dev", device, "root"])
        # Its ports and their VLANs go with it.
        if now["bridge"] and not state["bridge"]:
            commands.append(["ip", "link", "del", "dev", self._settings.bridge])
        for device, trust in state["trust"].items():
            if now["trust"][device] != trust:
                commands.append(_trust_command(device, trust))
        for device, mapped in state["priorities"].items():
            if now["priorities"][device] != mapped:
                commands.append(["dcb", "app", "flush", "dev", device, "pcp-prio"])
                if mapped:
                    commands.append(["dcb", "app", "add", "dev", device, "pcp-prio", *mapped])
        for device, port in state["ports"].items():
            commands += ports.link_commands(device, now["ports"][device], port)
        self._shell.change_all(commands)
        # linuxptp's files, which a kill leaves.
        programs.remove(self._shell)

    def _priorities(self, device: str) -> list[str]:
        """Return the priority of each PCP, see dcb-app(8)."""
        return self._show("app", device, "pcp-prio")

    def _trust(self, device: str) -> list[str]:
        """Return where a frame's priority is read from, see dcb-apptrust(8)."""
        return self._show("apptrust", device, "order")

    def _show(self, of: str, device: str, parameter: str) -> list[str]:
        output = self._shell.read(["dcb", of, "show", "dev", device, parameter])
        return [word for word in output.split() if word.rstrip(":") != parameter]


def _trust_command(device: str, selectors: list[str]) -> list[str]:
    return ["dcb", "apptrust", "set", "dev", device, "order", *selectors]
