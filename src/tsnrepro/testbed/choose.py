"""Which testbed a campaign runs on when the configuration says ``auto``."""

from collections.abc import Collection

from tsnrepro.errors import ConfigurationError, TestbedError

KINDS = ("emulated",)


def availability() -> dict[str, list[str]]:
    """Return, for each kind of testbed, what this machine lacks for it."""
    from tsnrepro.testbed.requirements import missing  # noqa: PLC0415

    return {"emulated": missing()}


def choose(wanted: str, imported: Collection[str] = ()) -> tuple[str, str]:
    """Return the testbed to use and the reason, in one line.

    Parameters
    ----------
    wanted
        Its name, or ``auto``.
    imported
        Names of the data sets that were imported as testbeds.

    Raises
    ------
    ConfigurationError
        No testbed has this name.
    TestbedError
        With ``auto``: this machine can run none; the message says what is missing and what
        else can be chosen. A testbed asked for by name is not refused here, because trials
        that are recorded already need no testbed.
    """
    if wanted in imported:
        return wanted, "it was imported"
    if wanted not in ("auto", *KINDS):
        raise ConfigurationError(
            f"unknown testbed '{wanted}'",
            "config/config.yaml, testbed",
            f"There are: {', '.join(('auto', *KINDS, *imported))}",
        )
    if wanted != "auto":
        return wanted, "it was asked for"
    if lacks := availability()["emulated"]:
        raise TestbedError(
            f"no testbed can run here: emulated lacks {', '.join(lacks)}",
            "testbed auto",
            "To print the papers from trials that data/raw already holds, choose it by name:"
            " snakemake --cores 4 --config testbed=emulated",
        )
    return "emulated", "root and network namespaces are available"
