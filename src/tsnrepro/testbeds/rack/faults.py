"""Faults of a rack, each with the times on the talker's clock between which it took effect.

The hosts of a rack have clocks of their own. The talker's, which also dates the datagrams, is read
over SSH before and after each command: what happened between lies between, however far apart the
clocks of talker and switch are.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import SWITCHES, TALKER
from tsnrepro.config.frer import LatentSettings
from tsnrepro.config.rack import RackSettings
from tsnrepro.native import streams
from tsnrepro.testbeds.clocks import read_clocks
from tsnrepro.testbeds.faults import Event, Faults, LatentDetection
from tsnrepro.testbeds.host import RemoteHost

_COMMAND_SECONDS = 20
# Copper agrees on a speed in two to four seconds.
_LINK_SECONDS, _LOOK_SECONDS = 15, 0.05


class RackFaults(Faults):
    """What may go wrong on a rack: links anywhere, and what our data plane does where it runs."""

    def __init__(
        self, hosts: Mapping[str, RemoteHost], settings: RackSettings, program: str
    ) -> None:
        super().__init__(hosts, settings, program)
        self.data_planes = tuple(
            name for name in SWITCHES if name not in settings.others_data_planes
        )

    def repair(self, path: int) -> Event:
        """Take a member path's link up again, and wait until both its ends are.

        Raises
        ------
        TestbedError
            It does not come up.
        """
        event = super().repair(path)
        end = time.monotonic() + _LINK_SECONDS
        while not all(self._has_carrier(switch, path) for switch in SWITCHES):
            if time.monotonic() > end:
                raise TestbedError(
                    f"the link of member path {path} is not up {_LINK_SECONDS} s after it was set "
                    "up",
                    " and ".join(SWITCHES),
                    "Look at `ip link` and `ethtool` of the ports at both its ends",
                )
            time.sleep(_LOOK_SECONDS)
        return replace(event, after_ns=self._now_ns(TALKER))

    def _has_carrier(self, switch: str, path: int) -> bool:
        argv = ["cat", f"/sys/class/net/{self._port(path)}/carrier"]
        done = self._hosts[switch].run(argv, deadline_s=_COMMAND_SECONDS)
        return done.exit_status == 0 and done.stdout.strip() == "1"

    def start_latent(
        self,
        latent: LatentSettings,
        *,
        deadline_s: float,
        switch: str = SWITCHES[1],
    ) -> LatentDetection:
        """Start latent error detection; its alarms come on the talker's clock.

        To within the time that reading a clock over SSH takes, some milliseconds.
        """
        before, there, after = (self._now_ns(host) for host in (TALKER, switch, TALKER))
        detection = super().start_latent(latent, switch=switch, deadline_s=deadline_s)
        detection.ahead_ns = there - (before + after) // 2
        return detection

    def _timed(self, fault: str, host: str, command: list[str]) -> Event:
        before = self._now_ns(TALKER)
        self._hosts[host].run(command, deadline_s=_COMMAND_SECONDS).check()
        return Event(fault, host, tuple(command), before, self._now_ns(TALKER))

    def _now_ns(self, host: str) -> int:
        return read_clocks(self._hosts[host], str(streams.talker())).tai_ns
