"""A Linux PC as FRER switch: our data plane in eBPF on its ports."""

from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.testbeds.rack.switch import LinuxSwitch
from tsnrepro.tools import frerctl, host_counters
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream


class EbpfDriver(LinuxSwitch):
    """See :class:`tsnrepro.testbeds.rack.switch.SwitchDriver`."""

    def prepare(self) -> None:
        """Set the ports up and attach the data plane to them."""
        self._prepare_ports()
        joined = ",".join(self.devices.values())
        options = frerctl.frer_options(FrerSettings())
        self._shell.change([self._program, "switch", joined, *options])

    def configure(
        self, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
    ) -> None:
        """Set FRER or control for all traffic, and the stream to count."""
        port = self._host_port
        self._shell.change(frerctl.configure(self._program, port, configuration, frer, stream))

    def configure_streams(self, frer: FrerSettings, streams: list[SwitchStream]) -> None:
        """Set several streams, each with sequence numbers of its own."""
        port = self._host_port
        self._shell.change(frerctl.configure_streams(self._program, port, frer, streams))

    def reset_recovery(self, frer: FrerSettings) -> None:
        """Reset the recovery functions."""
        del frer
        self._shell.change(frerctl.reset(self._program, self._host_port))

    def counters(self) -> str:
        """Return frerctl's counters and the kernel's."""
        devices = self.devices.values()
        output = self._shell.read(host_counters.snapshot(self._program, self._host_port, devices))
        return self._aliases.rename_in_json(output)
