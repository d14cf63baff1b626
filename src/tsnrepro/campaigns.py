"""Named campaigns and testbeds, and the runs they make together."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tsnrepro.errors import ConfigurationError
from tsnrepro.repository import root
from tsnrepro.settings import (
    Campaign,
    EmulatedSettings,
    GuestSettings,
    ModelSettings,
    TestbedSettings,
    load,
    load_testbed,
    parse,
)


@dataclass(frozen=True)
class Experiment:
    """Where an experiment is planned and measured, and which notebooks run and analyse it."""

    module: str
    """Below ``tsnrepro.experiments``."""
    measure: str
    """Its notebook in notebooks/measure."""
    analyse: str
    """Its notebook in notebooks/analyse."""
    kinds: tuple[str, ...] = ("emulated", "model")
    """The kinds of testbed that it can be measured on."""
    qdiscs: tuple[str, ...] = ()
    """What it needs of the kernel; on ``emulated`` it then runs as jobs on this machine's own."""


# By the name that it has in a campaign's file and in the raw store.
EXPERIMENTS = {
    "sweep": Experiment("sweep", "sweep", "loss"),
    "tcp": Experiment("tcp", "tcp", "tcp"),
    "latency": Experiment("latency", "latency", "latency"),
    "mausezahn": Experiment("mausezahn", "mausezahn", "mausezahn"),
    "failure": Experiment("failure", "failure", "failure"),
    "streams": Experiment("streams", "streams", "streams"),
    "rfc2544": Experiment("rfc2544.experiment", "rfc2544", "rfc2544"),
    "tag_capture": Experiment("tag_capture", "tag_capture", "wire", ("emulated",)),
    "shaping": Experiment(
        *("shaping", "shaping", "shaping", ("emulated", "guest", "model")),
        qdiscs=("mqprio", "taprio", "cbs", "etf", "802.1Q"),
    ),
}
# The experiments that each manuscript of paper/ prints.
MANUSCRIPTS = {"frer-udp": ("sweep", "tcp", "latency")}


def experiments_of(campaign: Campaign, kind: str) -> list[str]:
    """Return the names of a campaign's experiments that a kind of testbed can run, in order."""
    return [
        name
        for name, experiment in EXPERIMENTS.items()
        if getattr(campaign, name) is not None and kind in experiment.kinds
    ]


def refuse_unmeasurable(experiments: list[str], testbed_name: str, campaign_name: str) -> None:
    """Refuse a campaign's experiments that this machine's kernel cannot run as jobs.

    What is recorded already, if only in part, is not refused: it may need no testbed any more.

    Raises
    ------
    TestbedError
        It names the queueing disciplines that the kernel lacks, and the testbed that has them.
    """
    if testbed_settings(testbed_name).kind != "emulated":
        return
    recorded = raw_root() / testbed_name / campaign_name
    for name in experiments:
        if EXPERIMENTS[name].qdiscs and not (recorded / name).is_dir():
            from tsnrepro.testbed.jobs.here import refuse_without  # noqa: PLC0415

            refuse_without(EXPERIMENTS[name].qdiscs)


def manuscripts_of(wanted: list[str], experiments: list[str]) -> list[str]:
    """Return the manuscripts to print: those wanted, or all whose experiments there are.

    Raises
    ------
    ConfigurationError
        A wanted manuscript is unknown, or prints an experiment that there is not.
    """
    for name in wanted:
        if name not in MANUSCRIPTS:
            raise ConfigurationError(
                f"unknown manuscript '{name}'", "papers", f"There are: {', '.join(MANUSCRIPTS)}"
            )
        if lacks := [e for e in MANUSCRIPTS[name] if e not in experiments]:
            raise ConfigurationError(
                f"manuscript '{name}' prints {', '.join(lacks)}, which the campaign does not have",
                "papers",
            )
    fitting = [name for name, needs in MANUSCRIPTS.items() if {*needs} <= {*experiments}]
    return wanted or fitting


def campaign(name: str) -> Campaign:
    """Return the campaign of config/campaigns/NAME.yaml."""
    return load(Campaign, root() / "config" / "campaigns" / f"{name}.yaml")


def open_testbed(name: str, campaign: Campaign, purpose: str, **overrides: Any) -> Any:
    """Return the testbed of config/testbeds/NAME.yaml; its ``with`` block brings it up.

    ``overrides`` are settings that take the place of those in the file.

    Raises
    ------
    ConfigurationError
        There is no such file, or it does not fit the kind of testbed it names.
    """
    settings = testbed_settings(name)
    if overrides:
        merged = settings.model_dump() | overrides
        settings = parse(type(settings), merged, f"config/testbeds/{name}.yaml and the trial")
    if isinstance(settings, ModelSettings):
        from tsnrepro.testbed.model import ModelTestbed  # noqa: PLC0415

        return ModelTestbed(settings, campaign.seed)
    if isinstance(settings, GuestSettings):
        from tsnrepro.testbed.guest.testbed import GuestTestbed  # noqa: PLC0415

        return GuestTestbed(settings, purpose)
    from tsnrepro.testbed.emulated import EmulatedTestbed  # noqa: PLC0415

    return EmulatedTestbed(settings, purpose)


def open_for(experiment: str, name: str, campaign: Campaign, purpose: str, **overrides: Any) -> Any:
    """Return the testbed as an experiment takes it; see :func:`open_testbed`.

    Where it needs queueing disciplines, an emulated testbed runs jobs on this machine's kernel.
    """
    settings = testbed_settings(name)
    needs = EXPERIMENTS[experiment].qdiscs
    if needs and isinstance(settings, EmulatedSettings):
        from tsnrepro.testbed.jobs.here import JobsHere  # noqa: PLC0415

        return JobsHere(settings, purpose, needs)
    return open_testbed(name, campaign, purpose, **overrides)


def testbed_settings(name: str) -> TestbedSettings:
    """Return the settings of config/testbeds/NAME.yaml, whatever its kind."""
    return load_testbed(root() / "config" / "testbeds" / f"{name}.yaml")


def raw_root() -> Path:
    """Return the folder of the raw store."""
    return root() / "data" / "raw"


def run_experiment(experiment: str, testbed_name: str, campaign_name: str) -> dict[str, Any]:
    """Measure what is missing of one experiment and return the run's manifest.

    On an imported testbed there is nothing to measure: the manifest lists what was imported.

    Raises
    ------
    ConfigurationError
        The experiment is unknown or not part of the campaign.
    TsnreproError
        The testbed or a trial failed; what was measured before is recorded.
    """
    from importlib import import_module  # noqa: PLC0415 - one experiment's tools, not all

    from tsnrepro.experiments.run import run_trials  # noqa: PLC0415
    from tsnrepro.records.foreign.imported import foreign_manifest, is_imported  # noqa: PLC0415
    from tsnrepro.records.store import RawStore  # noqa: PLC0415

    if experiment not in EXPERIMENTS:
        raise ConfigurationError(
            f"unknown experiment '{experiment}'", "", f"There are: {', '.join(EXPERIMENTS)}"
        )
    if is_imported(raw_root(), testbed_name):
        return foreign_manifest(raw_root(), testbed_name, experiment, campaign_name)
    settings = campaign(campaign_name)
    kind = testbed_settings(testbed_name).kind
    if kind not in EXPERIMENTS[experiment].kinds:
        raise ConfigurationError(
            f"experiment '{experiment}' cannot be measured on a testbed of kind {kind}",
            f"config/testbeds/{testbed_name}.yaml",
            f"It can on: {', '.join(EXPERIMENTS[experiment].kinds)}",
        )
    module = import_module(f"tsnrepro.experiments.{EXPERIMENTS[experiment].module}")
    # Where the kinds differ in what they can run, the plan is of one kind.
    planned = (
        module.plan_for(settings, kind) if hasattr(module, "plan_for") else module.plan(settings)
    )
    if not planned:
        raise ConfigurationError(
            f"campaign '{campaign_name}' has no experiment '{experiment}'",
            f"config/campaigns/{campaign_name}.yaml",
        )
    store = RawStore(raw_root(), testbed_name, campaign_name, experiment)
    purpose = f"campaign {campaign_name}, experiment {experiment}"
    bring_up = partial(open_for, experiment, testbed_name, settings, purpose)
    # A model has no caches to warm, and every job of a guest boots its own.
    warm_up = settings.warm_up and kind == "emulated"
    measure = module.measuring(settings) if hasattr(module, "measuring") else module.measure
    return run_trials(store, planned, settings.attempts, bring_up, measure, warm_up=warm_up)
