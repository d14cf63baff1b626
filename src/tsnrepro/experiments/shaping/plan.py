"""Trials of the experiment ``shaping``, and which code measures them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsnrepro.experiments.shaping.factors import factors_of
from tsnrepro.settings.shaping import ShapingPart

if TYPE_CHECKING:
    from tsnrepro.experiments.run import Measurement, Planned
    from tsnrepro.records.store import Trial
    from tsnrepro.settings.shaping import Mode, ShapingSettings

# Boot, configuration and collection of a guest; only the first estimate of time uses it.
SET_UP_SECONDS = 8.0
MODEL_SECONDS = 2.0


def plan(settings: ShapingSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials of every part that a kind of testbed can run: mode, load and repetition.

    Every schedule is checked first.

    Raises
    ------
    ConfigurationError
        A window is shorter than a frame, or a schedule cannot be; see ``check_schedule``.
    """
    from tsnrepro.experiments.plan import randomised_blocks  # noqa: PLC0415 - settings import us
    from tsnrepro.experiments.run import Planned  # noqa: PLC0415
    from tsnrepro.experiments.shaping.schedule import check_part  # noqa: PLC0415

    trials = []
    for part in settings.parts:
        if kind in part.testbeds:
            here = part.on(kind)
            check_part(here)
            trials += trials_of(here, settings.repetitions)
    return [
        Planned(trial, order, _nominal_seconds(trial, kind))
        for order, trial in enumerate(randomised_blocks(trials, seed))
    ]


def trials_of(part: ShapingPart, repetitions: int) -> list[Trial]:
    """Return the trials of one part.

    ``direct`` has no port to share with the load, so it is measured idle only.
    """
    from tsnrepro.records.store import Trial  # noqa: PLC0415

    return [
        Trial("shaping", _label(part, mode, load), factors_of(part, mode, load), repetition)
        for repetition in range(1, repetitions + 1)
        for mode in part.modes
        for load in ([0.0] if mode == "direct" else part.loads_mbps)
    ]


def _label(part: ShapingPart, mode: Mode, load: float) -> str:
    loaded = f"{load:g}M" if load else "idle"
    return f"{part.name}-{mode}-{loaded}"


def _nominal_seconds(trial: Trial, kind: str) -> float:
    if kind == "model":
        return MODEL_SECONDS
    return trial.factors["packets"] * trial.factors["interval_us"] / 1e6 + SET_UP_SECONDS


def measure(testbed: Any, trial: Trial, measured: Measurement) -> None:
    """Measure one trial on the model, or by commands on hosts (a guest's job)."""
    if testbed.kind == "model":
        from tsnrepro.experiments.shaping import on_model  # noqa: PLC0415 - compiled code

        on_model.measure(testbed, trial, measured)
    else:
        from tsnrepro.experiments.shaping import on_hosts  # noqa: PLC0415

        on_hosts.measure(testbed, trial, measured)
