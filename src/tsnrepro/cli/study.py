"""The command ``tsnrepro study``: plan, compute and collect parameter studies."""

import argparse
import sys
from pathlib import Path
from typing import Any


def add_study_command(commands: Any) -> None:
    """Add ``study`` and what it can do to the command line's parsers."""
    study = commands.add_parser("study", help="parameter studies on the model of the network")
    actions = study.add_subparsers(required=True, metavar="ACTION")

    add = actions.add_parser("plan", help="which points and jobs a study has")
    add.add_argument("study", help="a name of config/studies, or a file")
    add.set_defaults(run=_plan)

    add = actions.add_parser("run", help="compute what is missing on this machine, then collect")
    add.add_argument("study")
    add.add_argument("--jobs", type=int, default=1, help="processes at once")
    add.add_argument("--folder", type=Path, help="where results go (results/studies/STUDY)")
    add.set_defaults(run=_run)

    add = actions.add_parser("compile", help="compile the model once, before many jobs load it")
    add.add_argument("output", type=Path, help="gets the digest of the model's sources")
    add.set_defaults(run=_compile)

    add = actions.add_parser("chunk", help="compute the points of one job")
    add.add_argument("study")
    add.add_argument("number", type=int)
    add.add_argument("output", type=Path)
    add.set_defaults(run=_chunk)

    add = actions.add_parser("collect", help="write the table of all points")
    add.add_argument("study")
    add.add_argument("folder", type=Path)
    add.set_defaults(run=_collect)

    add = actions.add_parser("accuracy", help="try each search on networks whose truth is known")
    add.add_argument("output", type=Path, metavar="CSV")
    add.add_argument("--runs", type=int, default=20, help="networks (20)")
    add.add_argument("--seed", type=int, default=1, help="of the networks (1)")
    add.set_defaults(run=_accuracy)


def _plan(arguments: argparse.Namespace) -> None:
    from tsnrepro.studies.study import load_study  # noqa: PLC0415

    study = load_study(arguments.study)
    print(study.description)
    for name, part in study.parts.items():
        sizes = " x ".join(f"{len(values)} {factor}" for factor, values in part.factors.items())
        print(f"  {name}: {sizes} x {study.replications} replications")
    print(
        f"{len(study.points())} points in {study.chunk_count()} jobs,"
        f" measure {study.measure.kind}, {study.duration_s:g} s of simulated time a trial"
    )


def _run(arguments: argparse.Namespace) -> None:
    from rich.progress import Progress  # noqa: PLC0415

    from tsnrepro.studies.chunks import collect  # noqa: PLC0415
    from tsnrepro.studies.local import run_here  # noqa: PLC0415
    from tsnrepro.studies.study import load_study  # noqa: PLC0415

    study = load_study(arguments.study)
    folder = arguments.folder or Path("results/studies") / Path(arguments.study).stem
    with Progress(disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("points", total=len(study.points()))
        for done in run_here(study, folder, arguments.jobs):
            progress.advance(task, done)
    print(f"{collect(study, folder)} points: {folder / 'study.csv'}")


def _compile(arguments: argparse.Namespace) -> None:
    from tsnrepro.studies.local import compile_model  # noqa: PLC0415

    compile_model(arguments.output)


def _chunk(arguments: argparse.Namespace) -> None:
    from tsnrepro.studies.chunks import write_chunk  # noqa: PLC0415
    from tsnrepro.studies.study import load_study  # noqa: PLC0415

    write_chunk(load_study(arguments.study), arguments.number, arguments.output)


def _collect(arguments: argparse.Namespace) -> None:
    from tsnrepro.studies.chunks import collect  # noqa: PLC0415
    from tsnrepro.studies.study import load_study  # noqa: PLC0415

    print(f"{collect(load_study(arguments.study), arguments.folder)} points: {arguments.folder}")


def _accuracy(arguments: argparse.Namespace) -> None:
    from tsnrepro.config.base import parse  # noqa: PLC0415
    from tsnrepro.experiments.rfc2544.accuracy import AccuracySettings, run_accuracy  # noqa: PLC0415

    settings = parse(AccuracySettings, {"runs": arguments.runs}, "--runs")
    table = run_accuracy(settings, arguments.seed)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.output, index=False)
