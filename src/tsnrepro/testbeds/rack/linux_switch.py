"""A Linux PC as switch, whatever forwards there: its ports."""

from typing import Any

from tsnrepro.common.topology import HOST_PORT, member_names
from tsnrepro.config.rack import ComputerSwitch
from tsnrepro.testbeds.rack import ports
from tsnrepro.testbeds.rack.host import RackHost
from tsnrepro.testbeds.rack.shell import Shell


class Computer:
    """See :class:`tsnrepro.testbeds.rack.switch.SwitchDriver`."""

    needs_programs = True

    def __init__(self, shell: Shell, settings: ComputerSwitch, program: str) -> None:
        self._shell, self._program = shell, program
        self._members = settings.member_ports
        names = (HOST_PORT, *member_names(len(self._members)))
        devices = (settings.host_port, *self._members)
        self.devices = dict(zip(names, devices, strict=True))
        self._names = RackHost(shell.host, self.devices, {})

    @property
    def _host_port(self) -> str:
        return self.devices[HOST_PORT]

    def save(self) -> dict[str, Any]:
        """Return the state of all ports."""
        return {device: ports.save(self._shell, device) for device in self.devices.values()}

    def refuse(self, state: dict[str, Any]) -> None:
        """Refuse ports on which somebody's programs or filters hang."""
        for device, port in state.items():
            ports.refuse_filters(self._shell, device, port)

    def restore(self, state: dict[str, Any]) -> None:
        """Bring the ports back; programs and rules go with the hooks that they hang on."""
        for device, port in state.items():
            ports.restore(self._shell, device, port)

    def _prepare_ports(self) -> None:
        for device in self.devices.values():
            mtu = ports.MEMBER_MTU if device in self._members else None
            ports.prepare(self._shell, device, mtu, silent=True)

    def set_link(self, port: str, *, up: bool) -> None:
        """Take a port's link down or up."""
        state = "up" if up else "down"
        self._shell.change(["ip", "link", "set", "dev", self.devices[port], state])
