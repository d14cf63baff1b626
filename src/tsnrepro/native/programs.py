"""The compiled programs: built by the Makefile of this folder, once per state of the sources."""

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tsnrepro.common.errors import TestbedError

SOURCES = Path(__file__).resolve().parent
NAMES = (
    *("frerctl", "delayline", "talker", "listener", "stallmeter"),
    *("sockperf_wait.so", "bridge-replay", "tsn-bridge", "tag.bpf.o"),
)
"""What the Makefile builds; eBPF objects that frerctl loads come with it."""


def program(name: str) -> Path:
    """Return the path of a program, or of another file that the Makefile builds.

    It is built where it is missing. Programs lie in the Python environment, in a folder named by
    the digest of all sources, so that a changed source never runs an old build.

    Raises TestbedError if make, clang or a header is missing, or a source does not compile.
    """
    path = Path(sys.prefix) / "libexec" / "tsnrepro" / source_digest() / name
    if not path.exists():
        _make(path)
    return path


def sockperf_wait() -> Path:
    """Return the path of the library that shortens sockperf's wait, see :func:`program`."""
    return program("sockperf_wait.so")


@cache
def source_digest(folder: str = "") -> str:
    """Return the SHA-256 (first 16 hex digits) over the sources, of all programs or of a folder.

    File names are included. The sources are read once in a process: a trial asks ten times.
    """
    digest = hashlib.sha256()
    found = (SOURCES / folder).rglob("*")
    for path in sorted(p for p in found if p.suffix in {".c", ".h"} or p.name == "Makefile"):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _make(path: Path) -> None:
    where, remedy = f"building {path.name}", "Run scripts/setup: it installs what the programs need"
    for tool in ("make", "clang"):
        if not shutil.which(tool):
            raise TestbedError(f"{tool} is not installed", where, remedy)
    # Relative, because make knows no names with blanks, which the folders above may have.
    build = os.path.relpath(path.parent, SOURCES)
    command = ["make", "--silent", f"BUILD={build}", f"{build}/{path.name}"]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(f"make failed:\n{done.stderr.strip()[-2000:]}", where, remedy)
