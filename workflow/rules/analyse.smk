# From records to results: typed tables, estimates with intervals, figures.

ANALYSIS = "src/tsnrepro/analysis"
COMMON_CODE = [
    f"{ANALYSIS}/results.py",
    f"{ANALYSIS}/testbed.py",
    "src/tsnrepro/records/tables.py",
    "src/tsnrepro/stats/comparisons.py",
    "src/tsnrepro/stats/replication.py",
]
ANALYSE = (
    "tsnrepro notebook {input.notebook} {log.notebook}"
    " -p run={input.run} -p results=results/{wildcards.testbed}/{wildcards.campaign}"
)


rule testbed_facts:
    input:
        f"{ANALYSIS}/testbed.py",
        run=f"results/{{testbed}}/{{campaign}}/runs/{EXPERIMENTS[0]}.json",
    output:
        "results/{testbed}/{campaign}/values/testbed.json",
    log:
        "results/{testbed}/{campaign}/values/testbed.log",
    conda:
        "../../environment.yml"
    shell:
        "tsnrepro facts {input.run} {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"


rule analyse_loss:
    input:
        COMMON_CODE,
        f"{ANALYSIS}/loss.py",
        f"{ANALYSIS}/figures.py",
        "src/tsnrepro/stats/proportions.py",
        "src/tsnrepro/stats/thresholds.py",
        run="results/{testbed}/{campaign}/runs/sweep.json",
        notebook="notebooks/analyse/loss.ipynb",
    output:
        "results/{testbed}/{campaign}/values/loss.json",
        "results/{testbed}/{campaign}/tables/sweep.parquet",
        "results/{testbed}/{campaign}/tables/sweep-summary.csv",
        expand(
            "results/{{testbed}}/{{campaign}}/figures/{figure}.{format}",
            figure=["loss-against-load", "where-lost", "frame-size"],
            format=["pdf", "png"],
        ),
    log:
        notebook="results/{testbed}/{campaign}/notebooks/analyse-loss.ipynb",
    conda:
        "../../environment.yml"
    shell:
        ANALYSE


rule analyse_tcp:
    input:
        COMMON_CODE,
        f"{ANALYSIS}/tcp.py",
        "src/tsnrepro/stats/equivalence.py",
        run="results/{testbed}/{campaign}/runs/tcp.json",
        notebook="notebooks/analyse/tcp.ipynb",
    output:
        "results/{testbed}/{campaign}/values/tcp.json",
        "results/{testbed}/{campaign}/tables/tcp.parquet",
    log:
        notebook="results/{testbed}/{campaign}/notebooks/analyse-tcp.ipynb",
    conda:
        "../../environment.yml"
    shell:
        ANALYSE


rule analyse_latency:
    input:
        COMMON_CODE,
        f"{ANALYSIS}/latency.py",
        f"{ANALYSIS}/figures.py",
        "src/tsnrepro/stats/quantiles.py",
        run="results/{testbed}/{campaign}/runs/latency.json",
        notebook="notebooks/analyse/latency.ipynb",
    output:
        "results/{testbed}/{campaign}/values/latency.json",
        "results/{testbed}/{campaign}/tables/latency.parquet",
        expand(
            "results/{{testbed}}/{{campaign}}/figures/latency-distribution.{format}",
            format=["pdf", "png"],
        ),
    log:
        notebook="results/{testbed}/{campaign}/notebooks/analyse-latency.ipynb",
    conda:
        "../../environment.yml"
    shell:
        ANALYSE


# Every other experiment has a notebook that writes its values, tables and figures.
rule analyse_experiment:
    input:
        COMMON_CODE,
        analysis_code,
        run="results/{testbed}/{campaign}/runs/{experiment}.json",
        notebook=analysing_notebook,
    output:
        "results/{testbed}/{campaign}/values/{experiment}.json",
    log:
        notebook="results/{testbed}/{campaign}/notebooks/analyse-{experiment}.ipynb",
    wildcard_constraints:
        experiment=EXTRA,
    conda:
        "../../environment.yml"
    shell:
        ANALYSE


# The executed notebook as a page: tables and figures in their context, for reading.
rule analysis_page:
    input:
        "results/{testbed}/{campaign}/values/{experiment}.json",
        "results/{testbed}/{campaign}/values/testbed.json",
    output:
        "results/{testbed}/{campaign}/report/{experiment}.html",
    log:
        "results/{testbed}/{campaign}/report/{experiment}.log",
    wildcard_constraints:
        experiment=EXTRA,
    conda:
        "../../environment.yml"
    params:
        results=lambda wildcards: f"results/{wildcards.testbed}/{wildcards.campaign}",
    shell:
        "tsnrepro page {params.results}"
        " {params.results}/notebooks/analyse-{wildcards.experiment}.ipynb {output} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
