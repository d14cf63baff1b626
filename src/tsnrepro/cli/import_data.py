"""``tsnrepro import``: third-party data."""

import argparse
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    add = add_command(
        commands,
        "import",
        _import,
        "import third-party data into the raw store",
        "tsnrepro import FOLDER --mapping d10test --as d10test",
    )
    add.add_argument("folder", type=Path, help="the data set")
    add_name(add, "--mapping", required=True, help="a name in config/imports, or a file")
    add.add_argument("--as", dest="name", required=True, help="name of the imported testbed")
    add.add_argument("--replace", action="store_true", help="replace an import of this name")


def _import(arguments: argparse.Namespace) -> None:
    from tsnrepro.config.files import raw_root  # noqa: PLC0415
    from tsnrepro.imports.importer import import_folder  # noqa: PLC0415

    folder, mapping, name = arguments.folder, arguments.mapping, arguments.name
    print(import_folder(folder, mapping, name, raw_root(), replace=arguments.replace))
