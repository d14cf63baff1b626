from pathlib import Path

# The experiments of every imported data set, and of the manuscript on them.
CORE = ["sweep", "tcp", "latency"]
EXTRA = "|".join(name for name in tsnrepro.campaigns.EXPERIMENTS if name not in CORE) or "none"


def glob_files(folder, pattern, apart_from=()):
    """Return the files below a folder that match, sorted; caches and folders are no input."""
    return sorted(
        str(path)
        for path in Path(folder).glob(pattern)
        if path.is_file() and path.name not in apart_from and "__pycache__" not in path.parts
    )


def what_to_measure(wildcards):
    """Return the file that says which trials there are to be."""
    if wildcards.testbed in IMPORTED:
        return f"data/raw/{wildcards.testbed}/import.json"
    # The whole file: a changed campaign is incomplete until its new trials are measured.
    return f"config/campaigns/{wildcards.campaign}.yaml"


def measuring_notebook(wildcards):
    """Return the notebook that measures an experiment."""
    name = tsnrepro.campaigns.EXPERIMENTS[wildcards.experiment].measure
    return f"notebooks/measure/{name}.ipynb"


def analysing_notebook(wildcards):
    """Return the notebook that analyses an experiment."""
    name = tsnrepro.campaigns.EXPERIMENTS[wildcards.experiment].analyse
    return f"notebooks/analyse/{name}.ipynb"


def analysis_code(wildcards):
    """Return the sources of an experiment's own analysis."""
    name = tsnrepro.campaigns.EXPERIMENTS[wildcards.experiment].analyse
    return glob_files("src/tsnrepro/analysis", f"{name}*.py")


def values_of(experiments):
    """Return the files of values of some experiments on a testbed, and of the testbed itself."""
    parts = ["loss" if name == "sweep" else name for name in experiments]
    return [f"results/{{testbed}}/{{campaign}}/values/{part}.json" for part in [*parts, "testbed"]]


def tables_of(experiments):
    """Return the tables of trials that the audit reads."""
    core = [name for name in experiments if name in CORE]
    return [f"results/{{testbed}}/{{campaign}}/tables/{name}.parquet" for name in core]


def values_of_paper(wildcards):
    """Return the values that a manuscript prints."""
    needed = values_of(tsnrepro.campaigns.MANUSCRIPTS[wildcards.paper])
    if wildcards.paper == "frer-udp":
        needed.append("results/{testbed}/{campaign}/values/study.json")
    return expand(needed, testbed=wildcards.testbed, campaign=wildcards.campaign)
