"""How far a campaign is: what is measured, what is missing, what is stale, where the PDFs are."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.config import load
from tsnrepro.config.campaigns import Selection
from tsnrepro.config.files import campaign, raw_root, testbed_settings
from tsnrepro.config.papers import manuscripts
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.config.registry import experiments
from tsnrepro.imports.imported import is_imported
from tsnrepro.records.runs import open_run
from tsnrepro.records.seal import RUN_FILE, seal_of
from tsnrepro.records.store import DOCUMENT, PARTIAL_PREFIX, RawStore, is_done, sha256_of
from tsnrepro.records.values import VALUES_FILE
from tsnrepro.runner.plan import Planned
from tsnrepro.runner.progress import duration
from tsnrepro.runner.runner import planned_trials
from tsnrepro.workflow.selection import plan

Run = tuple[str, str, str]
"""Testbed, campaign and experiment."""


@dataclass(frozen=True)
class RunStatus:
    """How far one experiment on one testbed under one campaign is.

    Attributes
    ----------
    testbed, campaign, experiment
        Which.
    planned
        Trials that the campaign asks for today.
    recorded
        Of these, those that need not be measured any more.
    failed
        Of the others, those whose last attempt failed.
    other
        Recorded trials that the campaign does not ask for: of other settings or, on the model, of
        other code.
    left_s
        Nominal seconds of what is missing.
    analysis
        ``current``, ``none``, or in words why the results are stale.
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

    @property
    def missing(self) -> int:
        """Trials still to measure."""
        return self.planned - self.recorded


def status_of(testbed: str, campaign_name: str, experiment: str) -> RunStatus:
    """Return how far one experiment is, by what lies in the raw store and the results.

    Checksums are left to ``tsnrepro verify``: what is counted here is what is there.

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
            # Records outlive the campaign that asked for them.
            recorded, gone = len(there), f"campaign {campaign_name} asks for none of it any more"
    counted = _count(planned, store, attempts)
    return RunStatus(
        testbed,
        campaign_name,
        experiment,
        planned=counted.asked or recorded,
        recorded=recorded + counted.recorded,
        failed=counted.failed,
        other=len([name for name in there - counted.names if not name.startswith("warm-up-")])
        if planned
        else 0,
        left_s=counted.left_s,
        analysis=f"stale: {gone}" if gone else _analysis(store, planned),
    )


@dataclass
class _Tally:
    """What became of the planned trials that are ``asked`` for; ``names`` are their attempts'."""

    names: set[str] = field(default_factory=set)
    asked: int = 0
    recorded: int = 0
    failed: int = 0
    left_s: float = 0.0


def _count(planned: list[Planned], store: RawStore, attempts: int) -> _Tally:
    counted = _Tally()
    for item in planned:
        counted.names |= {folder.name for folder in store.attempts(item.trial)}
        ended = store.ended(item.trial)
        if item.stopping_rule and not ended:
            continue  # nobody knows whether it will be needed
        counted.asked += 1
        if is_done(ended, attempts):
            counted.recorded += 1
        else:
            counted.failed += bool(ended)
            counted.left_s += item.nominal_s
    return counted


def _names(planned: list[Planned], store: RawStore) -> set[str]:
    return {folder.name for item in planned for folder in store.attempts(item.trial)[-1:]}


def _analysis(store: RawStore, planned: list[Planned]) -> str:
    experiment = store.experiment
    folder = root() / "results" / store.testbed / store.campaign / experiment
    if not (folder / VALUES_FILE).is_file():
        return "none"
    run = folder / RUN_FILE
    listed = {entry["trial"] for entry in open_run(run)[1]["trials"]}
    needed = _names([item for item in planned if not item.stopping_rule], store)
    if planned and not needed <= listed <= _names(planned, store):
        return "stale: other trials are asked for than were analysed"
    sealed = seal_of(folder)
    if sealed is None:
        return "stale: the analysis did not end"
    if sealed["run"] != sha256_of(run):
        return "stale: measured again since"
    if sealed["analysis"] != experiment_of(experiment).analysis_digest():
        return "stale: its analysis, or a file that this reads, has changed since"
    return "current"


def begun() -> list[Run]:
    """Return testbed, campaign and experiment of all that has records or results."""
    places = [*raw_root().glob("*/*/*/"), *(root() / "results").glob(f"*/*/*/{RUN_FILE}")]
    folders = {place.parent if place.name == RUN_FILE else place for place in places}
    named = {(folder.parts[-3], folder.parts[-2], folder.name) for folder in folders}
    return [run for run in named if run[2] in experiments()]


def configured() -> list[Run]:
    """Return what ``snakemake`` without further words measures on this machine.

    Raises
    ------
    ConfigurationError
        config/config.yaml is none.
    """
    chosen = plan(load(Selection, root() / "config" / "config.yaml"))
    runs = [*chosen.runs, *(run for paper in chosen.papers for run in paper.runs)]
    return [(run.testbed, run.campaign, run.experiment) for run in runs]


def statuses(
    testbed: str | None = None, campaign_name: str | None = None, experiment: str | None = None
) -> Iterator[RunStatus]:
    """Yield how far each run is: all that was begun or is configured, or what is asked for.

    Raises
    ------
    ConfigurationError
        A name is unknown, or nothing of it can be measured.
    """
    if experiment:
        experiment_of(experiment)
    runs = {*begun(), *configured()}
    if testbed and campaign_name:
        runs |= {(testbed, campaign_name, name) for name in _asked_for(testbed, campaign_name)}
    wanted = (testbed, campaign_name, experiment)
    chosen = [
        run for run in runs if all(w in (None, own) for w, own in zip(wanted, run, strict=True))
    ]
    if not chosen:
        known = ", ".join(sorted({f"{run[1]} on {run[0]}" for run in runs}))
        raise ConfigurationError(
            "nothing of this name was begun or is configured",
            "/".join(name or "*" for name in wanted),
            f"There are: {known}",
        )
    order = list(experiments())
    for on, under, name in sorted(chosen, key=lambda run: (run[1], run[0], order.index(run[2]))):
        yield status_of(on, under, name)


def _asked_for(testbed: str, campaign_name: str) -> list[str]:
    """Return what a campaign has for a testbed of this project's own."""
    if is_imported(raw_root(), testbed):
        return []
    kind = testbed_settings(testbed).kind
    return [n for n in campaign(campaign_name).experiments if kind in experiments()[n].kinds]


def seconds_to_measure(runs: Iterable[Run]) -> dict[Run, float]:
    """Return the nominal seconds of what is missing, by testbed, campaign and experiment.

    What cannot be told, such as an imported run, takes none.
    """
    return {run: _left_s(*run) for run in runs}


def _left_s(testbed: str, campaign_name: str, experiment: str) -> float:
    try:
        planned = planned_trials(experiment, testbed, campaign_name)
        store = RawStore(raw_root(), testbed, campaign_name, experiment)
        return _count(planned, store, campaign(campaign_name).attempts).left_s
    except (ConfigurationError, RecordError):
        return 0.0


def papers() -> dict[str, str]:
    """Return, for each manuscript, its PDF relative to the repository, or that there is none."""
    found = {}
    for name in manuscripts():
        pdf = f"results/papers/{name}/{name}.pdf"
        found[name] = pdf if (root() / pdf).is_file() else ""
    return found


def reports() -> list[str]:
    """Return the reports that there are, relative to the repository."""
    folder = root() / "results" / "reports"
    return sorted(str(path.relative_to(root())) for path in folder.glob("*/index.html"))


def as_text(runs: Iterable[RunStatus]) -> str:
    """Return what there is to say, in lines of at most 80 columns."""
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
        lines += [f"    {said}" for said in _further(run)]
    lines += _reasons(stale)
    return "\n".join([*lines, "", *_pages()]).strip()


def _further(run: RunStatus) -> list[str]:
    said = []
    if run.failed:
        said.append(f"{run.failed} of the missing failed when they were last tried")
    if run.other:
        said.append(f"{run.other} recorded trials are of other settings or other code")
    return said


def _reasons(stale: dict[str, list[str]]) -> list[str]:
    lines = []
    for reason, runs in stale.items():
        others = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        lines += ["", f"stale: {runs[0]}{others}", f"  {reason}"]
    return lines


def _pages() -> list[str]:
    lines = [f"report: {path}" for path in reports()] or ["no report yet"]
    for name, pdf in papers().items():
        lines.append(f"paper:  {pdf}" if pdf else f"paper:  {name} is not printed yet")
    return lines
