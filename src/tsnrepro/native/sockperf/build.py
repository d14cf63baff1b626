"""Compile what is loaded into a tool, once for each state of its source."""

from pathlib import Path

from tsnrepro.native.c_sources import build_folder, compile_whole

SOURCES = Path(__file__).resolve().parent
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def sockperf_wait() -> Path:
    """Return the path of the library that shortens sockperf's wait, built when it is missing.

    Raises
    ------
    TestbedError
        clang or the headers of libc are missing, or the source does not compile.
    """
    library = build_folder(SOURCES) / "sockperf_wait.so"
    if not library.exists():
        command = ["clang", *_FLAGS, str(SOURCES / "sockperf_wait.c"), "-o"]
        compile_whole(library, command, "the short wait of sockperf", "those of libc")
    return library
