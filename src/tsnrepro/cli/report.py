"""``tsnrepro report`` and ``tsnrepro deposit``: runs as a site, and as an archive."""

import argparse
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command, add_language


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    report = add_command(
        commands,
        "report",
        _report,
        "write the report of analysed runs",
        "tsnrepro report report --runs results/emulated/quick/loss",
        hidden=True,
    )
    report.add_argument("output", type=Path, help="folder of the report")
    _add_runs(report)
    add_language(report, "of its pages")
    report.add_argument("--reason", default="", help="why these testbeds were selected")

    deposit = add_command(
        commands,
        "deposit",
        _deposit,
        "pack runs with their raw data into an archive for a repository",
        "tsnrepro deposit loss.tar.gz --runs results/emulated/quick/loss",
    )
    deposit.add_argument("output", type=Path, help="the archive, .tar.gz")
    _add_runs(deposit)
    deposit.add_argument(
        "--others", type=Path, nargs="*", metavar="FOLDER", default=[], help="report, studies"
    )
    deposit.add_argument(
        "--uncommitted", action="store_true", help="pack files that differ from the commit, too"
    )


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=Path, nargs="+", metavar="FOLDER", required=True, help="analysed runs"
    )
    parser.add_argument(
        "--papers", type=Path, nargs="*", metavar="FOLDER", default=[], help="built papers"
    )


def _report(arguments: argparse.Namespace) -> None:
    from tsnrepro.records.integrity import write_sums  # noqa: PLC0415
    from tsnrepro.report.site import write_report  # noqa: PLC0415

    output = arguments.output
    write_report(output, arguments.runs, arguments.papers, arguments.reason, arguments.language)
    kinds = (".html", ".css", ".js", ".pdf", ".json")
    pages = (path for path in output.rglob("*") if path.suffix in kinds)
    write_sums(output / "report.sha256", (path for path in pages if path.name != "ledger.html"))


def _deposit(arguments: argparse.Namespace) -> None:
    from tsnrepro.report.deposit import write_deposit  # noqa: PLC0415

    runs, papers, others = arguments.runs, arguments.papers, arguments.others
    digest = write_deposit(
        arguments.output, runs, papers, others, uncommitted=arguments.uncommitted
    )
    print(f"{digest}  {arguments.output}")
