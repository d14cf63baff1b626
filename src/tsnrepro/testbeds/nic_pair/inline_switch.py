"""A LAN966x board between network cards: what a campaign changes on it, and its state before.

Its three ports are in a bridge that a campaign makes, in one VLAN, which frames are tagged with.
The ports that talker and loader are cabled to trust the priority in the tag. What its port to the
listener does with priorities is a trial's (:mod:`tsnrepro.experiments.shaping.board_queues`); what
a kill leaves of it is taken back here.
"""

from typing import Any

from tsnrepro.common.errors import TestbedError
from tsnrepro.config.nic_pair import ShapingSwitch
from tsnrepro.testbeds.rack import ports, programs
from tsnrepro.testbeds.rack.shell import Shell

_TRUSTING = ("talker", "loader")


class InlineSwitch:
    """See :class:`tsnrepro.testbeds.rack.connections.HostPart`.

    Parameters
    ----------
    shell
        Commands on the board.
    settings
        Its section of the testbed's file.
    """

    def __init__(self, shell: Shell, settings: ShapingSwitch) -> None:
        self._shell, self._settings = shell, settings
        self.devices = settings.ports

    def save(self) -> dict[str, Any]:
        """Return the state of ports, queues, priorities, and whether there is the bridge."""
        links = ports.links(self._shell)
        found = {}
        for device in self.devices.values():
            if device not in links:
                raise ports.no_device(self._shell, device, links)
            link = links[device]
            found[device] = {
                "up": "UP" in link["flags"],
                "mtu": link["mtu"],
                "master": link.get("master"),
                "queues": ports.own_queues(self._shell, device),
            }
        trusting = [self.devices[role] for role in _TRUSTING]
        return {
            "ports": found,
            "bridge": self._settings.bridge in links,
            "priorities": {device: self._priorities(device) for device in trusting},
            "trust": {device: self._trust(device) for device in trusting},
        }

    def refuse(self, state: dict[str, Any]) -> None:
        """Refuse ports that somebody uses, and a bridge that is there.

        Raises
        ------
        TestbedError
            It names what is there, and what to do.
        """
        bridge, where = self._settings.bridge, self._shell.name
        for device, port in state["ports"].items():
            if port["master"]:
                raise TestbedError(
                    f"{device} is a port of {port['master']}",
                    where,
                    f"`ip link set dev {device} nomaster` on the board, or take another port",
                )
            if port["queues"]:
                raise TestbedError(
                    f"{device} has queues of somebody's: {', '.join(port['queues'])}",
                    where,
                    f"`tc qdisc del dev {device} root` on the board, or take another port",
                )
        if state["bridge"]:
            raise TestbedError(
                f"there is a device {bridge} already", where, "Name another `bridge`"
            )

    def prepare(self) -> None:
        """Let the board forward between its three ports, by the priority in the tag."""
        bridge, vlan = self._settings.bridge, str(self._settings.vlan)
        kind = ["type", "bridge", "vlan_filtering", "1", "mcast_snooping", "0"]
        commands = [
            ["ip", "link", "add", "name", bridge, *kind],
            # Nothing of the kernel's own among the traffic.
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
        commands += [_trusting(self.devices[role], ["pcp"]) for role in _TRUSTING]
        self._shell.change_all([*commands, ["ip", "link", "set", "dev", bridge, "up"]])

    def restore(self, state: dict[str, Any]) -> None:
        """Bring everything back; what is as it was is left alone."""
        now, commands = self.save(), []
        for device, port in state["ports"].items():
            if now["ports"][device]["queues"] and not port["queues"]:
                commands.append(["tc", "qdisc", "del", "dev", device, "root"])
        # Its ports leave it, and their VLANs with it.
        if now["bridge"] and not state["bridge"]:
            commands.append(["ip", "link", "del", "dev", self._settings.bridge])
        for device, trust in state["trust"].items():
            if now["trust"][device] != trust:
                commands.append(_trusting(device, trust))
        for device, mapped in state["priorities"].items():
            if now["priorities"][device] != mapped:
                commands.append(["dcb", "app", "flush", "dev", device, "pcp-prio"])
                if mapped:
                    commands.append(["dcb", "app", "add", "dev", device, "pcp-prio", *mapped])
        for device, port in state["ports"].items():
            commands += ports.link_commands(device, now["ports"][device], port)
        self._shell.change_all(commands)
        # Of linuxptp's, which a kill leaves.
        programs.remove(self._shell)

    def _priorities(self, device: str) -> list[str]:
        """Return the priority of each PCP, in the words of dcb-app(8)."""
        return self._said("app", device, "pcp-prio")

    def _trust(self, device: str) -> list[str]:
        """Return what a frame's priority is read from, in the words of dcb-apptrust(8)."""
        return self._said("apptrust", device, "order")

    def _said(self, of: str, device: str, parameter: str) -> list[str]:
        printed = self._shell.read(["dcb", of, "show", "dev", device, parameter])
        return [word for word in printed.split() if word.rstrip(":") != parameter]


def _trusting(device: str, selectors: list[str]) -> list[str]:
    return ["dcb", "apptrust", "set", "dev", device, "order", *selectors]
