"""Checks of this machine for the testbeds that run on it: processors, load, what will not run."""

import os
from collections.abc import Iterator
from pathlib import Path

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config.files import testbed_settings
from tsnrepro.config.registry import SHARED_KINDS, experiments
from tsnrepro.testbeds.choose import missing_on_machine, unsupported_reason
from tsnrepro.testbeds.doctor.findings import PASS, STOP, WARN, Finding

_HERE = "here"
_MIN_PROCESSORS = 2
# Of each processor; what runs beside a campaign stalls its talker and listener.
_MAX_LOAD = 0.25
_GOVERNORS = "devices/system/cpu/cpu*/cpufreq/scaling_governor"
_LOAD_REMEDY = "Close what runs beside it, and look again: campaigns name stalls, not their cause"


def examine_machine(name: str, *, sys: Path = Path("/sys")) -> list[Finding]:
    """Return the findings on this machine for a testbed that runs on it; nothing is changed.

    Parameters
    ----------
    name
        The testbed.
    sys
        Where sysfs is mounted.

    Raises
    ------
    ConfigurationError
        The testbed runs on other machines.
    """
    kind = testbed_settings(name).kind
    if kind in SHARED_KINDS:
        raise ConfigurationError("the testbed is on other machines", name)
    return [*_processors(), *_governor(sys), *_load(), *_requirements(kind), *_experiments(name)]


def _processors() -> Iterator[Finding]:
    number = len(os.sched_getaffinity(0))
    verdict = PASS if number >= _MIN_PROCESSORS else WARN
    remedy = f"Talker and listener need {_MIN_PROCESSORS}, or they stall each other"
    yield Finding("processors", _HERE, verdict, str(number), remedy)


def _governor(sys: Path) -> Iterator[Finding]:
    found = sorted({path.read_text().strip() for path in sys.glob(_GOVERNORS)})
    if not found:
        yield Finding("governor", _HERE, PASS, "none, as in a virtual machine: its host has it")
        return
    verdict = PASS if found == ["performance"] else WARN
    remedy = "cpupower frequency-set --governor performance"
    yield Finding("governor", _HERE, verdict, ", ".join(found), remedy)


def _load() -> Iterator[Finding]:
    load, number = os.getloadavg()[0], len(os.sched_getaffinity(0))
    verdict = PASS if load <= _MAX_LOAD * number else WARN
    found = (
        f"{load:.2f} processes ran or waited in the last minute, on {plural(number, 'processor')}"
    )
    yield Finding("other load", _HERE, verdict, found, _LOAD_REMEDY)


def _requirements(kind: str) -> Iterator[Finding]:
    missing = missing_on_machine(kind)
    for each in missing:
        yield Finding("requirement", _HERE, STOP, f"missing: {each}", "scripts/setup, docs/install")
    if not missing:
        yield Finding("requirements", _HERE, PASS, "programs and kernel features are there")


def _experiments(name: str) -> Iterator[Finding]:
    settings = testbed_settings(name)
    reasons = {each.name: unsupported_reason(each, settings) for each in experiments().values()}
    for experiment, reason in reasons.items():
        if reason:
            yield Finding("experiment", _HERE, WARN, f"{experiment} will not run: {reason}")
    runs = ", ".join(experiment for experiment, reason in reasons.items() if not reason)
    yield Finding("experiments", _HERE, PASS, f"will run: {runs}")
