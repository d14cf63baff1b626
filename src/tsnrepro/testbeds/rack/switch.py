"""FRER switches of a rack: their drivers' protocol, and the ports of a Linux PC as switch."""

import json
from collections.abc import Mapping
from typing import Any, Protocol

from tsnrepro.common.topology import HOST_PORT, member_names
from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.config.rack import ComputerSwitch
from tsnrepro.testbeds.hosts import ports
from tsnrepro.testbeds.hosts.aliases import AliasedHost
from tsnrepro.testbeds.hosts.remote import HostDriver
from tsnrepro.testbeds.hosts.rollback import Rollback
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.tools import host_counters
from tsnrepro.tools.frerctl import StreamFilter


class SwitchDriver(HostDriver, Protocol):
    """Configures a switch; all methods raise TestbedError if the switch refuses a command."""

    needs_programs: bool
    """Whether the switch runs our programs."""

    def configure(
        self, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
    ) -> None:
        """Set the switch to FRER or control for all traffic, and count ``stream``."""
        ...

    def reset_recovery(self, frer: FrerSettings) -> None:
        """Let recovery accept any sequence number next, once old frames are off the paths."""
        ...

    def counters(self) -> str:
        """Return all counters, see :func:`tsnrepro.tools.host_counters.read_host`."""
        ...

    def set_link(self, port: str, *, up: bool) -> None:
        """Set a port's link up or down."""
        ...


class LinuxSwitch:
    """The ports of a Linux PC as switch; see :class:`SwitchDriver`."""

    needs_programs = True

    def __init__(self, shell: Shell, settings: ComputerSwitch, program: str) -> None:
        self._shell, self._program = shell, program
        self._members = settings.member_ports
        names = (HOST_PORT, *member_names(len(self._members)))
        devices = (settings.host_port, *self._members)
        self.devices = dict(zip(names, devices, strict=True))
        self._aliases = AliasedHost(shell.host, self.devices, {})

    @property
    def _host_port(self) -> str:
        return self.devices[HOST_PORT]

    def save(self) -> dict[str, Any]:
        """Return the state of all ports."""
        return {device: ports.save(self._shell, device) for device in self.devices.values()}

    def check(self, state: dict[str, Any]) -> None:
        """Refuse ports that already have programs, filters or queues."""
        for device, port in state.items():
            ports.check_filters(self._shell, device, port)
            ports.check_queues(self._shell, device)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the ports, which removes attached programs and rules."""
        with Rollback() as rollback:
            for device in reversed(self.devices.values()):
                rollback.defer(lambda each: ports.restore(self._shell, each, state[each]), device)

    def _prepare_ports(self) -> None:
        for device in self.devices.values():
            mtu = ports.MEMBER_MTU if device in self._members else None
            ports.prepare(self._shell, device, mtu, silent=True)

    def set_link(self, port: str, *, up: bool) -> None:
        """Set a port's link up or down."""
        state = "up" if up else "down"
        self._shell.change(["ip", "link", "set", "dev", self.devices[port], state])


def stream_frames(frames: int) -> dict[str, int]:
    """Return a count of the stream's frames in the form of frerctl's; bytes are not counted."""
    return {"frames": frames, "bytes": 0, "stream_frames": frames, "stream_fragments": 0}


def merge_kernel_counters(
    counters: dict[str, Any], shell: Shell, devices: Mapping[str, str], aliases: AliasedHost
) -> str:
    """Return a switch's counters with its kernel's, as frerctl's switches print them.

    ``aliases`` has the names in the topology of the devices in the kernel's counters.
    """
    # The snapshot begins with an empty object in place of the switch's counters.
    snapshot = host_counters.snapshot("", "", devices.values())
    kernel = shell.read(snapshot).split(host_counters.SEPARATOR, 1)[1]
    return f"{json.dumps(counters)}\n{host_counters.SEPARATOR}{aliases.rename_in_json(kernel)}"
