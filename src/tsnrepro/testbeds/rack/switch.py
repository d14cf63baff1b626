"""What a rack's switches have in common, whatever they are made of."""

from typing import Any, Protocol

from tsnrepro.config import Configuration, FrerSettings
from tsnrepro.config.rack import EbpfSwitch, KernelSwitch, Lan966xSwitch
from tsnrepro.testbeds.rack.ebpf import EbpfDriver
from tsnrepro.testbeds.rack.lan966x import Lan966xDriver
from tsnrepro.testbeds.rack.shell import Shell
from tsnrepro.testbeds.rack.traffic_control import KernelDriver
from tsnrepro.tools.frerctl import StreamFilter

State = dict[str, Any]


class SwitchDriver(Protocol):
    """Commands for one switch; all raise TestbedError where the switch refuses one."""

    needs_programs: bool
    """Whether our programs have to be on the switch."""

    @property
    def devices(self) -> dict[str, str]:
        """The switch's network devices by their names in the topology."""
        ...

    def save(self) -> State:
        """Return the state of all that the other methods change, as JSON can hold it."""
        ...

    def refuse(self, state: State) -> None:
        """Refuse a switch, by its saved state, on which a campaign would destroy something."""
        ...

    def prepare(self) -> None:
        """Make what every configuration needs."""
        ...

    def configure(
        self, configuration: Configuration, frer: FrerSettings, stream: StreamFilter
    ) -> None:
        """Treat all traffic by FRER or as control, and count ``stream``."""
        ...

    def start_afresh(self, frer: FrerSettings) -> None:
        """Let recovery take any number next, once old frames are off the paths."""
        ...

    def counters(self) -> str:
        """Return all counters, as :func:`tsnrepro.tools.counters.read_host` reads them."""
        ...

    def set_link(self, port: str, *, up: bool) -> None:
        """Take a port's link down or up."""
        ...

    def restore(self, state: State) -> None:
        """Bring back a state that :meth:`save` returned, from whatever state the switch is in."""
        ...


def driver_of(
    shell: Shell, settings: EbpfSwitch | KernelSwitch | Lan966xSwitch, frerctl: str
) -> SwitchDriver:
    """Return the driver of a switch.

    Parameters
    ----------
    shell
        Commands on the switch.
    settings
        Its section of the testbed's file.
    frerctl
        Path of frerctl on the switch, for those that our programs run on.
    """
    if isinstance(settings, Lan966xSwitch):
        return Lan966xDriver(shell, settings)
    if isinstance(settings, KernelSwitch):
        return KernelDriver(shell, settings, frerctl)
    return EbpfDriver(shell, settings, frerctl)
