"""environment.yml for conda users, generated from requirements.lock.

Conda's own solver is left out of it: conda brings Python and pip, and pip installs exactly what the
lock names.
"""

import re
import sys
from pathlib import Path

_HEADER = """\
# Generated from requirements.lock by scripts/lock. Do not edit.
# pip checks every package against the lock's hashes.
name: tsnrepro
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip
  # main packages, as locked (conda users see what they get):
"""
_FOOTER = """\
  - pip:
      - --requirement requirements.lock
      - --editable .
"""


def locked_versions(lock: str, python: str = "3.11") -> dict[str, str]:
    """Return name and version of each package that the lock gives this Python on Linux.

    Raises
    ------
    ValueError
        A package is locked twice for this Python.
    """
    from packaging.markers import Marker  # noqa: PLC0415

    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "platform_machine": "x86_64",
    }
    versions: dict[str, str] = {}
    for match in re.finditer(r"^([A-Za-z0-9_.-]+)==(\S+)(?: ; (.*?))? \\$", lock, re.MULTILINE):
        name, version, marker = match.groups()
        if marker and not Marker(marker).evaluate(environment):
            continue
        if name in versions:
            raise ValueError(f"{name} is locked twice: {versions[name]} and {version}")
        versions[name] = version
    return versions


def environment_yml(lock: str) -> str:
    """Return the text of environment.yml for a lock."""
    lines = [f"  #   {name} {version}\n" for name, version in sorted(locked_versions(lock).items())]
    return _HEADER + "".join(lines) + _FOOTER


if __name__ == "__main__":
    print(environment_yml(Path(sys.argv[1]).read_text(encoding="utf-8")), end="")
