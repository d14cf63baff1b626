"""What is due at the elimination of a stream besides recovery: restarts, latent error detection.

Both are due at times of their own and are made up for when a frame comes, ahead of it.
"""

from typing import Any

from tsnrepro.model import latent, recovery
from tsnrepro.model import layout as at


def keep_up(memory: Any, address: int, now: int) -> None:
    """Do what is due by ``now`` at the elimination at an address (in Python or compiled).

    ``now`` must not go back. The first of the elimination's functions is the stream's own; its
    counters must not have changed since the earliest time that is due.
    """
    elimination = at.elimination(memory, address)
    first = elimination.functions
    if elimination.latent != at.NONE:
        latent.detect(memory, elimination.latent, at.recovery(memory, memory[first]), now)
    while elimination.restart < elimination.restarts_end:
        time = memory[elimination.restart]
        if time > now:
            break
        for place in range(first, first + elimination.function_count):
            recovery.restart(memory, memory[place], time)
        elimination.restart += 1
