"""Run a network: window after window, element after element, in compiled code.

In each window every element takes all frames that reach it before the window's end. An element
comes after those that feed it, so nothing is missed, and the memory in use is that of one window
plus the queues, however long the run.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.random import SeedSequence

from tsnrepro.model import layout as at
from tsnrepro.model.compiled import SOURCE_DIGEST, entry_point, kernel
from tsnrepro.model.layout import (
    E_FAST,
    E_KIND,
    RECEIVER,
    S_ELEMENT,
    S_KIND,
    TCP,
    X_FAULT,
    X_NOW,
    X_RECORD_ROOM,
    X_RECORDED,
    X_RECORDING,
    X_STARTED,
    X_WINDOW,
)
from tsnrepro.model.listeners import run_receiver
from tsnrepro.model.network import Network
from tsnrepro.model.plan import plan_network
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
def _start_senders(state):
    for sender in range(state.senders.shape[0]):
        if state.senders[sender, S_KIND] == TCP:
            continue
        if state.elements[state.senders[sender, S_ELEMENT], E_FAST]:
            plan_entry(state, sender)
        else:
            plan_call(state, sender)


def _make_advance(digest: int):
    def advance(state, windows):
        """Run up to ``windows`` windows; stop early where the recorded deliveries need room."""
        if digest == 0:
            return
        control = state.control
        if not control[X_STARTED]:
            control[X_STARTED] = 1
            _start_senders(state)
        for _ in range(windows):
            end = control[X_NOW] + control[X_WINDOW]
            for element in range(state.elements.shape[0]):
                if state.elements[element, E_KIND] == RECEIVER:
                    run_receiver(state, element, end)
                elif state.elements[element, E_FAST]:
                    run_fifo(state, element, end)
                else:
                    run_scheduled(state, element, end)
            control[X_NOW] = end
            full = state.records.shape[0] - control[X_RECORDED] < control[X_RECORD_ROOM]
            if control[X_FAULT] or (control[X_RECORDING] and full):
                return

    return advance


_advance = entry_point(_make_advance(SOURCE_DIGEST))


def _is_idle(state: at.State) -> bool:
    """Tell whether nothing is left to happen."""
    ports = state.elements[:, at.E_KIND] == at.PORT
    scheduled = ports & (state.elements[:, at.E_FAST] == 0)
    waiting = state.classes[scheduled]
    return bool(
        (state.senders[:, at.S_NEXT] >= at.NEVER).all()
        and (state.edges[:, at.RING_READ] == state.edges[:, at.RING_WRITTEN]).all()
        and (waiting[..., at.RING_READ] == waiting[..., at.RING_WRITTEN]).all()
        and (state.elements[ports, at.E_RELEASE_AT] == at.NEVER).all()
        and (state.tcp[:, at.T_ACK_AT] >= at.NEVER).all()
    )


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

    Raises ValueError for a duration that is not positive or a network that cannot be laid out,
    ConservationError where the counts do not add up, EngineFault where the engine fails itself.
    """
    stop_ps = round(duration_s * _PICOSECONDS)
    if not 0 < stop_ps < at.NEVER // 2:
        raise ValueError(f"duration of {duration_s} s: give between 1e-12 and 2e6 s")
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
    state, tally = plan.state, Tally(plan.state)
    end_ps = stop_ps + round(drain_s * _PICOSECONDS)
    while True:
        left = -(-(end_ps - int(state.control[X_NOW])) // int(state.control[X_WINDOW]))
        _advance(state, min(_WINDOWS_A_VISIT, left))
        if state.control[X_FAULT]:
            raise EngineFault("a ring ran full although its size was computed to hold everything")
        tally.carry()
        count = int(state.control[X_RECORDED])
        if count:
            block = state.records[:count].copy().view(DELIVERY).reshape(-1)
            state.control[X_RECORDED] = 0
            if on_delivery is not None:
                on_delivery(block)
            if record:
                kept.append(block)
        if state.control[X_NOW] >= end_ps or _is_idle(state):
            break
    deliveries = np.concatenate(kept or [np.empty(0, DELIVERY)]) if record else None
    return read_result(plan, tally, duration_s, deliveries)
