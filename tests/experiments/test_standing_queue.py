"""A trial whose fastest frame waited had a queue behind its scheduler, and does not count."""

import numpy as np
import pytest
from shaping_parts import part

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.shaping import standing_queue
from tsnrepro.native.streams.log import LISTENER_DTYPE

LINE = {"link_rate_mbps": 100.0, "loads_mbps": [100.0], "load_payload_bytes": 1460}
# Of 1460 bytes with UDP, IPv4, Ethernet with its VLAN tag, preamble and gap: 1530 bytes.
LOAD_FRAME_US = 1530 * 8 / 100


def log(latencies_us):
    found = np.zeros(len(latencies_us), LISTENER_DTYPE)
    found["sent_ns"] = np.arange(len(found)) * 1_000_000
    found["stamped_ns"] = found["sent_ns"] + (np.asarray(latencies_us) * 1000).astype(np.uint64)
    return found


def spread(fastest_us, count=400):
    return log(np.linspace(fastest_us, fastest_us + LOAD_FRAME_US, count))


@pytest.mark.parametrize("mode", ["tas", "prio", "cbs"])
def test_the_fastest_frame_may_wait_for_half_a_frame_of_the_load(mode):
    settings = part("bridge", **LINE, idle_slope_mbps=20.0)
    standing_queue.check(settings, mode, spread(LOAD_FRAME_US / 2 + 9.9), 10)
    with pytest.raises(ToolError, match=r"the fastest of 400 frames took 71.3 us, more than half"):
        standing_queue.check(settings, mode, spread(LOAD_FRAME_US / 2 + 10.1), 10)


@pytest.mark.parametrize(
    ("mode", "changes", "frames"),
    [
        ("fifo", {}, 400),  # waits in the scheduler's own queue
        ("etf", {}, 400),  # held against the launch
        ("prio", {"loads_mbps": [0.0]}, 400),
        ("prio", {"priority": 0, "load_priority": 5}, 400),
        ("prio", {}, 40),  # the fastest of few may have waited
    ],
)
def test_what_proves_nothing_is_not_refused(mode, changes, frames):
    standing_queue.check(part(**LINE | changes), mode, spread(20_000, frames), 10)


@pytest.mark.parametrize("division", [{"threads": 2}, {"receivers": "each"}])
def test_frames_that_wait_for_the_bridges_threads_prove_nothing(division):
    settings = part("bridge", switch="bridge", modes=["tas"], **LINE, **division)
    standing_queue.check(settings, "tas", spread(20_000), 10)
