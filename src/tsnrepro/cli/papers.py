"""The commands on papers: their generated parts, pages, submissions, differences and counts."""

import argparse
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    inputs = add_command(
        commands,
        "paper-inputs",
        _paper_inputs,
        "write a manuscript's macros, tables and figures",
        "tsnrepro paper-inputs paper/frer-udp results/papers/latest/frer-udp \\",
        "    --run measured=results/emulated/quick/loss",
        hidden=True,
    )
    inputs.add_argument("manuscript", type=Path, help="folder of the manuscript")
    inputs.add_argument("output", type=Path, help="folder of the generated files")
    inputs.add_argument(
        "--run",
        action="append",
        default=[],
        metavar="COLUMN=FOLDER",
        dest="runs",
        help="an analysed run and its column in the tables",
    )
    inputs.add_argument("--study", type=Path, metavar="FOLDER", help="results of its study")
    inputs.add_argument("--verdicts", type=Path, metavar="FILE", help="verdicts of the audit")

    html = add_command(
        commands,
        "html",
        _html,
        "convert a built paper to a single HTML page",
        "tsnrepro html paper/frer-udp results/papers/latest/frer-udp frer-udp.html",
    )
    _add_paper(html)
    html.add_argument("output", type=Path, help="the page, .html")

    diff = add_command(
        commands,
        "diff",
        _diff,
        "typeset the changes to a paper since a revision or a submission",
        "tsnrepro diff paper/frer-udp results/papers/latest/frer-udp v1.0 changes.pdf",
    )
    _add_paper(diff)
    diff.add_argument(
        "against", help="a git revision, a tarball of the target arxiv, or a folder of tarballs"
    )
    diff.add_argument("output", type=Path, help="the PDF")

    wordcount = add_command(
        commands,
        "wordcount",
        _wordcount,
        "count the words of built papers",
        "tsnrepro wordcount results/papers/latest/frer-udp/frer-udp.pdf",
    )
    wordcount.add_argument("papers", type=Path, nargs="+", metavar="PDF")

    numbering = add_command(
        commands,
        "check-numbering",
        _check_numbering,
        "check that built papers carry the documents' tables and figures",
        "tsnrepro check-numbering results/papers/latest/frer-udp/frer-udp.pdf",
    )
    numbering.add_argument("papers", type=Path, nargs="+", metavar="PDF")

    paper = add_command(
        commands,
        "paper",
        None,
        "check what a paper says against its record",
        "tsnrepro paper check frer-udp",
    )
    check = add_command(
        paper.add_subparsers(required=True, metavar="COMMAND"),
        "check",
        _check,
        "print each sentence that draws a conclusion, and whether the record carries it",
        "tsnrepro paper check frer-udp",
    )
    check.add_argument("paper", help="its name, or the folder of the built paper")

    submission = add_command(
        commands,
        "submission",
        _submission,
        "pack a built paper so that it compiles alone",
        "tsnrepro submission arxiv paper/frer-udp results/papers/latest/frer-udp \\",
        "    frer-udp.tar.gz",
        hidden=True,
    )
    submission.add_argument("target", help="arxiv, anonymous (for blind review) or journal")
    _add_paper(submission)
    submission.add_argument("output", type=Path, help="the tarball, .tar.gz")


def _add_paper(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manuscript", type=Path, help="folder of the manuscript")
    parser.add_argument("results", type=Path, help="folder of the built paper")


def _paper_inputs(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.data_sources import parse_data_sources  # noqa: PLC0415
    from tsnrepro.papers.macros import write_paper_inputs  # noqa: PLC0415
    from tsnrepro.records.integrity import write_sums  # noqa: PLC0415

    sources, output = parse_data_sources(arguments.runs, arguments.study), arguments.output
    files = write_paper_inputs(arguments.manuscript, output, sources, arguments.verdicts)
    write_sums(output / "inputs.sha256", files)


def _html(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.html import write_html  # noqa: PLC0415

    write_html(arguments.manuscript, arguments.results, arguments.output)


def _diff(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.diff import write_diff  # noqa: PLC0415

    write_diff(arguments.manuscript, arguments.results, arguments.against, arguments.output)


def _wordcount(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.pdf_text import word_count_table  # noqa: PLC0415

    print(word_count_table(arguments.papers))


def _check_numbering(arguments: argparse.Namespace) -> None:
    from tsnrepro.common.errors import PublishError  # noqa: PLC0415
    from tsnrepro.config.papers import sources_of  # noqa: PLC0415
    from tsnrepro.papers.pdf_text import numbered_items, numbered_items_table, without_supplements  # noqa: PLC0415

    papers = without_supplements(arguments.papers)
    documents = {path: sources_of(path.stem).document for path in papers}
    found = {path.stem: numbered_items(path, name) for path, name in documents.items() if name}
    print(numbered_items_table(found))
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
            'A caption names the number: "Table 4.2 of the report", "문서의 표 9A"',
        )


def _check(arguments: argparse.Namespace) -> None:
    from tsnrepro.common.errors import PublishError  # noqa: PLC0415
    from tsnrepro.papers.assertions import REWRITE, read_assertions  # noqa: PLC0415

    results = Path(arguments.paper)
    if not results.is_dir():
        results = Path("results/papers/latest") / results
    judged = read_assertions(results)
    for one in judged:
        print(one.text)
    lacking = sum(not one.carried for one in judged)
    if lacking:
        what = f"the record does not carry {lacking} of {len(judged)} sentences"
        raise PublishError(what, results.name, REWRITE)


def _submission(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.submission import write_submission  # noqa: PLC0415

    write_submission(arguments.manuscript, arguments.results, arguments.target, arguments.output)
