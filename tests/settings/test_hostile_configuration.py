"""Every file of the configuration, damaged in ten thousand ways: one clear sentence, or read."""

import pytest
from damage import NUMBERS, damaged_yaml, read_each_file

from tsnrepro.audit.checks import load_checks
from tsnrepro.audit.claims import accepted_verdicts, load_claims
from tsnrepro.audit.published import PACKAGE_FILE, documents
from tsnrepro.publish.crate import load_citation
from tsnrepro.publish.glossary import Glossary
from tsnrepro.records.imports.mapping import load_mapping
from tsnrepro.repository import root
from tsnrepro.settings import Campaign, Selection, load, load_testbed
from tsnrepro.settings.papers import Sources
from tsnrepro.studies.study import load_study

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


# Long files whose entries are of few kinds: so many of the first ones are damaged.
BEGINNINGS = {
    "data/published/claims.yaml": ("\n  - id:", 8),
    "data/published/public-set-checks.yaml": ("\n  - id:", 12),
    "paper/glossary.yaml": ("\n  - ", 12),
}


def sound_file(name):
    """Return a file of the repository, or the beginning of it."""
    sound = (root() / name).read_text(encoding="utf-8")
    if name in BEGINNINGS:
        item, count = BEGINNINGS[name]
        sound = item.join(sound.split(item)[:count]) + "\n"
    return sound.encode()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", READERS)
def test_files_of_the_configuration(name, number, tmp_path):
    sound, read = sound_file(name), READERS[name]
    (tmp_path / PACKAGE_FILE).write_bytes((root() / "data/published" / PACKAGE_FILE).read_bytes())
    path = tmp_path / name.rsplit("/", 1)[-1]
    path.write_bytes(sound)
    read(path)
    assert read_each_file(damaged_yaml(sound, number), path, lambda: read(path))
