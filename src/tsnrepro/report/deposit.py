"""The deposit of a selection: one archive with the checksum of every file.

It has the raw data of the runs, their results, the papers, the report, and the repository with its
lock file, which is all that is needed to reproduce them. Equal files give equal bytes.
"""

import hashlib
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import PublishError, RecordError
from tsnrepro.common.repository import git_in, root
from tsnrepro.papers.manuscript import SUPPLEMENT
from tsnrepro.papers.tarball import write_tarball
from tsnrepro.published.families import judged_together
from tsnrepro.records.files import sha256_of
from tsnrepro.records.integrity import changed_outputs, verify_run
from tsnrepro.records.store import RUN_FILE, SUMS, RawStore, open_run
from tsnrepro.records.values import VALUES_FILE, load_values
from tsnrepro.report.deposit_metadata import (
    CITATION,
    METADATA,
    README,
    ZENODO,
    Answer,
    CratePart,
    Description,
    citation,
    load_citation,
    readme,
    ro_crate,
    zenodo,
)
from tsnrepro.report.questions import answered
from tsnrepro.results.runs import AnalysedRun

SUFFIX = ".tar.gz"
# The files of the repository.
_SOURCES = (
    *("ARTIFACT.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Containerfile", "LICENSE"),
    *("README.ko.md", "README.md", "Snakefile", "environment.yml", "pyproject.toml"),
    *("requirements.lock", "binder", "config", "data/published", "docs", "notebooks", "paper"),
    *("profiles", "scripts", "src", "workflow"),
)
_CACHE = "__pycache__"
# Logs beside results, with paths of this machine.
_LOGS = {".blg", ".fdb_latexmk", ".fls", ".log"}
_RAW = "data/raw"


@dataclass(frozen=True)
class _Recorded:
    """A run with the folders of its trials, its environments and times."""

    run: AnalysedRun
    store: RawStore
    folders: list[Path]
    environments: set[Path]
    times: list[datetime]

    @property
    def place(self) -> str:
        """The folder of its trials in the archive."""
        store = self.store
        return "/".join((_RAW, store.testbed, store.campaign, store.experiment))


def write_deposit(
    output: Path,
    runs: Sequence[Path],
    papers: Sequence[Path] = (),
    others: Sequence[Path] = (),
    *,
    uncommitted: bool = False,
) -> str:
    """Write the archive of runs and return its SHA-256 (64 hex digits).

    Parameters
    ----------
    output
        The archive, ``.tar.gz``; its folder is created if necessary. The checksum is written to a
        file with the suffix ``.sha256``, in the format of ``sha256sum``.
    runs
        Folders of analysed runs.
    papers
        Folders of built papers.
    others
        Other folders of results: the report, a study.
    uncommitted
        Whether files of the repository may differ from its commit; the description then says so.

    Raises
    ------
    RecordError
        A file of the record is missing or altered; nothing is written.
    PublishError
        The output is not a ``.tar.gz``, the facts of a run do not name its testbed, or a file of
        the repository is not committed.
    """
    if not output.name.endswith(SUFFIX):
        raise PublishError("the archive's name does not end in .tar.gz", str(output))
    changed = _uncommitted()
    if changed and not uncommitted:
        raise PublishError(
            f"{plural(len(changed), 'file')} of the repository not committed, the first: "
            f"{changed[0]}",
            str(root()),
            "Commit them, or give --uncommitted (snakemake deposit --config uncommitted=true)",
        )
    _refuse_unsound(runs, [*papers, *others])
    recorded = [_recorded(AnalysedRun.load(folder)) for folder in runs]
    files = _files(recorded, [*runs, *papers, *others])
    described = _described(recorded, papers, files, changed)
    files |= {
        CITATION: citation(described),
        ZENODO: zenodo(described),
        METADATA: ro_crate(described),
        README: readme(described, output.name, (root() / README).read_text(encoding="utf-8")),
    }
    top = output.name.removesuffix(SUFFIX)
    sums = "".join(f"{_sum(files[place])}  {place}\n" for place in sorted(files))
    # The list of checksums is first, so that a reader can verify each file while unpacking.
    ordered = {SUMS: sums.encode()} | {place: files[place] for place in sorted(files)}
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as target:
        write_tarball(target, {f"{top}/{place}": ordered[place] for place in ordered})
    digest = _sum(output)
    sidecar = output.with_name(f"{output.name}.sha256")
    sidecar.write_text(f"{digest}  {output.name}\n", encoding="utf-8")
    return digest


def _git(*arguments: str) -> list[str]:
    """Return the names that git prints of the repository; what is unpacked has none."""
    if not (root() / ".git").exists():
        return []
    command = [*git_in(root()), *arguments, "-z", "--", *_SOURCES]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [name for name in printed.split("\0") if name]


def _uncommitted() -> list[str]:
    """Return the files of the repository that are not as committed, by git's short format."""
    return _git("status", "--porcelain", "--no-renames", "--untracked-files=all")


def _sources() -> dict[str, bytes | Path]:
    """Return the files of the repository that git does not ignore, by path.

    A link, such as a manuscript's latexmkrc, becomes a copy of what it leads to.
    """
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard")
    kept = (name for name in listed if not any(part.startswith(".") for part in name.split("/")))
    names = list(kept) or _SOURCES
    return {place: file for name in names for place, file in _below(root() / name, name).items()}


def _refuse_unsound(runs: Iterable[Path], generated: Iterable[Path]) -> None:
    problems = [problem for folder in runs for problem in verify_run(folder)]
    problems += [problem for folder in generated for problem in changed_outputs(folder)]
    if problems:
        first = problems[0]
        raise RecordError(f"not deposited: {first.what}", first.where, first.remedy)


def _recorded(run: AnalysedRun) -> _Recorded:
    """Return the record of a run: listed trials, failed attempts, environments."""
    store, manifest = open_run(run.folder / RUN_FILE)
    names = [entry["trial"] for entry in manifest["trials"]]
    names += [entry["trial"] for entry in manifest.get("failed_attempts", [])]
    folders = [store.folder / name for name in dict.fromkeys(names)]
    digests, times = {manifest.get("environment")}, []
    for folder in folders:
        document = store.read(folder)
        digests.add(document.get("environment"))
        if started := document.get("started"):
            began = datetime.fromisoformat(started)
            times += [began, began + timedelta(seconds=document.get("seconds") or 0)]
    known = store.root / store.testbed / "environments"
    environments = {known / f"{digest}.json" for digest in digests if digest}
    return _Recorded(run, store, folders, environments, times)


def _files(recorded: Iterable[_Recorded], results: Iterable[Path]) -> dict[str, bytes | Path]:
    """Return all files but the metadata, by path in the archive."""
    files = _sources()
    for item in recorded:
        for folder in item.folders:
            files |= _below(folder, f"{item.place}/{folder.name}")
        testbed = f"{_RAW}/{item.store.testbed}"
        for path in sorted(item.environments):
            files[f"{testbed}/environments/{path.name}"] = path
        # The list of source files of an imported testbed.
        for path in (item.store.root / item.store.testbed).glob("*.json"):
            files[f"{testbed}/{path.name}"] = path
    for folder in results:
        made = _below(folder, _place(folder))
        files |= {place: made[place] for place in made if Path(place).suffix not in _LOGS}
    return files


def _place(folder: Path) -> str:
    """Return the path of a folder of results in the archive, the same as in the repository."""
    parts = folder.absolute().parts
    if "results" not in parts:
        raise PublishError("the folder is not in a folder of results", str(folder))
    last = len(parts) - 1 - parts[::-1].index("results")
    return "/".join(parts[last:])


def _below(path: Path, place: str) -> dict[str, bytes | Path]:
    """Return a file, or the files of a folder, by path; hidden files and caches are excluded."""
    if path.is_file():
        return {place: path}
    found = {}
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts
        hidden = any(part.startswith(".") or part == _CACHE for part in parts)
        if file.is_file() and not hidden:
            found["/".join((place, *parts))] = file
    return found


def _sum(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    return sha256_of(content)


def _described(
    recorded: Sequence[_Recorded],
    papers: Sequence[Path],
    files: Mapping[str, bytes | Path],
    changed: Sequence[str],
) -> Description:
    facts = [item.run.facts for item in recorded]
    campaigns = " and ".join(dict.fromkeys(fact["campaign"] for fact in facts))
    origins = tuple(dict.fromkeys(item.run.origin for item in recorded))
    times = [time for item in recorded for time in item.times]
    # Imported data have no times.
    times = times or [_modified(item.run.folder / RUN_FILE) for item in recorded]
    titles = ", ".join(dict.fromkeys(item.run.experiment.title for item in recorded))
    trials = sum(len(item.run.manifest["trials"]) for item in recorded)
    return Description(
        title=f"Experiments in time-sensitive networking: campaign {campaigns}",
        abstract=(
            f"{titles}: {plural(trials, 'trial')}. {'; '.join(origins)}. Raw outputs and counters "
            "of every trial, results with intervals, tables, figures, papers, and the workflow "
            "that made them." + _with_changes(changed)
        ),
        software=load_citation(root() / CITATION),
        commit=facts[0]["commit"],
        began=min(times),
        ended=max(times),
        inputs=tuple(_inputs(recorded, files)),
        results=tuple(_results(recorded, papers, files)),
        origins=origins,
        answers=tuple(_answers(recorded)),
    )


def _answers(recorded: Iterable[_Recorded]) -> Iterator[Answer]:
    values = judged_together(load_values(item.run.folder / VALUES_FILE for item in recorded))
    for found in answered(values, addresses={key: key for key in values}, figures={}):
        yield Answer(found["text"], found["answer"], found["address"])


def _with_changes(changed: Sequence[str]) -> str:
    """Return a sentence on files that are not committed, empty if there are none."""
    names = [line[3:] for line in changed]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f" Files differ from the commit: {', '.join(names[:3])}{more}." if names else ""


def _modified(path: Path) -> datetime:
    return datetime.fromtimestamp(int(path.stat().st_mtime), UTC)


def _inputs(
    recorded: Iterable[_Recorded], files: Mapping[str, bytes | Path]
) -> Iterator[CratePart]:
    names = {
        "config/config.yaml": "What is measured by default",
        "requirements.lock": "The Python packages, with versions and checksums",
    }
    for item in recorded:
        store = item.store
        names[f"config/testbeds/{store.testbed}.yaml"] = f"Settings of testbed {store.testbed}"
        names[f"config/campaigns/{store.campaign}.yaml"] = f"Settings of campaign {store.campaign}"
    for place, name in names.items():
        if place in files:
            yield _part(place, name, files)


def _results(
    recorded: Iterable[_Recorded], papers: Iterable[Path], files: Mapping[str, bytes | Path]
) -> Iterator[CratePart]:
    for item in recorded:
        title, folder = item.run.experiment.title, _place(item.run.folder)
        yield CratePart(f"{item.place}/", f"{title}: trials with raw outputs and counters")
        yield _part(f"{folder}/{VALUES_FILE}", f"{title}: results with intervals", files)
        for place in sorted(files):
            if place.startswith(f"{folder}/tables/"):
                yield _part(place, f"{title}: table {Path(place).stem}", files)
    for paper in papers:
        for end, name in (("", "Paper"), (SUPPLEMENT, "Supplement of paper")):
            place = f"{_place(paper)}/{paper.name}{end}.pdf"
            if place in files:
                yield _part(place, f"{name} {paper.name}", files)


def _part(place: str, name: str, files: Mapping[str, bytes | Path]) -> CratePart:
    content = files[place]
    return CratePart(
        place, name, len(content) if isinstance(content, bytes) else content.stat().st_size
    )
