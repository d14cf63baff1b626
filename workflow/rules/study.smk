# Parameter studies on the model: points scattered over jobs, collected into one table. They need no
# testbed, so these rules can also be used alone, as on a cluster:
#   snakemake --snakefile workflow/rules/study.smk --cores 4 study --config study=buffers

import tempfile
from pathlib import Path

import tsnrepro.experiments.studies.chunks
from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.ownership import restore_ownership_at_exit
from tsnrepro.experiments.studies.chunks import notebook_of
from tsnrepro.workflow.startup import clamp_future_mtimes, release_stale_lock

# The logger sets it for Snakemake's own folders, which exist by now; jobs inherit it.
tempfile.tempdir = None
restore_ownership_at_exit()
release_stale_lock()
if workflow.is_main_process:
    clamp_future_mtimes(Path("results"))

STUDY = config.get("study") or "threshold"


rule study:
    input:
        tsnrepro.experiments.studies.chunks.results_of_study(STUDY),
    localrule: True


# Once, so that hundreds of jobs that start together load the compiled model instead of compiling it.
rule compile_model:
    output:
        "results/studies/compiled.txt",
    log:
        "results/studies/compiled.log",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.study:_compile"),
    shell:
        "tsnrepro study compile {output:q} > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"


rule study_chunk:
    input:
        study="config/studies/{study}.yaml",
        compiled="results/studies/compiled.txt",
    output:
        "results/studies/{study}/chunks/{chunk}.json",
    log:
        "results/studies/{study}/chunks/{chunk}.log",
    wildcard_constraints:
        study=r"[A-Za-z0-9_-]+",
        chunk=r"\d+",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.study:_chunk"),
    shell:
        "tsnrepro study chunk {input.study:q} {wildcards.chunk:q} {output:q} > {log:q} 2>&1"
        " || {{ cat {log:q} >&2; exit 1; }}"


rule study_table:
    input:
        study="config/studies/{study}.yaml",
        chunks=lambda wildcards: tsnrepro.experiments.studies.chunks.chunk_files(wildcards.study),
    output:
        "results/studies/{study}/study.csv",
        "results/studies/{study}/study.parquet",
    log:
        "results/studies/{study}/study.log",
    wildcard_constraints:
        study=r"[A-Za-z0-9_-]+",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
    shell:
        "tsnrepro study collect {input.study:q} {params.folder:q} > {log:q} 2>&1"
        " || {{ cat {log:q} >&2; exit 1; }}"


rule analyse_study:
    input:
        table="results/studies/{study}/study.parquet",
        notebook=lambda wildcards: notebook_of(wildcards.study),
    output:
        values="results/studies/{study}/values.json",
        figures=directory("results/studies/{study}/figures"),
        sums="results/studies/{study}/study.sha256",
    log:
        notebook="results/studies/{study}/analyse.ipynb",
    wildcard_constraints:
        study=r"[A-Za-z0-9_-]+",
    conda:
        "../../environment.yml"
    params:
        code=lambda wildcards: code_digest(notebook_of(wildcards.study)),
    shell:
        "tsnrepro notebook {input.notebook:q} {log.notebook:q}"
        " -p table={input.table:q} -p results=results/studies/{wildcards.study:q}"
        " && cd results/studies/{wildcards.study:q}"
        " && find study.csv study.parquet values.json figures -type f -exec sha256sum {{}} +"
        " > study.sha256"


# How often the searches of RFC 2544 find a known answer, whatever is measured. It takes one processor
# for long: started last, it would delay the end.
rule search_accuracy:
    output:
        "results/studies/search-accuracy/accuracy.csv",
    log:
        "results/studies/search-accuracy/accuracy.log",
    priority: 2
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.study:_accuracy"),
    shell:
        "tsnrepro study accuracy {output:q} > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
