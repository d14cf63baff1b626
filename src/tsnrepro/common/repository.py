"""The repository: its root folder and the commit that is checked out."""

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

    Raises ConfigurationError if the package was installed without its repository (not editable).
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
    """Resolve a path relative to the working directory, else to the repository's root.

    Notebooks run in either.
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
    """Return the arguments that run git in a repository, whoever owns it.

    Git refuses another user's repository, as root's in a user's clone.
    """
    folder = str(repository.resolve())
    return ["git", "-c", f"safe.directory={folder}", "-C", folder]


def check_writable(folders: Iterable[str | Path]) -> None:
    """Check that folders can be written, before anything is measured.

    Raises ConfigurationError if an existing folder is not writable.
    """
    for folder in folders:
        if os.path.isdir(folder) and not os.access(folder, os.W_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            raise ConfigurationError(
                os.strerror(errno.EROFS if read_only else errno.EACCES),
                str(folder),
                "Grant write access, and run this again",
            )


def short_commit(commit: str) -> str:
    """Return a commit's first digits, with its mark of uncommitted changes; other text as it is."""
    digits, plus, changes = commit.partition("+")
    return commit if " " in digits else digits[:_SHORT_COMMIT] + plus + changes
