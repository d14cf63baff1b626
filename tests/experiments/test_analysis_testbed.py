"""The testbed's facts as results: whose memory it is."""

import pandas as pd
import pytest

from tsnrepro.results import testbed

NO_TRIALS = pd.DataFrame(columns=["trial", "sha256"])
MACHINE = {"kernel": "6.1", "processor": "any", "processors": 2, "commit": "0" * 40}


@pytest.mark.parametrize(
    ("controller", "others", "gib"),
    [
        ({"memory_bytes": 6 * 2**30}, {}, 6.0),
        # Hosts that are machines of their own ran the network, and say nothing of their memory.
        ({"memory_bytes": 6 * 2**30}, {"ran_on": MACHINE}, None),
        ({}, {}, None),
    ],
)
def test_memory_is_that_of_the_machine_whose_processor_is_told(
    monkeypatch, controller, others, gib
):
    facts = {
        **{"testbed": "emulated", "jobs": True, "settings": {}, "acceleration": None},
        **{"iproute2": "6.1", "controller": MACHINE | controller},
        **others,
    }
    manifest = {"campaign": "quick", "experiment": "shaping"}
    monkeypatch.setattr(testbed, "open_run", lambda path: (None, manifest))
    monkeypatch.setattr(testbed, "facts_of", lambda path: ("digest", facts))
    found = testbed.analyse("run.json", NO_TRIALS).of("testbed.memory")
    assert (found.value, found.unit) == (gib, "GiB")
