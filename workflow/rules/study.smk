# Parameter studies on the model: points scattered over jobs, collected into one table. No testbed
# is needed, so these rules also stand alone, as on the nodes of a cluster:
#   snakemake --snakefile workflow/rules/study.smk --cores 4 study --config study=buffers

from pathlib import Path

import tsnrepro.studies.chunks

STUDY = config.get("study", "threshold")
STUDIES = "src/tsnrepro/studies"
MODEL_CODE = sorted(str(path) for path in Path("src/tsnrepro/model").glob("*.py"))
POINT_CODE = [f"{STUDIES}/{name}.py" for name in ("study", "scenario", "measures", "chunks")]


# A study that has a notebook is analysed too.
STUDY_RESULTS = [f"results/model/{STUDY}/study.parquet"]
STUDY_FIGURES = ["threshold-dependence", "threshold-replication", "threshold-effects"]
if STUDY.startswith("threshold"):
    STUDY_RESULTS.append(f"results/model/{STUDY}/values/threshold-study.json")


rule study:
    input:
        STUDY_RESULTS,
    localrule: True


# Once, so that hundreds of jobs that start together load the compiled model instead of each
# compiling it.
rule compile_model:
    input:
        MODEL_CODE,
    output:
        "results/model/compiled.txt",
    log:
        "results/model/compiled.log",
    conda:
        "../../environment.yml"
    shell:
        "tsnrepro study compile {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule study_chunk:
    input:
        POINT_CODE,
        study="config/studies/{study}.yaml",
        compiled="results/model/compiled.txt",
    output:
        "results/model/{study}/chunks/{chunk}.json",
    log:
        "results/model/{study}/chunks/{chunk}.log",
    wildcard_constraints:
        study=r"[A-Za-z0-9_-]+",
        chunk=r"\d+",
    conda:
        "../../environment.yml"
    shell:
        "tsnrepro study chunk {input.study} {wildcards.chunk} {output} > {log} 2>&1"
        " || {{ cat {log} >&2; exit 1; }}"


rule study_table:
    input:
        study="config/studies/{study}.yaml",
        chunks=lambda wildcards: tsnrepro.studies.chunks.chunk_files(wildcards.study),
    output:
        "results/model/{study}/study.csv",
        "results/model/{study}/study.parquet",
    log:
        "results/model/{study}/study.log",
    wildcard_constraints:
        study=r"[A-Za-z0-9_-]+",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
    shell:
        "tsnrepro study collect {input.study} {params.folder} > {log} 2>&1"
        " || {{ cat {log} >&2; exit 1; }}"


rule analyse_threshold_study:
    input:
        f"{STUDIES}/threshold_analysis.py",
        f"{STUDIES}/threshold_figures.py",
        "src/tsnrepro/analysis/figures.py",
        "src/tsnrepro/analysis/results.py",
        "src/tsnrepro/stats/replication.py",
        table="results/model/{study}/study.parquet",
        notebook="notebooks/analyse/threshold-study.ipynb",
    output:
        "results/model/{study}/values/threshold-study.json",
        expand(
            "results/model/{{study}}/figures/{figure}.{format}",
            figure=STUDY_FIGURES,
            format=["pdf", "png"],
        ),
    log:
        notebook="results/model/{study}/notebooks/analyse-threshold-study.ipynb",
    wildcard_constraints:
        study=r"threshold[A-Za-z0-9_-]*",
    conda:
        "../../environment.yml"
    shell:
        "tsnrepro notebook {input.notebook} {log.notebook}"
        " -p table={input.table} -p results=results/model/{wildcards.study}"
