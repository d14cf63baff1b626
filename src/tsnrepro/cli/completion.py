"""``tsnrepro completion``, and what it makes a shell ask for."""

import argparse
import os
from typing import Any

from tsnrepro.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    completion = add_command(
        commands,
        "completion",
        _completion,
        "print the completion script of a shell",
        "source <(tsnrepro completion bash)   # in ~/.bashrc",
        "source <(tsnrepro completion zsh)    # in ~/.zshrc, after compinit",
    )
    completion.add_argument("shell", choices=("bash", "zsh"))


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions; else do nothing."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # noqa: PLC0415

        argcomplete.autocomplete(parser)


def _completion(arguments: argparse.Namespace) -> None:
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415

    print(shellcode(["tsnrepro"], shell=arguments.shell))
