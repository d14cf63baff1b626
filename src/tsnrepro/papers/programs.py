"""The programs that typeset, convert and read papers."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tsnrepro.common.errors import PublishError

_SECONDS = 300
_TAIL_LINES = 25
_PACKAGES = {
    "latexdiff": "latexdiff",
    "lualatex": "texlive-luatex",
    "pandoc": "pandoc",
    "pdftocairo": "poppler-utils",
    "pdftotext": "poppler-utils",
}


def run(
    command: Sequence[str], folder: Path | None = None, text: str = "", **variables: str
) -> bytes:
    """Run a program and return its standard output.

    ``command``: the program and its arguments; ``folder``: its working directory; ``text``: its
    standard input. ``**variables``: environment variables to set. TEXINPUTS is unset, so that TeX
    reads no other files of the repository. Raises PublishError if the program is not installed or
    failed; the message has the last lines of its output.
    """
    if shutil.which(command[0]) is None:
        raise PublishError(
            f"{command[0]} is not installed",
            shlex.join(command),
            f"Install the package {_PACKAGES[command[0]]}",
        )
    environment = {name: value for name, value in os.environ.items() if name != "TEXINPUTS"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | variables,
        input=text.encode(),
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        tail = "\n".join(lines[-_TAIL_LINES:])
        raise PublishError(f"{command[0]} failed:\n{tail}", shlex.join(command))
    return done.stdout
