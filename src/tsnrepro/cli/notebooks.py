"""The commands of rules that execute notebooks: ``tsnrepro notebook`` and ``tsnrepro analyse``."""

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


def _notebook(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.notebooks import execute, parse_parameters  # noqa: PLC0415

    execute(arguments.source, arguments.target, parse_parameters(arguments.parameter))


def _analyse(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.notebooks import analyse  # noqa: PLC0415

    analyse(arguments.run_folder)
