"""Compile talker, listener and stall meter, once for each state of their sources."""

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.errors import TestbedError

SOURCES = Path(__file__).resolve().parent
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
TALKER, LISTENER, STALLMETER = "talker", "listener", "stallmeter"


@dataclass(frozen=True)
class Programs:
    """The paths of the compiled programs."""

    talker: Path
    listener: Path
    stallmeter: Path


def source_digest() -> str:
    """Return the SHA-256 (first 16 hex digits) over all C sources, names included."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def programs() -> Programs:
    """Return the paths of the programs, built when one is missing.

    The build lies in the Python environment, in a folder named after the sources' digest, so a
    changed source never runs an old build.

    Raises
    ------
    TestbedError
        clang or the headers of libc are missing, or a source does not compile.
    """
    folder = Path(sys.prefix) / "libexec" / "tsnrepro" / source_digest()
    folder.mkdir(parents=True, exist_ok=True)
    return Programs(*(_built(folder, name) for name in (TALKER, LISTENER, STALLMETER)))


def compile_command(compiler: str, program: str, output: str, sources: str = "") -> list[str]:
    """Return the command that compiles one of the programs.

    It runs on any Linux host with a C11 compiler; ``sources`` is the folder of the C files there
    (this package's own where empty).
    """
    source = f"{sources or SOURCES}/{program}.c"
    return [compiler, *FLAGS, source, "-o", output]


def _built(folder: Path, name: str) -> Path:
    program = folder / name
    if not program.exists():
        # By rename, so that an interrupted build is never taken for a program.
        partial = folder / f"{name}.partial"
        _run(compile_command("clang", name, str(partial), str(SOURCES)))
        partial.rename(program)
    return program


def _run(command: list[str]) -> None:
    remedy = "Run scripts/setup: it installs clang and the headers of libc and the kernel"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise TestbedError(
            "clang is not installed", "building talker, listener and stall meter", remedy
        ) from error
    if done.returncode:
        message = done.stderr.strip()[-2000:]
        raise TestbedError(f"clang failed:\n{message}", " ".join(command[-3:]), remedy)
