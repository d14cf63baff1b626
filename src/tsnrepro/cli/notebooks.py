"""Commands of rules that measure and analyse: ``notebook``, ``measure-part``, ``analyse``."""

import argparse
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    notebook = add_command(
        commands,
        "notebook",
        _notebook,
        "execute a parameterized notebook",
        "tsnrepro notebook notebooks/measure/tcp.ipynb tcp.ipynb -p testbed=model",
        hidden=True,
    )
    notebook.add_argument("source", type=Path, help="the notebook")
    notebook.add_argument("target", type=Path, help="the executed notebook")
    notebook.add_argument(
        "-p",
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter; VALUE is YAML",
    )
    analyse = add_command(
        commands,
        "analyse",
        _analyse,
        "execute a run's analysis, seal its results and write its page",
        "tsnrepro analyse results/emulated/quick/loss",
        hidden=True,
    )
    analyse.add_argument("run_folder", type=Path, help="folder of the run's run.json")
    part = add_command(
        commands,
        "measure-part",
        _measure_part,
        "measure a part of a campaign's grid on the model",
        "tsnrepro measure-part loss model queues 0 of 4",
        hidden=True,
    )
    for name in ("experiment", "testbed", "campaign"):
        part.add_argument(name)
    part.add_argument("number", type=int, help="of the part, counted from 0")
    part.add_argument("of", choices=["of"])
    part.add_argument("count", type=int, help="number of parts")


def _notebook(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.notebooks import execute, parse_parameters  # noqa: PLC0415

    execute(arguments.source, arguments.target, parse_parameters(arguments.parameter))


def _analyse(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.notebooks import analyse  # noqa: PLC0415

    analyse(arguments.run_folder)


def _measure_part(arguments: argparse.Namespace) -> None:
    from tsnrepro.runner.run import run_part  # noqa: PLC0415

    run_part(
        arguments.experiment,
        arguments.testbed,
        arguments.campaign,
        arguments.number,
        arguments.count,
    )
