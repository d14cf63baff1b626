"""``tsnrepro doctor``, ``configure`` and ``restore``: racks, NIC pairs, benches, this machine."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name

_TESTBED = "a name in config/testbeds"


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    doctor = add_command(
        commands,
        "doctor",
        _doctor,
        "check a rack, NIC pair, bench or this machine, and suggest fixes",
        "tsnrepro doctor emulated             # processors, load, missing features",
        "tsnrepro doctor d10-example          # changes nothing",
        "tsnrepro doctor d10-example --frer   # configures FRER, sends, rolls back",
        "tsnrepro doctor bench-example --send # frames from port to port",
    )
    add_name(doctor, "testbed", help=_TESTBED)
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    doctor.add_argument(
        "--frer",
        "--send",
        action="store_true",
        help="also configure FRER (not on a bench), send traffic, and roll back",
    )

    configure = add_command(
        commands,
        "configure",
        _configure,
        "configure a rack as a campaign does, until it is restored",
        "tsnrepro configure d10-example frer --dry-run",
    )
    add_name(configure, "testbed", help=_TESTBED)
    configure.add_argument(
        "configuration", help="control or frer; with --dry-run also a mode of shaping on a NIC pair"
    )
    add_name(
        configure, "--campaign", default="quick", help="campaign to take the settings from (quick)"
    )
    _add_dry_run(configure)

    restore = add_command(
        commands,
        "restore",
        _restore,
        "restore a rack, NIC pair or bench to its state before a campaign",
        "tsnrepro restore d10-example",
        aliases=("rollback",),
    )
    add_name(restore, "testbed", help=_TESTBED)
    _add_dry_run(restore)


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    what = "print the commands for each host without running them"
    parser.add_argument("--dry-run", action="store_true", help=what)


def _doctor(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbeds.commands import doctor  # noqa: PLC0415

    doctor(arguments.testbed, as_json=arguments.json, frer=arguments.frer)


def _configure(arguments: argparse.Namespace) -> None:
    from tsnrepro.experiments.shaping.dry_run import print_dry_run  # noqa: PLC0415
    from tsnrepro.testbeds.commands import configure, pair_settings  # noqa: PLC0415

    name, configuration = arguments.testbed, arguments.configuration
    pair = pair_settings(name) if arguments.dry_run else None
    if pair is None:
        configure(name, configuration, dry_run=arguments.dry_run)
    else:
        print_dry_run(name, pair, configuration, arguments.campaign)


def _restore(arguments: argparse.Namespace) -> None:
    from tsnrepro.testbeds.commands import restore_rack  # noqa: PLC0415

    restore_rack(arguments.testbed, dry_run=arguments.dry_run)
