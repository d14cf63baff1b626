"""Campaign progress: measured and missing trials, stale results, PDFs."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.durations import duration
from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.config import load
from tsnrepro.config.campaigns import Selection
from tsnrepro.config.files import analysed_experiment, campaign, raw_root, testbed_settings
from tsnrepro.config.papers import manuscripts
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.config.registry import experiments
from tsnrepro.imports.manifest import is_imported
from tsnrepro.records.files import PARTIAL_PREFIX, sha256_of
from tsnrepro.records.integrity import read_seal
from tsnrepro.records.store import (
    DOCUMENT,
    RUN_FILE,
    SKIPPED,
    RawStore,
    open_run,
    read_trial,
)
from tsnrepro.records.values import FIGURES_FOLDER, VALUES_FILE
from tsnrepro.runner.design import Planned
from tsnrepro.runner.plan import planned_trials
from tsnrepro.workflow.forecast import count_trials, expected_s
from tsnrepro.workflow.selection import plan

Run = tuple[str, str, str]
"""Testbed, campaign and experiment."""


@dataclass(frozen=True)
class RunStatus:
    """The progress of one experiment of a campaign on one testbed.

    Attributes
    ----------
    testbed, campaign, experiment
        Their names.
    planned
        Number of trials in the campaign.
    recorded
        Number of these that are recorded.
    failed
        Number of the others whose last attempt failed.
    other
        Number of recorded trials that are not in the campaign: of other settings or, on the model,
        of other code.
    left_s
        Estimate of the time to measure the missing trials, s.
    analysis
        ``current``, ``none``, or ``stale: REASON``.
    skipped
        Number of recorded trials that do not count: a user skipped them.
    """

    testbed: str
    campaign: str
    experiment: str
    planned: int
    recorded: int
    failed: int
    other: int
    left_s: float
    analysis: str
    skipped: int = 0

    @property
    def missing(self) -> int:
        """Number of trials to measure."""
        return self.planned - self.recorded


def status_of(testbed: str, campaign_name: str, experiment: str) -> RunStatus:
    """Return the progress of one experiment, from the raw store and the results.

    Checksums are not verified; see ``tsnrepro verify``.

    Raises
    ------
    ConfigurationError
        The campaign has no such experiment on this testbed.
    """
    store = RawStore(raw_root(), testbed, campaign_name, experiment)
    there = {
        path.parent.name
        for path in store.folder.glob(f"*/{DOCUMENT}")
        if not path.parent.name.startswith(PARTIAL_PREFIX)
    }
    planned, attempts, recorded, gone = [], 1, 0, ""
    if is_imported(raw_root(), testbed):
        recorded = len(there)
    else:
        try:
            planned = planned_trials(experiment, testbed, campaign_name)
            attempts = campaign(campaign_name).attempts
        except ConfigurationError:
            if not there:
                raise
            # Records outlive their campaign.
            recorded, gone = len(there), f"campaign {campaign_name} no longer contains it"
    counted = count_trials(planned, store, attempts)
    return RunStatus(
        testbed,
        campaign_name,
        experiment,
        planned=counted.planned or recorded,
        recorded=recorded + counted.recorded,
        failed=counted.failed,
        skipped=counted.skipped,
        other=len([name for name in there - counted.names if not name.startswith("warm-up-")])
        if planned
        else 0,
        left_s=expected_s(testbed, campaign_name, experiment, counted.left_s),
        analysis=f"stale: {gone}" if gone else _analysis(store, planned),
    )


def _counting(planned: list[Planned], store: RawStore) -> dict[str, Planned]:
    """Return the trials that count by the folder of their last attempt."""
    last = {folder: item for item in planned for folder in store.attempts(item.trial)[-1:]}
    return {f.name: item for f, item in last.items() if read_trial(f)["status"] != SKIPPED}


def _analysis(store: RawStore, planned: list[Planned]) -> str:
    experiment = store.experiment
    folder = root() / "results" / store.testbed / store.campaign / experiment
    if not (folder / VALUES_FILE).is_file():
        return "none"
    run = folder / RUN_FILE
    listed = {entry["trial"] for entry in open_run(run)[1]["trials"]}
    counting = _counting(planned, store)
    needed = {name for name, item in counting.items() if not item.stopping_rule}
    if planned and not needed <= listed <= {*counting}:
        return "stale: the campaign has other trials than were analysed"
    sealed = read_seal(folder)
    if sealed is None:
        return "stale: the analysis did not finish"
    if sealed["run"] != sha256_of(run):
        return "stale: measured again since"
    if sealed["analysis"] != analysed_experiment(experiment, store.campaign).analysis_digest():
        return "stale: its analysis, or a file that it reads, has changed since"
    return "current"


def current_copies(runs: Iterable[Run]) -> set[Run]:
    """Return the complete runs whose results are older than files they are made from, but current.

    Records and results that are copied into a clone are older than its files, and Snakemake would
    make them again. Whether they are current is known from their content, see :func:`status_of`.
    """
    found: set[Run] = set()
    for run in runs:
        folder = root().joinpath("results", *run)
        if (folder / VALUES_FILE).is_file() and _has_newer_sources(run, folder):
            status = status_of(*run)
            if not status.missing and status.analysis == "current":
                found.add(run)
    return found


def refresh_copies(copies: Iterable[Run]) -> None:
    """Give the results of :func:`current_copies` today's times, so that they are found again."""
    for run in copies:
        folder = root().joinpath("results", *run)
        (folder / FIGURES_FOLDER).mkdir(exist_ok=True)  # an archive has no empty folders
        now = time.time_ns()
        for path in (*folder.rglob("*"), folder):
            with suppress(PermissionError):  # another user's, which are made again
                os.utime(path, ns=(now, now))


def _has_newer_sources(run: Run, folder: Path) -> bool:
    testbed, campaign_name, name = run
    experiment, config = experiment_of(name), root() / "config"
    sources = [
        config / "campaigns" / f"{campaign_name}.yaml",
        config / "testbeds" / f"{testbed}.yaml",
        raw_root() / testbed / "import.json",
        root() / "notebooks" / "measure" / f"{name}.ipynb",
        *(root() / path for path in (experiment.analysing_notebook, *experiment.reads)),
    ]
    made = (folder / RUN_FILE).stat().st_mtime_ns
    newer = any(path.is_file() and path.stat().st_mtime_ns > made for path in sources)
    return newer or not (folder / FIGURES_FOLDER).is_dir()


def started_runs() -> list[Run]:
    """Return all runs that have records or results."""
    places = [*raw_root().glob("*/*/*/"), *(root() / "results").glob(f"*/*/*/{RUN_FILE}")]
    folders = {place.parent if place.name == RUN_FILE else place for place in places}
    named = {(folder.parts[-3], folder.parts[-2], folder.name) for folder in folders}
    return [run for run in named if run[2] in experiments()]


def configured_runs() -> list[Run]:
    """Return the runs that ``snakemake`` without arguments measures on this machine.

    Raises
    ------
    ConfigurationError
        config/config.yaml is invalid.
    """
    chosen = plan(load(Selection, root() / "config" / "config.yaml"))
    runs = [*chosen.runs, *(run for paper in chosen.papers for run in paper.runs)]
    return [(run.testbed, run.campaign, run.experiment) for run in runs]


def statuses(
    testbed: str | None = None, campaign_name: str | None = None, experiment: str | None = None
) -> Iterator[RunStatus]:
    """Yield the progress of all runs that are started or configured, or of those named.

    Raises
    ------
    ConfigurationError
        A name is unknown, or nothing of it can be measured.
    """
    if experiment:
        experiment_of(experiment)
    runs = {*started_runs(), *configured_runs()}
    if testbed and campaign_name:
        runs |= {(testbed, campaign_name, name) for name in _supported(testbed, campaign_name)}
    wanted = (testbed, campaign_name, experiment)
    chosen = [
        run for run in runs if all(w in (None, own) for w, own in zip(wanted, run, strict=True))
    ]
    if not chosen:
        known = ", ".join(sorted({f"{run[1]} on {run[0]}" for run in runs}))
        raise ConfigurationError(
            "no such run is started or configured",
            "/".join(name or "*" for name in wanted),
            f"There are: {known}",
        )
    order = list(experiments())
    for on, under, name in sorted(chosen, key=lambda run: (run[1], run[0], order.index(run[2]))):
        yield status_of(on, under, name)


def _supported(testbed: str, campaign_name: str) -> list[str]:
    """Return the experiments of a campaign that a testbed supports; none if it is imported."""
    if is_imported(raw_root(), testbed):
        return []
    kind = testbed_settings(testbed).kind
    return [n for n in campaign(campaign_name).experiments if kind in experiments()[n].kinds]


def seconds_to_measure(runs: Iterable[Run]) -> dict[Run, float]:
    """Return how long each run's missing trials should take, s; zero if unknown or imported."""
    return {run: _left_s(*run) for run in runs}


def _left_s(testbed: str, campaign_name: str, experiment: str) -> float:
    try:
        planned = planned_trials(experiment, testbed, campaign_name)
        store = RawStore(raw_root(), testbed, campaign_name, experiment)
        nominal_s = count_trials(planned, store, campaign(campaign_name).attempts).left_s
        return expected_s(testbed, campaign_name, experiment, nominal_s)
    except (ConfigurationError, RecordError):
        return 0.0


def as_text(runs: Iterable[RunStatus]) -> str:
    """Format progress, reports and papers in lines of at most 80 columns."""
    lines: list[str] = []
    heading = ""
    stale: dict[str, list[str]] = {}
    for run in runs:
        if (place := f"{run.campaign} on {run.testbed}") != heading:
            heading = place
            lines += ["", f"{place:32}  trials   measured  missing  results"]
        state, _, reason = run.analysis.partition(": ")
        if reason:
            stale.setdefault(reason, []).append(f"{place}, {run.experiment}")
        left = f"  about {duration(run.left_s)}" if run.missing and run.left_s else ""
        counts = f"{run.planned:6}  {run.recorded:9}  {run.missing:7}"
        lines.append(f"  {run.experiment:30}  {counts}  {state}{left}")
        lines += [f"    {note}" for note in _notes(run)]
    lines += _reasons(stale)
    return "\n".join([*lines, "", *_pages()]).strip()


def _notes(run: RunStatus) -> list[str]:
    notes = []
    if run.failed:
        notes.append(f"{run.failed} of the missing trials failed when last attempted")
    if run.skipped:
        notes.append(f"{run.skipped} of the measured trials were skipped and do not count")
    if run.other:
        notes.append(f"{run.other} recorded trials are of other settings or other code")
    return notes


def _reasons(stale: dict[str, list[str]]) -> list[str]:
    lines = []
    for reason, runs in stale.items():
        others = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        lines += ["", f"stale: {runs[0]}{others}", f"  {reason}"]
    return lines


def _pages() -> list[str]:
    reports = sorted(root().glob("results/reports/*/index.html"))
    lines = [f"report: {path.relative_to(root())}" for path in reports] or ["no report yet"]
    for name in manuscripts():
        pdfs = sorted(root().glob(f"results/papers/*/{name}/{name}.pdf"))
        built = [pdf for pdf in pdfs if not pdf.parent.is_symlink()]
        lines += [f"paper:  {path.relative_to(root())}" for path in built]
        lines += [] if built else [f"paper:  {name} is not built yet"]
    return lines
