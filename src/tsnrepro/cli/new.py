"""``tsnrepro new``: an experiment, campaign, testbed or paper of one's own, to be changed."""

import argparse
from typing import TYPE_CHECKING, Any, get_args

from tsnrepro.cli.arguments import add_command, add_name
from tsnrepro.common.topology import TestbedKind

if TYPE_CHECKING:
    from tsnrepro.workflow.new_files import NewFiles

_KINDS = get_args(TestbedKind)


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    new = add_command(
        commands,
        "new",
        None,
        "write an experiment, campaign, testbed or paper of your own",
        "tsnrepro new campaign mine",
        "tsnrepro new experiment jitter --campaign mine",
        "tsnrepro new testbed lab --kind rack",
        "tsnrepro new paper my-paper",
    ).add_subparsers(required=True, metavar="WHAT")
    experiment = _add(
        new,
        "experiment",
        _experiment,
        "write an experiment with its notebooks, and its section of a campaign",
        "tsnrepro new experiment jitter",
        "tsnrepro new experiment jitter --campaign mine",
    )
    add_name(
        experiment,
        "--campaign",
        default="",
        metavar="NAME",
        help="add it to this campaign; by default to a new one of its name",
    )
    _add(
        new,
        "campaign",
        _campaign,
        "write a campaign that the model measures in seconds",
        "tsnrepro new campaign mine",
    )
    testbed = _add(
        new,
        "testbed",
        _testbed,
        "write a testbed, a copy of the example of its kind",
        "tsnrepro new testbed lab --kind rack",
    )
    testbed.add_argument("--kind", choices=_KINDS, help="default: NAME if it is a kind, else rack")
    _add(new, "paper", _paper, "write a manuscript of two pages", "tsnrepro new paper my-paper")


def _add(commands: Any, name: str, run: Any, summary: str, *examples: str) -> Any:
    parser = add_command(commands, name, run, summary, *examples)
    parser.add_argument("name", metavar="NAME", help="name of the new files")
    return parser


def _experiment(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.new_files import new_experiment  # noqa: PLC0415

    _print(new_experiment(arguments.name, arguments.campaign))


def _campaign(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.new_files import new_campaign  # noqa: PLC0415

    _print(new_campaign(arguments.name))


def _testbed(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.new_files import new_testbed  # noqa: PLC0415

    kind = arguments.kind or (arguments.name if arguments.name in _KINDS else "rack")
    _print(new_testbed(arguments.name, kind))


def _paper(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.new_files import new_paper  # noqa: PLC0415

    _print(new_paper(arguments.name))


def _print(made: "NewFiles") -> None:
    for path in made.paths:
        print(path)
    print(f"\nNext:\n  {made.command}")
