"""Helpers to add commands with examples, and arguments that a shell completes."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root

_MAX_TRIALS = 200


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], None] | None,
    summary: str,
    *examples: str,
    hidden: bool = False,
    aliases: tuple[str, ...] = (),
) -> argparse.ArgumentParser:
    """Add a command to a parser's subcommands and return its own parser.

    ``commands``: what ``add_subparsers`` returned; ``name``, ``run``, ``summary``: the command, the
    function that it calls (none where its own subcommands do), and what it does, in one line;
    ``examples``: command lines to show below its options. ``hidden``: leave it out of ``--help``:
    only rules call it. ``aliases``: other names of it.
    """
    listed = {} if hidden else {"help": summary}
    parser = commands.add_parser(
        name,
        aliases=aliases,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog="examples:\n" + "".join(f"  {line}\n" for line in examples) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **listed,
    )
    if run:
        parser.set_defaults(run=run)
    return parser


def add_name(parser: argparse.ArgumentParser, argument: str, **options: Any) -> None:
    """Add an argument whose values are names that a shell completes.

    ``parser``: the command's; ``argument``: ``testbed``, ``campaign``, ``experiment``, ``trial``,
    ``study`` or ``mapping``, as an option or not; ``options``: those of ``add_argument``.
    """
    action = parser.add_argument(argument, **options)
    setattr(action, "completer", _completer(_NAMES[action.dest]))  # noqa: B010 - argcomplete's


def add_language(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--language``; ``what``: what it is the language of, for its help."""
    parser.add_argument("--language", choices=("en", "ko"), default="en", help=what)


def _completer(names: Callable[[str], Iterable[str]]) -> Callable[..., Iterable[str]]:
    def complete(prefix: str, **_: Any) -> Iterable[str]:
        try:
            return names(prefix)
        except (OSError, ConfigurationError):
            return []

    return complete


def _files(folder: str) -> Callable[[str], list[str]]:
    return lambda _: sorted(path.stem for path in (root() / folder).glob("*.yaml"))


def _testbeds(_: str) -> list[str]:
    measured = {path.name for path in (root() / "data" / "raw").glob("*/")}
    return sorted({*_files("config/testbeds")(""), *measured})


def _experiments(_: str) -> list[str]:
    from tsnrepro.config.registry import experiments  # noqa: PLC0415

    return list(experiments())


def _trials(prefix: str) -> list[str]:
    found = (path.name for path in (root() / "data" / "raw").glob(f"*/*/*/{prefix}*/"))
    return sorted(found)[:_MAX_TRIALS]


_NAMES: dict[str, Callable[[str], Iterable[str]]] = {
    "testbed": _testbeds,
    "campaign": _files("config/campaigns"),
    "experiment": _experiments,
    "trial": _trials,
    "study": _files("config/studies"),
    "mapping": _files("config/imports"),
}
