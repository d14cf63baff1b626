"""Analysed runs as pages show them: whose numbers they are, and a number with its interval."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import short_commit
from tsnrepro.config.registry import Experiment, experiment
from tsnrepro.records.store import RUN_FILE, open_run
from tsnrepro.records.values import FACTS_FILE, Result, load_file
from tsnrepro.results import numbers
from tsnrepro.results.numbers import TEXT, TEXT_UNITS


@dataclass(frozen=True)
class AnalysedRun:
    """A run's folder with its list of trials and the facts of its testbed as text."""

    folder: Path
    manifest: dict[str, Any]
    facts: dict[str, str]

    @classmethod
    def load(cls, folder: Path) -> "AnalysedRun":
        """Return the run of a folder of results."""
        _, manifest = open_run(folder / RUN_FILE)
        facts = {
            key.removeprefix("testbed."): shown(item)
            for key, item in load_file(folder / FACTS_FILE).items()
            if item.value is not None
        }
        for name in ("label", "campaign", "commit", "verb"):
            if name not in facts:
                raise PublishError(f"the facts lack 'testbed.{name}'", str(folder / FACTS_FILE))
        return cls(folder, manifest, facts)

    @property
    def experiment(self) -> Experiment:
        """The experiment's declaration."""
        return experiment(self.manifest["experiment"])

    @property
    def origin(self) -> str:
        """Whose numbers these are, for a page."""
        return f"{self.facts['verb']} the {self.facts['label']}"

    def described(self) -> dict[str, Any]:
        """Return its text for pages."""
        name = self.experiment.name
        store = ("data", "raw", self.manifest["testbed"], self.manifest["campaign"], name)
        return {
            "name": name,
            "title": self.experiment.title,
            "origin": self.origin,
            "trials": len(self.manifest["trials"]),
            "folder": "/".join(store),
            "failed": self.manifest.get("failed_attempts", []),
        }


def origin_of(folder: Path) -> str:
    """Return the line at the head of a run's page: testbed and campaign.

    Raises RecordError if the run lacks its facts. Raises PublishError if the facts do not name the
    testbed.
    """
    run = AnalysedRun.load(folder)
    return f"{run.origin}, campaign {run.facts['campaign']}"


def shown(item: Result) -> str:
    """Return a result as the page prints it: value, interval and unit."""
    if isinstance(item.value, str):
        return short_commit(item.value) if item.key == "testbed.commit" else item.value
    return f"{bare(item)} {TEXT_UNITS.get(item.unit, item.unit)}".strip()


def bare(item: Result) -> str:
    """Return a number and its interval without the unit."""
    return numbers.estimate(item, TEXT)
