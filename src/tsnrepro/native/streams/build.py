"""Compile talker, listener and stall meter, once for each state of their sources."""

from dataclasses import dataclass
from pathlib import Path

from tsnrepro.native.c_sources import build_folder, compile_whole

SOURCES = Path(__file__).resolve().parent
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
LIBRARIES = ("-lm",)
"""What the linker needs behind the source."""


@dataclass(frozen=True)
class Programs:
    """The paths of the compiled programs."""

    talker: Path
    listener: Path
    stallmeter: Path


def programs() -> Programs:
    """Return the paths of the programs, built when one is missing.

    Raises
    ------
    TestbedError
        clang or the headers of libc are missing, or a source does not compile.
    """
    folder = build_folder(SOURCES)
    made = Programs(*(folder / name for name in ("talker", "listener", "stallmeter")))
    for program in (made.talker, made.listener, made.stallmeter):
        if not program.exists():
            source = str(SOURCES / f"{program.name}.c")
            command = ["clang", *FLAGS, source, *LIBRARIES, "-o"]
            compile_whole(program, command, "talker, listener and stall meter", "those of libc")
    return made
