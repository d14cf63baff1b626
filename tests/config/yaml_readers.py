"""What reads each YAML file of the program."""

from tsnrepro.config import load, load_testbed
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.papers import Sources
from tsnrepro.experiments.studies.study import load_study
from tsnrepro.imports.mapping import load_mapping
from tsnrepro.papers.glossary import Glossary
from tsnrepro.published.checks import load_checks
from tsnrepro.published.claims import accepted_verdicts, load_claims
from tsnrepro.published.documents import documents
from tsnrepro.report.deposit_metadata import load_citation

# By the file of this repository that is damaged: what reads it.
READERS = {
    "config/config.yaml": lambda path: load(Selection, path),
    "config/campaigns/smoke.yaml": lambda path: load(Campaign, path),
    "config/campaigns/quick.yaml": lambda path: load(Campaign, path),
    "config/testbeds/d10-example.yaml": load_testbed,
    "config/testbeds/emulated.yaml": load_testbed,
    "config/testbeds/guest.yaml": load_testbed,
    "config/testbeds/model.yaml": load_testbed,
    "config/studies/threshold-short.yaml": lambda path: load_study(str(path)).chunk_count(),
    "config/imports/tool-output.yaml": load_mapping,
    "paper/frer-udp/sources.yaml": lambda path: load(Sources, path),
    "paper/glossary.yaml": lambda path: load(Glossary, path),
    "CITATION.cff": load_citation,
    "data/published/documents.yaml": lambda path: documents(path.parent),
    "data/published/verdicts.yaml": accepted_verdicts,
    "data/published/claims.yaml": load_claims.__wrapped__,
    "data/published/public-set-checks.yaml": load_checks.__wrapped__,
}
