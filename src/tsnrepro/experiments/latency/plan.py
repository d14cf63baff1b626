"""Factors and trials of the experiment ``latency``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tsnrepro.config import Configuration
from tsnrepro.config.registry import LOCAL_KINDS
from tsnrepro.experiments.latency.settings import LatencySettings
from tsnrepro.runner.design import Planned, TrialFactors, in_blocks, nominal_seconds, numbered

_STOPPING_RULE = "ratio of medians"
_SET_UP_SECONDS = 0.6
# What sockperf waits before its test, except in namespaces of this machine.
_WAIT_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """Configuration of the network, and the messages of sockperf."""

    experiment: ClassVar[str] = "latency"
    configuration: Configuration
    payload_bytes: int
    duration_s: int

    @property
    def label(self) -> str:
        """Configuration and payload."""
        return f"{self.configuration}-{self.payload_bytes}B"


def plan(settings: LatencySettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every configuration, payload and repetition.

    After them come further repetitions of the main payload, which are measured until the ratio of
    medians is precise enough.
    """
    set_up_s = _SET_UP_SECONDS + (0.0 if kind in LOCAL_KINDS else _WAIT_SECONDS)
    nominal_s = nominal_seconds(kind, settings.duration_s, set_up_s)

    def blocks(payloads: Sequence[int], first: int, last: int, rule: str = "") -> list[Planned]:
        return in_blocks(
            (
                Factors(
                    configuration=configuration,
                    payload_bytes=payload,
                    duration_s=settings.duration_s,
                ).planned(repetition, nominal_s, stopping_rule=rule)
                for repetition in range(first, last + 1)
                for configuration in settings.configurations
                for payload in payloads
            ),
            seed,
        )

    least, most = settings.repetitions, settings.max_repetitions or 0
    further = blocks([settings.main_payload_bytes], least + 1, most, _STOPPING_RULE)
    return numbered([*blocks(settings.payloads_bytes, 1, least), *further])
