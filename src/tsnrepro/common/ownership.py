"""Root works here for the one whose clone this is: what it makes there is given to that one."""

import atexit
import os
import subprocess

from tsnrepro.common.repository import root

_GIVING = "TSNREPRO_GIVES_BACK"
"""In the environment of what is started by a process that gives back when all of them are done."""
# Waits until whoever holds its input is gone.
_GIVER = 'cat; exec "$1"'


def restore_ownership_at_exit() -> None:
    """Give what root makes in the clone to its owner when this process ends, or is killed.

    Else a user who ran one command with ``sudo`` could not run the next one without. Somebody
    else than root, and root in a clone of its own, has nothing to give.
    """
    if os.geteuid() != 0 or root().stat().st_uid == 0 or _GIVING in os.environ:
        return
    os.environ[_GIVING] = "yes"
    # In a session of its own: what ends this process and its group is not to end it.
    giver = subprocess.Popen(
        ["sh", "-c", _GIVER, "sh", str(root() / "scripts/give-back")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    atexit.register(giver.communicate)
