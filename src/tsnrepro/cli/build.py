"""``tsnrepro build`` and ``tsnrepro schemas``: what set-up generates."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    add_command(
        commands,
        "build",
        _build,
        "compile the data plane, the traffic generators and the model",
        "tsnrepro build",
    )
    add_command(
        commands,
        "schemas",
        _schemas,
        "write the JSON Schemas of the configuration files, for editors",
        "tsnrepro schemas",
    )


def _build(_: argparse.Namespace) -> None:
    from tsnrepro.native.programs import NAMES, program  # noqa: PLC0415

    for name in NAMES:
        print(program(name), flush=True)
    print("model: compiling, half a minute the first time", flush=True)
    from tsnrepro.model.engine import warm_up  # noqa: PLC0415 - numba takes a second

    warm_up()


def _schemas(_: argparse.Namespace) -> None:
    from tsnrepro.cli.schemas import write_schemas  # noqa: PLC0415

    write_schemas()
