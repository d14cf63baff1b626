"""What is due at the elimination of a stream besides recovery: restarts, latent error detection.

Both are due at times of their own and are made up for when a frame comes, ahead of it.
"""

from tsnrepro.model import latent, recovery
from tsnrepro.model.layout import (
    EL_FUNCTION_COUNT,
    EL_FUNCTIONS,
    EL_LATENT,
    EL_RESTART,
    EL_RESTARTS_END,
    NONE,
)
from tsnrepro.model.recovery import Registers

__all__ = ["keep_up"]


def keep_up(memory: Registers, elimination: int, now: int) -> None:
    """Do what is due by ``now``, which must not go back, in a run's memory (plain or compiled).

    The first of the elimination's functions is the stream's own; its counters must not have changed
    since the earliest time that is due.
    """
    functions = memory[elimination + EL_FUNCTIONS]
    if memory[elimination + EL_LATENT] != NONE:
        latent.detect(memory, memory[elimination + EL_LATENT], memory[functions], now)
    restart, end = memory[elimination + EL_RESTART], memory[elimination + EL_RESTARTS_END]
    while restart < end and memory[restart] <= now:
        for place in range(functions, functions + memory[elimination + EL_FUNCTION_COUNT]):
            recovery.restart(memory, memory[place], memory[restart])
        restart += 1
        memory[elimination + EL_RESTART] = restart
