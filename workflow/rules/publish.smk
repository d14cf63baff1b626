# From results to pages: the manuscripts' generated parts, the PDFs, the report, the deposit.

DEPOSIT = f"tsnrepro-{PLAN.name}"
# A campaign's papers are its own; here are links to those built last.
LATEST = "results/papers/latest"
PAPER = f"results/papers/{PLAN.name}/{{paper}}"


rule paper_inputs:
    input:
        lambda wildcards: files_of(
            paper_of(wildcards).runs, "values.json", "testbed.json", "tables", "figures"
        ),
        lambda wildcards: results_of_study(paper_of(wildcards).study),
        lambda wildcards: tracked(f"paper/{wildcards.paper}"),
        tracked("data/published"),
        verdicts=f"{PLAN.report}/verdicts.tex",
    output:
        values=f"{PAPER}/values.tex",
        published=f"{PAPER}/published.tex",
        provenance=f"{PAPER}/provenance.tex",
        record=f"{PAPER}/provenance.json",
        verdicts=f"{PAPER}/verdicts.tex",
        assertions=f"{PAPER}/assertions.json",
        figures=directory(f"{PAPER}/figures"),
        sums=f"{PAPER}/inputs.sha256",
    log:
        f"{PAPER}/inputs.log",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.papers:_paper_inputs"),
        folder=lambda wildcards, output: Path(output.values).parent,
        runs=lambda wildcards: [
            f"--run={column}={run.folder}"
            for column, runs in paper_of(wildcards).columns.items()
            for run in runs
        ],
        study=lambda wildcards: study_option(paper_of(wildcards)),
    shell:
        "tsnrepro paper-inputs paper/{wildcards.paper} {params.folder:q} {params.runs:q}"
        " {params.study:q} --verdicts {input.verdicts:q} 2> >(tee {log:q} >&2)"


rule paper:
    input:
        rules.paper_inputs.output,
        lambda wildcards: tracked(f"paper/{wildcards.paper}"),
        "paper/authors.tex",
        "paper/tsnrepro.sty",
        "paper/tsnrepro.lua",
        "paper/latexmkrc",
    output:
        report(
            f"{PAPER}/{{paper}}.pdf",
            category="Papers",
            labels={"paper": "{paper}"},
        ),
        f"{PAPER}/{{paper}}-supplement.pdf",
    log:
        f"{PAPER}/latexmk.log",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
        latest=LATEST,
    shell:
        "export TSNREPRO_PAPER=$PWD/{params.folder:q}; log=$PWD/{log:q};"
        " (cd paper/{wildcards.paper:q} && latexmk -norc -r ../latexmkrc > $log 2>&1)"
        " || {{ tail -n 40 $log >&2; exit 1; }};"
        " mkdir -p {params.latest:q} && ln -sfnr {params.folder:q} {params.latest:q}"


# The paper as one HTML page with the numbering of both PDFs, from the .aux that latexmk leaves beside each.
# That is no output of the rule above: Snakemake would delete it before the next run, and latexmk runs
# BibTeX on it.
rule paper_html:
    input:
        rules.paper_inputs.output,
        rules.paper.output,
        lambda wildcards: tracked(f"paper/{wildcards.paper}"),
        "paper/authors.tex",
    output:
        f"{PAPER}/{{paper}}.html",
    log:
        f"{PAPER}/html.log",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.papers:_html"),
        folder=lambda wildcards, output: Path(output[0]).parent,
    shell:
        "tsnrepro html paper/{wildcards.paper:q} {params.folder:q} {output:q} 2> >(tee {log:q} >&2)"


rule html:
    input:
        [f"{paper.folder}/{paper.name}.html" for paper in PLAN.papers],
    localrule: True


# A tarball that compiles alone, with the PDFs that it compiles to.
rule submission:
    input:
        lambda wildcards: tracked(f"paper/{wildcards.paper}"),
        "paper/authors.tex",
        "paper/korean-journal.cls",
        pdf=f"{PAPER}/{{paper}}.pdf",
    output:
        tarball=f"{PAPER}/submission/{{paper}}-{{target}}.tar.gz",
        pdf=f"{PAPER}/submission/{{paper}}-{{target}}.pdf",
        supplement=f"{PAPER}/submission/{{paper}}-{{target}}-supplement.pdf",
    log:
        f"{PAPER}/submission/{{target}}.log",
    wildcard_constraints:
        target="arxiv|anonymous|journal",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.papers:_submission"),
        folder=lambda wildcards, input: Path(input.pdf).parent,
    shell:
        "tsnrepro submission {wildcards.target} paper/{wildcards.paper:q} {params.folder:q}"
        " {output.tarball:q} 2> >(tee {log:q} >&2)"


rule arxiv:
    input:
        submissions_of(PLAN.papers, "arxiv"),
    localrule: True


rule anonymous:
    input:
        submissions_of(PLAN.papers, "anonymous"),
    localrule: True


rule journal:
    input:
        submissions_of(PLAN.papers, "journal"),
    localrule: True


# Changes since a git revision or a submission.
rule paper_diff:
    input:
        lambda wildcards: tracked(f"paper/{wildcards.paper}"),
        files_compared_with(AGAINST),
        "paper/authors.tex",
        "paper/tsnrepro.sty",
        pdf=f"{PAPER}/{{paper}}.pdf",
    output:
        pdf=f"{PAPER}/submission/{{paper}}-diff.pdf",
        source=f"{PAPER}/submission/{{paper}}-diff.tex",
    log:
        f"{PAPER}/submission/diff.log",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.papers:_diff"),
        folder=lambda wildcards, input: Path(input.pdf).parent,
        against=compared_with(AGAINST),
    shell:
        "tsnrepro diff paper/{wildcards.paper:q} {params.folder:q} {params.against:q}"
        " {output.pdf:q} 2> >(tee {log:q} >&2)"


rule diff:
    input:
        lambda _: differences_of(PLAN.papers, AGAINST),
    localrule: True


rule wordcount:
    input:
        [f"{paper.folder}/{paper.name}.pdf" for paper in PLAN.papers],
    log:
        f"{PLAN.report}/wordcount.txt",
    conda:
        "../../environment.yml"
    shell:
        "tsnrepro wordcount {input:q} | tee {log:q} >&2"


rule site:
    input:
        f"{PLAN.report}/index.html",
    localrule: True


# Static pages, to be opened from their folder.
rule report:
    input:
        files_of(PLAN.runs, "run.json", "values.json", "testbed.json", "tables", "figures", PAGE),
        f"{PLAN.report}/ledger.html",
        [f"{paper.folder}/{paper.name}.{kind}" for paper in PLAN.papers for kind in ("pdf", "html")],
    output:
        f"{PLAN.report}/index.html",
        [f"{PLAN.report}/{run.experiment}.html" for run in PLAN.runs],
        [f"{PLAN.report}/trials/{run.experiment}.html" for run in PLAN.runs],
        [directory(f"{PLAN.report}/trials/{run.experiment}") for run in PLAN.runs],
        [f"{PLAN.report}/notebooks/{run.experiment}.html" for run in PLAN.runs],
        [f"{PLAN.report}/{name}" for name in ("published.html", "provenance.html")],
        [f"{PLAN.report}/{name}" for name in ("site.css", "site.js", "vega.js", "report.sha256")],
    log:
        f"{PLAN.report}/report.log",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.report:_report"),
        folder=lambda wildcards, output: Path(output[0]).parent,
        runs=[run.folder for run in PLAN.runs],
        papers=[paper.folder for paper in PLAN.papers],
        reason=PLAN.summary(),
        language=config.get("language", "en"),
    shell:
        "tsnrepro report {params.folder:q} --runs {params.runs:q} --papers {params.papers:q}"
        " --reason {params.reason:q} --language {params.language:q} 2> >(tee {log:q} >&2)"


# One archive with the checksum of each file, for a repository such as Zenodo.
rule deposit:
    input:
        f"results/deposits/{DEPOSIT}.tar.gz",
    localrule: True


rule archive:
    input:
        files_of(RUNS, "run.json", "values.json", "testbed.json", "seal.json", "tables", "figures"),
        f"{PLAN.report}/index.html",
        f"{PLAN.report}/ledger.html",
        [f"{paper.folder}/{paper.name}.pdf" for paper in PLAN.papers],
        ["CITATION.cff", "LICENSE", "README.md", "requirements.lock"],
    output:
        archive=f"results/deposits/{DEPOSIT}.tar.gz",
        sha256=f"results/deposits/{DEPOSIT}.tar.gz.sha256",
    log:
        f"results/deposits/{DEPOSIT}.log",
    conda:
        "../../environment.yml"
    params:
        code=code_digest("tsnrepro.cli.report:_deposit"),
        runs=[run.folder for run in RUNS],
        papers=[paper.folder for paper in PLAN.papers],
        others=[PLAN.report, *STUDIES],
        uncommitted="--uncommitted" if config.get("uncommitted") else "",
    shell:
        "tsnrepro deposit {output.archive:q} --runs {params.runs:q} --papers {params.papers:q}"
        " --others {params.others:q} {params.uncommitted} 2>&1 | tee {log:q} >&2"
