"""Files for readers: bytes on the disk, read by the table of a mapping."""

import tempfile
from itertools import count
from pathlib import Path

from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable

# Gone with the process; a fixture would be one for all examples of a property test.
_FOLDER = tempfile.TemporaryDirectory(prefix="tsnrepro-readers-")
_NUMBERS = count()
NEEDED = {"configuration": "frer", "payload_bytes": 1472}


def source_file(content, relative="some.txt"):
    """Return a file with a content, which stays while tests run."""
    path = Path(_FOLDER.name) / f"{next(_NUMBERS)}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return SourceFile(path, relative)


def table(form, experiment="loss", **keys):
    """Return a table of a mapping that takes only what it has to."""
    needed = {"configuration": "frer"} if experiment == "tcp" else NEEDED
    content = {"files": ["*"], "format": form, "experiment": experiment, "fields": needed}
    return MappedTable.model_validate(content | keys)
