"""Cyclic garbage of a trial is collected at its end, not hours later."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LONG_SECONDS = 0.01


@contextmanager
def freeze_gc() -> Iterator[None]:
    """Let the garbage collector look at nothing that was there before the block.

    Every indented JSON text leaves closures that refer to each other, and those that outlive two
    young collections wait for a full one. CPython defers that until a quarter as many objects as
    are long-lived have come anew (``gc.get_threshold``): with the libraries of this package loaded
    that is tens of thousands, megabytes and hours of trials, and then it takes a tenth of a second
    of whatever is being measured. What was there is set aside (``gc.freeze``), so that
    :func:`collect_garbage` takes a millisecond.

    Only one thread may be in such a block at a time: the end of one ends all.
    """
    gc.collect(1)  # what is young and garbage is not to be set aside
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()


def collect_garbage() -> None:
    """Free the garbage that has come since the block of :func:`freeze_gc` began.

    What takes long to look through is no garbage, but what the first trials loaded, a library or a
    compiler: it is set aside as what was there before, or every trial would look at it again.
    """
    # Of a processor's time: that a busy machine made it wait says nothing of what there is.
    began = time.thread_time()
    gc.collect()
    if time.thread_time() - began > _LONG_SECONDS:
        gc.freeze()
