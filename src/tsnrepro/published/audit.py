"""Audit the results of a testbed, and print findings and verdicts on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.published import documents as published
from tsnrepro.published.audit_findings import ComparedValue, Finding, Severity
from tsnrepro.published.checks import (
    MEASURED_CHECKS,
    Check,
    NotRun,
    findings_by_check,
    load_checks,
    run_checks,
)
from tsnrepro.published.claims import (
    PUBLISHED,
    Change,
    Judgement,
    Verdict,
    accept_verdicts,
    accepted_verdicts,
    changed_verdicts,
    judge,
    load_claims,
)
from tsnrepro.published.measured_runs import (
    MeasuredRun,
    find_measured_runs,
    load_measured_runs,
    measured_tables,
)
from tsnrepro.published.tables import Catalog
from tsnrepro.published.third_party import third_party_tables

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

CHECKS_FILE = "checks.yaml"
CLAIMS_FILE = "claims.yaml"
VERDICTS_FILE = "verdicts.yaml"
THIRD_PARTY_CHECKS_FILE = "public-set-checks.yaml"
THIRD_PARTY_SOURCE = "public-set"


@dataclass(frozen=True)
class AuditResult:
    """The result of the audit of one record.

    Attributes
    ----------
    name
        ``published``, or testbed and campaign of the measured runs.
    runs
        The measured runs; none for ``published``.
    checks, findings, not_run
        The checks of the record (the documents, or the measured tables), their findings, and the
        checks without an outcome.
    judgements, on_record
        The verdicts on this record and the verdicts by the published numbers alone, in the order
        of the claims.
    changes
        Verdicts that differ from the accepted ones; none where no verdicts were accepted for a
        measured record.
    """

    name: str
    runs: tuple[MeasuredRun, ...]
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    not_run: tuple[NotRun, ...]
    judgements: tuple[Judgement, ...]
    on_record: tuple[Judgement, ...]
    changes: tuple[Change, ...]

    @property
    def title(self) -> str:
        """Return the name of the record for a heading."""
        return "the published record" if self.is_published else self.name

    @property
    def is_published(self) -> bool:
        """Return whether the record is that of the documents."""
        return not self.runs

    @property
    def idle(self) -> tuple[NotRun, ...]:
        """Return the checks that had no rows to compare."""
        return tuple(entry for entry in self.not_run if entry.idle)

    @property
    def missing(self) -> tuple[NotRun, ...]:
        """Return the checks whose table, row or column is missing: the audit is incomplete."""
        return tuple(entry for entry in self.not_run if not entry.idle)

    @property
    def count_of_checks(self) -> str:
        """Return the number of checks, of idle checks and of checks that were not run."""
        counts = [plural(len(self.checks), "check")]
        if self.idle:
            counts.append(f"{len(self.idle)} had no rows to compare")
        if self.missing:
            counts.append(f"{len(self.missing)} could not be run")
        return ", ".join(counts)

    def by_check(self) -> dict[str, list[Finding]]:
        """Return the findings by check, in order; checks without findings are omitted."""
        grouped: dict[str, list[Finding]] = {}
        for finding in self.findings:
            grouped.setdefault(finding.check, []).append(finding)
        return grouped

    def findings_frame(self) -> pd.DataFrame:
        """Return the findings as a data frame, one row per finding."""
        import pandas as pd  # noqa: PLC0415 - the audit itself needs no pandas

        return pd.DataFrame([_finding_row(finding) for finding in self.findings])

    def claims_frame(self) -> pd.DataFrame:
        """Return the claims with both verdicts as a data frame, one row per claim."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame([_claim_row(here, there) for here, there in self.verdicts()])

    def verdicts(self) -> Iterator[tuple[Judgement, Judgement]]:
        """Yield the judgement of each claim on this record and by the published numbers."""
        return zip(self.judgements, self.on_record, strict=True)


def audit_campaign(
    testbed: str, campaign: str, results_root: Path, *, third_party: Path | None = None
) -> AuditResult:
    """Audit the published record, or all experiments of one campaign on one testbed.

    Parameters
    ----------
    testbed
        ``published`` for the numbers of the documents, else the name of a testbed.
    campaign
        Campaign on the testbed; not used for ``published``.
    results_root
        Folder that holds ``<testbed>/<campaign>/<experiment>``.
    third_party
        As for :func:`run_audit`.

    Raises
    ------
    RecordError
        Nothing is analysed on the testbed; and as :func:`run_audit`.
    """
    runs = {} if testbed == PUBLISHED else find_measured_runs(results_root, testbed, campaign)
    return run_audit(runs, third_party=third_party)


def run_audit(
    runs: Mapping[str, Path],
    *,
    third_party: Path | None = None,
) -> AuditResult:
    """Check a record and judge the claims on it.

    Parameters
    ----------
    runs
        Folders of analysed experiments of one or several testbeds, by name of the experiment;
        without runs the numbers of the documents are audited.
    third_party
        Folder of the authors' public data set, to compare the documents with.

    Raises
    ------
    ConfigurationError
        A file of checks, claims or verdicts is invalid, or ``third_party`` is given with runs.
    CheckError
        A check does not fit the published numbers.
    RecordError
        A folder has no results, or a file in it cannot be read.
    FileNotFoundError
        There are no published numbers.
    """
    if runs and third_party is not None:
        raise ConfigurationError(
            "the public data set is compared with the documents, not with a testbed",
            str(third_party),
            f"Audit {PUBLISHED!r} with it",
        )
    base = root() / "data" / "published"
    data = published.catalog()
    checks = load_checks(base / CHECKS_FILE).checks
    findings, not_run = run_checks(checks, data)
    by_check = findings_by_check(checks, findings, not_run, data)
    claims = load_claims(base / CLAIMS_FILE)
    on_record = judge(claims, PUBLISHED, data, findings=by_check)
    judgements, name, measured = on_record, PUBLISHED, load_measured_runs(runs)
    if measured:
        name = " and ".join(dict.fromkeys(run.name for run in measured))
        source = measured_tables(measured)
        checks = load_checks(MEASURED_CHECKS).checks
        findings, not_run = run_checks(checks, Catalog({"measured": source}), lenient=True)
        judgements = judge(claims, name, data, measured, by_check)
    elif third_party is not None:
        more, more_findings, not_run = _check_third_party(base, third_party, data)
        checks, findings = (*checks, *more), [*findings, *more_findings]
    return AuditResult(
        name=name,
        runs=measured,
        checks=tuple(checks),
        findings=tuple(findings),
        not_run=tuple(not_run),
        judgements=tuple(judgements),
        on_record=tuple(on_record),
        changes=tuple(_changes(judgements, name, base)),
    )


def accept(result: AuditResult, folder: Path | None = None) -> list[Change]:
    """Accept the verdicts of an audit: write them to the file that tests compare them with."""
    base = folder or root() / "data" / "published"
    return accept_verdicts(result.judgements, base / VERDICTS_FILE)


def _check_third_party(
    base: Path, folder: Path, data: Catalog
) -> tuple[tuple[Check, ...], list[Finding], list[NotRun]]:
    """Run the checks of the public data set against the documents."""
    layout = load_checks(base / THIRD_PARTY_CHECKS_FILE)
    source = third_party_tables(layout.source, folder, layout.tables)
    both = Catalog({**data.sources, layout.source: source})
    findings, not_run = run_checks(layout.checks, both, lenient=True)
    if len([entry for entry in not_run if not entry.idle]) == len(layout.checks):
        raise RecordError(
            f"this is not the data set {layout.source!r}: {not_run[0].reason}",
            str(folder),
            f"Its layout is defined in {base / THIRD_PARTY_CHECKS_FILE}",
        )
    return layout.checks, findings, not_run


def _changes(judgements: Iterable[Judgement], name: str, base: Path) -> list[Change]:
    path = base / VERDICTS_FILE
    accepted = accepted_verdicts(path) if path.is_file() else {}
    if name != PUBLISHED and name not in accepted:
        return []
    return changed_verdicts(judgements, accepted)


# --- on the terminal ---------------------------------------------------------------------------

_SEVERITY_STYLE = {
    Severity.IMPOSSIBLE: "bold red",
    Severity.CONTRADICTION: "yellow",
    Severity.UNSUPPORTED: "cyan",
    Severity.ROUNDING: "dim",
}
_VERDICT_STYLE = {
    Verdict.SUPPORTED: "green",
    Verdict.OWN_TABLE: "yellow",
    Verdict.ROUNDING: "yellow",
    Verdict.CONTRADICTED: "red",
    Verdict.CANNOT_TELL: "cyan",
}


def print_audit(result: AuditResult, console: Console) -> None:
    """Print findings and verdicts as tables that fit the width of the console.

    Each check has one row, with its first finding in full.
    """
    _print_findings(result, console)
    _print_claims(result, console)
    for entry in result.missing:
        console.print(f"not run: {entry.check}: {entry.reason}", style="dim", markup=False)
    for change in result.changes:
        console.print(f"changed verdict: {change}", style="bold yellow", markup=False)
    console.print(summary(result), markup=False)


def summary(result: AuditResult) -> str:
    """Return the counts of an audit in two lines."""
    severities = Counter(finding.severity for finding in result.findings)
    verdicts = Counter(judgement.verdict for judgement in result.judgements)
    found = ", ".join(f"{severities[severity]} {severity}" for severity in Severity)
    judged = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict)
    return (
        f"{result.name}: {plural(len(result.findings), 'finding')} of {result.count_of_checks} "
        f"({found})\n{plural(len(result.judgements), 'claim')}: {judged}"
    )


def _table(title: str, **shares: int) -> Any:
    """Return an empty table with columns of these shares of the width."""
    from rich import box  # noqa: PLC0415 - only a terminal needs it
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        expand=True,
        title_justify="left",
        padding=(0, 1, 1, 0),
        pad_edge=False,
    )
    for name, share in shares.items():
        table.add_column(name, ratio=share, overflow="fold")
    return table


def _print_findings(result: AuditResult, console: Console) -> None:
    from rich.text import Text  # noqa: PLC0415

    groups = result.by_check()
    if not groups:
        console.print(f"{result.name}: no findings\n", markup=False)
        return
    for source in dict.fromkeys(findings[0].source for findings in groups.values()):
        table = _table(f"Findings: {source}", Where=4, Numbers=3, Finding=7)
        for findings in groups.values():
            first = findings[0]
            if first.source != source:
                continue
            more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
            table.add_row(
                Text(first.place + more),
                Text(f"{first.first.text}\n{first.second.text}"),
                Text.assemble(
                    (first.severity.value, _SEVERITY_STYLE[first.severity]),
                    f": {first.explanation}",
                ),
            )
        console.print(table)


def _print_claims(result: AuditResult, console: Console) -> None:
    from rich.text import Text  # noqa: PLC0415

    table = _table(f"Claims: {result.name}", Claim=5)
    table.add_column("Verdict", width=14)
    if not result.is_published:
        table.add_column("By the record", width=14)
    table.add_column("Ground", ratio=5, overflow="fold")
    for here, there in result.verdicts():
        ours = f"\n{here.claim.location}" if here.claim.ours else ""
        cells = [
            Text.assemble((here.claim.id, "dim"), f"\n{here.claim.text}", (ours, "dim")),
            Text(here.verdict, style=_VERDICT_STYLE[here.verdict]),
        ]
        if not result.is_published:
            cells.append(Text(there.verdict, style=_VERDICT_STYLE[there.verdict]))
        shown = [here.ground, here.reason] if here.ground else [here.numbers]
        table.add_row(*cells, Text("\n".join(filter(None, shown))))
    console.print(table)


# --- as rows -----------------------------------------------------------------------------------

_FINDING_FIELDS = ("rule", "check", "formula", "explanation")
_CLAIM_FIELDS = ("document", "text", "needs", "ours")


def _finding_row(finding: Finding) -> dict[str, Any]:
    row: dict[str, Any] = {"document": finding.source, "severity": str(finding.severity)}
    row |= {name: getattr(finding, name) for name in ("place", "table", "row", "column")}
    for name in ("first", "second"):
        item: ComparedValue = getattr(finding, name)
        row |= {name: item.text, f"{name}_label": item.label, f"{name}_value": item.value}
    return row | {name: getattr(finding, name) for name in _FINDING_FIELDS}


def _claim_row(here: Judgement, there: Judgement) -> dict[str, Any]:
    return {
        "claim": here.claim.id,
        "place": here.claim.location,
        **{name: getattr(here.claim, name) for name in _CLAIM_FIELDS},
        "verdict": str(here.verdict),
        "verdict_by_record": str(there.verdict),
        **{name: getattr(here, name) for name in ("ground", "numbers", "reason")},
        "measured_by": ", ".join(here.origins),
    }
