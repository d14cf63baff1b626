"""The trials of the experiment ``shaping``: mode, load and repetition of every part."""

from dataclasses import replace

from tsnrepro.experiments.shaping.factors import factors_of
from tsnrepro.experiments.shaping.schedule import check_part
from tsnrepro.experiments.shaping.settings import ShapingPart, ShapingSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.plan import Planned, StallLimits, in_blocks

# Boot, configuration and collection; only the first estimate of time uses it.
_SET_UP_SECONDS = {"guest": 8.0, "emulated": 1.4, "cards": 2.5}
_MODEL_SECONDS = 2.0


def plan(settings: ShapingSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials of every part that a kind of testbed can run: mode, load and repetition.

    Every schedule is checked first.

    Raises
    ------
    ConfigurationError
        A window is shorter than a frame, or a schedule cannot be; see ``check_schedule``.
    """
    trials = []
    steady: dict[str, StallLimits] = {}
    for part in settings.parts:
        if kind in part.testbeds:
            here = part.on(kind)
            check_part(here)
            steady[part.name] = StallLimits(here.max_stall_ms, here.max_stalled_percent)
            trials += trials_of(here, here.repetitions or settings.repetitions)
    planned = in_blocks(trials, seed, lambda trial: _nominal_seconds(trial, kind))
    return [
        replace(
            item,
            cabled=_cabled(item.trial),
            stall_limits=steady[item.trial.factors["part"]],
        )
        for item in planned
    ]


def _cabled(trial: Trial) -> str:
    """Return what has to be between network cards for a trial."""
    return "switch" if trial.factors["kind"] == "bridge" else "cable"


def trials_of(part: ShapingPart, repetitions: int) -> list[Trial]:
    """Return the trials of one part; ``repetitions`` are those of modes without a number.

    ``direct`` has no port to share with the load, so it is measured idle only.
    """
    return [
        Trial(
            "shaping",
            f"{part.name}-{mode}-{f'{load:g}M' if load else 'idle'}",
            factors_of(part, mode, load),
            repetition,
        )
        for mode in part.modes
        for repetition in range(1, part.repetitions_of.get(mode, repetitions) + 1)
        for load in ([0.0] if mode == "direct" else part.loads_mbps)
    ]


def _nominal_seconds(trial: Trial, kind: str) -> float:
    if kind == "model":
        return _MODEL_SECONDS
    return trial.factors["packets"] * trial.factors["interval_us"] / 1e6 + _SET_UP_SECONDS[kind]
