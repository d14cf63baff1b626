"""Data sets of others that tell hardly more than they must, imported and analysed."""

import json
from pathlib import Path

import yaml

from tsnrepro.common.repository import root
from tsnrepro.imports.importer import import_folder
from tsnrepro.imports.manifest import imported_experiments, imported_manifest
from tsnrepro.results.testbed import write_facts

PARTS = {
    "loss": "configuration,rate,loss\ncontrol,100,0.0\ncontrol,200,1.5\nfrer,100,0\nfrer,300,2\n",
    "tcp": "configuration,goodput\ncontrol,941.2\ncontrol,940.8\nfrer,938\n",
    "latency": "configuration,mean,p99\ncontrol,30,90\nfrer,33,120\n",
}
SPARSE = {
    "loss": {"loss_percent": ("loss", "percent"), "target_mbps": ("rate", "Mb/s")},
    "tcp": {"goodput_mbps": ("goodput", "Mb/s")},
    "latency": {"mean_us": ("mean", "us"), "p99_us": ("p99", "us")},
}


def sparse(folder, experiments, only=("control", "frer")):
    """Import a data set that has hardly more than one column an experiment."""
    source = folder / "sparse"
    source.mkdir()
    tables = {}
    for experiment in experiments:
        head, *lines = PARTS[experiment].splitlines()
        chosen = [line for line in lines if line.startswith(tuple(only))]
        (source / f"{experiment}.csv").write_text("\n".join([head, *chosen, ""]), encoding="utf-8")
        named = {f: {"column": c, "unit": u} for f, (c, u) in SPARSE[experiment].items()}
        tables[experiment] = {
            "files": [f"{experiment}.csv"],
            "format": "csv",
            "experiment": experiment,
            "fields": {"configuration": {"column": "configuration"}} | named,
        }
        if experiment != "tcp":
            tables[experiment]["fields"]["payload_bytes"] = 1000
    if "latency" in tables:
        tables["latency"]["latency_quantity"] = "one way"
    mapping = folder / "sparse.yaml"
    mapping.write_text(yaml.safe_dump({"description": "sparse", "tables": tables}))
    import_folder(source, mapping, "sparse", folder / "raw")
    return manifests(folder / "raw", "sparse")


def manifests(raw, name):
    """Write the manifests of an imported testbed as the workflow would."""
    folder = raw / name / "runs"
    folder.mkdir(exist_ok=True)
    experiments = imported_experiments(raw, name)
    for experiment in experiments:
        manifest = imported_manifest(raw, name, experiment)
        (folder / f"{experiment}.json").write_text(json.dumps(manifest), encoding="utf-8")
    return {experiment: folder / f"{experiment}.json" for experiment in experiments}


def run_notebooks(paths, folder):
    """Run the code of the notebooks that analyse what there is, in this process."""
    for experiment, path in paths.items():
        run = folder / experiment / "run.json"
        run.parent.mkdir(parents=True)
        run.write_bytes(Path(path).read_bytes())
        content = json.loads((root() / f"notebooks/analyse/{experiment}.ipynb").read_text())
        space = {}
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), space)
                if "parameters" in cell["metadata"].get("tags", []):
                    space |= {"run": str(run)}
        write_facts(run, run.with_name("testbed.json"))
