"""A Linux PC as FRER switch: our data plane on its ports."""

from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.testbeds.rack.linux_switch import Computer
from tsnrepro.tools import frerctl, kernel
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream


class EbpfDriver(Computer):
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
