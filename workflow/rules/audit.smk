# From results to verdicts: checks of the numbers, verdicts on the claims.


rule audit:
    input:
        tracked("data/published"),
        files_of(PLAN.runs, "values.json", "testbed.json", "tables"),
    output:
        html=f"{PLAN.report}/ledger.html",
        latex=f"{PLAN.report}/ledger.tex",
        macros=f"{PLAN.report}/verdicts.tex",
        sums=f"{PLAN.report}/ledger.sha256",
    log:
        f"{PLAN.report}/audit.log",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.audit:_audit"),
        folder=lambda wildcards, output: Path(output.html).parent,
        runs=[run.folder for run in PLAN.runs],
        language=config.get("language", "en"),
    shell:
        "tsnrepro audit --runs {params.runs:q} --ledger {params.folder:q}"
        " --language {params.language:q} > {log:q} 2>&1"
        " || {{ cat {log:q} >&2; exit 1; }}"
