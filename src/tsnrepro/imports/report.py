"""The report of an import: files imported and refused, rows skipped."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from tsnrepro.common.counts import plural

_SHOWN = 12


@dataclass(frozen=True)
class ImportedFile:
    """A file whose rows became trials by one table of the mapping."""

    file: str
    table: str
    trials: int
    generated: bool

    def __str__(self) -> str:
        plural = "" if self.trials == 1 else "s"
        generated = ", generated and not measured" if self.generated else ""
        return f"{self.file} ({self.table}): {self.trials} trial{plural}{generated}"


@dataclass(frozen=True)
class RefusedFile:
    """A file without trials, and the reason."""

    file: str
    reason: str
    table: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        table = f" ({self.table})" if self.table else ""
        remedy = f". {self.remedy}" if self.remedy else ""
        return f"{self.file}{table}: {self.reason}{remedy}"


@dataclass(frozen=True)
class SkippedRow:
    """A row without a trial, and the reason."""

    file: str
    row: str
    reason: str


@dataclass
class ImportReport:
    """The outcome of one import."""

    testbed: str
    folder: str
    mapping: str
    imported: list[ImportedFile] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    copies: list[SkippedRow] = field(default_factory=list)
    """Rows and files that repeat others, and are not counted twice."""
    notes: list[SkippedRow] = field(default_factory=list)
    """What limits the results of imported files."""
    skipped: list[SkippedRow] = field(default_factory=list)
    skipped_rows: int = 0
    """Number of all skipped rows; ``skipped`` has the first ones of each file."""
    nul_bytes: dict[str, int] = field(default_factory=dict)
    """Number of NUL bytes that were removed, by file."""
    unnamed: list[str] = field(default_factory=list)
    """Files that no pattern of the mapping matches."""
    unread: dict[str, str] = field(default_factory=dict)
    """Other entries of the folder, and why they are not read."""
    unmatched: list[tuple[str, str]] = field(default_factory=list)
    """Table and pattern that match no file."""
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    """Table, column and reason, from the mapping."""
    trials: dict[str, int] = field(default_factory=dict)
    """Measured trials by experiment."""
    failed: int = 0
    """Trials that the data set records as failed."""
    written: int = 0
    """Trials that were not in the store before."""
    environment: str = ""
    """Digest of the facts of the import."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} of {name}" for name, count in self.trials.items() if count)
        known = sum(self.trials.values()) + self.failed - self.written
        lines = [
            f"imported: {self.testbed}, from {self.folder} by the mapping {self.mapping}",
            f"  trials: {counts or 'none'}; {self.written} new, {known} recorded before",
        ]
        if self.failed:
            lines.append(f"  failed trials that the data set records: {self.failed}")
        skipped = _rows(self.skipped)
        if self.skipped_rows > len(self.skipped):
            skipped.append(plural(self.skipped_rows - len(self.skipped), "more row"))
        parts = {
            "imported files": list(map(str, self.imported)),
            "notes": _rows(self.notes),
            "refused": list(map(str, self.refused)),
            "copies, not counted twice": _rows(self.copies),
            "skipped rows": skipped,
            "NUL bytes removed": [f"{file}: {n}" for file, n in self.nul_bytes.items()],
            "left out by the mapping": [f"{t}, {c}: {why}" for t, c, why in self.left_out],
            "patterns that match no file": [f"{t}: {pattern}" for t, pattern in self.unmatched],
            "files that no pattern matches": self.unnamed,
            "not read": [f"{name}: {why}" for name, why in self.unread.items()],
        }
        for what, items in parts.items():
            # Refused files are shown in full: each may be a mistake.
            lines += _shortened(what, items, len(items) if what == "refused" else _SHOWN)
        return "\n".join(lines)


def _rows(rows: list[SkippedRow]) -> list[str]:
    lines = []
    for (file, reason), group in groupby(rows, key=lambda row: (row.file, row.reason)):
        places = [row.row for row in group]
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        lines.append(f"{', '.join([file, *filter(None, places[:3])])}{more}: {reason}")
    return lines


def _shortened(what: str, items: list[str], limit: int) -> Iterator[str]:
    if items:
        yield f"  {what}:"
        yield from (f"    {item}" for item in items[:limit])
    if len(items) > limit:
        yield f"    and {len(items) - limit} more"
