"""The command line: ``tsnrepro COMMAND``."""

import argparse
import sys
from pathlib import Path

from tsnrepro.errors import TsnreproError
from tsnrepro.studies.command import add_study_command


def main() -> None:
    """Run one command; a failure prints what, where and what to do, and exits with 1."""
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except TsnreproError as error:
        print(f"tsnrepro: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("tsnrepro: interrupted; what was measured is recorded", file=sys.stderr)
        sys.exit(130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tsnrepro", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add = commands.add_parser("testbeds", help="which testbeds can run here, and why not others")
    add.set_defaults(run=_testbeds)

    add = commands.add_parser("notebook", help="execute a parameterized notebook")
    add.add_argument("source", type=Path)
    add.add_argument("target", type=Path)
    add.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")
    add.set_defaults(run=_notebook)

    add = commands.add_parser("audit", help="check the numbers of a record, judge the claims on it")
    add.add_argument("testbed", nargs="?", default="published")
    add.add_argument("--campaign", default="quick")
    add.add_argument("--results", type=Path, default=Path("results"))
    add.add_argument("--foreign", type=Path, metavar="FOLDER", help="the authors' public data set")
    add.add_argument("--ledger", type=Path, metavar="FOLDER", help="write HTML and LaTeX there")
    add.add_argument("--accept", action="store_true", help="accept the verdicts as they are now")
    add.set_defaults(run=_audit)

    add = commands.add_parser("import", help="take a foreign data set into the raw store")
    add.add_argument("folder", type=Path)
    add.add_argument("--mapping", required=True, help="a file, or a name of config/imports")
    add.add_argument("--as", dest="name", required=True, help="the name of its testbed")
    add.set_defaults(run=_import)

    add = commands.add_parser("facts", help="write the facts of a run's testbed as values")
    add.add_argument("manifest", type=Path)
    add.add_argument("output", type=Path)
    add.set_defaults(run=_facts)

    add = commands.add_parser("page", help="write an executed notebook as a page without its code")
    add.add_argument("results", type=Path)
    add.add_argument("notebook", type=Path)
    add.add_argument("output", type=Path)
    add.set_defaults(run=_page)

    add = commands.add_parser("build", help="compile the eBPF data plane now")
    add.set_defaults(run=_build)

    add = commands.add_parser("paper-inputs", help="write a manuscript's macros and tables")
    add.add_argument("results", type=Path)
    add.add_argument("manuscript", type=Path)
    add.add_argument("output", type=Path)
    add.set_defaults(run=_paper_inputs)

    add = commands.add_parser("report", help="write the report page of a campaign")
    add.add_argument("results", type=Path)
    add.add_argument("output", type=Path)
    add.add_argument("--reason", default="", help="why this testbed was chosen")
    add.set_defaults(run=_report)

    add_study_command(commands)
    return parser


def _testbeds(_: argparse.Namespace) -> None:
    from tsnrepro.testbed.choose import availability  # noqa: PLC0415

    for name, lacks in availability().items():
        print(f"{name}: {'can run here' if not lacks else 'lacks ' + ', '.join(lacks)}")


def _notebook(arguments: argparse.Namespace) -> None:
    from tsnrepro.notebooks import execute, parse_parameters  # noqa: PLC0415

    execute(arguments.source, arguments.target, parse_parameters(arguments.parameter))


def _audit(arguments: argparse.Namespace) -> None:
    from rich.console import Console  # noqa: PLC0415

    from tsnrepro.audit.ledger import write_ledger  # noqa: PLC0415
    from tsnrepro.audit.report import accept, print_audit, run_audit, summary  # noqa: PLC0415

    result = run_audit(
        arguments.testbed, arguments.campaign, arguments.results, foreign=arguments.foreign
    )
    if arguments.ledger:
        names = {kind: arguments.ledger / f"ledger.{kind}" for kind in ("html", "tex")}
        macros = arguments.ledger / "verdicts.tex"
        write_ledger(result, html=names["html"], latex=names["tex"], macros=macros)
        print(summary(result))
    else:
        print_audit(result, Console())
    if arguments.accept:
        print(f"accepted: {len(accept(result))} changed verdicts")


def _import(arguments: argparse.Namespace) -> None:
    from tsnrepro.campaigns import raw_root  # noqa: PLC0415
    from tsnrepro.records.foreign.importing import import_folder  # noqa: PLC0415

    print(import_folder(arguments.folder, arguments.mapping, arguments.name, raw_root()))


def _facts(arguments: argparse.Namespace) -> None:
    from tsnrepro.analysis.testbed import write_facts  # noqa: PLC0415

    write_facts(arguments.manifest, arguments.output)


def _page(arguments: argparse.Namespace) -> None:
    from tsnrepro.notebooks import write_page  # noqa: PLC0415
    from tsnrepro.publish.values import load_file  # noqa: PLC0415

    values = load_file(arguments.results / "values" / "testbed.json")
    verb, label, campaign = (values[f"testbed.{n}"].value for n in ("verb", "label", "campaign"))
    write_page(arguments.notebook, arguments.output, f"{verb} the {label}, campaign {campaign}")


def _build(_: argparse.Namespace) -> None:
    from tsnrepro.dataplane.build import frerctl  # noqa: PLC0415
    from tsnrepro.streams.build import programs  # noqa: PLC0415

    print(f"frerctl: {frerctl()}")
    made = programs()
    print(f"talker: {made.talker}\nlistener: {made.listener}")


def _paper_inputs(arguments: argparse.Namespace) -> None:
    from tsnrepro.publish.macros import write_paper_inputs  # noqa: PLC0415

    write_paper_inputs(arguments.results, arguments.manuscript, arguments.output)


def _report(arguments: argparse.Namespace) -> None:
    from tsnrepro.publish.site import write_report  # noqa: PLC0415

    write_report(arguments.results, arguments.output, arguments.reason)


if __name__ == "__main__":
    main()
