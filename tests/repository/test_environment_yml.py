"""environment.yml, requirements.lock and pyproject.toml say the same."""

import importlib.util
import re
import tomllib

import yaml
from packaging.requirements import Requirement

from tsnrepro.common.repository import root

spec = importlib.util.spec_from_file_location(
    "conda_environment", root() / "scripts" / "conda_environment.py"
)
conda_environment = importlib.util.module_from_spec(spec)
spec.loader.exec_module(conda_environment)


def lock() -> str:
    return (root() / "requirements.lock").read_text(encoding="utf-8")


def test_environment_is_generated_from_the_lock():
    written = (root() / "environment.yml").read_text(encoding="utf-8")
    assert written == conda_environment.environment_yml(lock()), "run scripts/lock"


def test_environment_installs_from_the_lock():
    environment = yaml.safe_load((root() / "environment.yml").read_text(encoding="utf-8"))
    pip = next(item["pip"] for item in environment["dependencies"] if isinstance(item, dict))
    assert "--requirement requirements.lock" in pip


def test_every_requirement_is_locked_at_a_version_it_allows():
    project = tomllib.loads((root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    versions = conda_environment.locked_versions(lock())
    for text in wanted:
        requirement = Requirement(text)
        assert requirement.name in versions, f"{requirement.name} is not locked"
        assert versions[requirement.name] in requirement.specifier


def test_lock_pins_hashes_and_names_no_registry():
    text = lock()
    packages = re.findall(r"^[A-Za-z0-9_.-]+==", text, re.MULTILINE)
    assert len(packages) > 50
    assert text.count("--hash=sha256:") >= len(packages)
    assert "://" not in text
    assert "--index-url" not in text


def test_locked_versions_follow_the_markers():
    text = (
        "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:00\n"
        "numpy==2.5.5 ; python_full_version >= '3.12' \\\n    --hash=sha256:00\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
    )
    assert conda_environment.locked_versions(text, "3.11") == {"numpy": "2.4.6"}
    assert conda_environment.locked_versions(text, "3.12") == {"numpy": "2.5.5"}
