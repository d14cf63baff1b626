"""The command line: ``tsnrepro COMMAND``."""

import argparse
import errno
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tsnrepro.cli.papers import add_submission_commands
from tsnrepro.cli.rack import add_rack_commands
from tsnrepro.cli.study import add_study_command
from tsnrepro.cli.terminal import add_examples, add_terminal_commands, complete
from tsnrepro.common.errors import RecordError, TsnreproError
from tsnrepro.common.ownership import restore_ownership_at_exit
from tsnrepro.workflow.command_server import run_preloaded

if TYPE_CHECKING:
    from tsnrepro.config import CardsSettings

# What is no mistake of the program's: a disk that is full, read-only, broken or somebody else's.
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES)
_DISK_REMEDY = "Make room there, or let this user write; what was measured is recorded"


def main() -> None:
    """Run one command, under a workflow in a copy of a process that has imported what it needs."""
    status = run_preloaded(sys.argv[1:])
    if status is None:
        run_command()
    else:
        sys.exit(status)


def run_command() -> None:
    """Run one command here; a failure prints what, where and what to do, and exits with 1."""
    parser = _parser()
    complete(parser)
    arguments = parser.parse_args()
    restore_ownership_at_exit()
    try:
        arguments.run(arguments)
    except TsnreproError as error:
        print(f"tsnrepro: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("tsnrepro: interrupted; what was measured is recorded", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read, such as `head`, has enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        place = f" ({error.filename})" if error.filename else ""
        print(f"tsnrepro: {error.strerror}{place}. {_DISK_REMEDY}", file=sys.stderr)
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tsnrepro",
        description="Measure time-sensitive networks, look into records, print papers.",
    )
    parser.add_argument("--version", action="version", version=f"tsnrepro {version('tsnrepro')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], None], what: str):
        added = commands.add_parser(name, help=what)
        added.set_defaults(run=run)
        return added

    command("testbeds", _testbeds, "which testbeds can run here, and why not others")

    command("experiments", _experiments, "what can be measured, and on which testbeds")

    add = command("notebook", _notebook, "execute a parameterized notebook")
    add.add_argument("source", type=Path)
    add.add_argument("target", type=Path)
    add.add_argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE")

    add = command("audit", _audit, "check the numbers of a record, judge the claims on it")
    add.add_argument("testbed", nargs="?", default="published")
    add.add_argument("--campaign", default="quick")
    add.add_argument("--results", type=Path, default=Path("results"))
    add.add_argument("--foreign", type=Path, metavar="FOLDER", help="the authors' public data set")
    add.add_argument("--ledger", type=Path, metavar="FOLDER", help="write HTML and LaTeX there")
    add.add_argument("--accept", action="store_true", help="accept the verdicts as they are now")
    add.add_argument(
        "--runs", type=Path, nargs="+", metavar="FOLDER", help="analysed runs, of any testbeds"
    )

    add = command("import", _import, "take a data set of others into the raw store")
    add.add_argument("folder", type=Path)
    add.add_argument("--mapping", required=True, help="a file, or a name of config/imports")
    add.add_argument("--as", dest="name", required=True, help="the name of its testbed")
    add.add_argument("--replace", action="store_true", help="replace the import of this name")

    add = command("seal", _seal, "note what an analysed run rests on")
    add.add_argument("run_folder", type=Path)

    add = command("verify", _verify, "check every byte of the record and of the results")
    add.add_argument(
        "results",
        type=Path,
        nargs="?",
        default=Path("results"),
        help="folder of results, or an archive (.tar.gz): its tables are made again too",
    )

    add = command("page", _page, "write an executed notebook as a page without its code")
    add.add_argument("run_folder", type=Path)
    add.add_argument("output", type=Path)

    command("build", _build, "compile the data plane, talker and listener, and the model")

    add = command("paper-inputs", _paper_inputs, "write a manuscript's macros and tables")
    add.add_argument("manuscript", type=Path)
    add.add_argument("output", type=Path)
    add.add_argument("--run", action="append", default=[], metavar="COLUMN=FOLDER", dest="runs")
    add.add_argument("--study", type=Path, metavar="FOLDER")
    add.add_argument("--verdicts", type=Path, metavar="FILE")

    add = command("report", _report, "write the report of some runs")
    add.add_argument("output", type=Path)
    add.add_argument("--runs", type=Path, nargs="+", metavar="FOLDER", required=True)
    add.add_argument("--papers", type=Path, nargs="*", metavar="FOLDER", default=[])
    add.add_argument("--reason", default="", help="why this testbed was chosen")

    add_rack_commands(commands, _tell_trial)
    add_terminal_commands(commands)
    add_study_command(commands)
    add_submission_commands(commands)
    add_examples(parser, commands)
    return parser


def _testbeds(_: argparse.Namespace) -> None:
    from tsnrepro.config.files import testbed_settings  # noqa: PLC0415
    from tsnrepro.config.registry import SHARED_KINDS  # noqa: PLC0415
    from tsnrepro.testbeds.choose import availability, configured  # noqa: PLC0415

    for name, lacks in availability().items():
        print(f"{name}: {'can run here' if not lacks else 'lacks ' + ', '.join(lacks)}")
    for name in configured():
        if testbed_settings(name).kind in SHARED_KINDS:
            asked = f"ask `tsnrepro doctor {name}`"
            print(f"{name}: somebody's machines, measured on when it is named; {asked}")


def _experiments(_: argparse.Namespace) -> None:
    from tsnrepro.config.registry import as_table  # noqa: PLC0415

    print(as_table())


def _notebook(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.notebooks import execute, parse_parameters  # noqa: PLC0415

    execute(arguments.source, arguments.target, parse_parameters(arguments.parameter))


def _audit(arguments: argparse.Namespace) -> None:
    from rich.console import Console  # noqa: PLC0415

    from tsnrepro.published.audit import (  # noqa: PLC0415
        accept,
        audit_campaign,
        print_audit,
        run_audit,
        summary,
    )
    from tsnrepro.published.ledger import write_ledger  # noqa: PLC0415

    if arguments.runs:
        result = run_audit({folder.name: folder for folder in arguments.runs})
    else:
        result = audit_campaign(
            arguments.testbed, arguments.campaign, arguments.results, foreign=arguments.foreign
        )
    if arguments.ledger:
        write_ledger(result, arguments.ledger, report="index.html")
        print(summary(result))
    else:
        print_audit(result, Console())
    if arguments.accept:
        print(f"accepted: {len(accept(result))} changed verdicts")
    if result.missing:
        raise RecordError(
            f"{len(result.missing)} checks could not be run, the first: {result.missing[0].reason}",
            str(arguments.foreign or ""),
            "Give the whole data set",
        )


def _import(arguments: argparse.Namespace) -> None:
    from tsnrepro.config.files import raw_root  # noqa: PLC0415
    from tsnrepro.imports.importing import import_folder  # noqa: PLC0415

    folder, mapping, name = arguments.folder, arguments.mapping, arguments.name
    print(import_folder(folder, mapping, name, raw_root(), replace=arguments.replace))


def _tell_trial(name: str, settings: "CardsSettings", mode: str, campaign: str) -> None:
    from tsnrepro.experiments.shaping.dry_run import print_dry_run  # noqa: PLC0415

    print_dry_run(name, settings, mode, campaign)


def _seal(arguments: argparse.Namespace) -> None:
    from tsnrepro.config.registry import experiment  # noqa: PLC0415
    from tsnrepro.records.seal import write_seal  # noqa: PLC0415

    analysed = experiment(arguments.run_folder.name)
    write_seal(arguments.run_folder, analysed.analysis_digest())


def _verify(arguments: argparse.Namespace) -> None:
    if arguments.results.name.endswith(".tar.gz"):
        from tsnrepro.report.archive import verify_archive  # noqa: PLC0415

        verify_archive(arguments.results)
    else:
        from tsnrepro.records.verify import verify  # noqa: PLC0415

        verify(arguments.results)


def _page(arguments: argparse.Namespace) -> None:
    from tsnrepro.results.runs import origin_of  # noqa: PLC0415
    from tsnrepro.workflow.notebooks import write_page  # noqa: PLC0415

    folder = arguments.run_folder
    write_page(folder / "analyse.ipynb", arguments.output, origin_of(folder))


def _build(_: argparse.Namespace) -> None:
    from tsnrepro.native.bridge.build import bridge, replay, tagger  # noqa: PLC0415
    from tsnrepro.native.frer.build import frerctl  # noqa: PLC0415
    from tsnrepro.native.sockperf.build import sockperf_wait  # noqa: PLC0415
    from tsnrepro.native.streams.build import programs  # noqa: PLC0415

    print(f"frerctl: {frerctl()}")
    made = programs()
    print(f"talker: {made.talker}\nlistener: {made.listener}\nstallmeter: {made.stallmeter}")
    print(f"short wait of sockperf: {sockperf_wait()}")
    print(f"bridge: {bridge()}\nreplay: {replay()}\ntagger: {tagger()}")
    print("model: compiling, half a minute where it is new", flush=True)
    from tsnrepro.model.engine import warm_up  # noqa: PLC0415 - numba takes a second

    warm_up()


def _paper_inputs(arguments: argparse.Namespace) -> None:
    from tsnrepro.papers.columns import columns_of  # noqa: PLC0415
    from tsnrepro.papers.macros import write_paper_inputs  # noqa: PLC0415

    columns = columns_of(arguments.runs, arguments.study)
    write_paper_inputs(arguments.manuscript, arguments.output, columns, arguments.verdicts)


def _report(arguments: argparse.Namespace) -> None:
    from tsnrepro.report.site import write_report  # noqa: PLC0415

    write_report(arguments.output, arguments.runs, arguments.papers, arguments.reason)


if __name__ == "__main__":
    main()
