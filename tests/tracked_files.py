"""The files that tests read: those that git tracks; a user's own may stand beside them."""

import subprocess
from pathlib import Path

from tsnrepro.common.repository import git_in, root


def tracked(*patterns: str) -> list[Path]:
    """Return the repository's files that match patterns such as ``config/campaigns/*.yaml``.

    Where the repository is no checkout of its own, as in a deposit, they are all files but hidden
    ones.
    """
    git = git_in(root())
    top = subprocess.run(
        [*git, "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not top or Path(top) != root():
        found = {path for pattern in patterns for path in root().glob(pattern)}
        return sorted(p for p in found if p.is_file() and not _is_hidden(p.relative_to(root())))
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--", *(f":(glob){pattern}" for pattern in patterns)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted(root() / name for name in listed.split("\0") if name and (root() / name).exists())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
