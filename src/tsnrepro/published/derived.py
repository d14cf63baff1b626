"""Results that follow from those of several experiments: tools compared, causes, requirements.

Each is an expression of the language of claims over results of one testbed and campaign, in
``derived.yaml``. Its limits are the ends of interval arithmetic over the intervals that stand in
it, which hold at least as often as these do: independent errors seldom reach their ends together.
It rests on all trials behind these results and names the experiments that they are of.
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
from tsnrepro.published.expressions import MissingResultError, Operand
from tsnrepro.published.intervals import Interval
from tsnrepro.records.facts import UNKNOWN
from tsnrepro.records.values import Result
from tsnrepro.stats.estimate import Limits

_FILE = Path(__file__).with_suffix(".yaml")
_EITHER = "<c>"
_WORDS = {True: "yes", False: "no", None: "cannot tell"}


class Derived(ConfigModel):
    """One result that follows from others."""

    key: str
    expression: ClaimExpression = Field(alias="is")
    unit: str = ""
    digits: int = Field(default=0, ge=0, le=9)

    def of(self, configuration: str) -> "Derived":
        """Return the same for one configuration."""
        names = {"key": self.key, "expression": self.expression}
        return self.model_copy(
            update={name: text.replace(_EITHER, configuration) for name, text in names.items()}
        )


class _DerivedFile(ConfigModel):
    results: list[Derived] = Field(min_length=1)


@cache
def declared() -> tuple[Derived, ...]:
    """Return all results that may follow, in the order in which they do."""
    found = []
    for item in load(_DerivedFile, _FILE).results:
        each = CONFIGURATIONS if _EITHER in item.key else ("",)
        found += [item.of(configuration) for configuration in each]
    return tuple(found)


def derive(values: Mapping[str, Result], places: Mapping[str, Path]) -> dict[str, Result]:
    """Return all declared results that follow, by key.

    Parameters
    ----------
    values
        Results and facts of the testbed, by key.
    places
        By experiment, the folder of its testbed and campaign; results of different ones are not
        compared.

    Returns
    -------
    dict
        A result for each declared key; where it does not follow, one without a value that says
        why.
    """
    found: dict[str, Result] = {}
    for item in declared():
        found[item.key] = _follow(item, _RecordedValues({**values, **found}, places))
    return found


@dataclass
class _RecordedValues:
    """Where an expression finds its numbers; it keeps the results that it used."""

    values: Mapping[str, Result]
    places: Mapping[str, Path]
    used: dict[str, Result] = field(default_factory=dict)

    def name(self, name: str) -> Operand:
        raise LookupError(f"no name {name!r}: a result follows from measured(...)")

    def functions(self) -> dict[str, Callable[..., Operand]]:
        return {"measured": self._measured}

    def _measured(self, key: str) -> Operand:
        result = self.values.get(key)
        if result is None:
            raise MissingResultError(f"{key} was not measured")
        if result.value is None and result.low is None and result.high is None:
            raise MissingResultError(f"{key} has no value: {result.method}")
        if result.value == UNKNOWN:
            raise MissingResultError(f"the record does not tell {key}")
        self.used[key] = result
        if isinstance(result.value, str):
            return result.value
        low, high = _ends(result)
        value = result.value
        if value is None:  # only known to lie between its limits, or on one side of one
            value = low if math.isfinite(low) else high
        if not math.isfinite(value):
            raise MissingResultError(f"{key} is known only as a {result.method}")
        return Interval(float(value), low, high)

    @property
    def experiments(self) -> list[str]:
        runs = {run for result in self.used.values() for run in result.run.split("+") if run}
        return sorted(runs)

    def check_places(self) -> None:
        if len({self.places[run] for run in self.experiments if run in self.places}) > 1:
            names = ", ".join(self.experiments)
            raise MissingResultError(f"{names} are of different testbeds or campaigns")


def _ends(result: Result) -> tuple[float, float]:
    """Return the limits that a conclusion may rest on, infinite where there are none."""
    low = -math.inf if result.low is None or not result.decides else float(result.low)
    high = math.inf if result.high is None or not result.decides else float(result.high)
    return low, high


def _follow(item: Derived, scope: _RecordedValues) -> Result:
    try:
        found = expressions.parse(item.expression).evaluate(scope)
        scope.check_places()
    except MissingResultError as error:
        return _result(item, scope, method=f"not measured: {error}")
    if found is None or isinstance(found, bool):
        method = f"by the intervals of: {expressions.readable(item.expression)}"
        return _result(item, scope, method=method, value=_WORDS[found])
    return _number(item, scope, found)


def _number(item: Derived, scope: _RecordedValues, found: Interval) -> Result:
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


def _result(item: Derived, scope: _RecordedValues, **fields: Any) -> Result:
    nothing: dict[str, Any] = {"value": None, "low": None, "high": None}
    return Result(
        key=item.key,
        unit=item.unit,
        digits=item.digits,
        run="+".join(scope.experiments),
        trials=sorted(_trials(scope)),
        sha256=_sum(scope.used.values()),
        **(nothing | fields),
    )


def _trials(scope: _RecordedValues) -> set[str]:
    """Return the trials behind all results; of several experiments each with its experiment."""
    several = len(scope.experiments) > 1
    return {
        f"{result.run}/{trial}" if several and "+" not in result.run else trial
        for result in scope.used.values()
        for trial in result.trials
    }


def _sum(used: Iterable[Result]) -> str:
    """Return the checksum over the checksums of the results, that of a single one as it is."""
    sums = sorted({result.sha256 for result in used if result.sha256})
    if len(sums) < 2:
        return "".join(sums)
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()
