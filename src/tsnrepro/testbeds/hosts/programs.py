"""Our programs on remote hosts: installed for a campaign, removed after it."""

import platform
import re
from pathlib import Path

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.native import frer, streams
from tsnrepro.testbeds.hosts.shell import Shell

FOLDER = "/run/tsnrepro-programs"
_WRITE_SECONDS = 60
# Versions of the C library's symbols that a program needs.
_GLIBC = re.compile(rb"\x00GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\x00)")
# Debian and Ubuntu mount /run noexec: the folder is then a tmpfs of its own, which like /run does
# not survive a reboot.
_MAKE = """\
mkdir -p "$1" || exit
options=$(while read -r _ at _ options _; do
    [ "$at" != "${1%/*}" ] || echo "$options"
done </proc/mounts | tail -n 1)
case ",$options," in *,noexec,*) ;; *) exit 0 ;; esac
grep -q "^[^ ]* $1 " /proc/mounts && exit 0
exec mount -t tmpfs -o mode=0755,nosuid,nodev,size=64m tsnrepro "$1"
"""
# A killed campaign leaves programs, such as its stall meters with their deadline of a day.
_REMOVE = """\
for exe in /proc/[0-9]*/exe; do
    case $(readlink "$exe") in "$1"/*) exe=${exe%/exe}; kill "${exe##*/}" ;; esac
done 2>/dev/null
if grep -q "^[^ ]* $1 " /proc/mounts; then umount -l "$1" || exit; fi
rm -rf "$1"
"""


def on_host() -> dict[str, str]:
    """Return the paths of our programs on a host by their paths on this machine."""
    here = (streams.talker(), streams.listener(), streams.stallmeter(), frer.frerctl())
    return {str(path): f"{FOLDER}/{path.name}" for path in here}


def frerctl() -> str:
    """Return the path of frerctl on a host."""
    return f"{FOLDER}/{frer.frerctl().name}"


def needed_glibc() -> tuple[int, int]:
    """Return the glibc version that our programs, as built on this machine, need."""
    found = [_GLIBC.findall(Path(program).read_bytes()) for program in on_host()]
    return max((int(major), int(minor)) for named in found for major, minor in named)


def install(shell: Shell) -> None:
    """Install our programs on a host.

    Raises TestbedError if the host's processor architecture differs from this machine's, or /run is
    full.
    """
    machine = shell.read(["uname", "-m"]).strip()
    if machine != platform.machine():
        raise TestbedError(
            f"the host is {machine}, and our programs are built for {platform.machine()}",
            shell.name,
            "Run the campaign on a machine of the hosts' architecture",
        )
    shell.change(["sh", "-c", _MAKE, "sh", FOLDER])
    objects = [frer.frerctl().with_name(f"{name}.bpf.o") for name in ("switch", "station")]
    for path in [*on_host(), *map(str, objects)]:
        target = f"{FOLDER}/{path.rpartition('/')[2]}"
        if shell.dry_run:
            shell.change(["scp", path, f"{shell.name}:{target}"])
            continue
        with open(path, "rb") as file:
            content = file.read()
        try:
            shell.host.write(target, content, deadline_s=_WRITE_SECONDS)
        except CommandError as error:
            raise TestbedError(error.what, error.where, "Free space in /run") from error


def remove(shell: Shell) -> None:
    """End our programs on a host, and remove them."""
    shell.change(["sh", "-c", _REMOVE, "sh", FOLDER])
