"""The commands ``tsnrepro doctor``, ``configure`` and ``restore``: a rack's."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tsnrepro.testbeds.rack.actions import TellTrial

# Of a rack, and of two cards: how frames are treated, and how the talker's port shapes.
CONFIGURATIONS = ("frer", "control")
SHAPING_MODES = ("tas", "prio", "cbs", "mqprio", "etf", "fifo")


def add_rack_commands(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", print_dry_run: "TellTrial"
) -> None:
    """Add the commands that are about a rack; ``print_dry_run`` prints a trial of two cards."""
    what = "tell what keeps a rack from measuring, and what to do about it"
    add = commands.add_parser("doctor", help=what)
    add.add_argument("testbed")
    add.add_argument("--json", action="store_true", help="print the findings for machines")
    add.add_argument("--frer", action="store_true", help="set FRER up, send, and put all back")
    add.set_defaults(run=_doctor)

    what = "set a rack up as a campaign would, until it is restored"
    add = commands.add_parser("configure", help=what)
    add.add_argument("testbed")
    add.add_argument("configuration", choices=(*CONFIGURATIONS, *SHAPING_MODES))
    add.add_argument("--campaign", default="quick", help="whose trial is told of two cards")
    _add_dry_run(add)
    add.set_defaults(run=_configure, print_dry_run=print_dry_run)

    what = "bring a rack back to what it was before a campaign"
    add = commands.add_parser("restore", help=what)
    add.add_argument("testbed")
    _add_dry_run(add)
    add.set_defaults(run=_restore)


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    told = "print every command for every host, change nothing"
    parser.add_argument("--dry-run", action="store_true", help=told)


def _doctor(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbeds.rack.actions import doctor  # noqa: PLC0415

    doctor(arguments.testbed, as_json=arguments.json, frer=arguments.frer)


def _configure(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbeds.rack.actions import configure, pair_settings  # noqa: PLC0415

    name, configuration = arguments.testbed, arguments.configuration
    pair = pair_settings(name) if arguments.dry_run else None
    if pair is None:
        configure(name, configuration, dry_run=arguments.dry_run)
    else:
        arguments.print_dry_run(name, pair, configuration, arguments.campaign)


def _restore(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbeds.rack.actions import restore_rack  # noqa: PLC0415

    restore_rack(arguments.testbed, dry_run=arguments.dry_run)
