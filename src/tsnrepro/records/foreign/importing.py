"""Import of a foreign data set into the raw store as a testbed of its own name."""

import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

from tsnrepro.errors import ConfigurationError, RecordError
from tsnrepro.records.foreign.fields import EXPERIMENTS
from tsnrepro.records.foreign.imported import (
    CAMPAIGN,
    ORIGINALS,
    add_import,
    imports_of,
    is_imported,
)
from tsnrepro.records.foreign.mapping import MappingFile, load_mapping
from tsnrepro.records.foreign.reading import Folder, original_of, read_file
from tsnrepro.records.foreign.refusal import NoMeasurementError
from tsnrepro.records.foreign.report import (
    ImportReport,
    RefusedFile,
    SkippedRow,
    TakenFile,
)
from tsnrepro.records.foreign.rows import ForeignTrial
from tsnrepro.records.foreign.source import SourceFile, files_below, matching
from tsnrepro.records.store import SUMS, Batch, RawStore, packed
from tsnrepro.repository import commit, root

RESERVED = ("auto", "published", "model", "emulated", "guest", "hardware")
OF_AN_IMPORT = {CAMPAIGN, ORIGINALS, "environments"}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
# Larger files are read again when they are copied, not kept in memory until all are read.
KEPT_BYTES = 1 << 22


@dataclass
class _Collected:
    """What reading the data set gave, before anything is written."""

    trials: list[ForeignTrial] = field(default_factory=list)
    files: dict[str, SourceFile] = field(default_factory=dict)
    """Files that a trial came from."""
    sums: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Size and checksum of each file that the mapping names."""


def import_folder(source: Path, mapping: Path | str, name: str, raw_root: Path) -> ImportReport:
    """Bring a data set into the raw store, where all analyses find it as a testbed.

    Everything is read before anything is written, so a mapping that does not fit leaves nothing
    behind. Importing the same again adds nothing; a changed file or mapping adds its trials beside
    the old ones, and from then on the new ones are listed.

    Parameters
    ----------
    source
        Folder of the data set. It is not changed; the files that trials come from are copied.
    mapping
        Path of a mapping file, or the name of one in config/imports.
    name
        Name of the testbed to be: small letters, digits, dots, hyphens and underscores.
    raw_root
        Folder of the raw store.

    Raises
    ------
    ConfigurationError
        The name, the folder or the mapping cannot be used.
    RecordError
        The mapping does not fit a file, a row contradicts itself, or no file holds a measurement;
        the message names file and row.
    """
    _check_name(name, raw_root)
    if not source.is_dir():
        raise ConfigurationError("there is no such folder", str(source), "Give the data set's own")
    # Git is asked while files are read; the answer is kept by the function itself.
    asked = Thread(target=commit)
    asked.start()
    loaded = load_mapping(mapping)
    report = ImportReport(name, source.resolve().name, loaded.name)
    collected = _collect(source, loaded, report)
    if not collected.trials:
        refused = "; ".join(f"{item.file}: {item.reason}" for item in report.refused[:3])
        raise RecordError(
            f"no file holds a measurement{' (' + refused + ')' if refused else ''}",
            str(source),
            "Compare the file patterns of the mapping with the folder",
        )
    _check_same_data_set(collected, name, raw_root)
    asked.join()
    _write(collected, loaded, report, raw_root)
    return report


def _check_name(name: str, raw_root: Path) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"'{name}' cannot name a testbed",
            "import --as",
            "Use small letters, digits, dots, hyphens and underscores",
        )
    own = name in RESERVED or (root() / "config" / "testbeds" / f"{name}.yaml").is_file()
    # What an interrupted import left has no mark yet, and is completed by the next.
    kept = {path.name for path in (raw_root / name).glob("[!.]*")}
    if own or (kept - OF_AN_IMPORT and not is_imported(raw_root, name)):
        raise ConfigurationError(
            f"'{name}' is a testbed that trials are measured on", "import --as", "Use another name"
        )


def _check_same_data_set(collected: _Collected, name: str, raw_root: Path) -> None:
    """Refuse a second data set under the name of a first: the first would no longer be listed."""
    imports = imports_of(raw_root, name)
    if imports and not {item["file"] for item in imports[-1]["files"]} & set(collected.sums):
        raise ConfigurationError(
            f"testbed '{name}' holds another data set, imported from {imports[-1]['folder']}",
            "import --as",
            "Give this one a name of its own",
        )


# --- reading ----------------------------------------------------------------------------------


def _collect(source: Path, loaded: MappingFile, report: ImportReport) -> _Collected:
    paths = files_below(source)
    chosen = _choose(paths, loaded, report)
    folder, collected = Folder(source), _Collected()
    by_table: dict[str, list[ForeignTrial]] = {table: [] for table in loaded.mapping.tables}
    for path in sorted(chosen):
        folder.used.clear()
        file = folder.file(path)
        produced: list[ForeignTrial] = []
        for table in chosen[path]:
            found = _take(folder, file, table, loaded, report)
            by_table[table] += found
            produced += found
        _remember(folder, produced, collected, report)
    for path, reason in _without_measurements(paths, set(chosen), loaded):
        report.refused.append(RefusedFile(path, reason))
        collected.sums[path] = _sum(Folder(source).file(path))
    collected.trials = [trial for trials in by_table.values() for trial in trials]
    named = set(collected.sums)
    report.unnamed = [path for path in paths if path not in named]
    report.left_out = [
        (name, column, reason)
        for name, table in loaded.mapping.tables.items()
        for column, reason in table.left_out.items()
    ]
    return collected


def _choose(paths: list[str], loaded: MappingFile, report: ImportReport) -> dict[str, list[str]]:
    """Return the tables that each file is to be read by."""
    chosen: dict[str, list[str]] = {}
    for name, table in loaded.mapping.tables.items():
        for pattern in table.files:
            found = matching(paths, [pattern])
            if not found:
                report.unmatched.append((name, pattern))
            for path in found:
                tables = chosen.setdefault(path, [])
                if name not in tables:
                    tables.append(name)
    return chosen


def _take(
    folder: Folder, file: SourceFile, name: str, loaded: MappingFile, report: ImportReport
) -> list[ForeignTrial]:
    table = loaded.mapping.tables[name]
    try:
        outcome = read_file(folder, file, name, table)
    except NoMeasurementError as error:
        report.refused.append(RefusedFile(file.relative, error.what, name, error.remedy))
        return []
    report.skipped += [SkippedRow(file.relative, *item) for item in outcome.skipped]
    report.skipped_rows += outcome.skipped_rows
    if outcome.trials:
        count = sum(trial.failure is None for trial in outcome.trials)
        taken = TakenFile(file.relative, file.sha256, name, count, table.generated)
        report.taken.append(taken)
    return outcome.trials


def _remember(
    folder: Folder, trials: list[ForeignTrial], collected: _Collected, report: ImportReport
) -> None:
    """Note the files that were just read, and let go of the bytes of large ones."""
    origins = {trial.source["file"] for trial in trials}
    origins |= {t.source["observations"]["file"] for t in trials if "observations" in t.source}
    for relative, file in folder.used.items():
        collected.sums[relative] = _sum(file)
        if file.nul_bytes:
            report.nul_bytes[relative] = file.nul_bytes
        if relative in origins:
            if file.size > KEPT_BYTES:
                file.release()
            collected.files[relative] = file


def _sum(file: SourceFile) -> dict[str, Any]:
    return {"file": file.relative, "bytes": file.size, "sha256": file.sha256}


def _without_measurements(
    paths: list[str], chosen: set[str], loaded: MappingFile
) -> Iterator[tuple[str, str]]:
    """Yield the files that the mapping itself says hold no measurement, with its reasons."""
    for rule in loaded.mapping.no_measurements:
        for path in matching(paths, rule.files):
            if path in chosen:
                raise ConfigurationError(
                    f"'{path}' is both read by a table and said to hold no measurement",
                    f"mapping {loaded.name}",
                    "Make the patterns of no_measurements narrower",
                )
            yield path, rule.reason


# --- writing ----------------------------------------------------------------------------------


def _write(
    collected: _Collected, loaded: MappingFile, report: ImportReport, raw_root: Path
) -> None:
    measured = [trial for trial in collected.trials if trial.failure is None]
    report.trials = {e: sum(t.experiment == e for t in measured) for e in EXPERIMENTS}
    report.failed = len(collected.trials) - len(measured)
    stores = {e: RawStore(raw_root, report.testbed, CAMPAIGN, e) for e in EXPERIMENTS}
    recorded = {e: _names(store.folder) for e, store in stores.items()}
    new = [t for t in collected.trials if t.name(1) not in recorded[t.experiment]]
    last = (imports_of(raw_root, report.testbed) or [None])[-1]
    named = [collected.sums[path] for path in sorted(collected.sums)]
    if last and not new and _is_same(last, loaded, named, collected.trials):
        report.environment = last["environment"]
        return
    facts = _facts(report, loaded, named, any(t.generated for t in collected.trials))
    batch = Batch(raw_root / report.testbed)
    environment = report.environment = stores[EXPERIMENTS[0]].put_environment(facts, batch)
    _keep_originals(batch, collected, loaded, raw_root / report.testbed)
    sums: dict[str, str] = {}
    for trial in new:
        files = packed(_document(trial, report.testbed, environment), {})
        folder = stores[trial.experiment].folder / trial.name(1)
        sums[folder.name] = hashlib.sha256(files[SUMS]).hexdigest()
        batch.folder(folder, files)
    batch.commit()
    report.written = len(new)
    entry = _entry(facts, environment)
    for trial in collected.trials:
        _list(entry, trial, stores[trial.experiment], sums)
    add_import(raw_root, report.testbed, entry)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _is_same(
    last: dict[str, Any],
    loaded: MappingFile,
    files: list[dict[str, Any]],
    trials: list[ForeignTrial],
) -> bool:
    listed = {
        t["trial"] for part in ("trials", "failed") for one in last[part].values() for t in one
    }
    return (
        last["mapping"]["sha256"] == loaded.sha256
        and last["files"] == files
        and listed == {trial.name(1) for trial in trials}
    )


def _facts(
    report: ImportReport, loaded: MappingFile, files: list[dict[str, Any]], generated: bool
) -> dict[str, Any]:
    """Return the environment of imported trials: what is known of it, and of the import."""
    return {
        "testbed": CAMPAIGN,
        "name": report.testbed,
        "description": loaded.mapping.description,
        "generated": generated,
        "settings": loaded.mapping.testbed.model_dump(),
        "import": {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "folder": report.folder,
            "mapping": {
                "name": loaded.name,
                "sha256": loaded.sha256,
                "original": f"{ORIGINALS}/{loaded.sha256}/{loaded.name}.yaml",
            },
            "files": files,
            "refused": [
                {"file": item.file, "table": item.table, "reason": item.reason}
                for item in report.refused
            ],
            "nul_bytes": report.nul_bytes,
            "skipped_rows": report.skipped_rows,
            "left_out": [
                {"table": table, "column": column, "reason": reason}
                for table, column, reason in report.left_out
            ],
        },
        "importer": {"commit": commit(), "python": sys.version.split()[0]},
    }


def _keep_originals(
    batch: Batch, collected: _Collected, loaded: MappingFile, testbed: Path
) -> None:
    kept = {f"{ORIGINALS}/{loaded.sha256}/{loaded.name}.yaml": loaded.text}
    for file in collected.files.values():
        kept[original_of(file)] = file.again()
    for place, data in kept.items():
        if not (testbed / place).exists():
            batch.file(testbed / place, data)


def _document(trial: ForeignTrial, testbed: str, environment: str) -> dict[str, Any]:
    outcome: dict[str, Any] = {"status": "measured", "values": {"result": trial.result}}
    if trial.failure is not None:
        outcome = {"status": "failed", "reason": trial.failure}
    return {
        "experiment": trial.experiment,
        "testbed": testbed,
        "campaign": CAMPAIGN,
        "label": trial.label,
        "factors": trial.factors,
        "repetition": trial.repetition,
        "attempt": 1,
        "order": trial.order,
        "environment": environment,
        "started": trial.started,
        "generated": trial.generated,
        **outcome,
        "source": trial.source,
        "commands": [],
    }


def _entry(facts: dict[str, Any], environment: str) -> dict[str, Any]:
    """Return what the mark of the testbed says of this import, but for its trials."""
    brought = facts["import"]
    return {
        **{key: brought[key] for key in ("time", "folder", "mapping", "files")},
        "environment": environment,
        "generated": facts["generated"],
        "trials": {},
        "failed": {},
    }


def _list(
    entry: dict[str, Any], trial: ForeignTrial, store: RawStore, sums: dict[str, str]
) -> None:
    """Add a trial to an import, new or recorded before."""
    name = trial.name(1)
    item = {"trial": name, "sha256": sums.get(name) or store.sha256(store.folder / name)}
    if trial.failure is not None:
        item["reason"] = trial.failure
    part = "trials" if trial.failure is None else "failed"
    entry[part].setdefault(trial.experiment, []).append(item)
