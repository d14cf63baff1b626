"""What one call of ``snakemake`` measures, on which testbeds, and which papers it prints.

Results lie by testbed, campaign and experiment; a paper lies by its own name and says in its
sources whose results stand in its columns. One call may use several testbeds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.files import campaign, raw_root, testbed_settings
from tsnrepro.config.papers import SELECTED, manuscripts, sources_of
from tsnrepro.config.registry import SHARED_KINDS, Experiment, experiment
from tsnrepro.imports import imported
from tsnrepro.runner.runner import is_recorded
from tsnrepro.testbeds import choose

RESULTS = "results"


@dataclass(frozen=True)
class SelectedRun:
    """The trials of one experiment on one testbed under one campaign, and where results lie."""

    testbed: str
    campaign: str
    experiment: str

    @property
    def folder(self) -> str:
        """The folder of everything derived from the run."""
        return f"{RESULTS}/{self.testbed}/{self.campaign}/{self.experiment}"


@dataclass(frozen=True)
class Paper:
    """A manuscript with the runs that stand in each of its columns."""

    name: str
    columns: Mapping[str, tuple[SelectedRun, ...]]
    study: str | None

    @property
    def folder(self) -> str:
        """The folder of the PDF and everything generated for it."""
        return f"{RESULTS}/papers/{self.name}"

    @property
    def runs(self) -> list[SelectedRun]:
        """The runs of all columns, each once."""
        return list(dict.fromkeys(run for column in self.columns.values() for run in column))


@dataclass(frozen=True)
class SelectionPlan:
    """What a selection comes to.

    Attributes
    ----------
    name
        Of the selection, for the folder of its report: the campaign, the testbed where it was
        named, the experiments where they were.
    campaign
        Of its runs.
    runs
        What is measured and reported, an experiment each.
    grounds
        Why each testbed was taken, in one line, by testbed.
    left_out
        Experiments of the campaign that are not measured, with the reason.
    papers
        The manuscripts to print; they may show further runs.
    """

    name: str
    campaign: str
    runs: tuple[SelectedRun, ...]
    grounds: Mapping[str, str]
    left_out: Mapping[str, str]
    papers: tuple[Paper, ...]

    @property
    def report(self) -> str:
        """The folder of the report and the audit's ledger."""
        return f"{RESULTS}/reports/{self.name}"

    def sentence(self) -> str:
        """Say in one line which testbeds are used and why."""
        parts = []
        for testbed, ground in self.grounds.items():
            names = [run.experiment for run in self.runs if run.testbed == testbed]
            parts.append(f"{', '.join(names)} on testbed {testbed} ({ground})")
        parts += [f"{name} is left out ({reason})" for name, reason in self.left_out.items()]
        return f"campaign {self.campaign}: {'; '.join(parts)}"


def plan(selection: Selection) -> SelectionPlan:
    """Return what a selection comes to on this machine.

    Raises
    ------
    ConfigurationError
        A name is unknown, nothing of the campaign can be measured there, or a paper that was
        asked for prints none of it.
    """
    testbeds = imported.imported_testbeds(raw_root())
    choose.check_name(selection.testbed, testbeds)
    if selection.testbed in testbeds:
        runs = _imported_runs(selection)
        # Data of others are printed in seconds; a study would take minutes that nobody asked for.
        name, study = selection.testbed, selection.study
        grounds, left_out = {selection.testbed: "it was imported"}, {}
        asked: list[str] = []
        beside: list[str] = []
    else:
        settings = campaign(selection.campaign)
        where = f"campaign '{selection.campaign}'"
        asked = _asked_for(selection, settings.experiments, where)
        chosen, left_out = _choose(asked, settings, selection)
        runs = tuple(
            SelectedRun(found, selection.campaign, name) for name, (found, _) in chosen.items()
        )
        grounds = dict(chosen.values())
        named = selection.testbed != choose.AUTO
        name = f"{selection.testbed}-{selection.campaign}" if named else selection.campaign
        study = settings.study
        beside = [] if named else _available(settings.beside)
    if not runs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ConfigurationError(
            f"nothing of campaign '{selection.campaign}' can be measured on testbed "
            f"'{selection.testbed}'",
            reasons or "it names no experiment",
            "Choose another testbed or campaign: tsnrepro testbeds",
        )
    papers: tuple[Paper, ...] = ()
    if selection.papers or selection.testbed in testbeds or campaign(selection.campaign).papers:
        papers = _papers(selection.papers, runs, asked, beside, study)
    name = "-".join([name, *(run.experiment for run in runs if selection.experiments)])
    return SelectionPlan(name, runs[0].campaign, runs, grounds, left_out, papers)


def _asked_for(selection: Selection, there: Iterable[str], where: str) -> list[str]:
    """Return the experiments to measure, in their order: those asked for, or all there are."""
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
    held = imported.imported_experiments(raw_root(), testbed)
    asked_for = _asked_for(selection, held, f"imported testbed '{testbed}'")
    return tuple(SelectedRun(testbed, imported.CAMPAIGN, name) for name in asked_for)


def _choose(
    wanted: Iterable[str], settings: Campaign, selection: Selection
) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Return testbed and ground of each experiment, and the reason for each that has no testbed."""
    chosen, left_out = {}, {}
    for declared in map(experiment, wanted):
        if selection.testbed == choose.AUTO:
            found, reason = _best(declared, settings, selection.campaign)
        else:
            found, reason = _on_named(declared, selection.testbed)
        if found:
            chosen[declared.name] = (found, reason)
        else:
            left_out[declared.name] = reason
    return chosen, left_out


def _best(declared: Experiment, settings: Campaign, campaign_name: str) -> tuple[str, str]:
    """Take the first testbed that has the trials or that this machine can run.

    So who may not measure, for want of root or on another machine than the one that did, prints
    what was measured, and not the model's numbers in its place.
    """
    found, ground = choose.choose(declared, settings.section(declared.name))
    for kind in declared.kinds:
        if kind == found:
            break
        if kind not in SHARED_KINDS and is_recorded(declared.name, kind, campaign_name):
            return kind, "its trials are recorded"
    return found, ground


def _on_named(declared: Experiment, testbed: str) -> tuple[str, str]:
    """Take the testbed that was asked for, whatever this machine lacks.

    Trials that are recorded already need no testbed.
    """
    if reason := choose.unsupported_reason(declared, testbed_settings(testbed)):
        return "", reason
    return testbed, "it was asked for"


def _available(testbeds: Iterable[str]) -> list[str]:
    """Return those testbeds that this machine can run."""
    return [name for name in testbeds if not choose.missing_on_machine(testbed_settings(name).kind)]


def _papers(
    wanted: list[str],
    runs: tuple[SelectedRun, ...],
    asked: list[str],
    beside: list[str],
    study: str | None,
) -> tuple[Paper, ...]:
    """Return the papers to print: those asked for, or all whose experiments are all there.

    ``asked`` are the experiments asked for, whether or not the selected testbed measures them;
    ``beside`` are testbeds that are measured for optional columns.
    """
    there = {run.experiment for run in runs}
    for name in wanted:
        if name not in manuscripts():
            raise ConfigurationError(
                f"unknown manuscript '{name}'", "papers", f"There are: {', '.join(manuscripts())}"
            )
        if not there.intersection(sources_of(name).experiments):
            needs = ", ".join(sources_of(name).experiments)
            raise ConfigurationError(
                f"manuscript '{name}' prints {needs}, and none of them is measured", "papers"
            )
        if kind := _undescribed(name, runs):
            raise ConfigurationError(
                f"manuscript '{name}' describes no testbed of kind {kind}",
                "papers",
                f"It describes: {', '.join(sources_of(name).testbeds)}",
            )
    fitting = [
        name
        for name in manuscripts()
        if {*sources_of(name).experiments} <= there and not _undescribed(name, runs)
    ]
    return tuple(_paper(name, runs, asked, beside, study) for name in wanted or fitting)


def _undescribed(name: str, runs: tuple[SelectedRun, ...]) -> str:
    """Return a kind of testbed that a manuscript does not describe, empty if it does all."""
    sources = sources_of(name)
    kinds = [
        testbed_settings(run.testbed).kind
        for run in runs
        if run.experiment in sources.experiments and run.campaign != imported.CAMPAIGN
    ]
    return next((kind for kind in kinds if sources.testbeds and kind not in sources.testbeds), "")


def _paper(
    name: str,
    runs: tuple[SelectedRun, ...],
    asked: list[str],
    beside: list[str],
    study: str | None,
) -> Paper:
    sources = sources_of(name)
    shown = {*sources.experiments, *sources.also}
    printed = tuple(run for run in runs if run.experiment in shown)
    measured = {run.experiment for run in printed}
    of_others = [e for e in asked if e in measured or e in sources.also]
    under = printed[0].campaign
    columns: dict[str, tuple[SelectedRun, ...]] = {}
    for column, testbed in sources.columns.items():
        if testbed == SELECTED:
            columns[column] = printed
        elif under != imported.CAMPAIGN:
            columns[column] = _runs_on(testbed, under, of_others)
    for column, testbed in sources.optional.items():
        there = [
            run
            for run in _runs_on(testbed, under, of_others)
            if run not in printed
            and (testbed in beside or is_recorded(run.experiment, run.testbed, run.campaign))
        ]
        if there:
            columns[column] = tuple(there)
    return Paper(name, columns, study if sources.study else None)


def _runs_on(testbed: str, under: str, names: Iterable[str]) -> tuple[SelectedRun, ...]:
    """Return the runs of those experiments that a testbed can measure, under a campaign."""
    kind = testbed_settings(testbed).kind
    return tuple(
        SelectedRun(testbed, under, name) for name in names if kind in experiment(name).kinds
    )
