"""Factors and trials of the experiment ``failure``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tsnrepro.common.ethernet import payload_rate_pps
from tsnrepro.common.topology import SWITCHES
from tsnrepro.config import Configuration
from tsnrepro.config.frer import LatentSettings
from tsnrepro.experiments.failure.settings import FailureSettings, Scenario
from tsnrepro.runner.design import (
    Planned,
    TrialFactors,
    grouped_by_testbed,
    in_blocks,
    nominal_seconds,
)

_SET_UP_SECONDS = 0.4
# Switches whose data plane makes a fault; a link goes down at any switch.
_DATA_PLANES = {
    "silent-death": SWITCHES,
    "lossy": SWITCHES,
    "duplicating": SWITCHES,
    "stuck-generator": SWITCHES[:1],
    "restart-sw1": SWITCHES[:1],
    "restart-sw2": SWITCHES[1:],
}


@dataclass(frozen=True, kw_only=True)
class Factors(TrialFactors):
    """A scenario, and the stream during it."""

    experiment: ClassVar[str] = "failure"
    scenario: Scenario
    delay_ms: float | None
    """By which the second member path is longer."""
    paths: int | None
    configuration: Configuration
    duration_s: float
    rate_pps: float
    payload_bytes: int
    loss_percent: float
    duplicate_percent: float
    latent: LatentSettings
    receive_buffer_bytes: int | None = None

    @property
    def label(self) -> str:
        """Scenario, delay and configuration."""
        delay = "" if self.delay_ms is None else f"-{self.delay_ms:g}ms"
        return f"{self.scenario}{delay}-{self.configuration}"

    @property
    def testbed(self) -> dict[str, Any]:
        """Settings of the testbed that differ from its file."""
        delays = {"delay_us": [0.0, self.delay_ms * 1000]} if self.delay_ms else {}
        return delays if self.paths is None else delays | {"paths": self.paths}

    def stored(self) -> dict[str, Any]:
        """Return the factors as a record stores them; only a failover names the buffer."""
        stored = super().stored() | {"latent": self.latent.recorded()}
        if self.scenario != "failover":
            del stored["receive_buffer_bytes"]
        return stored

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Return the factors that a record stores."""
        return super().read({**stored, "latent": LatentSettings(**stored["latent"])})


def plan(settings: FailureSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every scenario, configuration and repetition."""
    factors = [
        _factors(settings, scenario, delay_ms, configuration)
        for scenario in settings.scenarios
        for delay_ms in (settings.delays_ms if scenario == "delay" else [None])
        for configuration in settings.configurations
    ]
    planned = [
        each.planned(
            repetition,
            nominal_seconds(kind, each.duration_s, _SET_UP_SECONDS),
            testbed=each.testbed,
            data_planes=_DATA_PLANES.get(each.scenario, ()),
        )
        for each in factors
        for repetition in range(1, _repetitions(settings, each.scenario) + 1)
    ]
    return grouped_by_testbed(in_blocks(planned, seed))


def _repetitions(settings: FailureSettings, scenario: Scenario) -> int:
    own = settings.failover.repetitions if scenario == "failover" else None
    return own or settings.repetitions


def _factors(
    settings: FailureSettings,
    scenario: Scenario,
    delay_ms: float | None,
    configuration: Configuration,
) -> Factors:
    rate_pps, payload_bytes, buffer_bytes = settings.rate_pps, settings.payload_bytes, None
    if scenario == "failover":
        load = settings.failover
        payload_bytes, buffer_bytes = load.payload_bytes, load.receive_buffer_bytes
        rate_pps = payload_rate_pps(load.rate_mbps, payload_bytes)
    return Factors(
        scenario=scenario,
        delay_ms=delay_ms,
        paths=3 if scenario == "three-paths" else None,
        configuration=configuration,
        duration_s=settings.durations_s.get(scenario, settings.duration_s),
        rate_pps=rate_pps,
        payload_bytes=payload_bytes,
        loss_percent=settings.loss_percent,
        duplicate_percent=settings.duplicate_percent,
        latent=settings.latent,
        receive_buffer_bytes=buffer_bytes,
    )
