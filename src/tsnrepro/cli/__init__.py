"""The command line: ``tsnrepro COMMAND``. Each module adds the commands that it is named for."""

import argparse
import errno
import os
import sys
from importlib.metadata import version

from tsnrepro.cli import (
    audit,
    build,
    completion,
    control,
    import_data,
    lists,
    new,
    notebooks,
    papers,
    plan,
    rack,
    report,
    show,
    status,
    study,
    verify,
)
from tsnrepro.common.errors import TsnreproError
from tsnrepro.common.ownership import restore_ownership_at_exit

# In the order of --help.
_MODULES = (
    *(lists, new, plan, status, control, show, rack, study, import_data, audit, verify),
    *(notebooks, papers, report, build, completion),
)
# Old names, accepted until version 0.3.
_RENAMED = {
    "twin": "html",
    "difference": "diff",
    "words": "wordcount",
    "numbered": "check-numbering",
}
# Environment errors: a disk that is full, read-only, failing, or not this user's.
_ENVIRONMENT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES)
_REMEDY = "Free space or grant write access; measured trials are recorded"


def main() -> None:
    """Run a command; a failure prints what, where and what to do, and exits with 1."""
    parser = build_parser()
    completion.complete(parser)
    arguments = parser.parse_args(_with_current_names(sys.argv[1:]))
    restore_ownership_at_exit()
    try:
        arguments.run(arguments)
    except TsnreproError as error:
        print(f"tsnrepro: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("tsnrepro: interrupted; measured trials are recorded", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader, such as `head`, is gone: nothing can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if error.errno not in _ENVIRONMENT_ERRORS:
            raise
        place = f" ({error.filename})" if error.filename else ""
        print(f"tsnrepro: {error.strerror}{place}. {_REMEDY}", file=sys.stderr)
        sys.exit(1)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="tsnrepro",
        description="Measure time-sensitive networks, inspect records, build papers.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(
            "examples:\n"
            "  tsnrepro status             show campaign progress and where the PDFs are\n"
            "  tsnrepro show TRIAL         show a trial with the output of its tools\n"
            "  tsnrepro COMMAND --help     show the options of a command, with examples\n"
            "\n"
            "Campaigns are run by Snakemake: snakemake --cores 4\n"
        ),
    )
    parser.add_argument("--version", action="version", version=f"tsnrepro {version('tsnrepro')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in _MODULES:
        module.add_commands(commands)
    return parser


def _with_current_names(arguments: list[str]) -> list[str]:
    """Return arguments with a command's old name replaced, with a notice on stderr."""
    if not arguments or arguments[0] not in _RENAMED:
        return arguments
    old, new = arguments[0], _RENAMED[arguments[0]]
    print(f"tsnrepro: '{old}' is deprecated; use '{new}'", file=sys.stderr)
    return [new, *arguments[1:]]
