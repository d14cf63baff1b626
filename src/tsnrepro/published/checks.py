"""Checks: rules bound to tables, read from YAML and run over a catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tsnrepro.common.errors import ConfigurationError, TsnreproError
from tsnrepro.config.base import load, parse
from tsnrepro.published.findings import AuditFinding
from tsnrepro.published.parsed_files import cached_by_change, twice
from tsnrepro.published.rules import RULES, Check, CheckError
from tsnrepro.published.tables import Catalog, NotMeasuredError, UnknownNameError
from tsnrepro.published.third_party import ForeignTable

MEASURED_CHECKS = Path(__file__).with_name("measured-checks.yaml")
"""Checks of every measured record; their source is called ``measured``."""


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


@cached_by_change
def load_checks(path: Path) -> CheckFile:
    """Return the checks of a file, every parameter checked against its rule.

    Raises
    ------
    ConfigurationError
        The file is missing, or a check has an unknown rule, an unknown or missing key, a formula
        outside the language, or an id that stands twice.
    """
    layout = load(_ChecksFile, path)
    checks = tuple(make_check(entry, str(path)) for entry in layout.checks)
    if repeated := twice(check.id for check in checks):
        raise ConfigurationError(f"checks stand twice: {', '.join(repeated)}", str(path))
    return CheckFile(checks, layout.source, layout.tables)


def make_check(entry: dict[str, Any], where: str = "") -> Check:
    """Return a check from an entry of a file: its id, its rule and the rule's own keys.

    Raises
    ------
    ConfigurationError
        See :func:`load_checks`.
    """
    place = f"{where}, check {entry.get('id', '(without id)')!r}"
    name, own = entry.get("rule"), {key: value for key, value in entry.items() if key != "rule"}
    if not isinstance(name, str) or name not in RULES:
        what = f"unknown rule {name!r}" if "rule" in entry else "a check lacks rule"
        raise ConfigurationError(what, place, f"There are: {', '.join(sorted(RULES))}")
    return parse(RULES[name], own, place)


def findings_by_check(
    checks: Iterable[Check],
    findings: Iterable[AuditFinding],
    not_run: Iterable[NotRun],
    data: Catalog,
) -> dict[str, list[AuditFinding] | None]:
    """Return what :func:`run_checks` found in ``data``, by check.

    Empty where all that the check looked at holds; None where it found nothing because there was
    nothing to look at, or because digits leave some of it open.
    """
    silent = {entry.check for entry in not_run} | data.left_open
    found: dict[str, list[AuditFinding]] = {check.id: [] for check in checks}
    for finding in findings:
        found[finding.check].append(finding)
    return {name: own or (None if name in silent else []) for name, own in found.items()}


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
            findings += check.find(data)
        except UnknownNameError as error:
            if not lenient:
                raise CheckError(str(error), f"check {check.id!r}") from error
            not_run.append(NotRun(check.id, str(error), isinstance(error, NotMeasuredError)))
            continue
        except (TsnreproError, LookupError, ArithmeticError, ValueError) as error:
            raise CheckError(str(error), f"check {check.id!r}") from error
        if data.looked == looked:
            not_run.append(NotRun(check.id, "no row has the values that it compares", idle=True))
    return findings, not_run
