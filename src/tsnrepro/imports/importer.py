"""Import of a third-party data set into the raw store, as a testbed of its own."""

import hashlib
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, get_args

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import commit, root
from tsnrepro.common.topology import TestbedKind
from tsnrepro.imports.files import SourceFile, list_files, matching_paths, printable
from tsnrepro.imports.manifest import CAMPAIGN, ORIGINALS, add_import, imports_of, is_imported
from tsnrepro.imports.mapping import MappedTable, MappingFile, load_mapping
from tsnrepro.imports.reading import DataFolder, TableReading, original_path, read_file
from tsnrepro.imports.report import ImportedFile, ImportReport, RefusedFile, SkippedRow
from tsnrepro.imports.screening import NoMeasurementError, generated_mark
from tsnrepro.imports.trials import ImportedTrial
from tsnrepro.records.columns import EXPERIMENTS
from tsnrepro.records.files import Batch
from tsnrepro.records.store import SUMS, RawStore, trial_files

_RESERVED = ("auto", "published", *get_args(TestbedKind))
_IMPORT_FOLDERS = {CAMPAIGN, ORIGINALS, "environments"}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# Two runs of these programs never have the same output.
_UNIQUE_OUTPUTS = ("iperf3", "sockperf", "times")


@dataclass
class _DataSet:
    """The content of a data set, read before anything is written."""

    loaded: MappingFile
    report: ImportReport
    trials: dict[str, list[ImportedTrial]] = field(default_factory=dict)
    """Trials by table of the mapping."""
    originals: dict[str, SourceFile] = field(default_factory=dict)
    """Files that a trial came from."""
    sums: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Size and checksum of each file that the mapping matches."""
    contents: dict[str, ImportedTrial] = field(default_factory=dict)
    """The first trial of each content, by checksum."""
    runs: dict[str, ImportedTrial] = field(default_factory=dict)
    """The first trial of each tool's output, by checksum."""

    @property
    def all_trials(self) -> list[ImportedTrial]:
        """The trials of all tables, in the mapping's order."""
        tables = self.loaded.mapping.tables
        return [trial for table in tables for trial in self.trials.get(table, [])]


def import_folder(
    source: Path, mapping: Path | str, name: str, raw_root: Path, *, replace: bool = False
) -> ImportReport:
    """Import a data set into the raw store, where analyses read it as a testbed.

    Everything is read before anything is written, so a mapping that does not fit leaves nothing
    behind. Importing the same data again adds nothing. With ``replace`` a changed file or mapping
    adds trials to the store, and only the new ones are listed from then on.

    Parameters
    ----------
    source
        Folder of the data set. It is not changed; the files that trials come from are copied.
    mapping
        Path of a mapping file, or the name of one in config/imports.
    name
        Name of the new testbed: small letters, digits, dots, hyphens and underscores.
    raw_root
        Folder of the raw store.
    replace
        Whether another import of this name may be replaced.

    Raises
    ------
    ConfigurationError
        The name, the folder or the mapping cannot be used, or the name is that of another import.
    RecordError
        The mapping does not fit a file, a row contradicts itself, or no file is a measurement; the
        message names file and row.
    """
    _check_name(name, raw_root)
    if not source.is_dir():
        raise ConfigurationError("there is no such folder", str(source), "Give the data set's")
    # Git runs while files are read; commit() caches its result.
    git = Thread(target=commit)
    git.start()
    loaded = load_mapping(mapping)
    _check_description(loaded)
    report = ImportReport(name, printable(source.resolve().name), loaded.name)
    found = _DataSet(loaded, report)
    _read(source, found)
    if not found.all_trials:
        refused = "; ".join(f"{item.file}: {item.reason}" for item in report.refused[:3])
        remedy = "Compare the file patterns of the mapping with the folder"
        if refused:
            remedy = ". ".join(
                dict.fromkeys(one.remedy for one in report.refused[:3] if one.remedy)
            )
        what = f"no file is a measurement{' (' + refused + ')' if refused else ''}"
        raise RecordError(what, str(source), remedy)
    git.join()
    _write(found, raw_root, replace)
    return report


def _check_name(name: str, raw_root: Path) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"'{name}' cannot name a testbed",
            "import --as",
            "Use small letters, digits, dots, hyphens and underscores, 64 at most",
        )
    reserved = name in _RESERVED or (root() / "config" / "testbeds" / f"{name}.yaml").is_file()
    # An interrupted import has no manifest yet, and is completed by the next one.
    existing = {path.name for path in (raw_root / name).glob("[!.]*")}
    if reserved or (existing - _IMPORT_FOLDERS and not is_imported(raw_root, name)):
        raise ConfigurationError(
            f"'{name}' is a testbed that trials are measured on", "import --as", "Use another name"
        )


def _check_description(loaded: MappingFile) -> None:
    mark = generated_mark(loaded.mapping.description)
    undecided = [name for name, t in loaded.mapping.tables.items() if t.generated is None]
    if mark and undecided:
        raise ConfigurationError(
            f"the description says '{mark}', and table '{undecided[0]}' does not set generated",
            f"mapping {loaded.name}",
            "Set generated: true if a program made the numbers, false if they were measured",
        )


# --- reading ----------------------------------------------------------------------------------


def _read(source: Path, found: _DataSet) -> None:
    mapping, report = found.loaded.mapping, found.report
    paths, others = list_files(source)
    chosen = _choose(paths, others, found)
    folder = DataFolder(source, paths)
    for path in sorted(chosen):
        folder.used.clear()
        produced = [
            trial
            for table in chosen[path]
            for trial in _import_file(folder, folder.file(path), table, found)
        ]
        _register(folder, produced, found)
    for rule in mapping.ignored_files:
        for path in matching_paths(paths, rule.files):
            if path in chosen:
                raise ConfigurationError(
                    f"'{path}' is matched both by a table and by ignored_files",
                    f"mapping {found.loaded.name}",
                    "Make the patterns of ignored_files narrower",
                )
            report.refused.append(RefusedFile(path, rule.reason))
            found.sums[path] = _sum(SourceFile(source / path, path))
    report.unnamed = [path for path in paths if path not in found.sums]
    report.left_out = [
        (name, column, reason)
        for name, table in mapping.tables.items()
        for column, reason in table.ignored_columns.items()
    ]


def _choose(paths: list[str], others: dict[str, str], data: _DataSet) -> dict[str, list[str]]:
    """Return the tables that read each file; report other entries that they match as refused."""
    chosen: dict[str, list[str]] = {}
    loaded, report = data.loaded, data.report
    for name, table in loaded.mapping.tables.items():
        for pattern in table.files:
            found = matching_paths(paths, [pattern])
            refused = matching_paths(list(others), [pattern])
            report.refused += [RefusedFile(path, others.pop(path), name) for path in refused]
            if not found and not refused:
                report.unmatched.append((name, pattern))
            for path in found:
                tables = chosen.setdefault(path, [])
                if name not in tables:
                    tables.append(name)
    report.unread = others
    return chosen


def _import_file(
    folder: DataFolder, file: SourceFile, name: str, found: _DataSet
) -> list[ImportedTrial]:
    """Return the trials that one table finds in a file, and report the outcome."""
    mapping, report = found.loaded.mapping, found.report
    table = mapping.tables[name]
    try:
        outcome = read_file(folder, file, name, table, mapping.testbed.link_rate_mbps)
    except NoMeasurementError as error:
        report.refused.append(RefusedFile(file.relative, error.what, name, error.remedy))
        return []
    report.skipped += [SkippedRow(file.relative, *item) for item in outcome.skipped]
    report.skipped_rows += outcome.skipped_rows
    report.notes += [SkippedRow(file.relative, "", note) for note in outcome.notes]
    trials = _without_copies(file, table, outcome, found)
    found.trials.setdefault(name, []).extend(trials)
    if trials:
        count = sum(trial.failure is None for trial in trials)
        report.imported.append(ImportedFile(file.relative, name, count, bool(table.generated)))
    elif not outcome.trials:
        rows = {"skipped": outcome.skipped_rows, "excluded by where": outcome.excluded}
        why = ", ".join(f"{plural(count, 'row')} {what}" for what, count in rows.items() if count)
        reason = f"no row of it is a trial: {why or 'it has none'}"
        report.refused.append(RefusedFile(file.relative, reason, name))
    return trials


def _without_copies(
    file: SourceFile, table: MappedTable, outcome: TableReading, found: _DataSet
) -> list[ImportedTrial]:
    """Return the trials of a file without copies of another row or file."""
    if table.repeats:
        return outcome.trials
    kept = []
    for trial, content in zip(outcome.trials, outcome.contents, strict=True):
        first = found.contents.setdefault(content, trial)
        if first is not trial:
            same = first.source["file"] == file.relative
            of = first.source["row"] if same else first.source["file"]
            copy = SkippedRow(file.relative, trial.source["row"], f"repeats {of}")
            found.report.copies.append(copy)
            continue
        kept.append(trial)
        if table.format in _UNIQUE_OUTPUTS:
            run = found.runs.setdefault(file.sha256, trial)
            if run.factors != trial.factors and run.source["file"] != file.relative:
                raise RecordError(
                    f"the same content as {run.source['file']} with other factors: "
                    f"{trial.label} and {run.label}",
                    file.relative,
                    "Remove the file whose name is wrong",
                )
    return kept


def _register(folder: DataFolder, trials: list[ImportedTrial], found: _DataSet) -> None:
    """Register the files that were just read, and release the content of large ones."""
    origins = {trial.source["file"] for trial in trials}
    observed = [t.source["observations"] for t in trials if "observations" in t.source]
    origins |= {source["file"] for source in observed}
    origins |= {source["listener"]["file"] for source in observed if "listener" in source}
    for relative, file in folder.used.items():
        found.sums[relative] = _sum(file)
        if file.nul_bytes:
            found.report.nul_bytes[relative] = file.nul_bytes
        file.release()
        if relative in origins:
            found.originals[relative] = file


def _sum(file: SourceFile) -> dict[str, Any]:
    return {"file": file.relative, "bytes": file.size, "sha256": file.known_sha256}


# --- writing ----------------------------------------------------------------------------------


def _write(found: _DataSet, raw_root: Path, replace: bool) -> None:
    loaded, report, trials = found.loaded, found.report, found.all_trials
    measured = [trial for trial in trials if trial.failure is None]
    report.trials = {e: sum(t.experiment == e for t in measured) for e in EXPERIMENTS}
    report.failed = len(trials) - len(measured)
    stores = {e: RawStore(raw_root, report.testbed, CAMPAIGN, e) for e in EXPERIMENTS}
    recorded = {e: _names(store.folder) for e, store in stores.items()}
    new = [t for t in trials if t.name(1) not in recorded[t.experiment]]
    last = (imports_of(raw_root, report.testbed) or [None])[-1]
    named = [found.sums[path] for path in sorted(found.sums)]
    if last and not new and _is_same(last, loaded, named, trials):
        report.environment = last["environment"]
        return
    if last and not replace:
        raise ConfigurationError(
            f"testbed '{report.testbed}' is another import, of {last['folder']} by the mapping "
            f"{last['mapping']['name']} at {last['time']}",
            "import --as",
            "Choose another name, or replace that import: --replace",
        )
    facts = _facts(found, named)
    batch = Batch(raw_root / report.testbed)
    environment = report.environment = stores[EXPERIMENTS[0]].put_environment(facts, batch)
    _add_originals(batch, found, raw_root / report.testbed)
    sums: dict[str, str] = {}
    for trial in new:
        files = trial_files(_document(trial, report.testbed, environment), {})
        folder = stores[trial.experiment].folder / trial.name(1)
        sums[folder.name] = hashlib.sha256(files[SUMS]).hexdigest()
        batch.folder(folder, files)
    batch.commit()
    report.written = len(new)
    described = facts["import"]
    entry = {key: described[key] for key in ("time", "folder", "mapping", "files")}
    entry |= {"environment": environment, "generated": facts["generated"]}
    entry |= {"trials": {}, "failed": {}}
    for trial in trials:
        _add_trial(entry, trial, stores[trial.experiment], sums)
    add_import(raw_root, report.testbed, entry)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _is_same(
    last: dict[str, Any],
    loaded: MappingFile,
    files: list[dict[str, Any]],
    trials: list[ImportedTrial],
) -> bool:
    listed = {
        t["trial"] for part in ("trials", "failed") for one in last[part].values() for t in one
    }
    return (
        last["mapping"]["sha256"] == loaded.sha256
        and last["files"] == files
        and listed == {trial.name(1) for trial in trials}
    )


def _facts(found: _DataSet, files: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the environment of imported trials: facts about their testbed and their import."""
    loaded, report, trials = found.loaded, found.report, found.all_trials
    mapping = loaded.mapping
    return {
        "testbed": CAMPAIGN,
        "name": report.testbed,
        "description": mapping.description,
        "generated": any(trial.generated for trial in trials),
        "settings": mapping.testbed.recorded(),
        "experiments": {
            name: _summary(of, loaded)
            for name in EXPERIMENTS
            if (of := [t for t in trials if t.experiment == name and t.failure is None])
        },
        "import": {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "folder": report.folder,
            "mapping": {
                "name": loaded.name,
                "sha256": loaded.sha256,
                "original": _original_mapping(loaded),
            },
            "files": files,
            "refused": _named(report.refused, "file", "table", "reason"),
            "notes": _named(report.notes, "file", "reason"),
            "copies": _named(report.copies, "file", "row", "reason"),
            "nul_bytes": report.nul_bytes,
            "skipped_rows": report.skipped_rows,
            "left_out": [
                dict(zip(("table", "column", "reason"), item, strict=True))
                for item in report.left_out
            ],
            "implausible": {
                name: table.implausible
                for name, table in mapping.tables.items()
                if table.implausible
            },
        },
        "importer": {"commit": commit(), "python": sys.version.split()[0]},
    }


def _named(items: list[Any], *names: str) -> list[dict[str, Any]]:
    return [{name: getattr(item, name) for name in names} for item in items]


def _summary(trials: list[ImportedTrial], loaded: MappingFile) -> dict[str, Any]:
    """Return what the trials of one experiment contain, for pages that describe them."""
    tables = [loaded.mapping.tables[trial.source["table"]] for trial in trials]

    def factors(name: str) -> list[Any]:
        return sorted({t.factors[name] for t in trials if t.factors.get(name) is not None})

    return {
        "tools": sorted({table.source_tool or "unknown" for table in tables}),
        "configurations": factors("configuration"),
        "payload_bytes": factors("payload_bytes"),
        "durations_s": factors("duration_s"),
        "latency_is": sorted({t.result["quantity"] for t in trials if "quantity" in t.result}),
        "order_known": all(t.order is not None or t.started is not None for t in trials),
        "counted": all(t.result.keys() & {"sent", "received"} for t in trials),
        "intervals_of_tests": any(table.rows == "intervals" for table in tables),
    }


def _original_mapping(loaded: MappingFile) -> str:
    return f"{ORIGINALS}/{loaded.sha256}/{loaded.name}.yaml"


def _add_originals(batch: Batch, found: _DataSet, testbed: Path) -> None:
    path = testbed / _original_mapping(found.loaded)
    if not path.exists():
        batch.file(path, found.loaded.text)
    added = set()
    for file in found.originals.values():
        path = testbed / original_path(file)
        if path not in added and not path.exists():
            file.add_to(batch, path)
        added.add(path)


def _document(trial: ImportedTrial, testbed: str, environment: str) -> dict[str, Any]:
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


def _add_trial(
    entry: dict[str, Any], trial: ImportedTrial, store: RawStore, sums: dict[str, str]
) -> None:
    """Add a trial, new or recorded before, to the entry of an import."""
    name = trial.name(1)
    item = {"trial": name, "sha256": sums.get(name) or store.sha256(store.folder / name)}
    if trial.failure is not None:
        item["reason"] = trial.failure
    part = "trials" if trial.failure is None else "failed"
    entry[part].setdefault(trial.experiment, []).append(item)
