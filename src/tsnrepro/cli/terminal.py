"""The commands that tell how far things are, ``status`` and ``show``, and shell completion."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root

_SHELLS = ("bash", "zsh")
_TRIALS_OFFERED = 200

# What is shown below the options of each command; a test reads every line as the command does.
EXAMPLES = {
    "testbeds": ["tsnrepro testbeds"],
    "experiments": ["tsnrepro experiments"],
    "status": [
        "tsnrepro status                      # all that was begun or is configured",
        "tsnrepro status --testbed emulated --campaign quick",
        "tsnrepro status --experiment loss",
    ],
    "show": [
        "tsnrepro show frer-1472B-900M-r1-78d4   # a part of its name is enough",
        "tsnrepro show emulated/quick/loss/frer-1472B-900M-r1 --output iperf3.json",
    ],
    "completion": [
        "source <(tsnrepro completion bash)   # a line for ~/.bashrc",
        "source <(tsnrepro completion zsh)    # a line for ~/.zshrc, behind compinit",
    ],
    "notebook": [
        "tsnrepro notebook notebooks/measure/tcp.ipynb tcp.ipynb -p testbed=model",
    ],
    "audit": [
        "tsnrepro audit                       # the documents' own numbers",
        "tsnrepro audit emulated --campaign quick",
    ],
    "import": ["tsnrepro import FOLDER --mapping d10test --as d10test"],
    "seal": ["tsnrepro seal results/emulated/quick/loss"],
    "verify": ["tsnrepro verify                      # record and results of this repository"],
    "page": ["tsnrepro page results/emulated/quick/loss loss.html"],
    "build": ["tsnrepro build"],
    "paper-inputs": [
        "tsnrepro paper-inputs paper/frer-udp results/papers/frer-udp \\",
        "    --run measured=results/emulated/quick/loss",
    ],
    "report": ["tsnrepro report report --runs results/emulated/quick/loss"],
    "study": ["tsnrepro study plan threshold", "tsnrepro study run buffers --jobs 4"],
    "submission": [
        "tsnrepro submission arxiv paper/frer-udp results/papers/frer-udp a.tar.gz",
    ],
    "difference": [
        "tsnrepro difference paper/frer-udp results/papers/frer-udp v1.0 changed.pdf",
    ],
    "twin": ["tsnrepro twin paper/frer-udp results/papers/frer-udp frer-udp.html"],
    "numbered": ["tsnrepro numbered results/papers/frer-udp/frer-udp.pdf"],
    "doctor": [
        "tsnrepro doctor d10-example          # changes nothing",
        "tsnrepro doctor d10-example --frer   # sets FRER up, sends, puts all back",
    ],
    "configure": ["tsnrepro configure d10-example frer --dry-run"],
    "deposit": ["tsnrepro deposit loss.tar.gz --runs results/emulated/quick/loss"],
    "restore": ["tsnrepro restore d10-example"],
    "words": ["tsnrepro words results/papers/frer-udp/frer-udp.pdf"],
}


def add_terminal_commands(commands: Any) -> None:
    """Add ``status``, ``show`` and ``completion`` to the command line."""
    status = commands.add_parser("status", help="what is measured, missing and stale; the PDFs")
    for name in ("testbed", "campaign", "experiment"):
        status.add_argument(f"--{name}", help=f"of this {name} only")
    status.set_defaults(run=_status)

    show = commands.add_parser("show", help="one trial down to what its tools printed")
    show.add_argument("trial", help="its name, a part of it that is unique, or its folder")
    show.add_argument("--output", metavar="NAME", help="write one of its outputs as it is")
    show.set_defaults(run=_show)

    completion = commands.add_parser("completion", help="what a shell needs to complete commands")
    completion.add_argument("shell", choices=_SHELLS)
    completion.set_defaults(run=_completion)


def add_examples(parser: argparse.ArgumentParser, commands: Any) -> None:
    """Show examples with the help of each command, and what to begin with under ``--help``."""
    for name, added in commands.choices.items():
        if name in EXAMPLES:
            lines = "".join(f"  {line}\n" for line in EXAMPLES[name])
            added.epilog = f"examples:\n{lines}"
            added.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "examples:\n"
        "  tsnrepro status             how far the campaigns are, and where the PDFs lie\n"
        "  tsnrepro show TRIAL         one trial down to what its tools printed\n"
        "  tsnrepro COMMAND --help     the options of a command, with examples\n"
        "\n"
        "Measuring and printing is Snakemake's: snakemake --cores 4\n"
    )


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell when it asks what may stand at the cursor; else do nothing."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete  # noqa: PLC0415

    _name_values(parser)
    argcomplete.autocomplete(parser)


def _name_values(parser: argparse.ArgumentParser) -> None:
    """Say of each argument whose values have names where these are found."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _name_values(below)
        elif action.dest in _NAMES:
            setattr(action, "completer", _completer(action.dest))  # noqa: B010


def _completer(of: str) -> Callable[..., Iterable[str]]:
    def names(prefix: str, **_: Any) -> Iterable[str]:
        try:
            return _NAMES[of](prefix)
        except (OSError, ConfigurationError):
            return []

    return names


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
    return sorted(found)[:_TRIALS_OFFERED]


_NAMES: dict[str, Callable[[str], list[str]]] = {
    "testbed": _testbeds,
    "campaign": _files("config/campaigns"),
    "experiment": _experiments,
    "trial": _trials,
    "study": _files("config/studies"),
    "mapping": _files("config/imports"),
}


def _status(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.status import as_text, statuses  # noqa: PLC0415

    print(as_text(statuses(arguments.testbed, arguments.campaign, arguments.experiment)))


def _show(arguments: argparse.Namespace) -> None:
    from tsnrepro.explore.show import raw_output, show  # noqa: PLC0415

    if arguments.output is None:
        print(show(arguments.trial))
    else:
        sys.stdout.buffer.write(raw_output(arguments.trial, arguments.output))


def _completion(arguments: argparse.Namespace) -> None:
    from argcomplete.shell_integration import shellcode  # noqa: PLC0415

    print(shellcode(["tsnrepro"], shell=arguments.shell))
