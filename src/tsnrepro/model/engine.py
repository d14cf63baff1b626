"""Run a network: window after window, element after element, in compiled code.

In each window every element takes all frames that reach it before the window's end. An element
comes after those that feed it, so nothing is missed, and the memory in use is that of one window
plus the queues, however long the run.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import SOURCE_DIGEST, entry_point, handle, kernel, words
from tsnrepro.model.layout import (
    E_KIND,
    FIFO_PORT,
    RECEIVER,
    S_KIND,
    S_PORT,
    TCP,
    X_ELEMENT_COUNT,
    X_ELEMENTS,
    X_FAULT,
    X_NOW,
    X_RECORD_ROOM,
    X_RECORD_SIZE,
    X_RECORDED,
    X_RECORDS,
    X_SENDER_COUNT,
    X_SENDERS,
    X_STARTED,
    X_WINDOW,
)
from tsnrepro.model.listeners import run_receiver
from tsnrepro.model.network import Network
from tsnrepro.model.plan import Plan, plan_network
from tsnrepro.model.ports import run_fifo, run_scheduled
from tsnrepro.model.result import Result, Tally, read_result
from tsnrepro.model.senders import plan_call, plan_entry

__all__ = ["DELIVERY", "EngineFault", "simulate"]

_PICOSECONDS: Final = 10**12
_WINDOWS_A_VISIT: Final = 1024
_RECORD_ROWS: Final = 1 << 16

DELIVERY: Final = np.dtype(
    [
        ("stream", np.int64),
        ("datagram", np.int64),
        ("sent_ps", np.int64),
        ("arrived_ps", np.int64),
        ("delivered_ps", np.int64),
    ]
)
"""One datagram read by its listener for the first time: which stream (its place in the network's
list), which datagram of it (from 0), when its write began, when its last frame came to the
listener's card, and when the process had read it."""

DeliveryBlock = npt.NDArray[np.void]


class EngineFault(RuntimeError):
    """The engine broke a rule of its own; its numbers must not be used."""


@kernel
def _start_senders(memory):
    first = memory[X_SENDERS]
    for place in range(first, first + memory[X_SENDER_COUNT]):
        sender = memory[place]
        if memory[sender + S_KIND] == TCP:
            continue
        if memory[memory[sender + S_PORT] + E_KIND] == FIFO_PORT:
            plan_entry(memory, sender)
        else:
            plan_call(memory, sender)


@kernel
def _run_window(memory, end):
    first = memory[X_ELEMENTS]
    for place in range(first, first + memory[X_ELEMENT_COUNT]):
        element = memory[place]
        kind = memory[element + E_KIND]
        if kind == FIFO_PORT:
            run_fifo(memory, element, end)
        elif kind == RECEIVER:
            run_receiver(memory, element, end)
        else:
            run_scheduled(memory, element, end)


@kernel
def _run_windows(memory, windows):
    """Run up to ``windows`` windows; stop early where the recorded deliveries need room."""
    if not memory[X_STARTED]:
        memory[X_STARTED] = 1
        _start_senders(memory)
    for _ in range(windows):
        end = memory[X_NOW] + memory[X_WINDOW]
        _run_window(memory, end)
        memory[X_NOW] = end
        size = memory[X_RECORD_SIZE]
        full = size > 0 and size - memory[X_RECORDED] < memory[X_RECORD_ROOM]
        if full or memory[X_FAULT]:
            return


def _make_advance(digest: int) -> Callable[[Any, int], None]:
    def advance(handed, windows):
        if digest != 0:
            _run_windows(words(handed), windows)

    return advance


_advance = entry_point(_make_advance(SOURCE_DIGEST))


def _is_idle(plan: Plan) -> bool:
    """Tell whether nothing is left to happen."""
    memory = plan.memory
    if any(memory[sender + at.S_NEXT] < at.NEVER for sender in plan.senders.values()):
        return False
    if any(memory[tcp + at.T_ACK_AT] < at.NEVER for tcp in plan.transports.values()):
        return False
    rings = list(plan.edges)
    for element in plan.elements:
        if memory[element + at.E_RELEASE_AT] < at.NEVER:
            return False
        if memory[element + at.E_KIND] == at.SCHEDULED_PORT:
            classes = int(memory[element + at.E_CLASSES])
            rings += [classes + number * at.Q_COLUMNS for number in range(at.CLASSES)]
    return all(memory[r + at.RING_READ] == memory[r + at.RING_WRITTEN] for r in rings)


def simulate(
    network: Network,
    *,
    duration_s: float,
    seed: int | SeedSequence = 0,
    drain_s: float = 1.0,
    record: bool = False,
    on_delivery: Callable[[DeliveryBlock], None] | None = None,
    general_ports: bool = False,
) -> Result:
    """Run ``network``: writes begin before ``duration_s``, then queues drain for ``drain_s``.

    The same network, duration and seed give the same result, to the byte, on any machine.
    Deliveries, if wanted, come in blocks of :data:`DELIVERY` to ``on_delivery``, in the order in
    which they are computed (in order of time for each listener's stream); ``record`` keeps them all
    in the result, which then takes 40 bytes a datagram. ``general_ports`` serves FIFO ports event
    by event like the others: slower, and the same result.

    Raises ValueError for times that cannot be, or a network that cannot be laid out,
    ConservationError where the counts do not add up, EngineFault where the engine fails itself.
    """
    stop_ps = round(duration_s * _PICOSECONDS)
    if not 0 < stop_ps < at.NEVER // 2:
        raise ValueError(f"duration of {duration_s} s: give between 1e-12 and 2e6 s")
    if drain_s < 0:
        raise ValueError(f"drain of {drain_s} s: give 0 or more")
    root = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
    wanted = record or on_delivery is not None
    plan = plan_network(
        network,
        stop_ps,
        root,
        record_rows=_RECORD_ROWS if wanted else 0,
        general_ports=general_ports,
    )
    kept: list[DeliveryBlock] = []
    memory, tally = plan.memory, Tally(plan)
    end_ps = stop_ps + round(drain_s * _PICOSECONDS)
    while True:
        left = -(-(end_ps - int(memory[X_NOW])) // int(memory[X_WINDOW]))
        _advance(handle(memory), min(_WINDOWS_A_VISIT, left))
        if memory[X_FAULT]:
            raise EngineFault("a ring ran full although its size was computed to hold everything")
        tally.carry()
        block = _take_records(memory)
        if block.size and on_delivery is not None:
            on_delivery(block)
        if record:
            kept.append(block)
        if memory[X_NOW] >= end_ps or _is_idle(plan):
            break
    deliveries = np.concatenate(kept) if record else None
    return read_result(plan, tally, duration_s, deliveries)


def _take_records(memory: npt.NDArray[np.int64]) -> DeliveryBlock:
    """Return the deliveries recorded since the last time, and make room."""
    first, count = int(memory[X_RECORDS]), int(memory[X_RECORDED])
    memory[X_RECORDED] = 0
    return memory[first : first + count * at.R_WORDS].copy().view(DELIVERY)
