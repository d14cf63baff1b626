"""Child processes that end with this process, or clean up after it, even if it is killed."""

import subprocess

AFTER_EXIT = "tsnrepro-after-exit"
"""Among the arguments of what :func:`start_after_exit` starts, which is to outlive its parent."""


def killed_with_parent(*argv: str) -> list[str]:
    """Return a command that the kernel kills when its parent ends (PR_SET_PDEATHSIG, prctl(2)).

    The parent is the thread that starts it.
    """
    return ["setpriv", "--pdeathsig", "KILL", *argv]


def in_namespaces(kinds: tuple[str, ...], *argv: str) -> list[str]:
    """Return a command that runs in unnamed namespaces and is killed with its parent.

    It is the first process of its PID namespace: the kernel kills all others with it, and removes
    the namespaces and everything in them.

    ``kinds``: kinds of namespaces besides PID, by the names of unshare(1): ``net``, ``mount``,
    ``uts`` ...
    """
    spaces = [f"--{kind}" for kind in kinds]
    return killed_with_parent(
        "unshare", *spaces, "--pid", "--fork", "--kill-child=KILL", "--mount-proc", *argv
    )


def start_after_exit(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a shell script that can tell when this process has ended, even if it was killed.

    Its standard input ends then. It runs in a session of its own, which signals to this process's
    group do not reach.
    """
    return subprocess.Popen(
        ["sh", "-c", script, AFTER_EXIT, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
