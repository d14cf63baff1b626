"""Claims of the documents, and the verdict on each by the published and the measured numbers.

The expression ``record`` of a claim decides whether the published numbers support it, the
expression ``measured`` whether measured results reproduce it. Between supported and contradicted
the published numbers allow two more verdicts: a rounding slip, and a claim that only its own table
supports (``own_table``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field

from tsnrepro.common.errors import ConfigurationError, TsnreproError
from tsnrepro.config.base import ConfigModel, load
from tsnrepro.config.yaml_files import read_yaml
from tsnrepro.published import expressions
from tsnrepro.published.audit_findings import ComparedValue, Finding, Severity, with_unit
from tsnrepro.published.cached_files import cached_by_mtime
from tsnrepro.published.expressions import (
    EmptyCellError,
    ExpressionStep,
    MissingResultError,
    Operand,
    operand_of,
)
from tsnrepro.published.families import EXPLORATORY, judged_together, measured_key
from tsnrepro.published.intervals import Interval, format_number, format_range
from tsnrepro.published.measured_runs import MeasuredRun
from tsnrepro.published.rules.base import RowScope, cell_value
from tsnrepro.published.tables import Catalog, heading, repeated_names
from tsnrepro.records.values import Result

PUBLISHED = "published"
"""Name of the testbed on which nothing runs: the numbers of the documents."""


class Verdict(StrEnum):
    """The verdict on a claim."""

    SUPPORTED = "supported"
    OWN_TABLE = "own table only"
    """True of the table of the claim, which does not show what is claimed of the network."""
    ROUNDING = "rounding slip"
    """Supported but for one unit of a last printed digit."""
    CONTRADICTED = "contradicted"
    CANNOT_TELL = "cannot tell"


ClaimExpression = Annotated[str, AfterValidator(expressions.valid)]


class Claim(ConfigModel):
    """One claim of a document, paraphrased."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    document: str
    place: str
    text: str
    needs: str
    """The data that decide the claim."""
    ours: bool = False
    """Whether it is an additional comparison that no document makes, of what ``place`` names."""
    record: ClaimExpression | None = None
    own_table: ClaimExpression | None = None
    """Whether the claim is true of its own table, whatever that shows of the network."""
    measured: ClaimExpression | None = None

    @property
    def location(self) -> str:
        """Return the place in the document, or what an additional comparison compares."""
        return f"A comparison of ours, of {self.place}" if self.ours else self.place


@dataclass(frozen=True, kw_only=True)
class Evidence(ComparedValue):
    """One number, with its interval, that a verdict is based on; ``""`` where limits are all."""

    low: float | None = None
    high: float | None = None
    origin: str = ""
    """Testbed and campaign of a measurement; empty for a printed or computed number."""
    limits: str = ""
    """The kind of limits that no verdict may be based on: "range seen"."""

    @property
    def text(self) -> str:
        """Return label, number and interval."""
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        limits = format_range(low, high) if self.low != self.high else ""
        if self.value == "":
            return f"{self.label}: {with_unit(limits, self.unit)}"
        shown = [f"{self.label}: {super().text}"]
        if limits and not isinstance(self.value, str):
            shown += [self.limits, limits]
        return " ".join(filter(None, shown))


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim on one testbed, with its evidence."""

    claim: Claim
    testbed: str
    verdict: Verdict
    evidence: tuple[Evidence, ...]
    reason: str
    """Why the numbers do not decide; empty where they do."""
    expression: str
    ground: str = ""
    """The decisive comparisons in one line: an interval or arithmetic, with its numbers."""

    @property
    def origins(self) -> tuple[str, ...]:
        """Return the origins of the measurements used; empty for the printed numbers."""
        return tuple(dict.fromkeys(e.origin for e in self.evidence if e.origin))

    @property
    def numbers(self) -> str:
        """Return the decisive numbers in one line."""
        return "; ".join(evidence.text for evidence in self.evidence) or self.reason


@dataclass(frozen=True)
class Change:
    """A verdict that differs from the accepted one; either is None where there is none."""

    testbed: str
    claim: str
    accepted: Verdict | None
    found: Verdict | None

    def __str__(self) -> str:
        accepted = self.accepted or "not accepted before"
        return f"{self.testbed}, {self.claim}: {accepted} -> {self.found or 'no such claim'}"


# Experiments whose results scale with the line rate, and the line rate of the documents.
_LINE_RATE_EXPERIMENTS = {"loss", "tcp", "rfc2544", "mausezahn"}
_DOCUMENTS_LINE_RATE_MBPS = 1000.0
# Computed numbers that are evidence too: function, label, unit.
_COMPUTED = (
    ("tcp_limit", "limit of the line for TCP", "Mb/s"),
    ("payload_limit", "limit of the line", "Mb/s"),
    ("datagrams", "datagrams of a trial", ""),
    ("none_lost_bound_percent", "loss that a trial without loss leaves open", "%"),
)


class _ClaimsFile(ConfigModel):
    claims: list[Claim] = Field(min_length=1)


@cached_by_mtime
def load_claims(path: Path) -> tuple[Claim, ...]:
    """Return the claims of a file.

    Raises
    ------
    ConfigurationError
        The file is missing, a key is unknown or missing, an expression is outside the language, or
        an id is not unique.
    """
    claims = load(_ClaimsFile, path).claims
    if repeated := repeated_names(claim.id for claim in claims):
        raise ConfigurationError(f"duplicate claims: {', '.join(repeated)}", str(path))
    return tuple(claims)


@dataclass
class _Scope:
    """The scope of a claim's expression, which keeps the numbers that it used."""

    data: Catalog
    runs: Sequence[MeasuredRun]
    findings: Mapping[str, list[Finding] | None]
    values: Mapping[str, Result] = field(default_factory=dict)
    """The results of all runs, with verdicts as papers have them."""
    allow_rounding: bool = False
    """Whether a difference of one unit of a last printed digit is tolerated."""
    narrowing: float = 1.0
    """By how much the limits of measured numbers are narrower than those on record."""
    used: dict[str, Evidence] = field(default_factory=dict)
    steps: list[ExpressionStep] = field(default_factory=list)

    def name(self, name: str) -> Operand:
        raise LookupError(f"no name {name!r}: a claim uses published(...) and measured(...)")

    def functions(self) -> dict[str, Callable[..., Operand]]:
        return {
            "published": self._published,
            "column": self._column,
            "measured": self._measured,
            "holds": self._holds,
            **{name: self._recorded(name, label, unit) for name, label, unit in _COMPUTED},
            "agrees": self._agrees,
        }

    def _recorded(self, name: str, label: str, unit: str) -> Callable[..., Operand]:
        """Return a function that records its result as evidence."""

        def compute(*arguments: Operand, **named: Operand) -> Operand:
            number = expressions.FUNCTIONS[name](*arguments, **named)
            self.used[label] = Evidence(label, number.value, unit=unit)
            return number

        return compute

    def _agrees(self, a: Operand, b: Operand, percent: Interval | None = None) -> Operand:
        if isinstance(a, Interval) and all(a.value != one.value for one in self.used.values()):
            label = f"recomputed, against {format_number(b.value)}"
            self.used[label] = Evidence(label, a.value)
        if self.allow_rounding and abs(a.value - b.value) <= (b.high - b.low) * (1 + 1e-9):
            return True
        return expressions.FUNCTIONS["agrees"](a, b, percent)

    def _published(self, *path: str) -> Operand:
        cell = self.data.cell("/".join(path))
        value = cell_value(cell)
        if isinstance(value, Interval):
            evidence = Evidence(cell.place, value.value, unit=cell.unit, printed=cell.printed)
        else:
            evidence = Evidence(cell.place, str(value))
        self.used[cell.path] = evidence
        return value

    def _column(self, path: str, name: str, rows: list[str] | None = None) -> list[Operand]:
        values = RowScope(self.data).functions()["column"](path, name, rows)
        table = self.data.table(path)
        label = f"{table.title}, {heading(table.column(name))}"
        numbers = [value.value for value in values if isinstance(value, Interval)]
        if numbers:
            ends = " to ".join(dict.fromkeys(map(format_number, (min(numbers), max(numbers)))))
            unit = table.cell(0, name).unit
            self.used[f"{path}/{name}"] = Evidence(label, with_unit(ends, unit))
        return values

    def _measured(self, key: str) -> Operand:
        result = self.values.get(key)
        made_of = {key, measured_key(key)}
        run = next((run for run in self.runs if made_of & run.values.keys()), None)
        if run is None or result is None:
            raise MissingResultError(f"not measured here: {key}")
        _check_line_rate(result, run)
        if result.value is None and result.low is None and result.high is None:
            why = f": {result.method}" if result.method else ""
            raise MissingResultError(f"{key} has no value here{why}")
        operand = operand_of(result)
        if isinstance(operand, Interval) and self.narrowing != 1:
            operand = operand.narrowed(self.narrowing)
        self.used[key] = Evidence(
            key,
            "" if result.value is None else result.value,
            result.unit,
            low=result.low,
            high=result.high,
            origin=run.origin,
            limits="" if result.decides or result.low is result.high is None else "range seen",
        )
        return None if operand in (Verdict.CANNOT_TELL, EXPLORATORY) else operand

    def _holds(self, check: str) -> bool | None:
        """Return whether a check of the published record has no findings.

        Unknown (None) where all its findings are unsupported statements, which need not be false,
        and where the check is undecided.
        """
        if check not in self.findings:
            raise LookupError(f"no check {check!r}")
        found = self.findings[check]
        if found is None:
            self.steps.append(ExpressionStep(f"check {check} leaves it open", None))
            return None
        for finding in found[:2]:
            self.used[f"{check}: {finding.place}"] = Evidence(finding.place, _numbers_of(finding))
        truth = _truth_of({finding.severity for finding in found}, self.allow_rounding)
        text = f"check {check} found nothing"
        if found:
            text = f"{found[0].place}: {_numbers_of(found[0])}"
        self.steps.append(ExpressionStep(text, truth))
        return truth


def _numbers_of(finding: Finding) -> str:
    """Return the two numbers of a finding, with those labels that its place does not name."""
    return " against ".join(
        number.text if number.label in finding.place else f"{number.text} ({number.label})"
        for number in (finding.first, finding.second)
    )


def _check_line_rate(result: Result, run: MeasuredRun) -> None:
    """Raise MissingResultError for a result at another line rate than that of the documents."""
    rate = run.link_rate_mbps
    if run.experiment in _LINE_RATE_EXPERIMENTS and rate not in (None, _DOCUMENTS_LINE_RATE_MBPS):
        raise MissingResultError(
            f"{result.key} was measured on a line of {rate:g} Mb/s, the claim is about 1 Gb/s"
        )


def _truth_of(severities: set[Severity], allow_rounding: bool) -> bool | None:
    """Return the truth of a checked statement by the severities of the findings."""
    if allow_rounding:
        severities = severities - {Severity.ROUNDING}
    if not severities:
        return True
    return None if severities == {Severity.UNSUPPORTED} else False


def judge(
    claims: Iterable[Claim],
    testbed: str,
    data: Catalog,
    runs: Sequence[MeasuredRun] = (),
    findings: Mapping[str, list[Finding] | None] | None = None,
) -> list[Judgement]:
    """Return the verdict on each claim on a testbed.

    Parameters
    ----------
    claims
        The claims.
    testbed
        ``published`` judges by the published numbers, any other name by measured results.
    data
        The published tables.
    runs
        The measured runs.
    findings
        Findings by check for ``holds(...)``, from
        :func:`~tsnrepro.published.checks.findings_by_check`.

    Raises
    ------
    ConfigurationError
        An expression does not fit its operands.
    """
    values = {key: item for run in reversed(runs) for key, item in run.values.items()}
    scope = _Scope(data, runs, findings or {}, judged_together(values))
    if testbed == PUBLISHED:
        return [_by_record(claim, scope) for claim in claims]
    return [_judged(claim, testbed, claim.measured, scope) for claim in claims]


def _by_record(claim: Claim, scope: _Scope) -> Judgement:
    """Judge by the published numbers, with the verdicts between true and false."""
    strict = _judged(claim, PUBLISHED, claim.record, scope)
    if strict.verdict is Verdict.SUPPORTED:
        return strict
    if claim.own_table is not None:
        own = _judged(claim, PUBLISHED, claim.own_table, scope)
        if own.verdict is Verdict.SUPPORTED:
            against = strict.ground or strict.reason
            return replace(
                own,
                verdict=Verdict.OWN_TABLE,
                evidence=tuple(dict.fromkeys((*own.evidence, *strict.evidence))),
                expression=" · ".join(filter(None, (own.expression, strict.expression))),
                ground=f"{own.ground}; but {against}",
            )
    if strict.verdict is Verdict.CONTRADICTED:
        tolerant = _judged(claim, PUBLISHED, claim.record, replace(scope, allow_rounding=True))
        if tolerant.verdict is Verdict.SUPPORTED:
            return replace(strict, verdict=Verdict.ROUNDING)
    return strict


_VERDICT_OF = {
    True: Verdict.SUPPORTED,
    False: Verdict.CONTRADICTED,
    None: Verdict.CANNOT_TELL,
}


def _judged(claim: Claim, testbed: str, expression: str | None, scope: _Scope) -> Judgement:
    """Return the verdict by one expression."""
    if expression is None:
        where = "the published numbers" if testbed == PUBLISHED else "these experiments"
        reason = f"not decided by {where}; it needs {claim.needs}"
        return Judgement(claim, testbed, Verdict.CANNOT_TELL, (), reason, "")
    scope = replace(scope, used={}, steps=[])
    reason, ground = "", ""
    try:
        truth = expressions.parse(expression).evaluate(scope, scope.steps)
    except (EmptyCellError, MissingResultError) as error:
        truth, reason = None, str(error.args[0])
    except TsnreproError as error:
        raise ConfigurationError(str(error), f"claim {claim.id!r}") from error
    else:
        reason = _what_would_decide(expression, scope) if truth is None else ""
        ground = _ground(scope.steps, truth)
    if truth is not None and not isinstance(truth, bool):
        raise ConfigurationError(f"{expression!r} is neither true nor false", f"claim {claim.id!r}")
    evidence = tuple(scope.used.values())
    return Judgement(claim, testbed, _VERDICT_OF[truth], evidence, reason, expression, ground)


# What is beyond its limit by so many half widths is found in 80 % of campaigns, at 95 %.
_REACH = 1 + 0.8416 / 1.96
_OPEN, _TOO_FEW = "the numbers leave it open", "too few for the median's"
_MORE = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)


def _what_would_decide(expression: str, scope: _Scope) -> str:
    """Return why the numbers leave an expression open, and how many repetitions would not."""
    results = [scope.values[key] for key in scope.used if key in scope.values]
    for item in results:
        needed = scope.values.get(f"{item.key.removesuffix('.verdict')}.power.repetitions.count")
        if item.value == Verdict.CANNOT_TELL and needed is not None:
            count = "" if needed.value is None else f"{needed.value} repetitions "
            return f"{_OPEN}: {count}{needed.method}"
    if not results:
        return _OPEN
    if not _decided(expression, scope, math.inf):
        return f"{_OPEN}, and would with any number of repetitions"
    for item in results:
        if item.is_number and not item.decides:
            more = "; six repetitions give limits" if _TOO_FEW in item.method else ""
            return f"{_OPEN}: {item.key} has no limits ({item.method}){more}"
    times = next((n for n in _MORE if _decided(expression, scope, math.sqrt(n) / _REACH)), None)
    if times is None:
        return f"{_OPEN}, and would with {_MORE[-1]} times the repetitions"
    return f"{_OPEN}: if the values are these, {times} times the repetitions decide it in 80 %"


def _decided(expression: str, scope: _Scope, narrowing: float) -> bool:
    """Return whether limits so much narrower decide an expression."""
    narrowed = replace(scope, used={}, steps=[], narrowing=narrowing)
    try:
        return expressions.parse(expression).evaluate(narrowed) is not None
    except expressions.ExpressionError:
        return False


_MAX_STEPS = 3


def _ground(steps: Sequence[ExpressionStep], truth: bool | None) -> str:
    """Return the decisive comparisons, those with the truth of the expression, in one line."""
    deciding = [step for step in steps if step.truth is truth]
    deciding = deciding or [step for step in steps if step.truth is not True] or list(steps)
    shown = deciding[:_MAX_STEPS]
    kind = "interval" if any(step.interval for step in shown) else "arithmetic"
    texts = "; ".join(dict.fromkeys(step.text for step in shown))
    return f"{kind}: {texts}" if shown else ""


def accepted_verdicts(path: Path) -> dict[str, dict[str, Verdict]]:
    """Return the accepted verdicts by testbed and claim.

    The name of a measured testbed is ``testbed/campaign``.

    Raises
    ------
    ConfigurationError
        The file is missing or an entry is not a verdict.
    """
    content: Any = read_yaml(path)
    try:
        return {
            str(testbed): {str(claim): Verdict(verdict) for claim, verdict in verdicts.items()}
            for testbed, verdicts in content.items()
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
    """Return where verdicts differ from the accepted ones, on the testbeds that were judged.

    A claim without an accepted verdict is a change, and so is an accepted verdict without a claim.
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
    """Write verdicts to the file of accepted verdicts and return the changes.

    Verdicts of other testbeds are kept.

    Raises
    ------
    ConfigurationError
        The file exists and an entry is not a verdict.
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
        "# accepted: tsnrepro.published.claims.accept_verdicts writes this file.\n"
    )
    path.write_text(header + yaml.safe_dump(plain, sort_keys=False), encoding="utf-8")
    return changes
