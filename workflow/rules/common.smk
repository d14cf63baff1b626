from functools import cache
from pathlib import Path

from tsnrepro.common.code_digest import code_digest
from tsnrepro.papers.diff import compared_with, files_compared_with, papers_compared
from tsnrepro.imports.imported import is_imported
from tsnrepro.studies.chunks import results_of_study

# What a paper shows beside the selected runs is measured too.
RUNS = list(dict.fromkeys([*PLAN.runs, *(run for paper in PLAN.papers for run in paper.runs)]))

# Of an experiment's notebooks, which several testbeds run.
experiment_digest = cache(code_digest)


def files_of(runs, *names):
    """Return files of some runs' folders."""
    return [f"{run.folder}/{name}" for run in runs for name in names]


def paper_of(wildcards):
    """Return a manuscript with the runs that it prints."""
    return next(paper for paper in PLAN.papers if paper.name == wildcards.paper)


def submissions_of(papers, target):
    """Return the tarballs of papers for a target."""
    return [f"{paper.folder}/submission/{paper.name}-{target}.tar.gz" for paper in papers]


def differences_of(papers, against):
    """Return the PDFs of what changed in papers: of the one that a tarball holds, else of all."""
    folders = {paper.name: paper.folder for paper in papers}
    found = papers_compared(list(folders), against)
    return [f"{folders[name]}/submission/{name}-diff.pdf" for name in found]


def tracked(folder):
    """Return the files below a folder that are an input by being there."""
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


def what_to_measure(wildcards):
    """Return the files that say which trials there are to be, and on what."""
    if is_imported(Path("data/raw"), wildcards.testbed):
        return f"data/raw/{wildcards.testbed}/import.json"
    # The whole file: a changed campaign is incomplete until its new trials are measured.
    return [
        f"config/campaigns/{wildcards.campaign}.yaml",
        f"config/testbeds/{wildcards.testbed}.yaml",
    ]


def threads_to_measure(wildcards):
    """Return all cores where whatever else ran here would be measured too, one on the model."""
    return 1 if wildcards.testbed == "model" else workflow.cores


def testbeds_to_measure(wildcards):
    """Return 1 where another experiment would disturb this one, 0 on the model, which none does."""
    return 0 if wildcards.testbed == "model" else 1


def run_of(wildcards):
    """Return the selected run of an experiment."""
    return next(run for run in PLAN.runs if run.experiment == wildcards.experiment)


def study_option(paper):
    """Return the words that name a paper's study on a command line, none where it prints none."""
    return [f"--study=results/studies/{paper.study}"] if paper.study else []
