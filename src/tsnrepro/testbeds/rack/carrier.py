"""Waiting for links: a card whose MTU or features are set may take its link down meanwhile.

igb (i210) and e1000e restart a running card whose MTU is set, and copper then takes some seconds to
agree on a speed again. What is sent until then is lost on no path of the network.
"""

import time
from collections.abc import Mapping

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.rack.connections import everywhere
from tsnrepro.testbeds.rack.shell import Shell

# Two cards agree on their speed within some 3 s; ten times that is no agreement.
_LINK_SECONDS = 30
_LOOK_SECONDS = 0.2


def wait_for_links(shells: Mapping[str, Shell], devices: Mapping[str, Mapping[str, str]]) -> None:
    """Wait until every port has a link.

    Parameters
    ----------
    shells
        Commands on the hosts, by role.
    devices
        The ports of each host by their names in the topology.

    Raises
    ------
    TestbedError
        Some have none in time; the message names them all.
    """
    end = time.monotonic() + _LINK_SECONDS
    while missing := _without_link(shells, devices):
        if time.monotonic() > end:
            raise TestbedError(
                f"no link within {_LINK_SECONDS} s: {', '.join(missing)}",
                "cables of the measured network",
                "Look at the cables and at both ends: `tsnrepro doctor` tells of each port",
            )
        time.sleep(_LOOK_SECONDS)


def _without_link(
    shells: Mapping[str, Shell], devices: Mapping[str, Mapping[str, str]]
) -> list[str]:
    found = everywhere(lambda role: _of_host(shells[role], devices[role]), [*devices])
    return [f"{role} {name}" for role, names in found.items() for name in names]


def _of_host(shell: Shell, devices: Mapping[str, str]) -> list[str]:
    # Of a port that is not up the file cannot be read.
    asked = [["cat", f"/sys/class/net/{device}/carrier"] for device in devices.values()]
    ended = shell.ask_all(asked)
    return [
        f"{name} ({device})"
        for (name, device), (status, printed) in zip(devices.items(), ended, strict=True)
        if status or printed.strip() != "1"
    ]
