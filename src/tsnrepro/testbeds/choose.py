"""Which testbed an experiment is measured on when the configuration says ``auto``."""

from collections.abc import Collection
from functools import cache

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import (
    EmulatedSettings,
    ModelSettings,
    NicPairSettings,
    RackSettings,
    TestbedSettings,
)
from tsnrepro.config.base import ConfigModel
from tsnrepro.config.registry import EMULATED, GUEST, MODEL, SHARED_KINDS, Experiment
from tsnrepro.testbeds.emulated import requirements

AUTO = "auto"


@cache
def missing_on_machine(kind: str) -> list[str]:
    """Return what this machine lacks for a kind of testbed."""
    if kind == EMULATED:
        return requirements.missing()
    if kind == GUEST:
        from tsnrepro.testbeds.guest import requirements as guest  # noqa: PLC0415

        return guest.missing()
    return []


def availability() -> dict[str, list[str]]:
    """Return, for each kind of testbed, what this machine lacks for it."""
    return {kind: missing_on_machine(kind) for kind in (EMULATED, GUEST, MODEL)}


def configured() -> list[str]:
    """Return the names of config/testbeds: each file describes a testbed."""
    return sorted(path.stem for path in (root() / "config" / "testbeds").glob("*.yaml"))


def check_name(wanted: str, imported: list[str]) -> None:
    """Refuse a testbed that is neither configured nor imported.

    Raises
    ------
    ConfigurationError
        No testbed has this name; the message names those there are.
    """
    if wanted not in (AUTO, *configured(), *imported):
        raise ConfigurationError(
            f"unknown testbed '{wanted}'",
            "config/config.yaml, testbed",
            f"There are: {', '.join((AUTO, *configured(), *imported))}",
        )


def unsupported_reason(experiment: Experiment, settings: TestbedSettings) -> str:
    """Return why a testbed cannot measure an experiment, whatever this machine has; empty if not.

    Parameters
    ----------
    experiment
        What is to be measured.
    settings
        Of the testbed.
    """
    if settings.kind not in experiment.kinds:
        others = ", ".join(experiment.kinds)
        return f"it cannot be measured on a testbed of kind {settings.kind}, only on {others}"
    if isinstance(settings, EmulatedSettings | ModelSettings):
        return _unsupported_elimination(experiment, settings)
    return _unsupported_on_rack(experiment, settings) if isinstance(settings, RackSettings) else ""


def _unsupported_on_rack(experiment: Experiment, settings: RackSettings) -> str:
    """Return why an experiment cannot be measured on a rack."""
    others = " and ".join(settings.others_data_planes)
    if others and experiment.several_streams:
        return f"{others} cannot tell several streams apart"
    if others and experiment.keeps_frames:
        return f"captures are compared with our data plane's counters, which {others} lack"
    if experiment.keeps_frames and not settings.record_addresses:
        return "frames are kept with their addresses, and record_addresses is false"
    return ""


def _unsupported_elimination(
    experiment: Experiment, settings: EmulatedSettings | ModelSettings
) -> str:
    """Return why an experiment cannot be measured where the listener eliminates."""
    if settings.elimination != "listener":
        return ""
    if experiment.keeps_frames:
        return (
            "captures hold what the listener receives against what recovery passed, and with "
            "elimination: listener it receives the copies"
        )
    if experiment.own_network:
        return "its networks are its own, and switches eliminate there: set elimination: switch"
    return ""


def unsupported_trial_reason(
    changes: Collection[str],
    data_planes: Collection[str],
    settings: TestbedSettings,
    cabled: str = "",
) -> str:
    """Return why a testbed cannot measure one trial of an experiment; empty if it can.

    Parameters
    ----------
    changes
        Names of the settings that the trial needs otherwise than configured.
    data_planes
        The switches that it needs our data plane on.
    settings
        Of the testbed.
    cabled
        What it needs between network cards: ``cable``, ``switch``, or nothing of these.
    """
    if isinstance(settings, NicPairSettings) and (reason := _miscabled(cabled, settings)):
        return reason
    if not isinstance(settings, RackSettings):
        unknown = [name for name in changes if name not in type(settings).model_fields]
        named = " and ".join(unknown)
        return f"a testbed of kind {settings.kind} has no {named} to set" if unknown else ""
    if changes:
        return f"a rack is as it is cabled, its {' and '.join(changes)} cannot be changed"
    unable = " and ".join(name for name in data_planes if name in settings.others_data_planes)
    return f"{unable} cannot fail so on request; switches of driver ebpf can" if unable else ""


def _miscabled(cabled: str, settings: NicPairSettings) -> str:
    """Return why cards are not cabled as a trial needs it."""
    stands = settings.hosts.sw is not None
    if cabled == "switch" and not stands:
        return "it needs a switch between the cards (hosts.sw)"
    if cabled == "cable" and stands:
        return "a switch stands between the cards, and it needs a cable from one to the other"
    return ""


def needed_qdiscs(experiment: Experiment, settings: ConfigModel | None) -> tuple[str, ...]:
    """Return the queueing disciplines that an experiment takes of this machine's kernel.

    With its settings in a campaign, which may do without.
    """
    uses_qdiscs = getattr(settings, "uses_kernel_qdiscs", None)
    if uses_qdiscs is not None and not uses_qdiscs(EMULATED):
        return ()
    return experiment.qdiscs


def missing_requirements(
    experiment: Experiment, kind: str, settings: ConfigModel | None = None
) -> list[str]:
    """Return what this machine lacks to measure an experiment on a kind of testbed.

    Without its settings in a campaign, to measure any.
    """
    lacks = missing_on_machine(kind)
    if kind == EMULATED and needed_qdiscs(experiment, settings) and not lacks:
        from tsnrepro.testbeds.guest.requirements import lacking_qdiscs  # noqa: PLC0415

        return [f"{name} in its kernel" for name in lacking_qdiscs()]
    return lacks


def choose(experiment: Experiment, settings: ConfigModel | None = None) -> tuple[str, str]:
    """Return the testbed that suits an experiment best on this machine, and why, in one line.

    ``settings`` are its settings in a campaign; without them any is to be measured there.
    """
    passed_over = []
    for kind in experiment.kinds:
        if kind in SHARED_KINDS:
            continue
        lacks = missing_requirements(experiment, kind, settings)
        if not lacks:
            return kind, "; ".join(passed_over) or _GROUNDS[kind]
        passed_over.append(f"for {kind} this machine lacks {', '.join(lacks)}")
    return "", "; ".join(passed_over)


_GROUNDS = {
    EMULATED: "root and network namespaces are available",
    GUEST: "qemu is available",
    MODEL: "it needs nothing of the machine",
}
