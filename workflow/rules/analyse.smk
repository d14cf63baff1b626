# From records to results: typed tables, estimates with intervals, figures, and the executed notebook
# as a page. One rule for all experiments; each declares what its analysis may write.


rule analyse:
    input:
        what_to_analyse,
        run=lambda wildcards: unless_copied(
            wildcards, "results/{testbed}/{campaign}/{experiment}/run.json"
        ),
    output:
        values="results/{testbed}/{campaign}/{experiment}/values.json",
        facts="results/{testbed}/{campaign}/{experiment}/testbed.json",
        tables=report(
            directory("results/{testbed}/{campaign}/{experiment}/tables"),
            patterns=["{table}.csv"],
            category="Tables",
            subcategory="{experiment}",
            labels={"testbed": "{testbed}", "table": "{table}"},
        ),
        figures=report(
            directory("results/{testbed}/{campaign}/{experiment}/figures"),
            patterns=["{figure}.png"],
            category="Figures",
            subcategory="{experiment}",
            labels={"testbed": "{testbed}", "figure": "{figure}"},
        ),
        seal="results/{testbed}/{campaign}/{experiment}/seal.json",
        page="results/{testbed}/{campaign}/{experiment}/analyse.html",
    log:
        notebook="results/{testbed}/{campaign}/{experiment}/analyse.ipynb",
    conda:
        "../../environment.yml"
    params:
        code=lambda wildcards: experiment_digest(
            analysed_experiment(wildcards.experiment, wildcards.campaign).analysing_notebook,
            "tsnrepro.cli.notebooks:_analyse",
        ),
        folder=lambda wildcards, input: Path(input.run).parent,
    shell:
        "tsnrepro analyse {params.folder:q}"
