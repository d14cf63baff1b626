"""Commands on what goes out: papers packed, compared and counted, and the deposit."""

import argparse
from pathlib import Path
from typing import Any


def add_submission_commands(commands: Any) -> None:
    """Add them to the command line."""
    submission = commands.add_parser(
        "submission", help="pack a printed paper so that it compiles alone"
    )
    submission.add_argument("target", help="arxiv, anonymous for blind review, or journal")
    submission.add_argument("manuscript", type=Path)
    submission.add_argument("results", type=Path, help="the folder of the printed paper")
    submission.add_argument("output", type=Path)
    submission.set_defaults(run=_submission)

    difference = commands.add_parser(
        "difference", help="mark what a printed paper says otherwise than before"
    )
    difference.add_argument("manuscript", type=Path)
    difference.add_argument("results", type=Path, help="the folder of the printed paper")
    difference.add_argument(
        "against", help="a tarball that the target arxiv made, a folder of them, or a git revision"
    )
    difference.add_argument("output", type=Path, help="the PDF")
    difference.set_defaults(run=_difference)

    twin = commands.add_parser("twin", help="write a printed paper as one HTML page")
    twin.add_argument("manuscript", type=Path)
    twin.add_argument("results", type=Path, help="the folder of the printed paper")
    twin.add_argument("output", type=Path, help="the page, .html")
    twin.set_defaults(run=_twin)

    words = commands.add_parser("words", help="count the words of printed papers")
    words.add_argument("papers", type=Path, nargs="+", metavar="PDF")
    words.set_defaults(run=_words)

    numbered = commands.add_parser(
        "numbered", help="where printed papers have the tables and figures that documents number"
    )
    numbered.add_argument("papers", type=Path, nargs="+", metavar="PDF")
    numbered.set_defaults(run=_numbered)

    deposit = commands.add_parser("deposit", help="pack runs with their raw data for a repository")
    deposit.add_argument("output", type=Path, help="the archive, .tar.gz")
    deposit.add_argument("--runs", type=Path, nargs="+", metavar="FOLDER", required=True)
    deposit.add_argument("--papers", type=Path, nargs="*", metavar="FOLDER", default=[])
    deposit.add_argument(
        "--others", type=Path, nargs="*", metavar="FOLDER", default=[], help="report, studies"
    )
    deposit.set_defaults(run=_deposit)


def _submission(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.submission import write_submission  # noqa: PLC0415

    write_submission(arguments.manuscript, arguments.results, arguments.target, arguments.output)


def _difference(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.diff import write_difference  # noqa: PLC0415

    write_difference(arguments.manuscript, arguments.results, arguments.against, arguments.output)


def _twin(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.html import write_twin  # noqa: PLC0415

    write_twin(arguments.manuscript, arguments.results, arguments.output)


def _words(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.wordcount import as_table, lengths  # noqa: PLC0415

    print(as_table({path.stem: lengths(path) for path in arguments.papers}))


def _numbered(arguments: argparse.Namespace) -> None:
    from tsnrepro.common.errors import PublishError  # noqa: PLC0415
    from tsnrepro.config.papers import sources_of  # noqa: PLC0415
    from tsnrepro.papers.numbering import as_table, places  # noqa: PLC0415

    found = {path.stem: places(path, sources_of(path.stem).document) for path in arguments.papers}
    print(as_table(found))
    missing = [
        f"{item} in {paper}"
        for paper, items in found.items()
        for item, page in items.items()
        if page is None
    ]
    if missing:
        raise PublishError(
            f"not on any page: {', '.join(missing)}",
            "",
            'A caption says which it is: "Table 4.2 of the report", "문서의 표 9A"',
        )


def _deposit(arguments: argparse.Namespace) -> None:
    from tsnrepro.report.deposit import write_deposit  # noqa: PLC0415

    runs, papers, others = arguments.runs, arguments.papers, arguments.others
    print(f"{write_deposit(arguments.output, runs, papers, others)}  {arguments.output}")
