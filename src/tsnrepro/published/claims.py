"""Claims of the documents: what they say, what decides it, and the verdict on each testbed.

A claim has an expression over the published numbers (``record``), which asks whether the record
itself carries the claim, and one over measured results (``measured``), which asks whether a
testbed shows it again. Between supported and contradicted the published numbers know two grades:
a slip of rounding, and a claim that only its own table carries (``own_table``).
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
from tsnrepro.published.expressions import (
    EmptyCellError,
    ExpressionStep,
    MissingResultError,
    Operand,
)
from tsnrepro.published.findings import AuditFinding, Severity, Side, with_unit
from tsnrepro.published.intervals import Interval, format_number, format_range
from tsnrepro.published.measured import MeasuredRun
from tsnrepro.published.parsed_files import cached_by_change, twice
from tsnrepro.published.rules.base import RowScope, content
from tsnrepro.published.tables import Catalog, heading
from tsnrepro.records.values import Result

PUBLISHED = "published"
"""Name of the testbed on which nothing runs: the documents' own numbers."""


class Grade(StrEnum):
    """What the numbers say about a claim."""

    SUPPORTED = "supported"
    OWN_TABLE = "own table only"
    """The claim's own table says so; what it claims of the network is not shown by it."""
    ROUNDING = "rounding slip"
    """Supported but for one unit of a last printed digit."""
    CONTRADICTED = "contradicted"
    CANNOT_TELL = "cannot tell"


ClaimExpression = Annotated[str, AfterValidator(expressions.valid)]


class Claim(ConfigModel):
    """One claim of a document, in our own words."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    document: str
    place: str
    text: str
    needs: str
    """The data that decide it."""
    ours: bool = False
    """Whether it is a comparison of ours, that no document makes; ``place`` is what it compares."""
    record: ClaimExpression | None = None
    own_table: ClaimExpression | None = None
    """Holds where the claim's own table says so, whatever that shows of the network."""
    measured: ClaimExpression | None = None

    @property
    def whereabouts(self) -> str:
        """Return where it stands, or that it is ours and what it compares."""
        return f"A comparison of ours, of {self.place}" if self.ours else self.place


@dataclass(frozen=True, kw_only=True)
class Evidence(Side):
    """One number, with its interval, that a verdict rests on."""

    low: float | None = None
    high: float | None = None
    origin: str = ""
    """Whose measurement it is; empty for a printed or computed number."""
    limits: str = ""
    """What the two ends are where no verdict may rest on them: "range seen"."""

    @property
    def text(self) -> str:
        """Return label, number and interval."""
        shown = [f"{self.label}: {super().text}"]
        if not isinstance(self.value, str) and self.low != self.high:
            low = -math.inf if self.low is None else self.low
            high = math.inf if self.high is None else self.high
            shown += [self.limits, format_range(low, high)]
        return " ".join(filter(None, shown))


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim on one testbed, and what decides it."""

    claim: Claim
    testbed: str
    verdict: Grade
    evidence: tuple[Evidence, ...]
    reason: str
    """Why the numbers do not tell; empty where they do."""
    expression: str
    ground: str = ""
    """What the verdict rests on, in one line: an interval or arithmetic, with its numbers."""

    @property
    def origins(self) -> tuple[str, ...]:
        """Return whose measurements the verdict rests on; empty for the printed numbers."""
        return tuple(dict.fromkeys(e.origin for e in self.evidence if e.origin))

    @property
    def numbers(self) -> str:
        """Return the numbers that decide, in one line."""
        return "; ".join(evidence.text for evidence in self.evidence) or self.reason


@dataclass(frozen=True)
class Change:
    """A verdict that is not the accepted one; None where there is none on that side."""

    testbed: str
    claim: str
    accepted: Grade | None
    found: Grade | None

    def __str__(self) -> str:
        accepted = self.accepted or "not accepted before"
        return f"{self.testbed}, {self.claim}: {accepted} -> {self.found or 'no such claim'}"


# Experiments whose numbers scale with the line, and the line that the documents speak of.
_ON_THE_LINE = {"loss", "tcp", "rfc2544", "mausezahn"}
_DOCUMENTS_LINE_MBPS = 1000.0
# Computed numbers that a reader wants beside the printed ones: function, label, unit.
_COMPUTED = (
    ("tcp_limit", "limit of the line for TCP", "Mb/s"),
    ("payload_limit", "limit of the line", "Mb/s"),
    ("datagrams", "datagrams of a trial", ""),
    ("none_lost_bound_percent", "loss that a trial without loss leaves open", "%"),
)


class _ClaimsFile(ConfigModel):
    claims: list[Claim] = Field(min_length=1)


@cached_by_change
def load_claims(path: Path) -> tuple[Claim, ...]:
    """Return the claims of a file.

    Raises
    ------
    ConfigurationError
        The file is missing, a key is unknown or missing, an expression is outside the language, or
        an id stands twice.
    """
    claims = load(_ClaimsFile, path).claims
    if repeated := twice(claim.id for claim in claims):
        raise ConfigurationError(f"claims stand twice: {', '.join(repeated)}", str(path))
    return tuple(claims)


@dataclass
class _Scope:
    """Where a claim's expression finds its numbers; it keeps what was used."""

    data: Catalog
    runs: Sequence[MeasuredRun]
    findings: Mapping[str, list[AuditFinding] | None]
    forgiving: bool = False
    """Whether one unit of a last printed digit is let pass."""
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
            **{name: self._noted(name, label, unit) for name, label, unit in _COMPUTED},
            "agrees": self._agrees,
        }

    def _noted(self, name: str, label: str, unit: str) -> Callable[..., Operand]:
        """Return a function that keeps its result among the numbers used."""

        def compute(*arguments: Operand, **named: Operand) -> Operand:
            number = expressions.FUNCTIONS[name](*arguments, **named)
            self.used[label] = Evidence(label, number.value, unit=unit)
            return number

        return compute

    def _agrees(self, a: Operand, b: Operand, percent: Interval | None = None) -> Operand:
        if isinstance(a, Interval) and all(a.value != one.value for one in self.used.values()):
            label = f"recomputed, against {format_number(b.value)}"
            self.used[label] = Evidence(label, a.value)
        if self.forgiving and abs(a.value - b.value) <= (b.high - b.low) * (1 + 1e-9):
            return True
        return expressions.FUNCTIONS["agrees"](a, b, percent)

    def _published(self, *path: str) -> Operand:
        cell = self.data.cell("/".join(path))
        value = content(cell)
        if isinstance(value, Interval):
            number = value.value
            evidence = Evidence(cell.place, number, unit=cell.unit, printed=cell.printed)
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
        run = next((run for run in self.runs if key in run.values), None)
        if run is None:
            raise MissingResultError(f"not measured here: {key}")
        result = run.values[key]
        _refuse_other_line(result, run)
        if result.value is None and result.low is None and result.high is None:
            why = f": {result.method}" if result.method else ""
            raise MissingResultError(f"{key} has no value here{why}")
        # Without an interval nothing is known about the error, and no comparison decides; what
        # single trials were seen to give bounds it no more than that.
        bounded = result.decides
        low = float(result.low) if bounded and result.low is not None else -math.inf
        high = float(result.high) if bounded and result.high is not None else math.inf
        value = result.value
        if value is None:  # only known to lie on one side
            value = low if math.isfinite(low) else high
            if math.isinf(value):
                raise MissingResultError(f"{key} is known only as a {result.method}")
        limits = "" if bounded or result.low is result.high is None else "range seen"
        self.used[key] = Evidence(
            key,
            value,
            result.unit,
            low=result.low,
            high=result.high,
            origin=run.origin,
            limits=limits,
        )
        if isinstance(value, str):
            return None if value == Grade.CANNOT_TELL else value
        return Interval(float(value), low, high)

    def _holds(self, check: str) -> bool | None:
        """Tell whether a check of the published record found nothing.

        Unknown where all it found is that the data cannot carry a statement, which does not make
        the statement false; and where it says nothing, which does not make it true.
        """
        if check not in self.findings:
            raise LookupError(f"no check {check!r}")
        found = self.findings[check]
        if found is None:
            self.steps.append(ExpressionStep(f"check {check} leaves it open", None))
            return None
        for finding in found[:2]:
            place, numbers = finding.place, _against(finding)
            self.used[f"{check}: {place}"] = Evidence(place, numbers.removeprefix(f"{place}: "))
        truth = _truth_of({finding.severity for finding in found}, self.forgiving)
        text = _against(found[0]) if found else f"check {check} found nothing"
        self.steps.append(ExpressionStep(text, truth))
        return truth


def _against(finding: AuditFinding) -> str:
    """Return a finding's place and its two numbers."""
    sides = " against ".join(
        side.text if side.label in finding.place else f"{side.text} ({side.label})"
        for side in (finding.first, finding.second)
    )
    return f"{finding.place}: {sides}"


def _refuse_other_line(result: Result, run: MeasuredRun) -> None:
    """Raise MissingResultError for a result of a line that the documents do not speak of."""
    rate = run.link_rate_mbps
    if run.experiment in _ON_THE_LINE and rate not in (None, _DOCUMENTS_LINE_MBPS):
        raise MissingResultError(
            f"{result.key} was measured on a line of {rate:g} Mb/s, the claim is about 1 Gb/s"
        )


def _truth_of(severities: set[Severity], forgiving: bool) -> bool | None:
    """Return what a check's findings leave of the statement that it checks."""
    if forgiving:
        severities = severities - {Severity.ROUNDING}
    if not severities:
        return True
    return None if severities == {Severity.UNSUPPORTED} else False


def judge(
    claims: Iterable[Claim],
    testbed: str,
    data: Catalog,
    runs: Sequence[MeasuredRun] = (),
    findings: Mapping[str, list[AuditFinding] | None] | None = None,
) -> list[Judgement]:
    """Return the verdict on each claim on a testbed.

    Parameters
    ----------
    claims
        The claims.
    testbed
        ``published`` judges by the documents' own numbers, any other name by results.
    data
        The published tables.
    runs
        What was measured.
    findings
        Findings by check for ``holds(...)``, as
        :func:`~tsnrepro.published.checks.findings_by_check` gives them: empty where all holds, None
        where a check says nothing.

    Raises
    ------
    ConfigurationError
        An expression does not fit the numbers it names.
    """
    scope = _Scope(data, runs, findings or {})
    if testbed == PUBLISHED:
        return [_by_record(claim, scope) for claim in claims]
    return [_judged(claim, testbed, claim.measured, scope) for claim in claims]


def _by_record(claim: Claim, scope: _Scope) -> Judgement:
    """Judge by the published numbers, with the grades between true and false that they allow."""
    strict = _judged(claim, PUBLISHED, claim.record, scope)
    if strict.verdict is Grade.SUPPORTED:
        return strict
    if claim.own_table is not None:
        own = _judged(claim, PUBLISHED, claim.own_table, scope)
        if own.verdict is Grade.SUPPORTED:
            against = strict.ground or strict.reason
            return replace(
                own,
                verdict=Grade.OWN_TABLE,
                evidence=tuple(dict.fromkeys((*own.evidence, *strict.evidence))),
                expression=" · ".join(filter(None, (own.expression, strict.expression))),
                ground=f"{own.ground}; but {against}",
            )
    if strict.verdict is Grade.CONTRADICTED:
        forgiven = _judged(claim, PUBLISHED, claim.record, replace(scope, forgiving=True))
        if forgiven.verdict is Grade.SUPPORTED:
            return replace(strict, verdict=Grade.ROUNDING)
    return strict


_VERDICT_OF = {
    True: Grade.SUPPORTED,
    False: Grade.CONTRADICTED,
    None: Grade.CANNOT_TELL,
}


def _judged(claim: Claim, testbed: str, expression: str | None, scope: _Scope) -> Judgement:
    """Return the verdict that one expression gives."""
    if expression is None:
        where = "the published numbers" if testbed == PUBLISHED else "these experiments"
        reason = f"not decided by {where}; it needs {claim.needs}"
        return Judgement(claim, testbed, Grade.CANNOT_TELL, (), reason, "")
    scope = replace(scope, used={}, steps=[])
    reason, ground = "", ""
    try:
        truth = expressions.parse(expression).evaluate(scope, scope.steps)
    except (EmptyCellError, MissingResultError) as error:
        truth, reason = None, str(error.args[0])
    except TsnreproError as error:
        raise ConfigurationError(str(error), f"claim {claim.id!r}") from error
    else:
        reason = "the numbers leave it open" if truth is None else ""
        ground = _ground(scope.steps, truth)
    if truth is not None and not isinstance(truth, bool):
        raise ConfigurationError(f"{expression!r} is neither true nor false", f"claim {claim.id!r}")
    evidence = tuple(scope.used.values())
    return Judgement(claim, testbed, _VERDICT_OF[truth], evidence, reason, expression, ground)


_STEPS_SHOWN = 3


def _ground(steps: Sequence[ExpressionStep], truth: bool | None) -> str:
    """Return in one line what decided: the comparisons that came out as the whole did."""
    deciding = [step for step in steps if step.truth is truth]
    deciding = deciding or [step for step in steps if step.truth is not True] or list(steps)
    shown = deciding[:_STEPS_SHOWN]
    kind = "interval" if any(step.interval for step in shown) else "arithmetic"
    texts = "; ".join(dict.fromkeys(step.text for step in shown))
    return f"{kind}: {texts}" if shown else ""


def accepted_verdicts(path: Path) -> dict[str, dict[str, Grade]]:
    """Return the accepted verdicts by testbed and claim.

    A measured testbed stands as ``testbed/campaign``.

    Raises
    ------
    ConfigurationError
        The file is missing or holds something that is no verdict.
    """
    content_of_file: Any = read_yaml(path)
    try:
        return {
            str(testbed): {str(claim): Grade(verdict) for claim, verdict in verdicts.items()}
            for testbed, verdicts in content_of_file.items()
        }
    except (AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"not verdicts by testbed and claim: {error}",
            str(path),
            f"Verdicts are {', '.join(Grade)}",
        ) from error


def changed_verdicts(
    judgements: Iterable[Judgement], accepted: Mapping[str, Mapping[str, Grade]]
) -> list[Change]:
    """Return where verdicts differ from the accepted ones, for the testbeds that were judged.

    A claim without an accepted verdict is a change, and so is an accepted one without a claim.
    """
    found: dict[str, dict[str, Grade]] = {}
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

    Raises
    ------
    ConfigurationError
        The file exists and holds something that is no verdict.
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
