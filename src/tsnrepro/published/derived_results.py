"""Results derived from those of several experiments: comparisons of tools, causes, requirements.

Each is an expression in the language of claims over results of one testbed and campaign, in
``derived_results.yaml``. Its limits come from interval arithmetic over the intervals in it, which
cover at least as often as these do: independent errors seldom reach their limits together. It
lists all trials behind these results and their experiments.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from tsnrepro.config.base import CONFIGURATIONS, ConfigModel, load
from tsnrepro.published import expressions
from tsnrepro.published.claims import ClaimExpression
from tsnrepro.published.expressions import MissingResultError, Operand, operand_of
from tsnrepro.published.intervals import Interval
from tsnrepro.published.measured_runs import own_link_rate
from tsnrepro.records.values import UNKNOWN, Result
from tsnrepro.stats.estimate import Limits

_FILE = Path(__file__).with_suffix(".yaml")
_CONFIGURATION = "<c>"
_ANSWERS = {True: "yes", False: "no", None: "cannot tell"}


class DerivedResult(ConfigModel):
    """One result that is derived from others."""

    key: str
    expression: ClaimExpression
    unit: str = ""
    digits: int = Field(default=0, ge=0, le=9)

    def for_configuration(self, configuration: str) -> "DerivedResult":
        """Return the result of one configuration."""
        texts = {"key": self.key, "expression": self.expression}
        return self.model_copy(
            update={n: text.replace(_CONFIGURATION, configuration) for n, text in texts.items()}
        )


class _DerivedFile(ConfigModel):
    results: list[DerivedResult] = Field(min_length=1)


@cache
def derived_results() -> tuple[DerivedResult, ...]:
    """Return the derived results, each after those that it uses."""
    found = []
    for item in load(_DerivedFile, _FILE).results:
        each = CONFIGURATIONS if _CONFIGURATION in item.key else ("",)
        found += [item.for_configuration(configuration) for configuration in each]
    return tuple(found)


def derive(values: Mapping[str, Result], campaigns: Mapping[str, Path]) -> dict[str, Result]:
    """Return all derived results, by key.

    Parameters
    ----------
    values
        Results and facts of the testbed, by key.
    campaigns
        By experiment, the folder of its testbed and campaign; results of different campaigns are
        not compared, nor are those over links of different rates.

    Returns
    -------
    dict
        A result for each derived key; one without a value, with the reason as its method, where
        it cannot be derived.
    """
    found: dict[str, Result] = {}
    for item in derived_results():
        found[item.key] = derived(item, RecordedValues({**values, **found}, campaigns))
    return found


@dataclass
class RecordedValues:
    """The scope of an expression, which keeps the results that it used."""

    values: Mapping[str, Result]
    campaigns: Mapping[str, Path]
    used: dict[str, Result] = field(default_factory=dict)

    def name(self, name: str) -> Operand:
        """Raise LookupError: a result is named by ``measured``."""
        raise LookupError(f"no name {name!r}: use measured(...)")

    def functions(self) -> dict[str, Callable[..., Operand]]:
        """Return ``measured``."""
        return {"measured": self._measured}

    def _measured(self, key: str) -> Operand:
        result = self.values.get(key)
        if result is None:
            raise MissingResultError(f"{key} was not measured")
        if result.value is None and result.low is None and result.high is None:
            raise MissingResultError(f"{key} has no value: {result.method}")
        if result.value == UNKNOWN:
            raise MissingResultError(f"the record has no {key}")
        self.used[key] = result
        return operand_of(result)

    @property
    def experiments(self) -> list[str]:
        """The experiments of the results that were used."""
        runs = {run for result in self.used.values() for run in result.run.split("+") if run}
        return sorted(runs)

    def check_campaigns(self) -> None:
        """Raise MissingResultError where the results used are of several campaigns."""
        if len({self.campaigns[run] for run in self.experiments if run in self.campaigns}) > 1:
            names = ", ".join(self.experiments)
            raise MissingResultError(f"{names} are of different testbeds or campaigns")

    def check_links(self) -> None:
        """Raise MissingResultError where they were measured over links of different rates."""
        runs = {run for result in self.used.values() for run in result.run.split("+")}
        rates = {self._link_rate_mbps(run) for run in runs}
        if len(rates - {None}) > 1:
            names = ", ".join(sorted(runs))
            raise MissingResultError(f"{names} were measured over links of different rates")

    def _link_rate_mbps(self, run: str) -> Any:
        for key in (own_link_rate(run), "testbed.link_rate_mbps"):
            found = self.values.get(key)
            if found and isinstance(found.value, int | float):
                return found.value
        return None


def derived(item: DerivedResult, scope: RecordedValues) -> Result:
    """Return one derived result; without a value where it cannot be derived."""
    try:
        found = expressions.parse(item.expression).evaluate(scope)
        scope.check_campaigns()
        scope.check_links()
    except MissingResultError as error:
        return _result(item, scope, method=f"not measured: {error}")
    if found is None or isinstance(found, bool):
        method = f"by the intervals of: {expressions.readable(item.expression)}"
        return _result(item, scope, method=method, value=_ANSWERS[found])
    return _number(item, scope, found)


def _number(item: DerivedResult, scope: RecordedValues, found: Interval) -> Result:
    formula = expressions.readable(item.expression)
    low, high = _finite(found.low), _finite(found.high)
    located = all(result.value is not None for result in scope.used.values())
    value = _finite(found.value) if located or found.is_exact else None
    if found.is_exact:
        return _result(item, scope, method=f"arithmetic: {formula}", value=value)
    if low is None and high is None:
        return _result(item, scope, method=f"{Limits.NONE}: {formula}", value=value)
    method = f"{Limits.BOUND}: interval arithmetic, {formula}"
    return _result(item, scope, method=method, value=value, low=low, high=high)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _result(item: DerivedResult, scope: RecordedValues, **fields: Any) -> Result:
    unknown: dict[str, Any] = {"value": None, "low": None, "high": None}
    return Result(
        key=item.key,
        unit=item.unit,
        digits=item.digits,
        run="+".join(scope.experiments),
        trials=sorted(_trials(scope)),
        sha256=_checksum(scope.used.values()),
        **(unknown | fields),
    )


def _trials(scope: RecordedValues) -> set[str]:
    """Return the trials of all results used, with their experiment where there are several."""
    several = len(scope.experiments) > 1
    return {
        f"{result.run}/{trial}" if several and "+" not in result.run else trial
        for result in scope.used.values()
        for trial in result.trials
    }


def _checksum(used: Iterable[Result]) -> str:
    """Return the checksum of the results used: of several, the one over theirs."""
    sums = sorted({result.sha256 for result in used if result.sha256})
    if len(sums) < 2:
        return "".join(sums)
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()
