"""The eBPF programs at the kernel's verifier."""

from pathlib import Path

import pytest
from bpf_objects import bpf_objects

pytestmark = [pytest.mark.namespaces]

# The kernel gives up at a million; how it counts differs by version, so there must be room.
MOST_VERIFIED_INSTRUCTIONS = 100_000


def test_the_kernels_verifier_has_an_easy_time(bring_up):
    """A program near the verifier's limit loads on one kernel and not on the next."""
    bring_up(elimination="listener")
    ours = {"host_ingress", "member_ingress", "stream_drop", "station_egress"}
    ours |= {"listener_ingres", "listener_egress"}  # as the kernel cuts them
    seen = set()
    for name, handle in bpf_objects("prog"):
        if name not in ours:
            continue
        lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
        facts = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert int(facts["verified_insns"]) < MOST_VERIFIED_INSTRUCTIONS, name
        seen.add(name)
    assert seen == ours
