"""The selection of a call of ``snakemake``: runs, their testbeds, and papers.

Results are stored by testbed, campaign and experiment, papers by selection and name. A paper's
sources name the runs in its columns. A call may use several testbeds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config.bench import CABLE, BenchSettings
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.files import campaign, raw_root, testbed_settings
from tsnrepro.config.papers import BASELINE, SELECTED, manuscripts, sources_of
from tsnrepro.config.registry import BENCH, SHARED_KINDS, Experiment, experiment
from tsnrepro.imports import manifest
from tsnrepro.runner.plan import is_recorded
from tsnrepro.testbeds import choose

RESULTS = "results"


@dataclass(frozen=True)
class SelectedRun:
    """One experiment of a campaign on one testbed."""

    testbed: str
    campaign: str
    experiment: str

    @property
    def folder(self) -> str:
        """The folder of its results."""
        return f"{RESULTS}/{self.testbed}/{self.campaign}/{self.experiment}"


@dataclass(frozen=True)
class Paper:
    """A manuscript with the runs in each of its columns; ``selection`` names those of the call."""

    selection: str
    name: str
    columns: Mapping[str, tuple[SelectedRun, ...]]
    study: str | None

    @property
    def folder(self) -> str:
        """The folder of its PDF and generated files."""
        return f"{RESULTS}/papers/{self.selection}/{self.name}"

    @property
    def runs(self) -> list[SelectedRun]:
        """The runs of all columns, each once."""
        return list(dict.fromkeys(run for column in self.columns.values() for run in column))


@dataclass(frozen=True)
class SelectionPlan:
    """The runs and papers of a selection.

    Attributes
    ----------
    name
        Folder name of its report and of its papers: the campaign, with the testbed and experiments
        if these were named.
    campaign
        Campaign of the runs.
    runs
        Runs to measure and report, one per experiment.
    reasons
        Why each testbed was selected, by testbed.
    skipped
        Reason for each experiment of the campaign that is not measured.
    papers
        Papers to build; they may show further runs.
    """

    name: str
    campaign: str
    runs: tuple[SelectedRun, ...]
    reasons: Mapping[str, str]
    skipped: Mapping[str, str]
    papers: tuple[Paper, ...]

    @property
    def report(self) -> str:
        """The folder of the report and the ledger."""
        return f"{RESULTS}/reports/{self.name}"

    @property
    def unselected_benches(self) -> list[str]:
        """The benches that only papers show: what lies between their ports now is another device.

        Their records are listed and analysed, and lack no trial: none is measured.
        """
        selected = {run.testbed for run in self.runs}
        shown = {run.testbed for paper in self.papers for run in paper.runs} - selected
        return sorted(name for name in shown if testbed_settings(name).kind == BENCH)

    def summary(self) -> str:
        """Return in one line which testbeds are used and why."""
        parts = []
        for testbed, reason in self.reasons.items():
            names = [run.experiment for run in self.runs if run.testbed == testbed]
            parts.append(f"{', '.join(names)} on testbed {testbed} ({reason})")
        parts += [f"{name} is skipped ({reason})" for name, reason in self.skipped.items()]
        return f"campaign {self.campaign}: {'; '.join(parts)}"


def plan(selection: Selection) -> SelectionPlan:
    """Resolve a selection on this machine.

    Raises
    ------
    ConfigurationError
        A name is unknown, no experiment of the campaign can be measured on the testbed, or a
        requested paper shows none of them.
    """
    testbeds = manifest.imported_testbeds(raw_root())
    choose.check_name(selection.testbed, testbeds)
    if selection.testbed in testbeds:
        runs = _imported_runs(selection)
        # Papers from imported data build in seconds; a study would take minutes.
        name, study = selection.testbed, selection.study
        reasons, skipped = {selection.testbed: "imported"}, {}
        requested: list[str] = []
        beside: list[str] = []
    else:
        settings = campaign(selection.campaign)
        where = f"campaign '{selection.campaign}'"
        requested = _requested(selection, settings.experiments, where)
        chosen, skipped = _choose(requested, settings, selection)
        runs = tuple(
            SelectedRun(found, selection.campaign, name) for name, (found, _) in chosen.items()
        )
        reasons = dict(chosen.values())
        named = selection.testbed != choose.AUTO
        name = f"{selection.testbed}-{selection.campaign}" if named else selection.campaign
        study = settings.study
        beside = [] if named else _available(settings.compare_with)
    if not runs:
        why = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise ConfigurationError(
            f"nothing of campaign '{selection.campaign}' can be measured on testbed "
            f"'{selection.testbed}'",
            why or "it names no experiment",
            "Select another testbed or campaign: tsnrepro testbeds",
        )
    name = "-".join([name, *(run.experiment for run in runs if selection.experiments)])
    papers: tuple[Paper, ...] = ()
    if selection.papers or selection.testbed in testbeds or campaign(selection.campaign).papers:
        built = _papers(selection.papers, runs)
        columns = {paper: _columns(paper, runs, requested, beside) for paper in built}
        papers = tuple(
            Paper(name, paper, shown, study if sources_of(paper).study else None)
            for paper, shown in columns.items()
        )
    return SelectionPlan(name, runs[0].campaign, runs, reasons, skipped, papers)


def _requested(selection: Selection, there: Iterable[str], where: str) -> list[str]:
    """Return the requested experiments in their order, or all if none was requested."""
    there = list(there)
    for name in selection.experiments:
        if name not in there:
            raise ConfigurationError(
                f"{where} has no experiment '{name}'",
                "experiments",
                f"It has: {', '.join(there)}",
            )
    return [name for name in there if name in selection.experiments or not selection.experiments]


def _imported_runs(selection: Selection) -> tuple[SelectedRun, ...]:
    testbed = selection.testbed
    available = manifest.imported_experiments(raw_root(), testbed)
    requested = _requested(selection, available, f"imported testbed '{testbed}'")
    return tuple(SelectedRun(testbed, manifest.CAMPAIGN, name) for name in requested)


def _choose(
    wanted: Iterable[str], settings: Campaign, selection: Selection
) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Return each experiment's testbed with the reason, and the reason for each that has none."""
    chosen, skipped = {}, {}
    for declared in map(experiment, wanted):
        if selection.testbed == choose.AUTO:
            found, reason = _best(declared, settings, selection.campaign)
        else:
            found, reason = _on_named(declared, settings, selection.testbed)
        if found:
            chosen[declared.name] = (found, reason)
        else:
            skipped[declared.name] = reason
    return chosen, skipped


def _best(declared: Experiment, settings: Campaign, campaign_name: str) -> tuple[str, str]:
    """Return the first testbed that has the trials or is available on this machine.

    So papers show the measured numbers, not the model's, also where nothing can be measured, as
    without root or on another machine.
    """
    found, reason = choose.choose(declared, settings.section(declared.name))
    for kind in declared.kinds:
        if kind == found:
            break
        if kind not in SHARED_KINDS and is_recorded(declared.name, kind, campaign_name):
            return kind, "its trials are recorded"
    return found, reason


def _on_named(declared: Experiment, settings: Campaign, testbed: str) -> tuple[str, str]:
    """Return the requested testbed, available or not: recorded trials need none."""
    section = settings.section(declared.name)
    if reason := choose.unsupported_reason(declared, testbed_settings(testbed), section):
        return "", reason
    return testbed, "requested"


def _available(testbeds: Iterable[str]) -> list[str]:
    """Return those testbeds that are available on this machine."""
    return [name for name in testbeds if not choose.missing_on_machine(testbed_settings(name).kind)]


def _papers(wanted: list[str], runs: tuple[SelectedRun, ...]) -> list[str]:
    """Return the requested papers, or all whose experiments are all measured."""
    there = {run.experiment for run in runs}
    for name in wanted:
        if name not in manuscripts():
            raise ConfigurationError(
                f"unknown manuscript '{name}'", "papers", f"There are: {', '.join(manuscripts())}"
            )
        sources = sources_of(name)
        if not there.intersection(sources.experiments or sources.shown):
            needs = ", ".join(sources.experiments or sources.optional_experiments)
            raise ConfigurationError(
                f"manuscript '{name}' needs {needs}, and none of them is measured", "papers"
            )
        if kind := _undescribed(name, runs):
            raise ConfigurationError(
                f"manuscript '{name}' describes no testbed of kind {kind}",
                "papers",
                f"It describes: {', '.join(sources_of(name).testbed_kinds)}",
            )
    fitting = [
        name for name in manuscripts() if _fits(name, there) and not _undescribed(name, runs)
    ]
    return wanted or fitting


def _fits(name: str, there: set[str]) -> bool:
    """Return whether all that a manuscript needs was measured, and something that it prints."""
    sources = sources_of(name)
    return {*sources.experiments} <= there and not there.isdisjoint(sources.shown)


def _undescribed(name: str, runs: tuple[SelectedRun, ...]) -> str:
    """Return a kind of testbed that a manuscript does not describe, or an empty string."""
    sources = sources_of(name)
    kinds = [
        testbed_settings(run.testbed).kind
        for run in runs
        if run.experiment in sources.experiments and run.campaign != manifest.CAMPAIGN
    ]
    described = sources.testbed_kinds
    return next((kind for kind in kinds if described and kind not in described), "")


def _columns(
    name: str, runs: tuple[SelectedRun, ...], requested: list[str], beside: list[str]
) -> dict[str, tuple[SelectedRun, ...]]:
    """Return the runs of a paper's columns.

    ``requested`` are the requested experiments, whether or not the selected testbed supports them;
    ``beside`` are testbeds to measure for optional columns.
    """
    sources = sources_of(name)
    shown_runs = tuple(run for run in runs if run.experiment in sources.shown)
    measured = {run.experiment for run in shown_runs}
    of_others = [e for e in requested if e in measured or e in sources.optional_experiments]
    under = shown_runs[0].campaign
    columns: dict[str, tuple[SelectedRun, ...]] = {}
    for column, testbed in sources.columns.items():
        if testbed == SELECTED:
            columns[column] = shown_runs
        elif under != manifest.CAMPAIGN:
            columns[column] = _runs_on(testbed, under, of_others)
    for column, named in sources.optional_columns.items():
        testbed = _baseline(shown_runs[0]) if named == BASELINE else named
        there = [
            run
            for run in (_runs_on(testbed, under, of_others) if testbed else ())
            if run not in shown_runs
            and (testbed in beside or is_recorded(run.experiment, run.testbed, run.campaign))
        ]
        if there:
            columns[column] = tuple(there)
    return columns


def _baseline(run: SelectedRun) -> str | None:
    """Return the testbed of a bench's baseline, None where it has none.

    Raises
    ------
    ConfigurationError
        It is no bench with a cable, or its links have another rate.
    """
    if run.campaign == manifest.CAMPAIGN:
        return None
    settings = testbed_settings(run.testbed)
    if not isinstance(settings, BenchSettings) or settings.baseline is None:
        return None
    cable = testbed_settings(settings.baseline)
    if not isinstance(cable, BenchSettings) or cable.device != CABLE:
        problem = f"'{settings.baseline}' is no bench with `device: none`"
    elif cable.link_rate_mbps != settings.link_rate_mbps:
        rates = f"{cable.link_rate_mbps} Mb/s, not {settings.link_rate_mbps}"
        problem = f"the links of '{settings.baseline}' have {rates}"
    else:
        return settings.baseline
    raise ConfigurationError(problem, f"config/testbeds/{run.testbed}.yaml: baseline")


def _runs_on(testbed: str, under: str, names: Iterable[str]) -> tuple[SelectedRun, ...]:
    """Return the runs of those experiments that a testbed supports."""
    kind = testbed_settings(testbed).kind
    return tuple(
        SelectedRun(testbed, under, name) for name in names if kind in experiment(name).kinds
    )
