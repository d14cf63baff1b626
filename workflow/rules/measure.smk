# From a testbed to records. The output is the list of a run's trials; the raw store in data/raw is no
# output, because Snakemake deletes outputs and records are never deleted.


rule measure:
    input:
        what_to_measure,
        parts_to_measure,
        notebook=lambda wildcards: unless_copied(
            wildcards, f"notebooks/measure/{wildcards.experiment}.ipynb"
        ),
    output:
        "results/{testbed}/{campaign}/{experiment}/run.json",
    log:
        notebook="results/{testbed}/{campaign}/{experiment}/measure.ipynb",
    # Measure first, then analyse: the analyses keep all cores busy.
    priority: 1
    conda:
        "../../environment.yml"
    threads: threads_to_measure
    resources:
        testbed=testbeds_to_measure,
    params:
        # After a change of code, recorded trials are kept and the model's are computed again.
        code=lambda wildcards: experiment_digest(
            f"notebooks/measure/{wildcards.experiment}.ipynb",
            f"tsnrepro.experiments.{wildcards.experiment}.measure",
        ),
    shell:
        "tsnrepro notebook {input.notebook:q} {log.notebook:q}"
        " -p testbed={wildcards.testbed:q} -p campaign={wildcards.campaign:q}"
        " -p manifest={output:q}"


# A campaign that varies settings of the model: parts of its grid at the same time, also on a cluster.
rule measure_part:
    input:
        what_to_measure,
    output:
        temp(touch("results/{testbed}/{campaign}/{experiment}/parts/{part}-of-{parts}")),
    log:
        "results/{testbed}/{campaign}/{experiment}/parts/{part}-of-{parts}.log",
    wildcard_constraints:
        testbed="model",
        part=r"\d+",
        parts=r"\d+",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        code=lambda wildcards: experiment_digest(
            f"tsnrepro.experiments.{wildcards.experiment}.measure",
            "tsnrepro.cli.notebooks:_measure_part",
        ),
    shell:
        "tsnrepro measure-part {wildcards.experiment} {wildcards.testbed} {wildcards.campaign:q}"
        " {wildcards.part} of {wildcards.parts} > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
