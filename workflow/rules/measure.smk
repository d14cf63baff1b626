# From a testbed to records. The raw store in data/raw is no output of a rule: Snakemake deletes
# outputs, and nothing measured is ever deleted. A rule's output is the list of a run's trials.


rule measure:
    input:
        notebook=measuring_notebook,
        trials=what_to_measure,
    output:
        "results/{testbed}/{campaign}/runs/{experiment}.json",
    log:
        notebook="results/{testbed}/{campaign}/notebooks/measure-{experiment}.ipynb",
    conda:
        "../../environment.yml"
    # All cores and the testbed: whatever else ran here would be measured too.
    threads: workflow.cores
    resources:
        testbed=1,
    shell:
        "tsnrepro notebook {input.notebook} {log.notebook}"
        " -p testbed={wildcards.testbed} -p campaign={wildcards.campaign} -p manifest={output}"
