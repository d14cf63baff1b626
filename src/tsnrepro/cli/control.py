"""``tsnrepro stop``: end a campaign after the trial that is measured now."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    stop = add_command(
        commands,
        "stop",
        _stop,
        "end a campaign after the trial that is measured now; a next run goes on",
        "tsnrepro stop                        # whatever is measured from this folder",
        "tsnrepro stop --campaign quick --testbed model",
    )
    for name in ("campaign", "testbed"):
        add_name(stop, f"--{name}", help=f"only if it measures this {name}")


def _stop(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.steering import stop  # noqa: PLC0415

    for line in stop(arguments.campaign, arguments.testbed):
        print(line)
