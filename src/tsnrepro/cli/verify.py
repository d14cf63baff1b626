"""``tsnrepro verify``: checksums of the record, the results and archives."""

import argparse
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    verify = add_command(
        commands,
        "verify",
        _verify,
        "verify the checksums of the record and of the results",
        "tsnrepro verify                      # record and results of this repository",
        "tsnrepro verify tsnrepro-quick.tar.gz",
    )
    verify.add_argument(
        "results",
        type=Path,
        nargs="?",
        default=Path("results"),
        help="folder of results, or an archive (.tar.gz), whose tables are also recomputed",
    )


def _verify(arguments: argparse.Namespace) -> None:
    if arguments.results.name.endswith(".tar.gz"):
        from tsnrepro.report.archive import verify_archive  # noqa: PLC0415

        verify_archive(arguments.results)
    else:
        from tsnrepro.records.integrity import verify  # noqa: PLC0415

        verify(arguments.results)
