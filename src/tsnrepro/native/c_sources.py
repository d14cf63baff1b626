"""Programs compiled from the C sources in a folder, once for each state of the sources."""

import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path

from tsnrepro.common.errors import TestbedError


def source_digest(sources: Path) -> str:
    """Return the SHA-256 (first 16 hex digits) over all C sources in a folder, names included."""
    digest = hashlib.sha256()
    for path in sorted(sources.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def build_folder(sources: Path) -> Path:
    """Return the folder for what is built of some sources, made where it is missing.

    It lies in the Python environment and has the digest of the sources as its name, so a changed
    source never runs an old build.
    """
    folder = Path(sys.prefix) / "libexec" / "tsnrepro" / source_digest(sources)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def bpf_command() -> list[str]:
    """Return the words with which clang compiles for eBPF; the source and ``-o`` follow."""
    # Where Debian and Ubuntu keep <asm/types.h>; the bpf target does not look there by itself.
    multiarch = sysconfig.get_config_var("MULTIARCH")
    headers = [f"-I/usr/include/{multiarch}"] if multiarch else []
    warnings = ["-Wall", "-Wextra", "-Werror"]
    return ["clang", "-O2", *warnings, "-g", "-target", "bpf", *headers, "-c"]


def compile_whole(program: Path, command: list[str], what: str, needs: str) -> None:
    """Run a command of clang that ends in ``-o``, its output the program: whole or not at all.

    ``what`` is being built and ``needs`` the headers for it: both for the error's words.

    Raises
    ------
    TestbedError
        clang is missing, or a source does not compile.
    """
    # By rename, so that an interrupted build is never taken for a program.
    partial = program.with_name(f"{program.name}.partial")
    remedy = f"Run scripts/setup: it installs clang, {needs} and the kernel's headers"
    try:
        done = subprocess.run([*command, str(partial)], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise TestbedError("clang is not installed", f"building {what}", remedy) from error
    if done.returncode:
        message = done.stderr.strip()[-2000:]
        sources = " ".join(word for word in command if word.endswith(".c"))
        raise TestbedError(f"clang failed:\n{message}", sources, remedy)
    partial.rename(program)
