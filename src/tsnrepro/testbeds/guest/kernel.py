"""The guest's kernel: a package of this machine's distribution, unpacked but not installed.

Kernel packages are soon removed from the mirrors, so the version is what apt resolves today; an
unpacked kernel is reused while it exists.
"""

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.requirements import find

# By ID in /etc/os-release. Ubuntu's smaller linux-image-virtual has no package of the modules with
# the queueing disciplines.
_METAPACKAGES = {"debian": "linux-image-cloud-amd64", "ubuntu": "linux-image-generic"}
_NAMES = re.compile(r"linux-(image|modules|modules-extra)-\d[\w.+-]*")
_DOWNLOAD_SECONDS = 300
_REMEDY = (
    "Run `apt-get update` with a network, then `tsnrepro` again; or set another package as"
    " kernel_package in the testbed's configuration"
)


def cache_folder(name: str) -> Path:
    """Return a folder for what is built once for all guests, in the Python environment."""
    path = Path(sys.prefix) / "libexec" / "tsnrepro" / "guest" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: its image, the root folder of ``lib/modules``, its release."""

    image: Path
    root: Path
    release: str
    packages: tuple[str, ...]

    @property
    def modules(self) -> Path:
        """Folder of this release's modules and ``modules.dep``."""
        return self.root / "lib" / "modules" / self.release


def distribution() -> str:
    """Return ``debian`` or ``ubuntu``, also for their derivatives, or the ID of another one."""
    facts = platform.freedesktop_os_release()
    names = [facts.get("ID", ""), *facts.get("ID_LIKE", "").split()]
    return next((name for name in names if name in _METAPACKAGES), names[0])


def metapackage() -> str:
    """Return the package that depends on the distribution's current kernel.

    Raises TestbedError if the distribution is neither Debian nor Ubuntu.
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
    """Return the guest's kernel, downloaded by apt unless it is already unpacked.

    Raises TestbedError if apt cannot resolve or download the package, or it holds no kernel.
    """
    name = package or metapackage()
    folder = cache_folder("kernels") / name
    if not (folder / "complete").exists():
        _fetch(name, folder)
    return _describe(folder)


def present(package: str | None = None) -> bool:
    """Return whether the kernel is already unpacked."""
    return (cache_folder("kernels") / (package or metapackage()) / "complete").exists()


def _fetch(name: str, folder: Path) -> None:
    packages = _resolve(name)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{name}.") as partial:
        root = Path(partial) / "root"
        root.mkdir()
        _output(["apt-get", "--quiet", "download", *packages], cwd=Path(partial))
        archives = sorted(Path(partial).glob("*.deb"))
        for archive in archives:
            _output(["dpkg-deb", "--extract", str(archive), str(root)])
        _link_modules(root)
        release = _release(root)
        _output(["depmod", "--basedir", str(root), release])
        (root / "complete").write_text(
            "".join(f"{archive.stem}\n" for archive in archives), encoding="utf-8"
        )
        root.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        # Last, by rename: a folder of this name is complete.
        root.rename(folder)


def _link_modules(root: Path) -> None:
    """Link the folder that depmod expects: newer packages have modules in /usr/lib."""
    if (root / "usr/lib/modules").is_dir() and not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")


def _resolve(name: str) -> list[str]:
    """Return ``package=version`` of the kernel packages that the metapackage depends on."""
    wanted, seen = [name], set()
    found: dict[str, str] = {}
    while wanted:
        package = wanted.pop()
        if package in seen:
            continue
        seen.add(package)
        fields = _output(["apt-cache", "--no-all-versions", "show", package])
        if _NAMES.fullmatch(package):
            version = re.search(r"^Version: (\S+)$", fields, re.MULTILINE)
            assert version is not None, "every package has a version"
            found[package] = version[1]
        depends = " ".join(re.findall(r"^(?:Pre-)?Depends: (.*)$", fields, re.MULTILINE))
        wanted += [match[0] for match in _NAMES.finditer(depends)]
    if not found:
        raise TestbedError("it depends on no kernel", f"package {name}", _REMEDY)
    return [f"{package}={version}" for package, version in sorted(found.items())]


def _release(root: Path) -> str:
    images = sorted((root / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise TestbedError(f"there are {len(images)} kernel images", f"packages in {root}", _REMEDY)
    return images[0].name.removeprefix("vmlinuz-")


def _describe(folder: Path) -> Kernel:
    release = _release(folder)
    packages = (folder / "complete").read_text(encoding="utf-8").split()
    return Kernel(folder / "boot" / f"vmlinuz-{release}", folder, release, tuple(packages))


def _output(argv: list[str], cwd: Path | None = None) -> str:
    program = [str(find(argv[0])), *argv[1:]]
    try:
        completed = subprocess.run(
            program, cwd=cwd, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise TestbedError("timed out", " ".join(argv), _REMEDY) from error
    if completed.returncode:
        raise TestbedError(completed.stderr.strip()[-800:], " ".join(argv), _REMEDY)
    return completed.stdout
