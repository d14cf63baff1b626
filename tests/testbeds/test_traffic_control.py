"""What a switch whose kernel does FRER tells of recovery, by the paths that it has."""

from types import SimpleNamespace

import pytest

from tsnrepro.config import FrerSettings
from tsnrepro.config.rack import KernelSwitch
from tsnrepro.testbeds.hosts.shell import Shell
from tsnrepro.testbeds.rack.traffic_control import KernelDriver
from tsnrepro.tools.frerctl import StreamFilter

SENT, ROGUE = 1000, 3


@pytest.mark.parametrize("paths", [2, 3, 4])
@pytest.mark.parametrize("handshake", [0, 1])
def test_the_copies_of_a_handshake_are_none_of_the_streams(paths, handshake):
    """Each path but the first brings one, as it brings a copy of each datagram."""
    told = []
    members = [f"enp{number}s0" for number in range(1, paths + 1)]
    settings = KernelSwitch.model_construct(host_port="enp9s0", member_ports=members)
    shell = Shell(SimpleNamespace(name="sw2"), lambda *words: told.append(words))
    driver = KernelDriver(shell, settings, "frerctl")
    stream = StreamFilter("udp", 5201, 16 if handshake else 0)
    driver.configure("frer", FrerSettings(history_length=32, reset_ms=200), stream)
    assert told
    discarded = (paths - 1) * (SENT + handshake) + ROGUE
    places = driver._discarded({"discarded": discarded, "rogue": ROGUE, "tagless": 0})
    assert places["eliminated"]["stream_frames"] == (paths - 1) * SENT
