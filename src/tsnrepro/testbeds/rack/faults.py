"""Fault injection on a rack, dated by the talker's clock.

The hosts of a rack have separate clocks. The talker's, which also dates the datagrams, is read over
SSH before and after each command: a fault takes effect between the two readings, whatever the
offset of the switch's clock.
"""

from collections.abc import Mapping

from tsnrepro.common.topology import SWITCHES, TALKER
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.rack import RackSettings
from tsnrepro.testbeds.faults import CabledFaults, Event, LatentDetection
from tsnrepro.testbeds.hosts.host import COMMAND_SECONDS, RemoteHost


class RackFaults(CabledFaults):
    """Faults of all links, and of the switches that run our data plane."""

    def __init__(
        self, hosts: Mapping[str, RemoteHost], settings: RackSettings, program: str
    ) -> None:
        super().__init__(hosts, settings, program)
        self.data_planes = tuple(
            name for name in SWITCHES if name not in settings.others_data_planes
        )

    def start_latent(
        self,
        latent: LatentSettings,
        *,
        deadline_s: float,
        switch: str = SWITCHES[1],
    ) -> LatentDetection:
        """Start latent error detection; its alarms are dated by the talker's clock.

        To within the time of reading a clock over SSH, some milliseconds.
        """
        before, switch_ns, after = (self._now_ns(host) for host in (TALKER, switch, TALKER))
        detection = super().start_latent(latent, switch=switch, deadline_s=deadline_s)
        detection.ahead_ns = switch_ns - (before + after) // 2
        return detection

    def _timed(self, fault: str, host: str, command: list[str]) -> Event:
        before = self._now_ns(TALKER)
        self._hosts[host].run(command, deadline_s=COMMAND_SECONDS).check()
        return Event(fault, host, tuple(command), before, self._now_ns(TALKER))
