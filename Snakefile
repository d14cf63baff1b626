# From the configuration to the papers: measure, analyse, audit, publish.
#
#   snakemake --cores 4                                   the default: config/config.yaml
#   snakemake --cores 4 --config campaign=documents       the documents' durations (hours)
#   snakemake --cores 4 measurements                      measure only, print nothing

import os
import sys

from tsnrepro.common.ownership import restore_ownership_at_exit
from tsnrepro.common.temporary import remove_temporary_folders

remove_temporary_folders(workflow)
restore_ownership_at_exit()

import tsnrepro.workflow.command_server
import tsnrepro.workflow.selection
import tsnrepro.config
import tsnrepro.config.campaigns
from tsnrepro.workflow.campaign_output import EXPECTED
from tsnrepro.common.errors import TsnreproError
from tsnrepro.runner.progress import duration
from tsnrepro.workflow.quiet_scheduler import disable_rate_limiter
from tsnrepro.records.seal import refuse_altered
from tsnrepro.config.registry import experiments
from tsnrepro.common.repository import refuse_unwritable
from tsnrepro.workflow.status import seconds_to_measure


configfile: "config/config.yaml"


try:
    PLAN = tsnrepro.workflow.selection.plan(
        tsnrepro.config.parse(
            tsnrepro.config.campaigns.Selection, dict(config), "config/config.yaml and --config"
        )
    )
except TsnreproError as error:
    sys.exit(f"tsnrepro: {error}")

# A job on a node of a cluster belongs to the cluster, whatever was told to the one who sent it.
os.environ.pop(tsnrepro.workflow.command_server.NAME, None)

# Jobs share the processors. Where several ask BLAS for threads, these wait for each other by
# spinning, and what takes a second takes twenty.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A notebook ends with this process, however it ends.
os.environ.setdefault("TSNREPRO_WORKFLOW_PID", str(os.getpid()))

AGAINST = config.get("against", "")
PAPERS = [f"{paper.folder}/{paper.name}.pdf" for paper in PLAN.papers]
REPORT = f"{PLAN.report}/index.html"
LEDGER = f"{PLAN.report}/ledger.html"


wildcard_constraints:
    testbed=r"[^/]+",
    campaign=r"[^/]+",
    experiment="|".join(experiments()),
    paper="|".join(paper.name for paper in PLAN.papers) or "none",


include: "workflow/rules/common.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/audit.smk"
# Stands alone too, so it is the one that releases a stale lock and takes back times of tomorrow.
include: "workflow/rules/study.smk"
include: "workflow/rules/publish.smk"


# Of what is up to date nothing is read again: so it has to be what it was when it was read.
try:
    refuse_altered(run.folder for run in RUNS)
except TsnreproError as error:
    sys.exit(f"tsnrepro: {error}")


onstart:
    try:
        refuse_unwritable(["data/raw", "results", *(run.folder for run in RUNS)])
    except TsnreproError as error:
        sys.exit(f"tsnrepro: {error}")
    disable_rate_limiter(workflow.scheduler)
    tsnrepro.workflow.command_server.start_server(os.getpid())
    expected = seconds_to_measure((run.testbed, run.campaign, run.experiment) for run in RUNS)
    left = (
        f"; about {duration(sum(expected.values()))} of measuring"
        if any(expected.values())
        else ""
    )
    logger.info(f"tsnrepro: {PLAN.sentence()}{left}", extra={EXPECTED: expected})


onsuccess:
    for path in [*PAPERS, REPORT, LEDGER]:
        if Path(path).exists():
            logger.info(f"tsnrepro: {path}")


rule all:
    default_target: True
    input:
        PAPERS,
        REPORT,
        LEDGER,
    localrule: True


rule measurements:
    input:
        files_of(RUNS, "run.json"),
    localrule: True
