# From a testbed to records. The raw store in data/raw is no output of a rule: Snakemake deletes
# outputs, and nothing measured is ever deleted. A rule's output is the list of a run's trials.


rule measure:
    input:
        what_to_measure,
        notebook="notebooks/measure/{experiment}.ipynb",
    output:
        "results/{testbed}/{campaign}/{experiment}/run.json",
    log:
        notebook="results/{testbed}/{campaign}/{experiment}/measure.ipynb",
    # What reads the records can wait until all is measured: alone it would leave cores idle.
    priority: 1
    conda:
        "../../environment.yml"
    threads: threads_to_measure
    resources:
        testbed=testbeds_to_measure,
    params:
        # Trials that are recorded stay as they are: after a change of code only new ones are
        # measured, and the model's are computed again.
        code=lambda wildcards: experiment_digest(
            f"notebooks/measure/{wildcards.experiment}.ipynb",
            f"tsnrepro.experiments.{wildcards.experiment}.measure",
        ),
    shell:
        "tsnrepro notebook {input.notebook:q} {log.notebook:q}"
        " -p testbed={wildcards.testbed:q} -p campaign={wildcards.campaign:q}"
        " -p manifest={output:q}"
