# From the configuration to the papers: measure, analyse, audit, publish.
#
#   snakemake --cores 4                                   the default: config/config.yaml
#   snakemake --cores 4 --config campaign=documents       the documents' durations (hours)
#   snakemake --cores 4 measurements                      measure only, print nothing

import os
import sys

import tsnrepro.config
from tsnrepro.common.durations import duration
from tsnrepro.common.errors import TsnreproError
from tsnrepro.common.repository import check_writable
from tsnrepro.config.campaigns import Selection
from tsnrepro.config.files import analysed_experiment
from tsnrepro.config.registry import experiments
from tsnrepro.records.integrity import check_seals
from tsnrepro.runner.testbed import NOT_MEASURED
from tsnrepro.workflow.campaign_output import EXPECTED, STOPPING
from tsnrepro.workflow.forecast import as_text, elapsed_s, forecasts_of
from tsnrepro.workflow.notebooks import PAGE
from tsnrepro.workflow.selection import plan
from tsnrepro.workflow.startup import disable_rate_limiter, stop_on_signals
from tsnrepro.workflow.status import current_copies, refresh_copies, seconds_to_measure


configfile: "config/config.yaml"


if {*"{}"} & {*os.getcwd()}:
    sys.exit("tsnrepro: this folder's path has braces, which Snakemake replaces; rename it")

try:
    PLAN = plan(tsnrepro.config.parse(Selection, dict(config), "config/config.yaml and --config"))
except TsnreproError as error:
    sys.exit(f"tsnrepro: {error}")

# Jobs share the processors: the threads of several BLAS would spin waiting for each other, and
# slow a second down to twenty.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Notebooks end with this process, even if it is killed.
os.environ.setdefault("TSNREPRO_WORKFLOW_PID", str(os.getpid()))

# A missing trial of a bench that is shown as baseline would be measured through the selected device.
os.environ[NOT_MEASURED] = " ".join(PLAN.unselected_benches)

AGAINST = config.get("against", "")
PAPERS = [f"{paper.folder}/{paper.name}.pdf" for paper in PLAN.papers]
REPORT = f"{PLAN.report}/index.html"
LEDGER = f"{PLAN.report}/ledger.html"
SUMS = [f"{PLAN.report}/{name}.sha256" for name in ("ledger", "report")]
SUMS += [f"{paper.folder}/inputs.sha256" for paper in PLAN.papers]


wildcard_constraints:
    testbed=r"[^/]+",
    campaign=r"[^/]+",
    experiment="|".join(experiments()),
    paper="|".join(paper.name for paper in PLAN.papers) or "none",


include: "workflow/rules/common.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/audit.smk"
# Also used alone, so it is the one that releases stale locks and clamps future mtimes.
include: "workflow/rules/study.smk"
include: "workflow/rules/publish.smk"


if workflow.output_settings.dryrun:
    print(as_text(forecasts_of(RUNS), workflow.cores or 1), file=sys.stderr)
else:
    refresh_copies(COPIES)

# Up-to-date results are not re-read, so they must be what they were when they were analysed.
try:
    check_seals(
        (run.folder for run in RUNS),
        [PLAN.report, *STUDIES, *(paper.folder for paper in PLAN.papers)],
    )
except TsnreproError as error:
    sys.exit(f"tsnrepro: {error}")


onstart:
    try:
        check_writable(["data/raw", "results", *(run.folder for run in RUNS)])
    except TsnreproError as error:
        sys.exit(f"tsnrepro: {error}")
    disable_rate_limiter(workflow.scheduler)
    stop_on_signals(
        workflow.scheduler,
        {(run.testbed, run.campaign) for run in RUNS},
        lambda text: logger.info(text, extra={STOPPING: True}),
    )
    expected = seconds_to_measure((run.testbed, run.campaign, run.experiment) for run in RUNS)
    left = (
        f"; about {duration(elapsed_s(expected, workflow.cores))} of measuring"
        if any(expected.values())
        else ""
    )
    logger.info(f"tsnrepro: {PLAN.summary()}{left}", extra={EXPECTED: expected})


onsuccess:
    # Other targets make none of these: what is there may be another testbed's.
    by_default = {*workflow.dag_settings.targets} <= {"all"}
    for path in [*PAPERS, REPORT, LEDGER]:
        if by_default and Path(path).exists():
            logger.info(f"tsnrepro: {path}")


rule all:
    default_target: True
    input:
        # Else nothing would be done where a run, or a list of checksums, is missing whose files are
        # printed.
        files_of(RUNS, "seal.json"),
        SUMS,
        [results_of_study(paper.study) for paper in PLAN.papers],
        PAPERS,
        REPORT,
        LEDGER,
    localrule: True


rule measurements:
    input:
        files_of(RUNS, "run.json"),
    localrule: True
