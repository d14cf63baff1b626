"""``tsnrepro testbeds`` and ``tsnrepro experiments``: list what can be measured, and where."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    add_command(
        commands,
        "testbeds",
        _testbeds,
        "list testbeds, and what this machine lacks for each",
        "tsnrepro testbeds",
    )
    add_command(
        commands,
        "experiments",
        _experiments,
        "list experiments and the kinds of testbed that support them",
        "tsnrepro experiments",
    )


def _testbeds(_: argparse.Namespace) -> None:
    from tsnrepro.config.files import testbed_settings  # noqa: PLC0415
    from tsnrepro.config.registry import SHARED_KINDS  # noqa: PLC0415
    from tsnrepro.testbeds.choose import availability, configured  # noqa: PLC0415

    for name, lacks in availability().items():
        print(f"{name}: {'available' if not lacks else 'missing ' + ', '.join(lacks)}")
    for name in configured():
        if testbed_settings(name).kind in SHARED_KINDS:
            print(f"{name}: used only when named; check it with `tsnrepro doctor {name}`")


def _experiments(_: argparse.Namespace) -> None:
    from tsnrepro.config.registry import as_table  # noqa: PLC0415

    print(as_table())
