"""Child processes that end with this process, even if it is killed."""


def killed_with_parent(*argv: str) -> list[str]:
    """Return a command that the kernel kills when its parent ends (PR_SET_PDEATHSIG, prctl(2)).

    The parent is the thread that starts it.
    """
    return ["setpriv", "--pdeathsig", "KILL", *argv]


def in_namespaces(kinds: tuple[str, ...], *argv: str) -> list[str]:
    """Return a command that runs in unnamed namespaces and is killed with its parent.

    It is the first process of its PID namespace: the kernel kills all others with it, and removes
    the namespaces and everything in them.

    Parameters
    ----------
    kinds
        Kinds of namespaces besides PID, by the names of unshare(1): ``net``, ``mount``, ``uts`` ...
    argv
        The command.
    """
    spaces = [f"--{kind}" for kind in kinds]
    return killed_with_parent(
        "unshare", *spaces, "--pid", "--fork", "--kill-child=KILL", "--mount-proc", *argv
    )
