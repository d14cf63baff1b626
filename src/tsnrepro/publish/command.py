"""The commands ``tsnrepro submission`` and ``tsnrepro words``: a printed paper on its way out."""

import argparse
from pathlib import Path
from typing import Any


def add_submission_commands(commands: Any) -> None:
    """Add the two to the command line."""
    submission = commands.add_parser(
        "submission", help="pack a printed paper so that it compiles alone"
    )
    submission.add_argument("target", help="arxiv, or anonymous for blind review")
    submission.add_argument("manuscript", type=Path)
    submission.add_argument("results", type=Path, help="the folder of the printed paper")
    submission.add_argument("output", type=Path)
    submission.set_defaults(run=_submission)

    words = commands.add_parser("words", help="count the words of printed papers")
    words.add_argument("papers", type=Path, nargs="+", metavar="PDF")
    words.set_defaults(run=_words)


def _submission(arguments: argparse.Namespace) -> None:
    from tsnrepro.publish.submission import write_submission  # noqa: PLC0415

    write_submission(arguments.manuscript, arguments.results, arguments.target, arguments.output)


def _words(arguments: argparse.Namespace) -> None:
    from tsnrepro.publish.words import as_table, lengths  # noqa: PLC0415

    print(as_table({path.stem: lengths(path) for path in arguments.papers}))
