"""Files on disk for the tests of readers, and tables of a mapping that read them."""

import tempfile
from itertools import count
from pathlib import Path

from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable

# Removed with the process; a fixture would be shared by all examples of a property test.
_FOLDER = tempfile.TemporaryDirectory(prefix="tsnrepro-readers-")
_NUMBERS = count()
REQUIRED_FIELDS = {"configuration": "frer", "payload_bytes": 1472}


def source_file(content, relative="some.txt"):
    """Return a file with a content, which exists as long as the tests run."""
    path = Path(_FOLDER.name) / f"{next(_NUMBERS)}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return SourceFile(path, relative)


def table(form, experiment="loss", **keys):
    """Return a table of a mapping with the required fields only."""
    needed = {"configuration": "frer"} if experiment == "tcp" else REQUIRED_FIELDS
    content = {"files": ["*"], "format": form, "experiment": experiment, "fields": needed}
    return MappedTable.model_validate(content | keys)
