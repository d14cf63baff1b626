"""A Linux PC as FRER switch: our data plane on its ports."""

from typing import Any

from tsnrepro.settings import Configuration, FrerSettings
from tsnrepro.settings.hardware import EbpfSwitch
from tsnrepro.testbed.hardware import ports
from tsnrepro.testbed.hardware.rack_host import RackHost
from tsnrepro.testbed.hardware.shell import Shell
from tsnrepro.tools import frerctl, kernel
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream
from tsnrepro.topology import HOST_PORT, member_names


class EbpfDriver:
    """See :class:`tsnrepro.testbed.hardware.switch.SwitchDriver`."""

    needs_programs = True

    def __init__(self, shell: Shell, settings: EbpfSwitch, program: str) -> None:
        self._shell, self._program = shell, program
        self._members = settings.member_ports
        names = member_names(len(self._members))
        self.devices = dict(
            zip((HOST_PORT, *names), (settings.host_port, *self._members), strict=True)
        )
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

    def prepare(self) -> None:
        """Set the ports up and attach the data plane to them."""
        for device in self.devices.values():
            mtu = ports.MEMBER_MTU if device in self._members else None
            ports.prepare(self._shell, device, mtu, silent=True)
        joined = ",".join(self.devices.values())
        options = frerctl.frer_options(FrerSettings())
        self._shell.change([self._program, "switch", joined, *options])

    def configure(
        self, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
    ) -> None:
        """Set FRER or control for all traffic, and the stream that counts."""
        port = self._host_port
        self._shell.change(frerctl.configure(self._program, port, configuration, frer, stream))

    def configure_streams(self, frer: FrerSettings, streams: list[SwitchStream]) -> None:
        """Tell several streams apart."""
        port = self._host_port
        self._shell.change(frerctl.configure_streams(self._program, port, frer, streams))

    def start_afresh(self, frer: FrerSettings) -> None:
        """Reset the recovery functions."""
        del frer
        self._shell.change(frerctl.reset(self._program, self._host_port))

    def counters(self) -> str:
        """Return frerctl's counters and the kernel's."""
        printed = self._shell.read(kernel.snapshot(self._program, self._host_port))
        return self._names.in_topology(printed)

    def set_link(self, port: str, *, up: bool) -> None:
        """Take a port's link down or up."""
        state = "up" if up else "down"
        self._shell.change(["ip", "link", "set", "dev", self.devices[port], state])

    def restore(self, state: dict[str, Any]) -> None:
        """Bring the ports back; the data plane goes with its hooks."""
        for device, port in state.items():
            ports.restore(self._shell, device, port)
