"""What a rack was like before a campaign, kept on the controlling machine until it is so again."""

import json
import os
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.common.repository import root


class Journal:
    """The file of one testbed: written before the first change, removed after the last is undone.

    It holds the settings that the hosts were reached by, so that an edited file of the testbed
    does not keep a rack from being restored; keys are named in it, not held.
    """

    def __init__(self, testbed: str, folder: Path | None = None) -> None:
        self.testbed = testbed
        self.path = (folder or root() / "data" / "racks") / f"{testbed}.json"

    def write(self, entry: dict[str, Any]) -> None:
        """Write the file whole: after this returns it outlives a loss of power."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(entry, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self.path)
        self._sync_folder()

    def read(self) -> dict[str, Any] | None:
        """Return what was written, None where there is nothing to restore.

        Raises
        ------
        RecordError
            The file is not what was written.
        """
        try:
            return json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RecordError(
                f"the state of the rack cannot be read: {error}",
                str(self.path),
                "Restart the rack's switches, which forget what was set, and remove this file",
            ) from error

    def remove(self) -> None:
        """Note that everything is as it was."""
        self.path.unlink(missing_ok=True)
        self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
