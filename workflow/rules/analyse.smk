# From records to results: typed tables, estimates with intervals, figures. The same rules for
# every experiment; what an analysis may write is in the experiment's declaration.


rule analyse:
    input:
        lambda wildcards: experiments()[wildcards.experiment].reads,
        run="results/{testbed}/{campaign}/{experiment}/run.json",
        notebook=lambda wildcards: experiments()[wildcards.experiment].analysing_notebook,
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
    log:
        notebook="results/{testbed}/{campaign}/{experiment}/analyse.ipynb",
    conda:
        "../../environment.yml"
    params:
        code=lambda wildcards: experiment_digest(
            experiments()[wildcards.experiment].analysing_notebook
        ),
    shell:
        "tsnrepro notebook {input.notebook:q} {log.notebook:q} -p run={input.run:q}"
        " && tsnrepro seal results/{wildcards.testbed:q}/{wildcards.campaign:q}/{wildcards.experiment:q}"
