"""Fault injection on a rack, dated by the talker's clock.

The hosts of a rack have separate clocks. The talker's, which also dates the datagrams, is read over
SSH before and after each command: a fault takes effect between the two readings, whatever the
offset of the switch's clock.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import SWITCHES, TALKER
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.rack import RackSettings
from tsnrepro.native import streams
from tsnrepro.testbeds.faults import Event, Faults, LatentDetection
from tsnrepro.testbeds.hosts.clocks import read_clocks
from tsnrepro.testbeds.hosts.host import COMMAND_SECONDS, RemoteHost

# Copper negotiates a speed in two to four seconds.
_LINK_SECONDS, _POLL_SECONDS = 15, 0.05


class RackFaults(Faults):
    """Faults of all links, and of the switches that run our data plane."""

    def __init__(
        self, hosts: Mapping[str, RemoteHost], settings: RackSettings, program: str
    ) -> None:
        super().__init__(hosts, settings, program)
        self.data_planes = tuple(
            name for name in SWITCHES if name not in settings.others_data_planes
        )

    def repair(self, path: int) -> Event:
        """Set a member path's link up, and wait for the carrier at both ends.

        Raises
        ------
        TestbedError
            There is no carrier in time.
        """
        event = super().repair(path)
        end = time.monotonic() + _LINK_SECONDS
        while not all(self._has_carrier(switch, path) for switch in SWITCHES):
            if time.monotonic() > end:
                raise TestbedError(
                    f"the link of member path {path} is not up {_LINK_SECONDS} s after it was set "
                    "up",
                    " and ".join(SWITCHES),
                    "Check `ip link` and `ethtool` of the ports at both ends",
                )
            time.sleep(_POLL_SECONDS)
        return replace(event, after_ns=self._now_ns(TALKER))

    def _has_carrier(self, switch: str, path: int) -> bool:
        argv = ["cat", f"/sys/class/net/{self._port(path)}/carrier"]
        completed = self._hosts[switch].run(argv, deadline_s=COMMAND_SECONDS)
        return completed.exit_status == 0 and completed.stdout.strip() == "1"

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

    def _now_ns(self, host: str) -> int:
        return read_clocks(self._hosts[host], str(streams.talker())).tai_ns
