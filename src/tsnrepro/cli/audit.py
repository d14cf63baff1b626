"""``tsnrepro audit``: check numbers, judge claims."""

import argparse
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command, add_language, add_name
from tsnrepro.common.counts import plural
from tsnrepro.common.errors import RecordError


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    audit = add_command(
        commands,
        "audit",
        _audit,
        "check published or measured numbers, and judge the documents' claims",
        "tsnrepro audit                       # the numbers of the documents",
        "tsnrepro audit emulated --campaign quick",
    )
    add_name(
        audit,
        "testbed",
        nargs="?",
        default="published",
        help="measured on this testbed (default: the documents' own)",
    )
    add_name(audit, "--campaign", default="quick", help="campaign on that testbed (quick)")
    audit.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of results (results)"
    )
    audit.add_argument(
        "--foreign",
        type=Path,
        metavar="FOLDER",
        help="the authors' public data set, to check as well",
    )
    audit.add_argument("--ledger", type=Path, metavar="FOLDER", help="write HTML and LaTeX here")
    add_language(audit, "of the HTML; default: en")
    audit.add_argument(
        "--accept", action="store_true", help="accept changed verdicts as the expected ones"
    )
    audit.add_argument(
        "--runs", type=Path, nargs="+", metavar="FOLDER", help="analysed runs, of any testbeds"
    )


def _audit(arguments: argparse.Namespace) -> None:
    from rich.console import Console  # noqa: PLC0415

    from tsnrepro.published.audit import accept, audit_campaign, print_audit, run_audit, summary  # noqa: PLC0415
    from tsnrepro.published.ledger import write_ledger  # noqa: PLC0415
    from tsnrepro.records.integrity import write_sums  # noqa: PLC0415
    from tsnrepro.results.language import translator  # noqa: PLC0415

    if arguments.runs:
        result = run_audit({folder.name: folder for folder in arguments.runs})
    else:
        result = audit_campaign(
            arguments.testbed, arguments.campaign, arguments.results, third_party=arguments.foreign
        )
    if arguments.ledger:
        text = translator(arguments.language, composed=True)
        write_ledger(result, arguments.ledger, "index.html", arguments.language, text)
        names = ("ledger.html", "ledger.tex", "verdicts.tex")
        sums = arguments.ledger / "ledger.sha256"
        write_sums(sums, [arguments.ledger / name for name in names])
        print(summary(result))
    else:
        print_audit(result, Console())
    if arguments.accept:
        print(f"accepted: {len(accept(result))} changed verdicts")
    if result.missing:
        raise RecordError(
            f"{plural(len(result.missing), 'check')} could not run, the first: "
            f"{result.missing[0].reason}",
            str(arguments.foreign or ""),
            "Give the whole dataset",
        )
