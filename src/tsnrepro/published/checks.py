"""Checks: rules bound to tables, read from YAML and run over a catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tsnrepro.common.errors import ConfigurationError, TsnreproError
from tsnrepro.config.base import load, parse
from tsnrepro.published.audit_findings import Finding
from tsnrepro.published.cached_files import cached_by_mtime
from tsnrepro.published.rules import RULES, Check, CheckError
from tsnrepro.published.tables import (
    Catalog,
    NotMeasuredError,
    UnknownNameError,
    repeated_names,
)
from tsnrepro.published.third_party import ThirdPartyTable

MEASURED_CHECKS = Path(__file__).with_name("measured-checks.yaml")
"""The checks of every measured record; the name of their source is ``measured``."""


@dataclass(frozen=True)
class NotRun:
    """A check without an outcome, and the reason.

    An ``idle`` check had no rows to compare, which is no error. Otherwise a table, row or column
    that the check needs is missing.
    """

    check: str
    reason: str
    idle: bool = False


@dataclass(frozen=True)
class CheckFile:
    """The checks of one file, and the third-party tables that they read."""

    checks: tuple[Check, ...]
    source: str
    tables: dict[str, ThirdPartyTable]


class _ChecksFile(BaseModel):
    """The YAML form of a file of checks."""

    model_config = ConfigDict(extra="forbid")

    source: str = ""
    tables: dict[str, ThirdPartyTable] = Field(default_factory=dict)
    checks: list[dict[str, Any]] = Field(min_length=1)


@cached_by_mtime
def load_checks(path: Path) -> CheckFile:
    """Return the checks of a file, with every parameter validated by its rule.

    Raises
    ------
    ConfigurationError
        The file is missing, or a check has an unknown rule, an unknown or missing key, a formula
        outside the language, or an id that is not unique.
    """
    layout = load(_ChecksFile, path)
    checks = tuple(make_check(entry, str(path)) for entry in layout.checks)
    if repeated := repeated_names(check.id for check in checks):
        raise ConfigurationError(f"duplicate checks: {', '.join(repeated)}", str(path))
    return CheckFile(checks, layout.source, layout.tables)


def make_check(entry: dict[str, Any], where: str = "") -> Check:
    """Return a check from an entry of a file: its id, its rule and the keys of the rule.

    Raises
    ------
    ConfigurationError
        As :func:`load_checks`.
    """
    place = f"{where}, check {entry.get('id', '(without id)')!r}"
    rule, parameters = entry.get("rule"), {k: v for k, v in entry.items() if k != "rule"}
    if not isinstance(rule, str) or rule not in RULES:
        what = f"unknown rule {rule!r}" if "rule" in entry else "a check lacks rule"
        raise ConfigurationError(what, place, f"There are: {', '.join(sorted(RULES))}")
    return parse(RULES[rule], parameters, place)


def findings_by_check(
    checks: Iterable[Check],
    findings: Iterable[Finding],
    not_run: Iterable[NotRun],
    data: Catalog,
) -> dict[str, list[Finding] | None]:
    """Return the findings of :func:`run_checks` in ``data``, by check.

    The list is empty for a check that holds. It is None for a check without findings that compared
    no rows, or for which the printed digits leave a row undecided.
    """
    undecided = {entry.check for entry in not_run} | data.undecided
    grouped: dict[str, list[Finding]] = {check.id: [] for check in checks}
    for finding in findings:
        grouped[finding.check].append(finding)
    return {name: found or (None if name in undecided else []) for name, found in grouped.items()}


def run_checks(
    checks: Iterable[Check], data: Catalog, *, lenient: bool = False
) -> tuple[list[Finding], list[NotRun]]:
    """Return the findings of the checks, in order, and the checks without an outcome.

    Parameters
    ----------
    checks
        The checks, run in order.
    data
        The tables that they read.
    lenient
        Report a check whose table, row or column is missing as not run. Otherwise it is an error,
        since the published tables are complete.

    Raises
    ------
    CheckError
        A check does not fit its data.
    """
    findings: list[Finding] = []
    not_run: list[NotRun] = []
    for check in checks:
        before = data.compared_rows
        try:
            findings += check.find(data)
        except UnknownNameError as error:
            if not lenient:
                raise CheckError(str(error), f"check {check.id!r}") from error
            not_run.append(NotRun(check.id, str(error), isinstance(error, NotMeasuredError)))
            continue
        except (TsnreproError, LookupError, ArithmeticError, ValueError) as error:
            raise CheckError(str(error), f"check {check.id!r}") from error
        if data.compared_rows == before:
            not_run.append(NotRun(check.id, "no row has the values that it compares", idle=True))
    return findings, not_run
