"""Ownership of the files that root creates in another user's clone."""

import atexit
import os

from tsnrepro.common.processes import start_after_exit
from tsnrepro.common.repository import root

# In the environment of child processes: their parent restores ownership after all of them.
_RESTORED = "TSNREPRO_RESTORES_OWNERSHIP"


def restore_ownership_at_exit() -> None:
    """Give what root creates in the clone to the clone's owner when this process has ended.

    Otherwise a user who ran one command with ``sudo`` could not run the next one without. Does
    nothing unless root works in another user's clone.
    """
    if os.geteuid() != 0 or root().stat().st_uid == 0 or _RESTORED in os.environ:
        return
    os.environ[_RESTORED] = "yes"
    restoring = start_after_exit('cat; exec "$1"', str(root() / "scripts/restore-ownership"))
    atexit.register(restoring.communicate)
