from functools import cache
from pathlib import Path

from tsnrepro.common.code_digest import code_digest
from tsnrepro.config.files import campaign
from tsnrepro.papers.diff import compared_with, files_compared_with, papers_compared
from tsnrepro.imports.manifest import is_imported
from tsnrepro.experiments.studies.chunks import results_of_study

# Runs that only a paper shows are measured too.
RUNS = list(dict.fromkeys([*PLAN.runs, *(run for paper in PLAN.papers for run in paper.runs)]))

STUDIES = list(dict.fromkeys(f"results/studies/{p.study}" for p in PLAN.papers if p.study))

# Results that were copied here are older than what they are made from, and current.
COPIES = current_copies((run.testbed, run.campaign, run.experiment) for run in RUNS)

# Several testbeds share an experiment's notebooks.
experiment_digest = cache(code_digest)


def files_of(runs, *names):
    """Return files of some runs' folders."""
    return [f"{run.folder}/{name}" for run in runs for name in names]


def paper_of(wildcards):
    """Return the selected paper of this name."""
    return next(paper for paper in PLAN.papers if paper.name == wildcards.paper)


def submissions_of(papers, target):
    """Return the tarballs of papers for a target."""
    return [f"{paper.folder}/submission/{paper.name}-{target}.tar.gz" for paper in papers]


def differences_of(papers, against):
    """Return the PDFs of changes to papers: of the one in a tarball, else of all."""
    folders = {paper.name: paper.folder for paper in papers}
    found = papers_compared(list(folders), against)
    return [f"{folders[name]}/submission/{name}-diff.pdf" for name in found]


def tracked(folder):
    """Return all files below a folder."""
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


def unless_copied(wildcards, *paths):
    """Return files, or one, whose times do not matter where a run's results are a current copy."""
    run = wildcards.testbed, wildcards.campaign, wildcards.experiment
    found = [ancient(path) if run in COPIES else path for path in paths]
    return found[0] if len(found) == 1 else found


def what_to_measure(wildcards):
    """Return the files that define the trials and their testbed."""
    if is_imported(Path("data/raw"), wildcards.testbed):
        return unless_copied(wildcards, f"data/raw/{wildcards.testbed}/import.json")
    # The whole file: a changed campaign is incomplete until its new trials are measured.
    return unless_copied(
        wildcards,
        f"config/campaigns/{wildcards.campaign}.yaml",
        f"config/testbeds/{wildcards.testbed}.yaml",
    )


def parts_to_measure(wildcards):
    """Return what stands for the parts of a grid on the model; elsewhere a grid has one."""
    if wildcards.testbed != "model":
        return []
    parts = campaign(wildcards.campaign).parts
    folder = "results/{testbed}/{campaign}/{experiment}/parts"
    return [f"{folder}/{part}-of-{parts}" for part in range(parts)]


def what_to_analyse(wildcards):
    """Return the files beside a run's trials that its analysis is made from."""
    experiment = analysed_experiment(wildcards.experiment, wildcards.campaign)
    return unless_copied(wildcards, *experiment.reads, experiment.analysing_notebook)


def threads_to_measure(wildcards):
    """Return one core on the model, elsewhere all: another job would interfere."""
    return 1 if wildcards.testbed == "model" else workflow.cores


def testbeds_to_measure(wildcards):
    """Return 0 on the model, elsewhere 1: another experiment would interfere."""
    return 0 if wildcards.testbed == "model" else 1


def study_option(paper):
    """Return the option that names a paper's study, if it has one."""
    return [f"--study=results/studies/{paper.study}"] if paper.study else []
