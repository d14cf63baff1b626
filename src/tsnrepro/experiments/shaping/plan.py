"""Factors and trials of the experiment ``shaping``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tsnrepro.experiments.shaping.schedule import check_part
from tsnrepro.experiments.shaping.settings import Mode, ShapingPart, ShapingSettings
from tsnrepro.runner.design import Planned, StallLimits, TrialFactors, in_blocks

# Boot, configuration and collection; only the first estimate of time uses it.
_SET_UP_SECONDS = {"guest": 8.0, "emulated": 0.9, "nic-pair": 2.5, "bench": 2.5}
_MODEL_SECONDS = 0.1


# Settings of a part that do not decide what one trial measures.
_NOT_OF_A_TRIAL = {
    *("modes", "loads_mbps", "testbeds", "name", "max_stalled_percent", "max_stall_ms"),
    "repetitions",
}
# Settings that came later, and the values that trials had before: those are not stored.
_OMITTED = {"switch": "kernel", "toggles": None, "threads": 1, "receivers": "one"}


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A part with one mode and one load."""

    experiment: ClassVar[str] = "shaping"
    part: ShapingPart
    mode: Mode
    load_mbps: float

    @classmethod
    def one(cls, part: ShapingPart, mode: Mode, load_mbps: float) -> Self:
        """Return the factors of one mode and one load of a part."""
        changes = {"modes": [mode], "loads_mbps": [load_mbps]}
        return cls(part=part.model_copy(update=changes), mode=mode, load_mbps=load_mbps)

    @property
    def label(self) -> str:
        """Part, mode and load."""
        load = f"{self.load_mbps:g}M" if self.load_mbps else "idle"
        return f"{self.part.name}-{self.mode}-{load}"

    @property
    def cabled(self) -> str:
        """What has to be between network cards."""
        return "switch" if self.part.kind == "bridge" else "cable"

    def nominal_s(self, kind: str) -> float:
        """Return how long the trial should take on a kind of testbed."""
        if kind == "model":
            return _MODEL_SECONDS
        return self.part.packets * self.part.interval_us / 1e6 + _SET_UP_SECONDS[kind]

    def stored(self) -> dict[str, Any]:
        """Return the factors as a record stores them."""
        common = self.part.recorded(exclude=_NOT_OF_A_TRIAL)
        kept = {k: v for k, v in common.items() if k not in _OMITTED or v != _OMITTED[k]}
        return {"part": self.part.name, "mode": self.mode, "load_mbps": self.load_mbps} | kept

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the factors that a record stores."""
        common = dict(stored)
        name, mode, load = (common.pop(key) for key in ("part", "mode", "load_mbps"))
        part = ShapingPart(name=name, modes=[mode], loads_mbps=[load], **common)
        return cls(part=part, mode=mode, load_mbps=load)


def plan(settings: ShapingSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials of every part that a kind of testbed can run: mode, load and repetition.

    Every schedule is checked first.

    Raises
    ------
    ConfigurationError
        A window is shorter than a frame, or a schedule cannot be; see ``check_schedule``.
    """
    here = [part.on(kind) for part in settings.parts if kind in part.testbeds]
    for part in here:
        check_part(part)
    return in_blocks(
        (
            factors.planned(
                repetition,
                factors.nominal_s(kind),
                cabled=factors.cabled,
                stall_limits=StallLimits(part.max_stall_ms, part.max_stalled_percent),
            )
            for part in here
            for factors, repetition in repeated(part, settings.repetitions)
        ),
        seed,
    )


def repeated(part: ShapingPart, repetitions: int) -> Iterator[tuple[Factors, int]]:
    """Yield every mode and load of a part with the numbers of its repetitions.

    ``repetitions`` are those of a part without a number of its own. Each has all modes and loads,
    for modes are compared within repetitions. ``direct`` has no port to share with the load, so it
    is measured idle only.
    """
    for mode in part.modes:
        for load in [0.0] if mode == "direct" else part.loads_mbps:
            factors = Factors.one(part, mode, load)
            for repetition in range(1, (part.repetitions or repetitions) + 1):
                yield factors, repetition
