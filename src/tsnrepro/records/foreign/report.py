"""What an import took, refused and passed over, to be read by whoever started it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

SHOWN = 12


@dataclass(frozen=True)
class TakenFile:
    """A file whose rows became trials by one table of the mapping."""

    file: str
    sha256: str
    table: str
    trials: int
    generated: bool


@dataclass(frozen=True)
class RefusedFile:
    """A file that holds no measurement, and why."""

    file: str
    reason: str
    table: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class SkippedRow:
    """A row that is no trial, and why."""

    file: str
    row: str
    reason: str


@dataclass
class ImportReport:
    """The outcome of one import."""

    testbed: str
    folder: str
    mapping: str
    taken: list[TakenFile] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    skipped: list[SkippedRow] = field(default_factory=list)
    skipped_rows: int = 0
    """All rows that were passed over; ``skipped`` names the first of each file."""
    nul_bytes: dict[str, int] = field(default_factory=dict)
    """NUL bytes that were taken out, by file."""
    unnamed: list[str] = field(default_factory=list)
    """Files that no pattern of the mapping fits."""
    unmatched: list[tuple[str, str]] = field(default_factory=list)
    """Table and pattern that fit no file."""
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    """Table, column and reason, as the mapping says them."""
    trials: dict[str, int] = field(default_factory=dict)
    """Measured trials by experiment."""
    failed: int = 0
    """Trials that the data set records as failed."""
    written: int = 0
    """Trials that the store did not hold before."""
    environment: str = ""
    """Digest of the facts of the import."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        counts = ", ".join(f"{count} of {name}" for name, count in self.trials.items() if count)
        yield f"imported: {self.testbed}, from {self.folder} by the mapping {self.mapping}"
        known = sum(self.trials.values()) + self.failed - self.written
        yield f"  trials: {counts or 'none'}; {self.written} new, {known} recorded before"
        if self.failed:
            yield f"  failed trials that the data set records: {self.failed}"
        yield from _several("taken", [self._taken(item) for item in self.taken], SHOWN)
        yield from _several("refused", [_refused(item) for item in self.refused], None)
        yield from _several("passed over", list(self._skipped()), SHOWN)
        yield from _several(
            "NUL bytes taken out", [f"{file}: {n}" for file, n in self.nul_bytes.items()], SHOWN
        )
        yield from _several(
            "left out by the mapping", [f"{t}, {c}: {why}" for t, c, why in self.left_out], SHOWN
        )
        yield from _several(
            "patterns that fit no file", [f"{t}: {pattern}" for t, pattern in self.unmatched], SHOWN
        )
        yield from _several("files that no pattern names", self.unnamed, SHOWN)

    @staticmethod
    def _taken(item: TakenFile) -> str:
        generated = ", generated and not measured" if item.generated else ""
        return f"{item.file} ({item.table}): {_trials(item.trials)}{generated}"

    def _skipped(self) -> Iterator[str]:
        shown = 0
        for (file, reason), rows in groupby(self.skipped, key=lambda row: (row.file, row.reason)):
            places = [row.row for row in rows]
            shown += len(places)
            more = f" and {len(places) - 3} more" if len(places) > 3 else ""
            yield f"{file}, {', '.join(places[:3])}{more}: {reason}"
        if self.skipped_rows > shown:
            yield f"{self.skipped_rows - shown} more rows"


def _refused(item: RefusedFile) -> str:
    table = f" ({item.table})" if item.table else ""
    remedy = f". {item.remedy}" if item.remedy else ""
    return f"{item.file}{table}: {item.reason}{remedy}"


def _trials(count: int) -> str:
    return f"{count} trial{'' if count == 1 else 's'}"


def _several(what: str, lines: list[str], most: int | None) -> Iterator[str]:
    if not lines:
        return
    yield f"  {what}:"
    for line in lines[:most]:
        yield f"    {line}"
    if most is not None and len(lines) > most:
        yield f"    and {len(lines) - most} more"
