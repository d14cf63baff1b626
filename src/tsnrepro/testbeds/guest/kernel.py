"""The guest's kernel: a package of this machine's distribution, unpacked and never installed.

Kernel packages age quickly and leave the mirrors, so the version is what apt resolves today; an
unpacked one is used again for as long as it is there.
"""

import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.guest import cache
from tsnrepro.testbeds.guest.programs import find

# By /etc/os-release's ID. Ubuntu's smaller linux-image-virtual leaves out the package of modules
# that has the queueing disciplines.
_METAPACKAGES = {"debian": "linux-image-cloud-amd64", "ubuntu": "linux-image-generic"}
_NAMES = re.compile(r"linux-(image|modules|modules-extra)-\d[\w.+-]*")
_DOWNLOAD_SECONDS = 300
_REMEDY = (
    "Run `apt-get update` with a network, then `tsnrepro` again; or name another package by"
    " kernel_package in the testbed's configuration"
)


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: its image, the root under which ``lib/modules`` lies, its release."""

    image: Path
    root: Path
    release: str
    packages: tuple[str, ...]

    @property
    def modules(self) -> Path:
        """The folder of this release's modules, with ``modules.dep`` in it."""
        return self.root / "lib" / "modules" / self.release


def distribution() -> str:
    """Return ``debian`` or ``ubuntu`` (or what is closest), or the name of another one."""
    facts = platform.freedesktop_os_release()
    names = [facts.get("ID", ""), *facts.get("ID_LIKE", "").split()]
    return next((name for name in names if name in _METAPACKAGES), names[0])


def metapackage() -> str:
    """Return the package that depends on the distribution's present kernel.

    Raises
    ------
    TestbedError
        The distribution is neither Debian nor Ubuntu.
    """
    name = distribution()
    if name not in _METAPACKAGES:
        raise TestbedError(
            f"no kernel package is known for the distribution '{name}'",
            "/etc/os-release",
            "Debian and Ubuntu have one; the model testbed runs anywhere",
        )
    return _METAPACKAGES[name]


def get(package: str | None = None) -> Kernel:
    """Return the guest's kernel, fetched through apt when this machine has none unpacked.

    Raises
    ------
    TestbedError
        apt cannot resolve or download the package, or it holds no kernel.
    """
    name = package or metapackage()
    folder = cache.folder("kernels") / name
    if not (folder / "complete").exists():
        _fetch(name, folder)
    return _describe(folder)


def present(package: str | None = None) -> bool:
    """Tell whether a kernel is unpacked here already."""
    return (cache.folder("kernels") / (package or metapackage()) / "complete").exists()


def _fetch(name: str, folder: Path) -> None:
    packages = _resolve(name)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{name}.") as partial:
        root = Path(partial) / "root"
        root.mkdir()
        _said(["apt-get", "--quiet", "download", *packages], cwd=Path(partial))
        archives = sorted(Path(partial).glob("*.deb"))
        for archive in archives:
            _said(["dpkg-deb", "--extract", str(archive), str(root)])
        _move_modules(root)
        release = _release(root)
        _said(["depmod", "--basedir", str(root), release])
        (root / "complete").write_text(
            "".join(f"{archive.stem}\n" for archive in archives), encoding="utf-8"
        )
        root.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        # By rename and last: a folder with this name is whole.
        root.rename(folder)


def _move_modules(root: Path) -> None:
    """Put modules where depmod looks: newer packages have them in /usr/lib."""
    if (root / "usr/lib/modules").is_dir() and not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")


def _resolve(name: str) -> list[str]:
    """Return ``package=version`` of the kernel's own packages, from the metapackage downwards."""
    wanted, seen = [name], set()
    found: dict[str, str] = {}
    while wanted:
        package = wanted.pop()
        if package in seen:
            continue
        seen.add(package)
        fields = _said(["apt-cache", "--no-all-versions", "show", package])
        if _NAMES.fullmatch(package):
            version = re.search(r"^Version: (\S+)$", fields, re.MULTILINE)
            assert version is not None, "every package has a version"
            found[package] = version[1]
        depends = " ".join(re.findall(r"^(?:Pre-)?Depends: (.*)$", fields, re.MULTILINE))
        wanted += [match[0] for match in _NAMES.finditer(depends)]
    if not found:
        raise TestbedError("it leads to no kernel", f"package {name}", _REMEDY)
    return [f"{package}={version}" for package, version in sorted(found.items())]


def _release(root: Path) -> str:
    images = sorted((root / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise TestbedError(f"they hold {len(images)} kernel images", f"packages in {root}", _REMEDY)
    return images[0].name.removeprefix("vmlinuz-")


def _describe(folder: Path) -> Kernel:
    release = _release(folder)
    packages = (folder / "complete").read_text(encoding="utf-8").split()
    return Kernel(folder / "boot" / f"vmlinuz-{release}", folder, release, tuple(packages))


def _said(argv: list[str], cwd: Path | None = None) -> str:
    program = [str(find(argv[0])), *argv[1:]]
    try:
        done = subprocess.run(
            program, cwd=cwd, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise TestbedError("no answer in time", " ".join(argv), _REMEDY) from error
    if done.returncode:
        raise TestbedError(done.stderr.strip()[-800:], " ".join(argv), _REMEDY)
    return done.stdout
