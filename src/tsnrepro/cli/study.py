"""``tsnrepro study``: plan, compute and collect parameter studies."""

import argparse
import sys
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name
from tsnrepro.common.counts import plural


def add_commands(commands: Any) -> None:
    """Add it to the command line, with its actions."""
    study = add_command(
        commands,
        "study",
        None,
        "run parameter studies on the model",
        "tsnrepro study plan threshold",
        "tsnrepro study run buffers --jobs 4",
    )
    actions = study.add_subparsers(required=True, metavar="ACTION")

    plan = add_command(actions, "plan", _plan, "list the points and jobs of a study")
    add_name(plan, "study", help="a name in config/studies, or a file")

    run = add_command(actions, "run", _run, "compute the missing points, then collect all")
    add_name(run, "study", help="a name in config/studies, or a file")
    run.add_argument("--jobs", type=int, default=1, help="number of processes (1)")
    run.add_argument("--folder", type=Path, help="output folder (results/studies/STUDY)")

    compile_ = add_command(
        actions, "compile", _compile, "compile the model before many jobs load it", hidden=True
    )
    compile_.add_argument("output", type=Path, help="file for the digest of the model's sources")

    chunk = add_command(actions, "chunk", _chunk, "compute the points of one job", hidden=True)
    chunk.add_argument("study")
    chunk.add_argument("number", type=int)
    chunk.add_argument("output", type=Path)

    collect = add_command(
        actions, "collect", _collect, "write the table of all points", hidden=True
    )
    collect.add_argument("study")
    collect.add_argument("folder", type=Path)

    accuracy = add_command(
        actions, "accuracy", _accuracy, "test each search on networks with a known answer"
    )
    accuracy.add_argument("output", type=Path, metavar="CSV")
    accuracy.add_argument("--runs", type=int, default=20, help="number of networks (20)")
    accuracy.add_argument("--seed", type=int, default=1, help="random seed (1)")


def _plan(arguments: argparse.Namespace) -> None:
    from tsnrepro.experiments.studies.study import load_study  # noqa: PLC0415

    study = load_study(arguments.study)
    print(study.description)
    for name, part in study.parts.items():
        sizes = " x ".join(f"{len(values)} {factor}" for factor, values in part.factors.items())
        print(f"  {name}: {sizes} x {study.replications} replications")
    print(
        f"{plural(len(study.points()), 'point')} in {plural(study.chunk_count(), 'job')},"
        f" measure {study.measure.kind}, {study.duration_s:g} s of simulated time a trial"
    )


def _run(arguments: argparse.Namespace) -> None:
    from rich.progress import Progress  # noqa: PLC0415

    from tsnrepro.experiments.studies.chunks import collect, run_locally  # noqa: PLC0415
    from tsnrepro.experiments.studies.study import load_study  # noqa: PLC0415

    study = load_study(arguments.study)
    folder = arguments.folder or Path("results/studies") / Path(arguments.study).stem
    with Progress(disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("points", total=len(study.points()))
        for done in run_locally(study, folder, arguments.jobs):
            progress.advance(task, done)
    print(f"{plural(collect(study, folder), 'point')}: {folder / 'study.csv'}")


def _compile(arguments: argparse.Namespace) -> None:
    from tsnrepro.experiments.studies.chunks import compile_model  # noqa: PLC0415

    compile_model(arguments.output)


def _chunk(arguments: argparse.Namespace) -> None:
    from tsnrepro.experiments.studies.chunks import write_chunk  # noqa: PLC0415
    from tsnrepro.experiments.studies.study import load_study  # noqa: PLC0415

    write_chunk(load_study(arguments.study), arguments.number, arguments.output)


def _collect(arguments: argparse.Namespace) -> None:
    from tsnrepro.experiments.studies.chunks import collect  # noqa: PLC0415
    from tsnrepro.experiments.studies.study import load_study  # noqa: PLC0415

    points = collect(load_study(arguments.study), arguments.folder)
    print(f"{plural(points, 'point')}: {arguments.folder}")


def _accuracy(arguments: argparse.Namespace) -> None:
    from tsnrepro.config.base import parse  # noqa: PLC0415
    from tsnrepro.experiments.rfc2544.accuracy import AccuracySettings, run_accuracy  # noqa: PLC0415

    settings = parse(AccuracySettings, {"runs": arguments.runs}, "--runs")
    table = run_accuracy(settings, arguments.seed)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.output, index=False)
