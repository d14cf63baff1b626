"""Compile the software bridge, its replay and its hosts' tagger, once a state of the sources."""

import subprocess
from pathlib import Path

from tsnrepro.common.errors import TestbedError
from tsnrepro.native.c_sources import bpf_command, build_folder, compile_whole

SOURCES = Path(__file__).resolve().parent
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")
_SCHEDULER = ("settings.c", "scheduler.c")
_BRIDGE = ("bridge.c", "receive.c", "transmit.c", "table.c", "control.c", *_SCHEDULER)


def replay() -> Path:
    """Return the path of bridge-replay, built when it is missing; it needs no DPDK.

    Raises
    ------
    TestbedError
        clang or the headers of libpcap are missing, or a source does not compile.
    """
    program = build_folder(SOURCES) / "bridge-replay"
    if not program.exists():
        _compile(program, ("replay.c", *_SCHEDULER), [], ["-lpcap", "-lm"], "libpcap-dev")
    return program


def bridge() -> Path:
    """Return the path of tsn-bridge, built when it is missing.

    Raises
    ------
    TestbedError
        clang or DPDK's headers are missing, or a source does not compile.
    """
    program = build_folder(SOURCES) / "tsn-bridge"
    if not program.exists():
        flags, libraries = _of_dpdk("--cflags"), _of_dpdk("--libs")
        _compile(program, _BRIDGE, flags, [*libraries, "-lm"], "libdpdk-dev")
    return program


def tagger() -> Path:
    """Return the path of the eBPF object that tags a host's frames, built when it is missing.

    Raises
    ------
    TestbedError
        clang or the headers of libbpf are missing, or a source does not compile.
    """
    program = build_folder(SOURCES) / "tag.bpf.o"
    if not program.exists():
        command = [*bpf_command(), str(SOURCES / "tag.bpf.c"), "-o"]
        compile_whole(program, command, "the tagger", "libbpf-dev")
    return program


def _compile(
    program: Path, sources: tuple[str, ...], flags: list[str], libraries: list[str], needs: str
) -> None:
    paths = [str(SOURCES / name) for name in sources]
    command = ["clang", *FLAGS, *flags, *paths, *libraries, "-o"]
    compile_whole(program, command, "the software bridge", needs)


def _of_dpdk(what: str) -> list[str]:
    where, remedy = "building the software bridge", "Run scripts/setup: it installs libdpdk-dev"
    try:
        done = subprocess.run(
            ["pkg-config", what, "libdpdk"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise TestbedError("pkg-config is not installed", where, remedy) from error
    if done.returncode:
        raise TestbedError(f"DPDK is not found: {done.stderr.strip()}", where, remedy)
    return done.stdout.split()
