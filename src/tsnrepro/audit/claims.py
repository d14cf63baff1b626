"""Claims of the documents: what they say, what decides it, and the verdict on each testbed.

A claim has an expression over the published numbers (``record``), which asks whether the record
itself carries the claim, and one over measured results (``measured``), which asks whether a
testbed shows it again. Three verdicts are possible: supported, contradicted, cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tsnrepro.audit import expressions
from tsnrepro.audit.checks import read_yaml
from tsnrepro.audit.expressions import EmptyCellError, MissingResultError, Result
from tsnrepro.audit.findings import Finding, Severity, format_number, with_unit
from tsnrepro.audit.intervals import Interval
from tsnrepro.audit.measured import MeasuredResult
from tsnrepro.audit.rules.base import Row, content
from tsnrepro.audit.tables import Catalog, heading
from tsnrepro.errors import ConfigurationError, TsnreproError

PUBLISHED = "published"
"""Name of the testbed on which nothing runs: the documents' own numbers."""


class Verdict(StrEnum):
    """What the numbers say about a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    CANNOT_TELL = "cannot tell"


ClaimExpression = Annotated[str, AfterValidator(expressions.valid)]


class Claim(BaseModel):
    """One claim of a document, in our own words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    document: str
    place: str
    text: str
    needs: str
    """The data that decide it."""
    record: ClaimExpression | None = None
    measured: ClaimExpression | None = None

    def result_keys(self) -> tuple[str, ...]:
        """Return the measured results that the claim needs."""
        if self.measured is None:
            return ()
        calls = expressions.parse(self.measured).arguments("measured")
        return tuple(dict.fromkeys(key for key, *_ in calls))


@dataclass(frozen=True)
class Evidence:
    """One number, with its interval, that a verdict rests on."""

    label: str
    value: float | str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    printed: str | None = None
    """Digits as they stand in a document."""

    @property
    def text(self) -> str:
        """Return label, number and interval."""
        if isinstance(self.value, str):
            return f"{self.label}: {self.value}"
        number = with_unit(self.printed or format_number(self.value), self.unit)
        ends = (self.low, self.high)
        if None in ends or self.low == self.high:
            return f"{self.label}: {number}"
        low, high = (format_number(end) for end in ends if end is not None)
        return f"{self.label}: {number} [{low}, {high}]"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim on one testbed, and what decides it."""

    claim: Claim
    testbed: str
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    reason: str
    """Why the numbers do not tell; empty where they do."""
    expression: str

    @property
    def numbers(self) -> str:
        """Return the numbers that decide, in one line."""
        return "; ".join(evidence.text for evidence in self.evidence) or self.reason


@dataclass(frozen=True)
class Change:
    """A verdict that is not the accepted one; None where there is none on that side."""

    testbed: str
    claim: str
    accepted: Verdict | None
    found: Verdict | None

    def __str__(self) -> str:
        accepted = self.accepted or "not accepted before"
        return f"{self.testbed}, {self.claim}: {accepted} -> {self.found or 'no such claim'}"


# Computed numbers that a reader wants beside the printed ones: function, label, unit.
_COMPUTED = (
    ("tcp_limit", "limit of the line for TCP", "Mb/s"),
    ("payload_limit", "limit of the line", "Mb/s"),
    ("datagrams", "datagrams of a trial", ""),
    ("none_lost_bound_percent", "loss that a trial without loss leaves open", "%"),
)


class _Layout(BaseModel):
    model_config = ConfigDict(extra="forbid")

    claims: list[Claim] = Field(min_length=1)


def load_claims(path: Path) -> tuple[Claim, ...]:
    """Return the claims of a file.

    Raises:
        ConfigurationError: the file is missing, a key is unknown or missing, an expression is
            outside the language, or an id stands twice.

    """
    return _load_claims(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=4)
def _load_claims(path: Path, _changed_ns: int) -> tuple[Claim, ...]:
    try:
        claims = _Layout.model_validate(read_yaml(path)).claims
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()
        )
        known = ", ".join(Claim.model_fields)
        raise ConfigurationError(problems, str(path), f"A claim has {known}") from error
    ids = [claim.id for claim in claims]
    repeated = sorted({one for one in ids if ids.count(one) > 1})
    if repeated:
        raise ConfigurationError(f"claims stand twice: {', '.join(repeated)}", str(path))
    return tuple(claims)


@dataclass
class _Scope:
    """Where a claim's expression finds its numbers; it keeps what was used."""

    data: Catalog
    results: Mapping[str, MeasuredResult]
    findings: Mapping[str, list[Finding]]
    used: dict[str, Evidence] = field(default_factory=dict)

    def name(self, name: str) -> Result:
        raise LookupError(f"no name {name!r}: a claim uses published(...) and measured(...)")

    def functions(self) -> dict[str, Callable[..., Result]]:
        return {
            "published": self._published,
            "column": self._column,
            "measured": self._measured,
            "holds": self._holds,
            **{name: self._noted(name, label, unit) for name, label, unit in _COMPUTED},
            "agrees": self._agrees,
        }

    def _noted(self, name: str, label: str, unit: str) -> Callable[..., Result]:
        """Return a function that keeps its result among the numbers used."""

        def compute(*arguments: Result, **named: Result) -> Result:
            number = expressions.FUNCTIONS[name](*arguments, **named)
            self.used[label] = Evidence(label, number.value, unit=unit)
            return number

        return compute

    def _agrees(self, a: Result, b: Result, percent: Interval | None = None) -> Result:
        if isinstance(a, Interval) and all(a.value != one.value for one in self.used.values()):
            label = f"recomputed, against {format_number(b.value)}"
            self.used[label] = Evidence(label, a.value)
        return expressions.FUNCTIONS["agrees"](a, b, percent)

    def _published(self, *path: str) -> Result:
        cell = self.data.cell("/".join(path))
        value = content(cell)
        if isinstance(value, Interval):
            number = value.value
            evidence = Evidence(cell.place, number, unit=cell.unit, printed=cell.printed)
        else:
            evidence = Evidence(cell.place, str(value))
        self.used[cell.path] = evidence
        return value

    def _column(self, path: str, name: str, rows: list[str] | None = None) -> list[Result]:
        values = Row(self.data).functions()["column"](path, name, rows)
        table = self.data.table(path)
        label = f"{table.title}, {heading(table.column(name))}"
        numbers = [value.value for value in values if isinstance(value, Interval)]
        if numbers:
            ends = " to ".join(dict.fromkeys(map(format_number, (min(numbers), max(numbers)))))
            unit = table.cell(0, name).unit
            self.used[f"{path}/{name}"] = Evidence(label, with_unit(ends, unit))
        return values

    def _measured(self, key: str) -> Result:
        result = self.results.get(key)
        if result is None:
            raise MissingResultError(f"no result {key!r} yet")
        if result.value is None:
            why = f": {result.method}" if result.method else ""
            raise MissingResultError(f"result {key!r} has no value{why}")
        self.used[key] = Evidence(key, result.value, result.low, result.high, result.unit)
        if isinstance(result.value, str):
            return None if result.value == Verdict.CANNOT_TELL else result.value
        # Without an interval nothing is known about the error, and no comparison decides.
        low = -math.inf if result.low is None else result.low
        high = math.inf if result.high is None else result.high
        return Interval(result.value, low, high)

    def _holds(self, check: str) -> bool | None:
        """Tell whether a check of the published record found nothing.

        Unknown where all it found is that the data cannot carry a statement: that does not make
        the statement false.
        """
        if check not in self.findings:
            raise LookupError(f"no check {check!r}")
        found = self.findings[check]
        for finding in found[:2]:
            against = " against ".join(
                side.text if side.label in finding.place else f"{side.text} ({side.label})"
                for side in (finding.first, finding.second)
            )
            self.used[f"{check}: {finding.place}"] = Evidence(finding.place, against)
        if found and all(finding.severity is Severity.UNSUPPORTED for finding in found):
            return None
        return not found


def judge(
    claims: Iterable[Claim],
    testbed: str,
    data: Catalog,
    results: Mapping[str, MeasuredResult] | None = None,
    findings: Mapping[str, list[Finding]] | None = None,
) -> list[Judgement]:
    """Return the verdict on each claim on a testbed.

    Args:
        claims: the claims.
        testbed: ``published`` judges by the documents' own numbers, any other name by results.
        data: the published tables.
        results: measured results by key.
        findings: findings by check, empty lists included, for ``holds(...)``.

    Raises:
        ConfigurationError: an expression does not fit the numbers it names.

    """
    return [_judge(claim, testbed, _Scope(data, results or {}, findings or {})) for claim in claims]


def _judge(claim: Claim, testbed: str, scope: _Scope) -> Judgement:
    expression = claim.record if testbed == PUBLISHED else claim.measured
    if expression is None:
        where = "the published numbers" if testbed == PUBLISHED else "these experiments"
        reason = f"not decided by {where}; it needs {claim.needs}"
        return Judgement(claim, testbed, Verdict.CANNOT_TELL, (), reason, "")
    try:
        truth = expressions.parse(expression).evaluate(scope)
    except (EmptyCellError, MissingResultError) as error:
        truth, reason = None, str(error.args[0])
    except TsnreproError as error:
        raise ConfigurationError(str(error), f"claim {claim.id!r}") from error
    else:
        reason = "the numbers leave it open" if truth is None else ""
    if truth is not None and not isinstance(truth, bool):
        raise ConfigurationError(f"{expression!r} is neither true nor false", f"claim {claim.id!r}")
    verdict = {
        True: Verdict.SUPPORTED,
        False: Verdict.CONTRADICTED,
        None: Verdict.CANNOT_TELL,
    }[truth]
    evidence = tuple(scope.used.values())
    return Judgement(claim, testbed, verdict, evidence, reason, expression)


def accepted_verdicts(path: Path) -> dict[str, dict[str, Verdict]]:
    """Return the accepted verdicts by testbed and claim.

    A measured testbed stands as ``testbed/campaign``.

    Raises:
        ConfigurationError: the file is missing or holds something that is no verdict.

    """
    content_of_file: Any = read_yaml(path)
    try:
        return {
            str(testbed): {str(claim): Verdict(verdict) for claim, verdict in verdicts.items()}
            for testbed, verdicts in content_of_file.items()
        }
    except (AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"not verdicts by testbed and claim: {error}",
            str(path),
            f"Verdicts are {', '.join(Verdict)}",
        ) from error


def changed_verdicts(
    judgements: Iterable[Judgement], accepted: Mapping[str, Mapping[str, Verdict]]
) -> list[Change]:
    """Return where verdicts differ from the accepted ones, for the testbeds that were judged.

    A claim without an accepted verdict is a change, and so is an accepted one without a claim.
    """
    found: dict[str, dict[str, Verdict]] = {}
    for judgement in judgements:
        found.setdefault(judgement.testbed, {})[judgement.claim.id] = judgement.verdict
    changes = []
    for testbed, verdicts in found.items():
        before = accepted.get(testbed, {})
        changes += [
            Change(testbed, claim, before.get(claim), verdicts.get(claim))
            for claim in dict.fromkeys([*verdicts, *before])
            if before.get(claim) != verdicts.get(claim)
        ]
    return changes


def accept_verdicts(judgements: Iterable[Judgement], path: Path) -> list[Change]:
    """Write verdicts into the file of accepted ones and return what changed.

    Verdicts of other testbeds stay as they are.

    Raises:
        ConfigurationError: the file exists and holds something that is no verdict.

    """
    judgements = list(judgements)
    accepted = accepted_verdicts(path) if path.is_file() else {}
    changes = changed_verdicts(judgements, accepted)
    for testbed in dict.fromkeys(judgement.testbed for judgement in judgements):
        accepted[testbed] = {j.claim.id: j.verdict for j in judgements if j.testbed == testbed}
    plain = {
        testbed: {claim: str(verdict) for claim, verdict in verdicts.items()}
        for testbed, verdicts in accepted.items()
    }
    header = (
        "# Accepted verdicts by testbed and claim. One that differs fails a test until it is\n"
        "# accepted: tsnrepro.audit.claims.accept_verdicts writes this file.\n"
    )
    path.write_text(header + yaml.safe_dump(plain, sort_keys=False), encoding="utf-8")
    return changes
