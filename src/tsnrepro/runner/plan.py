"""The trials that an experiment plans on a testbed under a campaign."""

from dataclasses import replace
from importlib import import_module
from typing import Any

from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import TestbedSettings, parse
from tsnrepro.config.files import campaign, raw_root, testbed_settings
from tsnrepro.config.registry import MODEL
from tsnrepro.config.registry import experiment as experiment_of
from tsnrepro.records.store import RawStore, is_done
from tsnrepro.runner.design import Planned, crossed, with_extra_blocks
from tsnrepro.testbeds.choose import unsupported_reason, unsupported_trial_reason


def planned_trials(experiment: str, testbed_name: str, campaign_name: str) -> list[Planned]:
    """Return the trials of an experiment on a testbed under a campaign, in their order.

    Those that this testbed cannot measure are left out, see :func:`left_out`.

    Raises ConfigurationError if the experiment is unknown, not part of the campaign, or not for
    this kind of testbed.
    """
    return planned_and_left_out(experiment, testbed_name, campaign_name)[0]


def left_out(experiment: str, testbed_name: str, campaign_name: str) -> dict[str, list[str]]:
    """Return the labels of the trials that a testbed cannot measure, by the reason."""
    return planned_and_left_out(experiment, testbed_name, campaign_name)[1]


def is_recorded(experiment: str, testbed_name: str, campaign_name: str) -> bool:
    """Tell whether the record has all trials of an experiment that a campaign plans now.

    Trials under a stopping rule do not count: whether they are needed follows from results.
    Checksums are left to ``tsnrepro verify``.

    Raises RecordError if a trial's record cannot be read.
    """
    try:
        planned = planned_trials(experiment, testbed_name, campaign_name)
    except ConfigurationError:
        return False  # the campaign has nothing of it for this testbed
    store = RawStore(raw_root(), testbed_name, campaign_name, experiment)
    attempts = campaign(campaign_name).attempts
    trials = [item.trial for item in planned if not item.stopping_rule]
    return all(is_done(store.attempt_statuses(trial), attempts) for trial in trials)


def planned_and_left_out(
    experiment: str, testbed_name: str, campaign_name: str
) -> tuple[list[Planned], dict[str, list[str]]]:
    """Return the trials to measure, and the labels of those left out by the reason.

    Raises ConfigurationError as :func:`planned_trials`.
    """
    declared = experiment_of(experiment)
    settings = campaign(campaign_name)
    testbed = testbed_settings(testbed_name)
    section = settings.section(experiment)
    if reason := unsupported_reason(declared, testbed, section):
        raise ConfigurationError(
            f"experiment '{experiment}': {reason}", f"config/testbeds/{testbed_name}.yaml"
        )
    module = import_module(f"tsnrepro.experiments.{experiment}.plan")
    # Kinds of testbeds differ in what they can run, so a plan is for one kind.
    planned = module.plan(section, settings.seed, testbed.kind) if section else []
    if settings.vary:
        _check_grid(settings.grid, testbed, campaign_name)
        planned = crossed(planned, settings.grid, settings.seed)
    if planned and (blocks := settings.extra_blocks.get(experiment)):
        planned = with_extra_blocks(planned, blocks, settings.seed)
    planned, others = _supported(planned, testbed)
    if not planned:
        raise ConfigurationError(
            f"campaign '{campaign_name}' has no experiment '{experiment}' for testbed "
            f"'{testbed_name}'",
            f"config/campaigns/{campaign_name}.yaml",
            f"It has: {', '.join(settings.experiments)}",
        )
    if testbed.kind == MODEL:
        measure = f"tsnrepro.experiments.{experiment}.measure"
        code = code_digest("tsnrepro.testbeds.model", module.__name__, measure)
        planned = [replace(item, trial=replace(item.trial, code=code)) for item in planned]
    return planned, others


def _check_grid(grid: list[dict[str, Any]], testbed: TestbedSettings, campaign_name: str) -> None:
    """Check that every point of a grid has settings that the kind of testbed has and accepts.

    A rack and a bench leave out what they cannot change, with the reason.
    """
    where = f"config/campaigns/{campaign_name}.yaml, vary"
    known = [name for name in type(testbed).model_fields if name != "kind"]
    for point in grid:
        if unknown := sorted(point.keys() - {*known}):
            raise ConfigurationError(
                f"a testbed of kind {testbed.kind} has no setting {', '.join(unknown)}",
                where,
                f"It has: {', '.join(known)}",
            )
        parse(type(testbed), testbed.model_dump() | point, where)


def _supported(
    planned: list[Planned], testbed: TestbedSettings
) -> tuple[list[Planned], dict[str, list[str]]]:
    """Return the trials that a testbed can measure, and the others' labels by the reason."""
    supported: list[Planned] = []
    others: dict[str, set[str]] = {}
    for item in planned:
        configuration = item.trial.factors.get("configuration")
        if reason := unsupported_trial_reason(
            item.testbed, item.data_planes, testbed, item.cabled, configuration
        ):
            others.setdefault(reason, set()).add(item.trial.label)
        else:
            supported.append(item)
    return supported, {reason: sorted(labels) for reason, labels in others.items()}
