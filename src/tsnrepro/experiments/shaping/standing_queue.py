"""Proof by its fastest frame that nothing queued behind the scheduler of a trial.

A stream that goes before its load waits at the shaped port for the rest of one frame of the load at
most, and over many frames, which come at any time of it, some wait for hardly any. A queue behind
the port that is emptied no faster than the port fills it never gets shorter: then the fastest frame
waits too.
"""

from tsnrepro.common.errors import ToolError
from tsnrepro.experiments.shaping.log import Records, latency_us
from tsnrepro.experiments.shaping.schedule import flows_of, wire_time_ns
from tsnrepro.experiments.shaping.settings import LAUNCHED, Mode, ShapingPart

# So many frames all come in the second half of a frame of the load once in 10**15 trials.
_FEWEST_FRAMES = 50


def check(part: ShapingPart, mode: Mode, log: Records, uncertainty_us: float) -> None:
    """Refuse a trial under load whose fastest frame waited longer than half a frame of the load.

    ``part`` and ``mode``: what was measured. Modes in which the load goes first, or which are held
    against a launch time, tell nothing. Nor does a bridge whose threads hand frames to each other:
    on few processors each frame waits for the next thread to run. ``log``: of the stream;
    ``uncertainty_us``: how late a stamp may be. Raises ToolError if the fastest frame waited
    longer.
    """
    _, *load = flows_of(part)
    if not load or mode in ("direct", "fifo", *LAUNCHED) or part.priority <= part.load_priority:
        return
    if (part.threads, part.receivers) != (1, "one"):
        return
    latencies = latency_us(log)
    if len(latencies) < _FEWEST_FRAMES:
        return
    half_us = wire_time_ns(max(load[0].wire_bytes), part.link_rate_mbps) / 2000
    if latencies.min() > half_us + uncertainty_us:
        raise ToolError(
            f"the fastest of {len(latencies)} frames took {latencies.min():.1f} us, more than half "
            f"a frame of the load ({half_us:.1f} us) and the stamp's {uncertainty_us:g} us",
            f"shaping part {part.name}, {mode}",
            "Something queues behind the shaped port, and this attempt does not count: look for a "
            "limit on the way from there to the listener, or for a machine that is too slow",
        )
