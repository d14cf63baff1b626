"""A copy of the tracked files with a raw store and results of its own, and Snakemake run in it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tsnrepro.common.repository import root

SECONDS = 2400


# Where a user has files of their own; elsewhere an untracked file is code that is not added yet.
USERS = ("config/", "data/", "notebooks/", "paper/")
COMPILED = {".pyc", ".nbi", ".nbc"}


def listed(*options: str) -> list[str]:
    command = ["git", "-C", str(root()), "ls-files", "-z", *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [name for name in printed.split("\0") if name]


def copy_of_repository(target: Path) -> Path:
    """Copy what git tracks, code that it would if it were added, and what is compiled of it."""
    untracked = listed("--others", "--exclude-standard")
    for name in [*listed(), *(name for name in untracked if not name.startswith(USERS))]:
        source, copied = root() / name, target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            copied.symlink_to(os.readlink(source))
        elif source.is_file():
            shutil.copy2(source, copied)
    for source in (root() / "src").rglob("__pycache__/*"):
        copied = target / source.relative_to(root())
        # Not what another process still writes.
        if source.suffix in COMPILED and copied.parents[1].is_dir():
            copied.parent.mkdir(exist_ok=True)
            shutil.copy2(source, copied)
    return target


def environment_of(repository: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment in which the copy's own package comes first."""
    return dict(base) | {
        "PYTHONPATH": str(repository / "src"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{base['PATH']}",
    }


def run_snakemake(repository: Path, *arguments: str, seconds: float = SECONDS):
    """Run Snakemake in a copy; what it says, errors too, is in ``stdout``."""
    return run_in_copy(repository, "snakemake", *arguments, seconds=seconds)


def run_in_copy(repository: Path, *command: str, seconds: float = SECONDS):
    """Run a command in a copy, with the copy's package; what it says is in ``stdout``."""
    return subprocess.run(
        command,
        cwd=repository,
        env=environment_of(repository),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


def snakemake(repository: Path, *arguments: str, campaign: str, **chosen: str):
    """Run Snakemake with a campaign, and a testbed or other settings where given."""
    config = [f"{name}={value}" for name, value in {"campaign": campaign, **chosen}.items()]
    return run_snakemake(repository, "--cores", "4", "--config", *config, *arguments)


def jobs_of(dry_run: str) -> set[str]:
    """Return the jobs of a dry run that printed its rules: ``rule first-output``."""
    blocks = re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)*)", dry_run, re.MULTILINE)
    found = set()
    for rule, lines in blocks:
        output = re.search(r"^    output: (\S+?),?(?: |$)", lines, re.MULTILINE)
        if output:
            found.add(f"{rule} {output[1]}")
    return found
