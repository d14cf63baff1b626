"""``tsnrepro watch`` and ``stop``: see what is measured, and end it."""

import argparse
import sys
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    watch = add_command(
        commands,
        "watch",
        _watch,
        "show what is measured so far, as it is measured: trials, time left, what is odd",
        "tsnrepro watch                       # from a second terminal; Ctrl-C ends it",
        "tsnrepro watch --experiment loss --every 10",
        "tsnrepro watch --page watch.html     # a page that refreshes itself",
    )
    for name in ("testbed", "campaign", "experiment"):
        add_name(watch, f"--{name}", help=f"show this {name}, even if another is measured")
    watch.add_argument(
        "--every", type=_seconds, default=2.0, metavar="SECONDS", help="refresh so often (2)"
    )
    watch.add_argument("--page", type=Path, metavar="FILE", help="also write it as an HTML page")
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


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return seconds


def _watch(arguments: argparse.Namespace) -> None:
    from tsnrepro.explore.watch import watch  # noqa: PLC0415

    names = (arguments.testbed, arguments.campaign, arguments.experiment)
    try:
        watch(sys.stdout, names, every_s=arguments.every, page=arguments.page)
    except KeyboardInterrupt:
        print()


def _stop(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.steering import stop  # noqa: PLC0415

    for line in stop(arguments.campaign, arguments.testbed):
        print(line)
