"""Which testbed a campaign runs on when the configuration says ``auto``."""

from collections.abc import Collection

from tsnrepro.errors import ConfigurationError
from tsnrepro.repository import root
from tsnrepro.testbed.requirements import missing


def availability() -> dict[str, list[str]]:
    """Return, for each kind of testbed, what this machine lacks for it."""
    from tsnrepro.testbed.guest import requirements as guest  # noqa: PLC0415

    return {"emulated": missing(), "guest": guest.missing(), "model": []}


def configured() -> list[str]:
    """Return the names of config/testbeds: each file describes a testbed."""
    return sorted(path.stem for path in (root() / "config" / "testbeds").glob("*.yaml"))


def choose(
    wanted: str, imported: Collection[str] = (), *, shaping: bool = False
) -> tuple[str, str]:
    """Return the testbed to use and the reason, in one line.

    A testbed asked for by name is not refused here, whatever this machine lacks: trials that are
    recorded already need no testbed.

    Parameters
    ----------
    wanted
        Its name, or ``auto``: ``emulated`` where this machine can run it, else ``model``.
    imported
        Names of the data sets that were imported as testbeds.
    shaping
        Whether the campaign needs the queues of shaping, which not every kernel has: ``auto`` then
        takes ``guest`` where this kernel lacks them.

    Raises
    ------
    ConfigurationError
        No testbed has this name.
    """
    if wanted in imported:
        return wanted, "it was imported"
    if wanted != "auto":
        if wanted not in configured():
            raise ConfigurationError(
                f"unknown testbed '{wanted}'",
                "config/config.yaml, testbed",
                f"There are: {', '.join(('auto', *configured(), *imported))}",
            )
        return wanted, "it was asked for"
    if lacks := missing():
        return "model", f"emulated lacks {', '.join(lacks)}; these numbers are a model's"
    if shaping:
        return _for_shaping()
    return "emulated", "root and network namespaces are available"


def _for_shaping() -> tuple[str, str]:
    """Return the testbed that has the queues of shaping, and the reason."""
    from tsnrepro.testbed.guest import requirements as guest  # noqa: PLC0415

    if not (queues := guest.lacking_qdiscs()):
        return "emulated", "this kernel has the queues of shaping"
    reason = f"this kernel lacks {', '.join(queues)}"
    if lacks := guest.missing():
        return "model", f"{reason}, and guest lacks {', '.join(lacks)}"
    return "guest", reason
