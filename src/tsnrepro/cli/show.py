"""``tsnrepro show``: one trial with the output of its tools."""

import argparse
import sys
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name
from tsnrepro.common.errors import printable


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    show = add_command(
        commands,
        "show",
        _show,
        "show a trial: its factors, its values, and the output of its tools",
        "tsnrepro show frer-1472B-900M-r1-78d4   # any unique part of its name",
        "tsnrepro show emulated/quick/loss/frer-1472B-900M-r1 --output iperf3.json",
    )
    add_name(show, "trial", help="name of the trial, a unique part of it, or its folder")
    show.add_argument(
        "--output", metavar="NAME", help="print this output of a tool; unchanged to a file or pipe"
    )


def _show(arguments: argparse.Namespace) -> None:
    from tsnrepro.explore.show import raw_output, show  # noqa: PLC0415

    if arguments.output is None:
        print(show(arguments.trial))
        return
    output = raw_output(arguments.trial, arguments.output)
    if sys.stdout.isatty():  # which would obey its control characters
        print(printable(output.decode("utf-8", "replace")), end="")
    else:
        sys.stdout.buffer.write(output)
