"""The stored trials of the RFC 2544 benchmarks: one complete search or procedure each.

Factors of every trial: ``benchmark``; ``method``; ``configuration``; ``payload_bytes``;
``frame_bytes`` (with FCS, None where the payload was asked for as such); ``tag_counts``;
``duration_s`` of its longest load trial; ``ceiling_s``, ``shortfall_percent`` and ``full_waits``
of all; and ``settings``, the method's own, so that a search with other settings is another trial.
Throughput comes first, for others start from it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import ConfigModel, parse
from tsnrepro.experiments.rfc2544.rates import payload_of_frame
from tsnrepro.experiments.rfc2544.settings import (
    BackToBackSettings,
    BinarySearchSettings,
    FrameLossSettings,
    MlrSettings,
    Rfc2544Settings,
    RfcLatencySettings,
    SearchMethod,
    Sizes,
    SystematicSettings,
    SystemRecoverySettings,
    ThroughputSettings,
)
from tsnrepro.records.store import Trial
from tsnrepro.runner.plan import Planned, nominal_seconds, randomised_blocks

# Counters and set-up of one load trial, and its waits where it has those of RFC 2544, 23 (c) and
# (e); only the first estimate of time uses them.
_SET_UP_SECONDS = 0.5
_WAITS_SECONDS = 7.0
# Load trials that MLRsearch needs at a time besides those of its final bounds.
_MLR_EXTRA_TRIALS = 8
_BACK_TO_BACK_STEPS = 8

# Benchmark's method, its settings, its longest load trial and its nominal seconds.
_Part = tuple[str, ConfigModel, float, float]


def plan(settings: Rfc2544Settings, seed: int, kind: str) -> list[Planned]:
    """Return the trials of a campaign, in blocks of random order within each benchmark."""
    planned: list[Planned] = []
    for part in _benchmarks(settings):
        seconds: dict[str, float] = {}
        trials = []
        for trial, own in part:
            trials.append(trial)
            seconds[trial.digest] = nominal_seconds(kind, own, 0.0)
        planned += [
            Planned(
                *(trial, len(planned) + place, seconds[trial.digest]),
                from_earlier=starts_from_throughput(trial.factors),
            )
            for place, trial in enumerate(randomised_blocks(trials, seed))
        ]
    return planned


def starts_from_throughput(factors: dict[str, Any]) -> bool:
    """Tell whether a trial's load is made from the throughput that other trials found."""
    if factors["benchmark"] == "latency":
        return str(factors["method"]).endswith("-throughput")
    return factors["benchmark"] in ("back-to-back", "system-recovery")


def _benchmarks(settings: Rfc2544Settings) -> Iterator[Iterator[tuple[Trial, float]]]:
    common = settings.model_dump(include={"ceiling_s", "shortfall_percent", "full_waits"})
    beside = _SET_UP_SECONDS + (_WAITS_SECONDS if settings.full_waits else 0.0)
    if (of := settings.throughput) is not None:
        yield chain.from_iterable(
            _trials("throughput", common, of, _searches(of, method), [_search(of, method, beside)])
            for method in of.methods
        )
    if (of := settings.frame_loss) is not None:
        counts = {"downward": 5 * (of.step_percent is not None), "at-loads": len(of.loads_percent)}
        each = of.duration_s + beside
        loss = [(name, of, of.duration_s, n * each) for name, n in counts.items() if n]
        yield _trials("frame-loss", common, of, of.repetitions, loss)
    if (of := settings.back_to_back) is not None:
        seconds = of.searches * _BACK_TO_BACK_STEPS * (of.longest_s / 4 + beside)
        bursts = [("back-to-back", of, of.longest_s, seconds)]
        yield _trials("back-to-back", common, of, 1, bursts)
    if (of := settings.system_recovery) is not None:
        seconds = of.overload_s + of.recovery_s
        recovery = [("system-recovery", of, seconds, seconds + beside)]
        yield _trials("system-recovery", common, of, of.repetitions, recovery)
    if (of := settings.latency) is not None:
        seconds = of.duration_s + beside
        cases = [
            (f"{kind}-{load}", of, of.duration_s, seconds) for kind in of.kinds for load in of.loads
        ]
        yield _trials("latency", common, of, of.repetitions, cases)


def _trials(
    benchmark: str,
    common: dict[str, Any],
    sizes: Sizes,
    repetitions: int,
    parts: Sequence[_Part],
) -> Iterator[tuple[Trial, float]]:
    for repetition in range(1, repetitions + 1):
        for frame, payload, label in _sizes(sizes):
            for configuration in sizes.configurations:
                for method, own, duration_s, seconds in parts:
                    factors = {
                        "benchmark": benchmark,
                        "method": method,
                        "configuration": configuration,
                        "payload_bytes": payload,
                        "frame_bytes": frame,
                        "tag_counts": sizes.tag_counts and frame is not None,
                        "duration_s": duration_s,
                        "settings": _own_settings(own),
                        **common,
                    }
                    name = f"{method}-{configuration}-{label}"
                    yield Trial("rfc2544", name, factors, repetition), seconds


def _sizes(sizes: Sizes) -> list[tuple[int | None, int, str]]:
    """Return each size as frame bytes (None for a payload as such), payload and a label."""
    frames = [
        (frame, payload_of_frame(frame, tag_counts=sizes.tag_counts), f"frame{frame}")
        for frame in sizes.frame_bytes
    ]
    return [*frames, *((None, payload, f"payload{payload}") for payload in sizes.payloads_bytes)]


def _own_settings(settings: ConfigModel) -> dict[str, Any]:
    """Return what decides one trial; which trials there are does not."""
    listed = set[str]()
    if isinstance(settings, BinarySearchSettings):
        listed = {"searches", *_usual(settings)}
    if isinstance(settings, Sizes):
        listed = {*Sizes.model_fields, "repetitions", "loads", "kinds"}
    return settings.model_dump(mode="json", exclude=listed)


def _usual(settings: BinarySearchSettings) -> set[str]:
    """Return what a search without a word of it has: trials are then those of older records."""
    usual = BinarySearchSettings()
    later = ("generator", "from_line_rate")
    return {name for name in later if getattr(settings, name) == getattr(usual, name)}


def _searches(settings: ThroughputSettings, method: SearchMethod) -> int:
    own = settings.binary_search.searches if method == "binary-search" else None
    return own or settings.repetitions


def _search(settings: ThroughputSettings, method: SearchMethod, beside: float) -> _Part:
    chosen: ConfigModel = getattr(settings, method.replace("-", "_"))
    longest, seconds = _SECONDS[type(chosen)](chosen, beside)
    return method, chosen, longest, seconds


def generator_of(factors: dict[str, Any]) -> Literal["talker", "iperf3"]:
    """Return who sends the load trials of a trial; only a binary search has another than ours."""
    return factors["settings"].get("generator", "talker")


def settings_of_trial(factors: dict[str, Any]) -> Any:
    """Return the settings that a trial's method was planned with: a model of settings.rfc2544.

    Raises
    ------
    ConfigurationError
        There is no such benchmark or method, or the settings are not its own.
    """
    benchmark, method = factors["benchmark"], factors["method"]
    kind = _SETTINGS.get(method if benchmark == "throughput" else benchmark)
    if kind is None:
        raise ConfigurationError(
            f"there is no benchmark '{benchmark}' by '{method}'",
            "factors of an rfc2544 trial",
            f"There are: {', '.join(_SETTINGS)}",
        )
    return parse(kind, factors["settings"], f"factors of the {benchmark} trial, settings")


_SETTINGS: dict[str, type[ConfigModel]] = {
    "binary-search": BinarySearchSettings,
    "mlrsearch": MlrSettings,
    "mlrsearch-rfc2544": MlrSettings,
    "systematic": SystematicSettings,
    "frame-loss": FrameLossSettings,
    "back-to-back": BackToBackSettings,
    "system-recovery": SystemRecoverySettings,
    "latency": RfcLatencySettings,
}


def _binary_seconds(settings: BinarySearchSettings, beside: float) -> tuple[float, float]:
    return settings.duration_s, settings.steps * (settings.duration_s + beside)


def _mlr_seconds(settings: MlrSettings, beside: float) -> tuple[float, float]:
    goals = settings.goals
    # Goals share trials, so the longest decides. A bound that may exceed fails at half of the sum.
    sums = [(2.5 if g.exceed_ratio == 0 else 1.5) * g.duration_sum_s for g in goals]
    sending = max(sums) + _MLR_EXTRA_TRIALS * max(goal.initial_trial_s for goal in goals)
    trials = _MLR_EXTRA_TRIALS + max(
        seconds / goal.final_trial_s for seconds, goal in zip(sums, goals, strict=True)
    )
    return max(goal.final_trial_s for goal in goals), sending + trials * beside


def _systematic_seconds(settings: SystematicSettings, beside: float) -> tuple[float, float]:
    # Each grid is two steps of the one before wide, and the last has its own repetitions.
    finer = math.log(100 / settings.loads / settings.resolution_percent)
    grids = 1 + max(0, math.ceil(finer / math.log(settings.loads / 2)))
    grids = min(grids, settings.most_grids)
    trials = settings.loads * ((grids - 1) * settings.repetitions + settings.last_repetitions)
    return settings.duration_s, trials * (settings.duration_s + beside)


_SECONDS: dict[type, Callable[[Any, float], tuple[float, float]]] = {
    BinarySearchSettings: _binary_seconds,
    MlrSettings: _mlr_seconds,
    SystematicSettings: _systematic_seconds,
}
