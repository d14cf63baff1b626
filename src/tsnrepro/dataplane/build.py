"""Compile the eBPF programs and frerctl with clang, once for each state of their sources."""

import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path

from tsnrepro.errors import TestbedError

SOURCES = Path(__file__).resolve().parent
PROGRAMS = ("switch", "station", "drops")


def source_digest() -> str:
    """Return the SHA-256 (first 16 hex digits) over all C sources, names included."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def frerctl() -> Path:
    """Return the path of frerctl, built together with its eBPF objects when it is missing.

    The build lies in the Python environment, in a folder named after the sources' digest, so a
    changed source never runs an old build.

    Raises
    ------
    TestbedError
        clang or the headers of libbpf are missing, or a source does not compile.
    """
    folder = Path(sys.prefix) / "libexec" / "tsnrepro" / source_digest()
    program = folder / "frerctl"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _build(folder)
    return program


def delayline() -> Path:
    """Return the path of the delay line; see :func:`frerctl` for its building and its errors."""
    return frerctl().with_name("delayline")


def _build(folder: Path) -> None:
    # Where Debian and Ubuntu keep <asm/types.h>; the bpf target does not look there by itself.
    multiarch = sysconfig.get_config_var("MULTIARCH")
    headers = [f"-I/usr/include/{multiarch}"] if multiarch else []
    for name in PROGRAMS:
        _clang(
            [
                *("-O2", "-g", "-Wall", "-Wextra", "-Werror", "-target", "bpf", *headers),
                *("-c", str(SOURCES / f"{name}.bpf.c"), "-o", str(folder / f"{name}.bpf.o")),
            ]
        )
    delay = [str(SOURCES / "delayline.c"), "-o", str(folder / "delayline"), "-lpthread"]
    _clang(["-O2", "-Wall", "-Wextra", *delay])
    # Last and by rename: frerctl's presence says that the folder is complete.
    partial = folder / "frerctl.partial"
    parts = [str(path) for path in sorted(SOURCES.glob("frerctl*.c"))]
    _clang(["-O2", "-Wall", "-Wextra", *parts, "-o", str(partial), "-lbpf"])
    partial.rename(folder / "frerctl")


def _clang(arguments: list[str]) -> None:
    remedy = "Run scripts/setup: it installs clang, libbpf-dev and the kernel's headers"
    try:
        done = subprocess.run(["clang", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise TestbedError("clang is not installed", "building the data plane", remedy) from error
    if done.returncode:
        message = done.stderr.strip()[-2000:]
        raise TestbedError(f"clang failed:\n{message}", " ".join(arguments[-4:]), remedy)
