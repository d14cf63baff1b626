"""Changelog, version and pre-commit hooks: each says the same as what it stands for."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from tsnrepro.common.repository import root

PROJECT = tomllib.loads((root() / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((root() / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == VERSION
    changelog = (root() / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+) \(", changelog, re.MULTILINE)[0] == VERSION


def test_fragments_make_an_entry():
    towncrier = Path(sys.executable).parent / "towncrier"
    command = [towncrier, "build", "--draft", "--version", "9.9.9"]
    made = subprocess.run(command, cwd=root(), capture_output=True, text=True, check=True).stdout
    assert "## 9.9.9 (" in made
    types = "|".join(each["directory"] for each in PROJECT["tool"]["towncrier"]["type"])
    for fragment in (root() / "changes").glob("*.md"):
        assert re.search(rf"\.({types})\.md$|^README\.md$", fragment.name), fragment


def test_hooks_are_the_linters_of_the_test_script():
    hooks = yaml.safe_load((root() / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (local,) = hooks["repos"]
    assert local["repo"] == "local", "nothing is downloaded"
    script = (root() / "scripts" / "test").read_text(encoding="utf-8")
    for hook in local["hooks"]:
        command = hook["entry"].removeprefix(".venv/bin/")
        assert (root() / ".venv/bin" / command.split()[0]).exists() or not (
            root() / ".venv"
        ).exists()
        assert re.search(rf"^step {re.escape(command)}\b", script, re.MULTILINE), command
