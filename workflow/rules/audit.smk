# Between the results and the page: checks over the numbers, verdicts on the claims.

AUDIT = "src/tsnrepro/audit"


rule audit:
    input:
        glob_files(AUDIT, "**/*"),
        glob_files("data/published", "**/*"),
        values_of(EXPERIMENTS),
        tables_of(EXPERIMENTS),
    output:
        html="results/{testbed}/{campaign}/audit/ledger.html",
        latex="results/{testbed}/{campaign}/audit/ledger.tex",
        macros="results/{testbed}/{campaign}/audit/verdicts.tex",
    log:
        "results/{testbed}/{campaign}/audit/audit.log",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, output: Path(output.html).parent,
        results=lambda wildcards, output: Path(output.html).parents[3],
    shell:
        "tsnrepro audit {wildcards.testbed} --campaign {wildcards.campaign}"
        " --results {params.results} --ledger {params.folder} > {log} 2>&1"
        " || {{ cat {log} >&2; exit 1; }}"
