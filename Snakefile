# From the configuration to the papers: measure, analyse, audit, publish.
#
#   snakemake --cores 4                                   the default: config/config.yaml
#   snakemake --cores 4 --config campaign=paper           the documents' durations (hours)
#   snakemake --cores 4 measurements                      measure only, print nothing

import os
import sys
from pathlib import Path

import tsnrepro.campaigns
import tsnrepro.settings
import tsnrepro.testbed.choose
from tsnrepro.errors import TsnreproError
from tsnrepro.records.foreign.imported import imported_testbeds


configfile: "config/config.yaml"


try:
    SELECTION = tsnrepro.settings.parse(
        tsnrepro.settings.Selection, dict(config), "config/config.yaml and --config"
    )
    IMPORTED = imported_testbeds(Path("data/raw"))
    SHAPING = tsnrepro.campaigns.campaign(SELECTION.campaign).shaping is not None
    TESTBED, REASON = tsnrepro.testbed.choose.choose(SELECTION.testbed, IMPORTED, shaping=SHAPING)
    # What was imported is one campaign of its own.
    CAMPAIGN = "imported" if TESTBED in IMPORTED else SELECTION.campaign
    if TESTBED in IMPORTED:
        EXPERIMENTS = ["sweep", "tcp", "latency"]
    else:
        CAMPAIGN_SETTINGS = tsnrepro.campaigns.campaign(CAMPAIGN)
        KIND = tsnrepro.campaigns.testbed_settings(TESTBED).kind
        EXPERIMENTS = tsnrepro.campaigns.experiments_of(CAMPAIGN_SETTINGS, KIND)
        tsnrepro.campaigns.refuse_unmeasurable(EXPERIMENTS, TESTBED, CAMPAIGN)
    MANUSCRIPTS = tsnrepro.campaigns.manuscripts_of(SELECTION.papers, EXPERIMENTS)
except TsnreproError as error:
    sys.exit(f"tsnrepro: {error}")

# A notebook ends with this process, however it ends.
os.environ.setdefault("TSNREPRO_WORKFLOW_PID", str(os.getpid()))

RESULTS = f"results/{TESTBED}/{CAMPAIGN}"
PAPERS = [f"{RESULTS}/paper/{name}/{name}.pdf" for name in MANUSCRIPTS]
REPORT = f"{RESULTS}/report/index.html"
LEDGER = f"{RESULTS}/audit/ledger.html"


wildcard_constraints:
    testbed=r"[^/]+",
    campaign=r"[^/]+",
    experiment="|".join(tsnrepro.campaigns.EXPERIMENTS),


include: "workflow/rules/common.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/study.smk"
include: "workflow/rules/publish.smk"


onstart:
    print(f"tsnrepro: testbed {TESTBED} ({REASON}), campaign {CAMPAIGN}", file=sys.stderr)


onsuccess:
    for path in [*PAPERS, REPORT, LEDGER]:
        if Path(path).exists():
            print(f"tsnrepro: {path}", file=sys.stderr)
    print(f"tsnrepro: made on testbed {TESTBED}, campaign {CAMPAIGN}", file=sys.stderr)


rule all:
    default_target: True
    input:
        PAPERS,
        REPORT,
        LEDGER,
    localrule: True


rule measurements:
    input:
        expand(f"{RESULTS}/runs/{{experiment}}.json", experiment=EXPERIMENTS),
    localrule: True
