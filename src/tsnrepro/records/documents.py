"""JSON files of the record, read as what they are or refused in a sentence.

A record may come from elsewhere, in a deposit; what it names is looked for inside it alone.
"""

import json
import os
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError

_LONGEST_NAME_BYTES = 255  # NAME_MAX of Linux's file systems


def read_object(path: Path, what: str, remedy: str = "") -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Parameters
    ----------
    path
        The file.
    what
        What is wrong where it holds none, as an error says it.
    remedy
        What to do then.

    Raises
    ------
    RecordError
        The file is missing, cannot be read, or holds something else.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{what}: {error}", str(path), remedy) from error
    if not isinstance(document, dict):
        raise RecordError(f"{what}: it holds no JSON object", str(path), remedy)
    return document


def is_file_name(name: object) -> bool:
    """Tell whether something is the name of a file or folder, and no path to another place."""
    if not isinstance(name, str) or "\0" in name or "/" in name or name in ("", ".", ".."):
        return False
    try:
        return len(os.fsencode(name)) <= _LONGEST_NAME_BYTES
    except UnicodeEncodeError:
        return False
