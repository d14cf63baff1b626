"""The commands ``tsnrepro doctor``, ``configure`` and ``restore``: a rack's."""

import argparse


def add_rack_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands that are about a rack."""
    what = "tell what keeps a rack from measuring, and what to do about it"
    add = commands.add_parser("doctor", help=what)
    add.add_argument("testbed")
    add.add_argument("--json", action="store_true", help="print the findings for machines")
    add.add_argument("--frer", action="store_true", help="set FRER up, send, and put all back")
    add.set_defaults(run=_doctor)

    what = "set a rack up as a campaign would, until it is restored"
    add = commands.add_parser("configure", help=what)
    add.add_argument("testbed")
    add.add_argument("configuration", choices=("frer", "control"))
    _add_dry_run(add)
    add.set_defaults(run=_configure)

    what = "bring a rack back to what it was before a campaign"
    add = commands.add_parser("restore", help=what)
    add.add_argument("testbed")
    _add_dry_run(add)
    add.set_defaults(run=_restore)


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    told = "print every command for every host, change nothing"
    parser.add_argument("--dry-run", action="store_true", help=told)


def _doctor(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbed.hardware.actions import doctor  # noqa: PLC0415

    doctor(arguments.testbed, as_json=arguments.json, frer=arguments.frer)


def _configure(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbed.hardware.actions import configure  # noqa: PLC0415

    configure(arguments.testbed, arguments.configuration, dry_run=arguments.dry_run)


def _restore(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbed.hardware.actions import restore_rack  # noqa: PLC0415

    restore_rack(arguments.testbed, dry_run=arguments.dry_run)
