"""Compile the eBPF programs and frerctl with clang, once for each state of their sources."""

from pathlib import Path

from tsnrepro.native import c_sources

SOURCES = Path(__file__).resolve().parent
PROGRAMS = ("switch", "station", "listener", "drops")
_WHAT, _NEEDS = "the data plane", "libbpf-dev"


def source_digest() -> str:
    """Return the SHA-256 (first 16 hex digits) over all C sources, names included."""
    return c_sources.source_digest(SOURCES)


def frerctl() -> Path:
    """Return the path of frerctl, built together with its eBPF objects when it is missing.

    Raises
    ------
    TestbedError
        clang or the headers of libbpf are missing, or a source does not compile.
    """
    program = c_sources.build_folder(SOURCES) / "frerctl"
    if not program.exists():
        _build(program)
    return program


def delayline() -> Path:
    """Return the path of the delay line; see :func:`frerctl` for its building and its errors."""
    return frerctl().with_name("delayline")


def _build(frerctl: Path) -> None:
    for name in PROGRAMS:
        command = [*c_sources.bpf_command(), str(SOURCES / f"{name}.bpf.c"), "-o"]
        c_sources.compile_whole(frerctl.with_name(f"{name}.bpf.o"), command, _WHAT, _NEEDS)
    _compile(frerctl.with_name("delayline"), str(SOURCES / "delayline.c"), "-lpthread")
    # Last: frerctl's presence says that the folder is complete.
    _compile(frerctl, *map(str, sorted(SOURCES.glob("frerctl*.c"))), "-lbpf")


def _compile(target: Path, *arguments: str) -> None:
    command = ["clang", "-O2", "-Wall", "-Wextra", *arguments, "-o"]
    c_sources.compile_whole(target, command, _WHAT, _NEEDS)
