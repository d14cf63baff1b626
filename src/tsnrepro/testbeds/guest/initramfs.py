"""The guest's file system: programs of this machine, their shared libraries, kernel modules.

It consists of files that Debian packages have installed on this machine: no image is downloaded,
and no disk has a system.
"""

import hashlib
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.guest.archive import Archive
from tsnrepro.testbeds.guest.kernel import Kernel, cache_folder
from tsnrepro.testbeds.jobs import script
from tsnrepro.testbeds.jobs.job import Job
from tsnrepro.testbeds.requirements import find

_INIT = Path(__file__).resolve().parent / "init.sh"
SHELL = "dash"
# Programs of init.sh, of jobs' scripts, and of the set-up of hosts and queues.
PROGRAMS = (
    *("cat", "date", "ethtool", "grep", "ip", "kmod", "mkdir", "mount", "nsenter", "sleep", "sync"),
    *("sysctl", "taskset", "tar", "tc", "timeout", "uname"),
)
_LINKS = {
    "/usr/bin/sh": SHELL,
    "/usr/sbin/modprobe": "/usr/bin/kmod",
    "/bin": "usr/bin",
    "/sbin": "usr/sbin",
    "/lib": "usr/lib",
    "/lib32": "usr/lib32",
    "/lib64": "usr/lib64",
}
# Loaded by name or on demand (the kernel calls modprobe), with their dependencies.
MODULES = re.compile(r"(sch|cls|act|em)_\w+|veth|8021q|bridge|hsr|overlay|virtio_(pci|blk)")
_INDEX = re.compile(
    r"modules\.(dep|alias|softdep|symbols|builtin)(\.alias)?(\.bin)?|modules\.order"
)


def base(kernel: Kernel) -> bytes:
    """Return the archive that all guests with a kernel have in common.

    It is cached by a digest of its inputs.

    Raises TestbedError if a program that the guest needs is not installed here.
    """
    programs = [find(name) for name in (SHELL, *PROGRAMS)]
    cached = cache_folder("initramfs") / f"{_digest(kernel, programs)}.cpio"
    if cached.exists():
        return cached.read_bytes()
    archive = Archive()
    for path, target in _LINKS.items():
        archive.link(path, target)
    for folder in ("/dev", "/proc", "/sys", "/run", "/tmp", "/root", "/etc"):
        archive.folder(folder)
    archive.file("/init", _INIT.read_bytes())
    _add_programs(archive, programs)
    _add_modules(archive, kernel)
    content = archive.to_bytes()
    for old in cached.parent.glob("*.cpio"):
        old.unlink(missing_ok=True)
    partial = cached.with_suffix(".partial")
    partial.write_bytes(content)
    partial.rename(cached)
    return content


def of_job(job: Job) -> bytes:
    """Return the archive of a job: its programs with their libraries, its inputs and its script.

    Raises TestbedError if a program of the job is not installed here.
    """
    added = Archive()
    _add_programs(added, [find(name) for name in job.programs])
    for path, content in job.inputs.items():
        added.file(path, content)
    added.file("/job/script", script.text(job).encode())
    return added.to_bytes()


def _add_programs(archive: Archive, programs: Iterable[Path]) -> None:
    """Add programs with the libraries that the dynamic loader resolves here."""
    paths = list(programs)
    for path in paths:
        archive.file(_canonical(path), path.read_bytes())
    for library in libraries(paths):
        archive.file(_canonical(library), library.read_bytes())


def libraries(paths: Iterable[Path]) -> list[Path]:
    """Return the shared libraries and the loader of these programs, by ``ldd``.

    Raises TestbedError if a library is missing on this machine.
    """
    # ldd accepts ELF files only.
    programs = [str(path) for path in paths if path.read_bytes()[:4] == b"\x7fELF"]
    if not programs:
        return []
    output = subprocess.run(
        [find("ldd"), *programs], capture_output=True, text=True, check=False
    ).stdout
    if missing := re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE):
        raise TestbedError(f"libraries are missing: {', '.join(missing)}", " ".join(programs))
    found = re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", output, re.MULTILINE)
    return [Path(name) for name in dict.fromkeys(found)]


def _canonical(path: Path) -> str:
    """Return the guest's path of a file of this machine: /bin, /lib ... are links to /usr."""
    text = str(path)
    return f"/usr{text}" if text.startswith(("/bin/", "/sbin/", "/lib")) else text


def _digest(kernel: Kernel, programs: list[Path]) -> str:
    """Return a digest of the archive's inputs; ld.so.cache represents the libraries."""
    digest = hashlib.sha256(kernel.release.encode() + b"\0" + " ".join(kernel.packages).encode())
    for source in (_INIT, Path(__file__), Path(__file__).parent / "archive.py"):
        digest.update(source.read_bytes())
    for path in (*programs, Path("/etc/ld.so.cache")):
        facts = path.stat() if path.exists() else None
        digest.update(f"{path} {facts and (facts.st_size, facts.st_mtime_ns)}\n".encode())
    return digest.hexdigest()[:16]


def _add_modules(archive: Archive, kernel: Kernel) -> None:
    """Add the modules of queues, filters, links and the disk, and depmod's indexes."""
    target = f"/usr/lib/modules/{kernel.release}"
    for index in kernel.modules.iterdir():
        if _INDEX.fullmatch(index.name):
            archive.file(f"{target}/{index.name}", index.read_bytes(), 0o644)
    depends = read_dependencies((kernel.modules / "modules.dep").read_text(encoding="utf-8"))
    for name in closure(depends, MODULES):
        archive.file(f"{target}/{name}", (kernel.modules / name).read_bytes(), 0o644)


def read_dependencies(text: str) -> dict[str, list[str]]:
    """Return the dependencies of each module, by paths, from depmod's modules.dep."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {module: needed.split() for module, needed in pairs}


def closure(depends: dict[str, list[str]], names: re.Pattern[str]) -> list[str]:
    """Return the paths of the modules with matching names and of their dependencies.

    Dependencies in modules.dep are transitive.
    """
    wanted = [path for path in depends if names.fullmatch(_module_name(path))]
    return sorted({*wanted, *(needed for path in wanted for needed in depends[path])})


def _module_name(path: str) -> str:
    return Path(path).name.split(".ko", 1)[0].replace("-", "_")
