"""What a testbed must not leave on the machine that it ran on, however it ended."""

import json
import re
import subprocess
from pathlib import Path

from bpf_objects import bpf_objects

PROGRAMS = {"host_ingress", "member_ingress", "station_egress"}
PROGRAMS |= {"station_ingress", "stream_drop", "stream_drop_aga"}  # cut to 15 characters
MAPS = {"frer_config", "frer_generator", "frer_recovery", "stations", "stream_drops"}
# Python tries a temporary folder with a file of eight random letters, for an instant.
TRIED_BY_PYTHON = re.compile(r"[a-z0-9_]{8}")


def kernel_objects() -> list[str]:
    """Return the eBPF programs and maps of any testbed on this machine."""
    found = []
    for kind, names in (("prog", PROGRAMS), ("map", MAPS)):
        found += [f"{kind} {name}" for name, _ in bpf_objects(kind) if name in names]
    return found


def names_left(folder: Path) -> list[str]:
    """Return the names in a temporary folder, without what Python itself tries it with."""
    return [p.name for p in folder.iterdir() if not TRIED_BY_PYTHON.fullmatch(p.name)]


def surroundings() -> dict[str, list[str]]:
    """Return what a testbed must not add to on the machine it runs on."""
    links = subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout
    return {
        "links": [link["ifname"] for link in json.loads(links)],
        "pinned": sorted(map(str, Path("/sys/fs/bpf").rglob("*"))),
        "named namespaces": sorted(map(str, Path("/run/netns").glob("*"))),
        "run": sorted(map(str, Path("/run").glob("tsnrepro*"))),
    }


def processes() -> dict[int, tuple[str, str, int]]:
    """Return command line, environment and inode of the network namespace of each process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = (
                (folder / "cmdline").read_text(errors="replace").replace("\0", " ").strip(),
                (folder / "environ").read_text(errors="replace"),
                (folder / "ns" / "net").stat().st_ino,
            )
        except OSError:
            continue  # it ended while we looked
    return found
