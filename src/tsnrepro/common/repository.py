"""Where the repository's folders are, and which commit is checked out."""

import errno
import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tsnrepro.common.errors import ConfigurationError

_SHORT_COMMIT = 12


@cache
def root() -> Path:
    """Return the root folder of the repository this package is installed from.

    Raises
    ------
    ConfigurationError
        The package was installed without its repository (not editable).
    """
    folder = Path(__file__).resolve().parents[3]
    if not (folder / "Snakefile").is_file():
        raise ConfigurationError(
            "tsnrepro runs from its repository, and no Snakefile lies above the package",
            str(folder),
            "Install it with scripts/setup inside a clone of the repository",
        )
    return folder


def resolve_path(path: str | Path) -> Path:
    """Return a file of the working directory, or else the one of the repository's root.

    So a notebook finds results from its own folder too.
    """
    given = Path(path)
    return given if given.is_file() else root() / given


@cache
def commit() -> str:
    """Return the commit of the repository, with ``+changes`` where files differ from it."""
    git = git_in(root())
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return "unknown (not a git checkout)"
    tracked = [*git, "status", "--porcelain", "--untracked-files=no"]
    changed = subprocess.run(tracked, capture_output=True, text=True, check=False).stdout.strip()
    return head.stdout.strip() + ("+changes" if changed else "")


def git_in(repository: Path) -> list[str]:
    """Return the words that git starts with in a repository, whoever owns it.

    Root may read a user's clone, whose code it runs here; git alone would refuse.
    """
    folder = str(repository.resolve())
    return ["git", "-c", f"safe.directory={folder}", "-C", folder]


def refuse_unwritable(folders: Iterable[str | Path]) -> None:
    """Stop before anything is measured that could not be kept.

    Raises
    ------
    ConfigurationError
        A folder that is there cannot be written to.
    """
    for folder in folders:
        if os.path.isdir(folder) and not os.access(folder, os.W_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            raise ConfigurationError(
                os.strerror(errno.EROFS if read_only else errno.EACCES),
                str(folder),
                "Let this user write there, and run this again",
            )


def short_commit(commit: str) -> str:
    """Return a commit's first digits, with the mark of uncommitted changes where it has one."""
    digits, plus, changes = commit.partition("+")
    return digits[:_SHORT_COMMIT] + plus + changes
