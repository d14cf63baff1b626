"""Checks: rules bound to tables, read from YAML and run over a catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tsnrepro.audit.expressions import readable
from tsnrepro.audit.findings import AuditFinding, Observation, Severity
from tsnrepro.audit.foreign import ForeignTable
from tsnrepro.audit.rules import RULES, CheckError, Rule, RuleParameters
from tsnrepro.audit.tables import Catalog, NotMeasuredError, UnknownNameError
from tsnrepro.errors import ConfigurationError, TsnreproError

MEASURED_CHECKS = Path(__file__).with_name("measured-checks.yaml")
"""Checks of every measured record; their source is called ``measured``."""
_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OWN_KEYS = ("id", "rule", "severity", "remark")


@dataclass(frozen=True)
class Check:
    """A rule with its parameters; ``remark`` says what a finding means for its document."""

    id: str
    rule: Rule
    parameters: RuleParameters
    severity: Severity
    remark: str = ""


@dataclass(frozen=True)
class NotRun:
    """A check that says nothing, and why.

    ``idle`` where there was nothing of its kind to look at, which is no fault; else a table, row or
    column that it needs is missing.
    """

    check: str
    reason: str
    idle: bool = False


@dataclass(frozen=True)
class CheckFile:
    """The checks of one file and the foreign tables they are about."""

    checks: tuple[Check, ...]
    source: str
    tables: dict[str, ForeignTable]


class _ChecksFile(BaseModel):
    """A file of checks as it stands in YAML."""

    model_config = ConfigDict(extra="forbid")

    source: str = ""
    tables: dict[str, ForeignTable] = Field(default_factory=dict)
    checks: list[dict[str, Any]] = Field(min_length=1)


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file.

    Raises
    ------
    ConfigurationError
        The file is missing or not YAML.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_YAML_LOADER)
    except OSError as error:
        raise ConfigurationError(f"cannot read the file: {error.strerror}", str(path)) from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}", str(path)) from error


def load_checks(path: Path) -> CheckFile:
    """Return the checks of a file, every parameter checked against its rule.

    Raises
    ------
    ConfigurationError
        The file is missing, or a check has an unknown rule, an unknown or missing key, a formula
        outside the language, or an id that stands twice.
    """
    return _load_checks(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=16)
def _load_checks(path: Path, _changed_ns: int) -> CheckFile:
    try:
        layout = _ChecksFile.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigurationError(_problems(error), str(path)) from error
    checks = tuple(make_check(entry, str(path)) for entry in layout.checks)
    ids = [check.id for check in checks]
    repeated = sorted({one for one in ids if ids.count(one) > 1})
    if repeated:
        raise ConfigurationError(f"checks stand twice: {', '.join(repeated)}", str(path))
    return CheckFile(checks, layout.source, layout.tables)


def make_check(entry: dict[str, Any], where: str = "") -> Check:
    """Return a check from its id, rule and parameters.

    Raises
    ------
    ConfigurationError
        See :func:`load_checks`.
    """
    place = f"{where}, check {entry.get('id', '(without id)')!r}"
    absent = [key for key in ("id", "rule") if key not in entry]
    if absent:
        raise ConfigurationError(f"a check lacks {' and '.join(absent)}", place)
    if entry["rule"] not in RULES:
        known = ", ".join(sorted(RULES))
        raise ConfigurationError(f"unknown rule {entry['rule']!r}", place, f"There are: {known}")
    rule = RULES[entry["rule"]]
    own = {key: value for key, value in entry.items() if key not in _OWN_KEYS}
    try:
        parameters = rule.parameters.model_validate(own)
    except ValidationError as error:
        known = ", ".join(rule.parameters.model_fields)
        raise ConfigurationError(_problems(error), place, f"{rule.name} takes {known}") from error
    try:
        severity = Severity(entry.get("severity", rule.severity))
    except ValueError as error:
        raise ConfigurationError(str(error), place, f"Use {', '.join(Severity)}") from error
    return Check(str(entry["id"]), rule, parameters, severity, str(entry.get("remark", "")))


def run_checks(
    checks: Iterable[Check], data: Catalog, *, lenient: bool = False
) -> tuple[list[AuditFinding], list[NotRun]]:
    """Return what the checks find, in their order, and which of them say nothing.

    Parameters
    ----------
    checks
        The checks, run in order.
    data
        The tables they look at.
    lenient
        Whether a missing table, row or column means a check that could not be run. It is an error
        otherwise: a binding of the published tables that does not fit is a mistake.

    Raises
    ------
    CheckError
        A check does not fit its data.
    """
    findings: list[AuditFinding] = []
    not_run: list[NotRun] = []
    for check in checks:
        looked = data.looked
        try:
            observations = list(check.rule.find(data, check.parameters))
        except UnknownNameError as error:
            if not lenient:
                raise CheckError(str(error), f"check {check.id!r}") from error
            not_run.append(NotRun(check.id, str(error), isinstance(error, NotMeasuredError)))
            continue
        except (TsnreproError, LookupError, ArithmeticError, ValueError) as error:
            raise CheckError(str(error), f"check {check.id!r}") from error
        findings += [_finding(check, observation) for observation in observations]
        if data.looked == looked:
            not_run.append(NotRun(check.id, "no row has the values that it compares", idle=True))
    return findings, not_run


def _finding(check: Check, seen: Observation) -> AuditFinding:
    remark = f" {check.remark}" if check.remark else ""
    return AuditFinding(
        check=check.id,
        rule=check.rule.name,
        severity=seen.severity or check.severity,
        source=seen.cell.source,
        place=seen.place or seen.cell.place,
        table=seen.cell.table,
        row=seen.cell.row,
        column=seen.cell.column,
        first=seen.first,
        second=seen.second,
        formula=readable(seen.formula),
        explanation=seen.sentence + remark,
    )


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in error.errors()
    )
