# From results to pages: the manuscripts' generated parts, the PDFs, the report.

PUBLISH = "src/tsnrepro/publish"
FIGURES = expand(
    "results/{{testbed}}/{{campaign}}/figures/{figure}.{format}",
    figure=["loss-against-load", "where-lost", "frame-size", "latency-distribution"],
    format=["pdf", "png"],
)
STUDY_OF_PAPER = expand(
    "results/{{testbed}}/{{campaign}}/figures/{figure}.{format}",
    figure=STUDY_FIGURES,
    format=["pdf", "png"],
)


# The study of thresholds, made on the model whatever the testbed, with the campaign's own results.
PAPER_STUDY = "threshold" if CAMPAIGN == "imported" else CAMPAIGN_SETTINGS.study


rule study_of_paper:
    input:
        values=f"results/model/{PAPER_STUDY}/values/threshold-study.json",
        figures=expand(
            f"results/model/{PAPER_STUDY}/figures/{{figure}}.{{format}}",
            figure=STUDY_FIGURES,
            format=["pdf", "png"],
        ),
    output:
        values="results/{testbed}/{campaign}/values/study.json",
        figures=expand(
            "results/{{testbed}}/{{campaign}}/figures/{figure}.{format}",
            figure=STUDY_FIGURES,
            format=["pdf", "png"],
        ),
    log:
        "results/{testbed}/{campaign}/values/study.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        figures=lambda wildcards, output: Path(output.figures[0]).parent,
    shell:
        "(cp {input.values} {output.values} && cp {input.figures} {params.figures}) 2> {log}"


rule paper_inputs:
    input:
        values_of_paper,
        FIGURES,
        STUDY_OF_PAPER,
        "data/published/datapackage.json",
        "results/{testbed}/{campaign}/tables/sweep-summary.csv",
        glob_files("data/published", "**/*.csv"),
        lambda wildcards: glob_files(f"paper/{wildcards.paper}", "**/*.tex"),
        glob_files(PUBLISH, "*.py", apart_from=["site.py"]),
        "src/tsnrepro/audit/published.py",
    output:
        values="results/{testbed}/{campaign}/paper/{paper}/values.tex",
        published="results/{testbed}/{campaign}/paper/{paper}/published.tex",
        provenance="results/{testbed}/{campaign}/paper/{paper}/provenance.tex",
        record="results/{testbed}/{campaign}/paper/{paper}/provenance.json",
    log:
        "results/{testbed}/{campaign}/paper/{paper}/inputs.log",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, output: Path(output.values).parent,
        results=lambda wildcards, output: Path(output.values).parents[2],
    shell:
        "tsnrepro paper-inputs {params.results} paper/{wildcards.paper} {params.folder}"
        " 2> >(tee {log} >&2)"


rule paper:
    input:
        FIGURES,
        STUDY_OF_PAPER,
        rules.paper_inputs.output,
        rules.audit.output.macros,
        lambda wildcards: glob_files(f"paper/{wildcards.paper}", "**/*"),
        "paper/tsnrepro.sty",
        "paper/tsnrepro.lua",
    output:
        "results/{testbed}/{campaign}/paper/{paper}/{paper}.pdf",
    log:
        "results/{testbed}/{campaign}/paper/{paper}/latexmk.log",
    conda:
        "../../environment.yml"
    params:
        results=lambda wildcards, output: Path(output[0]).parents[2],
    shell:
        "export TSNREPRO_RESULTS=$PWD/{params.results}; log=$PWD/{log};"
        " cd paper/{wildcards.paper}"
        " && latexmk -jobname={wildcards.paper} > $log 2>&1"
        " || {{ tail -n 40 $log >&2; exit 1; }}"


rule report:
    input:
        values_of(EXPERIMENTS),
        ("results/{testbed}/{campaign}/values/study.json" if "frer-udp" in MANUSCRIPTS else []),
        FIGURES if {*CORE} <= {*EXPERIMENTS} else [],
        expand(
            "results/{{testbed}}/{{campaign}}/runs/{experiment}.json",
            experiment=EXPERIMENTS,
        ),
        [f"results/{{testbed}}/{{campaign}}/paper/{name}/{name}.pdf" for name in MANUSCRIPTS],
        [
            f"results/{{testbed}}/{{campaign}}/report/{name}.html"
            for name in EXPERIMENTS
            if name not in CORE
        ],
        glob_files(PUBLISH, "**/*"),
    output:
        "results/{testbed}/{campaign}/report/index.html",
    log:
        "results/{testbed}/{campaign}/report/report.log",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
        results=lambda wildcards, output: Path(output[0]).parents[1],
        reason=REASON,
    shell:
        "tsnrepro report {params.results} {params.folder} --reason {params.reason:q}"
        " 2> >(tee {log} >&2)"
