"""Factors and trials of the experiment ``rfc2544``: a complete search or procedure is one trial."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, cast

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import ConfigModel, Configuration, parse
from tsnrepro.config.registry import EMULATED, MODEL
from tsnrepro.experiments.rfc2544.rates import payload_of_frame
from tsnrepro.experiments.rfc2544.settings import (
    BackToBackSettings,
    BinarySearchSettings,
    FrameLossSettings,
    LatencyKind,
    LatencyLoad,
    MlrSettings,
    Rfc2544Settings,
    RfcLatencySettings,
    SearchMethod,
    Sizes,
    SlowLinks,
    SystematicSettings,
    SystemRecoverySettings,
    ThroughputSettings,
)
from tsnrepro.runner.design import (
    OMITTED,
    Planned,
    TrialFactors,
    in_blocks,
    nominal_seconds,
    numbered,
)

# Counters and set-up of one load trial, and its waits where it has those of RFC 2544, 23 (c) and
# (e); only the first estimate of time uses them.
_SET_UP_SECONDS = 0.3
_WAITS_SECONDS = 7.0
# Load trials that MLRsearch needs at a time besides those of its final bounds.
_MLR_EXTRA_TRIALS = 8
_BACK_TO_BACK_STEPS = 8

# A benchmark's method, its settings, its longest load trial and its nominal seconds.
_Part = tuple[str, ConfigModel, float, float]
# Factors that all trials of a campaign share.
_Common = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A search or procedure at one size, and its settings.

    Attributes
    ----------
    frame_bytes
        With FCS; None where the size was given as a payload.
    tag_counts
        Whether the R-TAG is part of the frame size.
    duration_s
        Length of the longest load trial.
    settings
        The method's own, as stored: a search with other settings is another trial.
    ceiling_s
        Length of the trial at the line's limit that shows what the generator can do.
    shortfall_percent
        A load trial that offers less by more than this is the generator's limit.
    full_waits
        Whether load trials have the learning frames and waits of RFC 2544, 23.
    link_rate_mbps, queue_bytes, burst_bytes
        Wire rate of all links, their queues and token buckets, where they are not the testbed's.
    send_buffer_bytes, receive_buffer_bytes
        Buffers of the talker's and the listener's socket where they are not the testbed's.
    """

    experiment: ClassVar[str] = "rfc2544"
    benchmark: str
    method: str
    configuration: Configuration
    payload_bytes: int
    frame_bytes: int | None = None
    tag_counts: bool = False
    duration_s: float
    settings: dict[str, Any]
    ceiling_s: float = 1.0
    shortfall_percent: float = 1.0
    full_waits: bool = False
    link_rate_mbps: int | None = field(default=None, metadata=OMITTED)
    queue_bytes: int | None = field(default=None, metadata=OMITTED)
    burst_bytes: int | None = field(default=None, metadata=OMITTED)
    send_buffer_bytes: int | None = field(default=None, metadata=OMITTED)
    receive_buffer_bytes: int | None = field(default=None, metadata=OMITTED)

    @property
    def label(self) -> str:
        """Method, configuration and size."""
        size = f"payload{self.payload_bytes}"
        if self.frame_bytes is not None:
            size = f"frame{self.frame_bytes}"
        return f"{self.method}-{self.configuration}-{size}"

    def testbed(self, kind: str) -> dict[str, Any]:
        """Return settings of a testbed that differ from its file, of those that its kind has."""
        names = ("link_rate_mbps", "queue_bytes", *(() if kind == MODEL else ("burst_bytes",)))
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def starts_from_throughput(self) -> bool:
        """Whether the loads follow from the throughput that other trials found."""
        if self.benchmark == "latency":
            return self.latency_case[1] == "throughput"
        return self.benchmark in ("back-to-back", "system-recovery")

    @property
    def latency_case(self) -> tuple[LatencyKind, LatencyLoad]:
        """Of a trial of latency: the kind of its samples, and the load beside them."""
        kind, _, load = self.method.rpartition("-")
        return cast("LatencyKind", kind), cast("LatencyLoad", load)

    @property
    def generator(self) -> Literal["talker", "iperf3"]:
        """The generator of the load trials; only a binary search may have iperf3."""
        return self.settings.get("generator", "talker")

    @property
    def method_settings(self) -> Any:
        """The settings of the method, a model of :mod:`tsnrepro.experiments.rfc2544.settings`.

        Raises
        ------
        ConfigurationError
            There is no such benchmark or method, or the settings are not its own.
        """
        kind = _SETTINGS.get(self.method if self.benchmark == "throughput" else self.benchmark)
        if kind is None:
            raise ConfigurationError(
                f"there is no benchmark '{self.benchmark}' by '{self.method}'",
                "factors of an rfc2544 trial",
                f"There are: {', '.join(_SETTINGS)}",
            )
        where = f"factors of the {self.benchmark} trial, settings"
        return parse(kind, self.settings, where, from_record=True)


def plan(settings: Rfc2544Settings, seed: int, kind: str) -> list[Planned]:
    """Return the trials of a campaign, in blocks of random order within each benchmark.

    Throughput comes first: others start from it.
    """
    return numbered(
        chain.from_iterable(
            in_blocks(
                (
                    factors.planned(
                        repetition,
                        nominal_seconds(kind, seconds, 0.0),
                        from_earlier=factors.starts_from_throughput,
                        testbed=factors.testbed(kind),
                    )
                    for factors, repetition, seconds in part
                ),
                seed,
            )
            for part in _benchmarks(settings, kind)
        )
    )


def _benchmarks(
    settings: Rfc2544Settings, kind: str
) -> Iterator[Iterator[tuple[Factors, int, float]]]:
    """Yield the trials of each benchmark: factors, repetition and seconds."""
    names = {"line_rate_trial_s", "shortfall_percent", "rfc2544_waits"}
    common: _Common = settings.recorded(include=names)
    common |= {"link_rate_mbps": settings.link_rate_mbps} | _slow_links(settings.slow_links, kind)
    beside = _SET_UP_SECONDS + (_WAITS_SECONDS if settings.rfc2544_waits else 0.0)
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
        seconds = of.searches * _BACK_TO_BACK_STEPS * (of.max_burst_s / 4 + beside)
        bursts = [("back-to-back", of, of.max_burst_s, seconds)]
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


def _slow_links(links: SlowLinks | None, kind: str) -> dict[str, int]:
    """Return what differs from the testbed's links and sockets, nothing where those are fixed."""
    return links.model_dump() if links and kind in (EMULATED, MODEL) else {}


def _trials(
    benchmark: str,
    common: _Common,
    sizes: Sizes,
    repetitions: int,
    parts: Sequence[_Part],
) -> Iterator[tuple[Factors, int, float]]:
    for frame, payload in _sizes(sizes):
        for configuration in sizes.configurations:
            for method, own, duration_s, seconds in parts:
                factors = Factors(
                    benchmark=benchmark,
                    method=method,
                    configuration=configuration,
                    payload_bytes=payload,
                    frame_bytes=frame,
                    tag_counts=sizes.include_r_tag and frame is not None,
                    duration_s=duration_s,
                    settings=_own_settings(own),
                    **common,
                )
                for repetition in range(1, repetitions + 1):
                    yield factors, repetition, seconds


def _sizes(sizes: Sizes) -> list[tuple[int | None, int]]:
    """Return each size as frame bytes (None for a payload as such) and payload."""
    frames = [
        (frame, payload_of_frame(frame, tag_counts=sizes.include_r_tag))
        for frame in sizes.frames_bytes
    ]
    return [*frames, *((None, payload) for payload in sizes.payloads_bytes)]


def _own_settings(settings: ConfigModel) -> dict[str, Any]:
    """Return the settings that decide one trial; those that list the trials do not."""
    listed = set[str]()
    if isinstance(settings, BinarySearchSettings):
        listed = {"searches", *_usual(settings)}
    if isinstance(settings, Sizes):
        listed = {*Sizes.model_fields, "repetitions", "loads", "kinds"}
    return settings.recorded(exclude=listed)


def _usual(settings: BinarySearchSettings) -> set[str]:
    """Return settings that are at their defaults and that older records lack."""
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
    grids = min(grids, settings.max_refinements)
    trials = settings.loads * ((grids - 1) * settings.repetitions + settings.last_repetitions)
    return settings.duration_s, trials * (settings.duration_s + beside)


_SECONDS: dict[type, Callable[[Any, float], tuple[float, float]]] = {
    BinarySearchSettings: _binary_seconds,
    MlrSettings: _mlr_seconds,
    SystematicSettings: _systematic_seconds,
}
