"""From the names of an experiment, a testbed and a campaign to the run's trials."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import (
    CardsSettings,
    EmulatedSettings,
    GuestSettings,
    HardwareSettings,
    ModelSettings,
    TestbedSettings,
    parse,
)
from tsnrepro.config.campaigns import Campaign
from tsnrepro.config.files import campaign, raw_root, testbed_settings
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.imports.imported import imported_manifest, is_imported
from tsnrepro.records.store import RawStore, is_done
from tsnrepro.runner.plan import Planned
from tsnrepro.runner.run import StoppingRule, run_trials, write_manifest
from tsnrepro.testbeds.choose import needed_qdiscs, unsupported_reason, unsupported_trial_reason
from tsnrepro.testbeds.protocol import JobTestbed, Testbed


def run_experiment(
    experiment: str, testbed_name: str, campaign_name: str, manifest: str = ""
) -> dict[str, Any]:
    """Measure what is missing of one experiment, and return the run's manifest.

    ``manifest`` is the file that it is written to; empty writes none. On an imported testbed there
    is nothing to measure: the manifest lists what was imported.

    Raises
    ------
    ConfigurationError
        The experiment is unknown or not part of the campaign.
    TsnreproError
        The testbed or a trial failed; what was measured before is recorded.
    """
    declared = experiment_of(experiment)
    if is_imported(raw_root(), testbed_name):
        found = imported_manifest(raw_root(), testbed_name, experiment, campaign_name)
    else:
        found = _measure(declared.name, testbed_name, campaign_name)
    if manifest:
        write_manifest(found, manifest)
    return found


def planned_trials(experiment: str, testbed_name: str, campaign_name: str) -> list[Planned]:
    """Return the trials that an experiment comes to on a testbed under a campaign, in their order.

    Those that this testbed cannot measure are left out, see :func:`left_out`.

    Raises
    ------
    ConfigurationError
        The experiment is unknown, not part of the campaign, or not for this kind of testbed.
    """
    return _planned(experiment, testbed_name, campaign_name)[0]


def is_recorded(experiment: str, testbed_name: str, campaign_name: str) -> bool:
    """Tell whether the record has all trials of an experiment that a campaign asks for today.

    Of what is measured only until it is known well enough nobody can tell before, so that does not
    count. Checksums are left to ``tsnrepro verify``.

    Raises
    ------
    RecordError
        A trial's record cannot be read.
    """
    try:
        planned = planned_trials(experiment, testbed_name, campaign_name)
    except ConfigurationError:
        return False  # the campaign has nothing of it for this testbed
    store = RawStore(raw_root(), testbed_name, campaign_name, experiment)
    attempts = campaign(campaign_name).attempts
    asked_for = [item.trial for item in planned if not item.stopping_rule]
    return all(is_done(store.ended(trial), attempts) for trial in asked_for)


def left_out(experiment: str, testbed_name: str, campaign_name: str) -> dict[str, list[str]]:
    """Return the labels of the trials that a testbed cannot measure, by the reason why."""
    return _planned(experiment, testbed_name, campaign_name)[1]


def _planned(
    experiment: str, testbed_name: str, campaign_name: str
) -> tuple[list[Planned], dict[str, list[str]]]:
    """Return the trials to measure, and the labels of the others by the reason why."""
    declared = experiment_of(experiment)
    settings = campaign(campaign_name)
    testbed = testbed_settings(testbed_name)
    if reason := unsupported_reason(declared, testbed):
        raise ConfigurationError(
            f"experiment '{experiment}': {reason}", f"config/testbeds/{testbed_name}.yaml"
        )
    kind = testbed.kind
    section = settings.section(experiment)
    module = import_module(f"tsnrepro.experiments.{experiment}.measure")
    # Where the kinds differ in what they can run, the plan is of one kind.
    planned = module.plan(section, settings.seed, kind) if section else []
    planned, others = _fitting(planned, testbed)
    if not planned:
        raise ConfigurationError(
            f"campaign '{campaign_name}' has no experiment '{experiment}' for testbed "
            f"'{testbed_name}'",
            f"config/campaigns/{campaign_name}.yaml",
            f"It has: {', '.join(settings.experiments)}",
        )
    if kind == "model":
        code = code_digest("tsnrepro.testbeds.model", module.__name__)
        planned = [replace(item, trial=replace(item.trial, code=code)) for item in planned]
    return planned, others


def _fitting(
    planned: list[Planned], testbed: TestbedSettings
) -> tuple[list[Planned], dict[str, list[str]]]:
    """Part the trials that a testbed can measure from the others' labels, by the reason why."""
    fitting: list[Planned] = []
    others: dict[str, set[str]] = {}
    for item in planned:
        if reason := unsupported_trial_reason(item.testbed, item.data_planes, testbed, item.cabled):
            others.setdefault(reason, set()).add(item.trial.label)
        else:
            fitting.append(item)
    return fitting, {reason: sorted(labels) for reason, labels in others.items()}


def _measure(experiment: str, testbed_name: str, campaign_name: str) -> dict[str, Any]:
    """Measure what is missing on a testbed of this project's own."""
    planned, others = _planned(experiment, testbed_name, campaign_name)
    for reason, labels in others.items():
        print(f"{experiment}: left out are {', '.join(labels)}: {reason}")
    settings = campaign(campaign_name)
    module = import_module(f"tsnrepro.experiments.{experiment}.measure")
    store = RawStore(raw_root(), testbed_name, campaign_name, experiment)
    purpose = f"campaign {campaign_name}, experiment {experiment}"
    bring_up = partial(open_for, experiment, testbed_name, settings, purpose)
    kind = testbed_settings(testbed_name).kind
    # A model has no caches to warm, and every job of a guest boots its own.
    warm_up = settings.warm_up and kind in ("emulated", "hardware")
    return run_trials(
        store,
        planned,
        settings.attempts,
        bring_up,
        module.measure,
        warm_up=warm_up,
        max_stall_ms=settings.max_stall_ms,
        is_known=_is_known(experiment, settings.section(experiment)),
    )


def _is_known(experiment: str, section: Any) -> StoppingRule | None:
    """Return an experiment's stopping rule over its settings, None where it has none."""
    # By name: rules rest on statistics, and an edit of those is no reason to repeat trials.
    name = f"tsnrepro.experiments.{experiment}.stopping"
    if find_spec(name) is None:
        return None
    return partial(import_module(name).is_precise, section)


def open_testbed(name: str, campaign: Campaign, purpose: str, **overrides: Any) -> Testbed:
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
        from tsnrepro.testbeds.model import ModelTestbed  # noqa: PLC0415

        return ModelTestbed(settings, campaign.seed)
    if isinstance(settings, GuestSettings):
        from tsnrepro.testbeds.guest.testbed import GuestTestbed  # noqa: PLC0415

        guest: JobTestbed = GuestTestbed(settings, purpose)
        return guest
    if isinstance(settings, HardwareSettings):
        from tsnrepro.testbeds.rack.testbed import HardwareTestbed  # noqa: PLC0415

        return HardwareTestbed(settings, name, purpose)
    if isinstance(settings, CardsSettings):
        from tsnrepro.testbeds.nic_pair.testbed import CardsTestbed  # noqa: PLC0415

        cards: JobTestbed = CardsTestbed(settings, name, purpose)
        return cards
    from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed  # noqa: PLC0415

    return EmulatedTestbed(settings, purpose)


def open_for(
    experiment: str, name: str, campaign: Campaign, purpose: str, **overrides: Any
) -> Testbed:
    """Return the testbed as an experiment takes it; see :func:`open_testbed`.

    Where it needs queueing disciplines, an emulated testbed runs jobs on this machine's kernel.
    """
    settings = testbed_settings(name)
    declared = experiment_of(experiment)
    if declared.qdiscs and isinstance(settings, EmulatedSettings):
        from tsnrepro.testbeds.jobs.local import LocalJobs  # noqa: PLC0415

        needs = needed_qdiscs(declared, campaign.section(experiment))
        jobs: JobTestbed = LocalJobs(settings, purpose, needs)
        return jobs
    return open_testbed(name, campaign, purpose, **overrides)
