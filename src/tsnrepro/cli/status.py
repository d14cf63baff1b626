"""``tsnrepro plan`` and ``status``: what is to be measured, and campaign progress."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    planned = add_command(
        commands,
        "plan",
        _plan,
        "show what a campaign will measure: trials, time, disk",
        "tsnrepro plan                # what snakemake without arguments measures",
        "tsnrepro plan --campaign documents --testbed emulated",
    )
    for name in ("campaign", "testbed"):
        add_name(planned, f"--{name}", help=f"the {name} (that of config/config.yaml)")
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


def _plan(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.forecast import as_text, forecasts  # noqa: PLC0415

    print(as_text(forecasts(arguments.campaign, arguments.testbed)))


def _status(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.status import as_text, statuses  # noqa: PLC0415

    print(as_text(statuses(arguments.testbed, arguments.campaign, arguments.experiment)))
