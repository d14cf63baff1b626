"""``tsnrepro status``: campaign progress."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    status = add_command(
        commands,
        "status",
        _status,
        "show campaign progress: measured and missing trials, stale results, PDFs",
        "tsnrepro status                      # everything started or configured",
        "tsnrepro status --testbed emulated --campaign quick",
        "tsnrepro status --experiment loss",
    )
    for name in ("testbed", "campaign", "experiment"):
        add_name(status, f"--{name}", help=f"show only this {name}")


def _status(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.status import as_text, statuses  # noqa: PLC0415

    print(as_text(statuses(arguments.testbed, arguments.campaign, arguments.experiment)))
