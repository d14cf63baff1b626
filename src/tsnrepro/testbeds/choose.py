"""Selection of the testbed of an experiment, for ``testbed: auto``."""

from collections.abc import Collection
from functools import cache

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import (
    BenchSettings,
    EmulatedSettings,
    ModelSettings,
    NicPairSettings,
    RackSettings,
    TestbedSettings,
)
from tsnrepro.config.base import ConfigModel
from tsnrepro.config.registry import EMULATED, GUEST, MODEL, SHARED_KINDS, Experiment
from tsnrepro.testbeds.emulated import namespace
from tsnrepro.testbeds.requirements import missing_qdiscs

AUTO = "auto"
_ONE_PATH = "FRER needs two member paths: two ports of talker and listener, or two member_ports"
# The network that is there.
_FIXED_ON_BENCH = ("device", "ports", "link_rate_mbps")


@cache
def missing_on_machine(kind: str) -> list[str]:
    """Return the requirements of a kind of testbed that this machine does not meet."""
    if kind == EMULATED:
        return namespace.missing_requirements()
    if kind == GUEST:
        from tsnrepro.testbeds.guest import testbed as guest  # noqa: PLC0415

        return guest.missing_requirements()
    return []


def availability() -> dict[str, list[str]]:
    """Return the missing requirements of this machine, by kind of testbed."""
    return {kind: missing_on_machine(kind) for kind in (EMULATED, GUEST, MODEL)}


def configured() -> list[str]:
    """Return the names of the testbeds in config/testbeds."""
    return sorted(path.stem for path in (root() / "config" / "testbeds").glob("*.yaml"))


def check_name(wanted: str, imported: list[str]) -> None:
    """Refuse a testbed that is neither configured nor imported.

    Raises ConfigurationError if there is no testbed of this name; the message lists all.
    """
    if wanted not in (AUTO, *configured(), *imported):
        raise ConfigurationError(
            f"unknown testbed '{wanted}'",
            "config/config.yaml, testbed",
            f"Set one of {', '.join((AUTO, *configured(), *imported))}",
        )


def unsupported_reason(
    experiment: Experiment, settings: TestbedSettings, section: ConfigModel | None = None
) -> str:
    """Return why a testbed does not support an experiment on any machine, empty if it does.

    Parameters
    ----------
    experiment
        The experiment.
    settings
        Settings of the testbed.
    section
        The experiment's settings in a campaign; without them, the reason holds for any campaign.
    """
    if settings.kind not in experiment.kinds:
        others = ", ".join(experiment.kinds)
        return f"a testbed of kind {settings.kind} does not support it, only {others}"
    if isinstance(settings, EmulatedSettings | ModelSettings):
        return _unsupported_elimination(experiment, settings)
    if not isinstance(settings, RackSettings | BenchSettings):
        return ""
    if rate := getattr(section, "link_rate_mbps", None):
        return f"link_rate_mbps is {rate}, and a {settings.kind} cannot change its links"
    if isinstance(settings, BenchSettings):
        return _unsupported_on_bench(experiment, settings)
    return _unsupported_on_rack(experiment, settings)


def _unsupported_on_bench(experiment: Experiment, settings: BenchSettings) -> str:
    if experiment.own_network and (settings.switches or settings.paths > 1):
        return "it needs one port each of talker and listener, and no switches that it configures"
    if experiment.several_streams and settings.paths == 1:
        return _ONE_PATH
    return _unsupported_on_rack(experiment, settings.rack) if settings.switches else ""


def _unsupported_on_rack(experiment: Experiment, settings: RackSettings) -> str:
    others = " and ".join(settings.others_data_planes)
    if others and experiment.several_streams:
        return f"{others} cannot distinguish several streams"
    if others and experiment.keeps_frames:
        return f"captures are compared with our data plane's counters, which {others} lack"
    if experiment.keeps_frames and not settings.record_addresses:
        return "frames are recorded with their addresses, and record_addresses is false"
    return ""


def _unsupported_elimination(
    experiment: Experiment, settings: EmulatedSettings | ModelSettings
) -> str:
    if settings.elimination != "listener":
        return ""
    if experiment.keeps_frames:
        return (
            "captures compare the listener's received frames with those that recovery passed, and "
            "with elimination: listener it receives the copies too"
        )
    if experiment.own_network:
        return "its networks eliminate at the switches: set elimination: switch"
    return ""


def unsupported_trial_reason(
    changes: Collection[str],
    data_planes: Collection[str],
    settings: TestbedSettings,
    cabled: str = "",
    configuration: object = None,
) -> str:
    """Return why a testbed does not support a trial of an experiment, empty if it does.

    Parameters
    ----------
    changes
        Names of the settings that the trial changes.
    data_planes
        The switches that must run our data plane.
    settings
        Settings of the testbed.
    cabled
        Connection between network cards that it needs: ``cable``, ``switch``, or empty.
    configuration
        The trial's configuration, ``frer`` or ``control``, if it has one.
    """
    if isinstance(settings, NicPairSettings) and (reason := _miscabled(cabled, settings)):
        return reason
    kind = settings.kind
    if isinstance(settings, BenchSettings):
        if configuration == "frer" and settings.paths == 1:
            return _ONE_PATH
        if settings.switches:
            settings = settings.rack
        elif fixed := [name for name in changes if name in _FIXED_ON_BENCH]:
            return f"a bench's {' and '.join(fixed)} cannot be changed"
    if not isinstance(settings, RackSettings):
        unknown = [name for name in changes if name not in type(settings).model_fields]
        named = " and ".join(unknown)
        return f"a testbed of kind {settings.kind} has no setting {named}" if unknown else ""
    if changes:
        return f"a {kind}'s {' and '.join(changes)} cannot be changed"
    unable = " and ".join(name for name in data_planes if name in settings.others_data_planes)
    return f"{unable} cannot inject this fault; use switches of driver ebpf" if unable else ""


def _miscabled(cabled: str, settings: NicPairSettings) -> str:
    """Return why the cards are not cabled as a trial needs."""
    has_switch = settings.hosts.sw is not None
    if cabled == "switch" and not has_switch:
        return "it needs a switch between the cards (hosts.sw)"
    if cabled == "cable" and has_switch:
        return "it needs a cable between the cards, and there is a switch"
    return ""


def needed_qdiscs(experiment: Experiment, settings: ConfigModel | None) -> tuple[str, ...]:
    """Return the queueing disciplines of this machine's kernel that an experiment needs.

    Its settings in a campaign may not need any.
    """
    uses_qdiscs = getattr(settings, "uses_kernel_qdiscs", None)
    if uses_qdiscs is not None and not uses_qdiscs(EMULATED):
        return ()
    return experiment.qdiscs


def missing_requirements(
    experiment: Experiment, kind: str, settings: ConfigModel | None = None
) -> list[str]:
    """Return the missing requirements of this machine for an experiment on a kind of testbed.

    Without settings, for the experiment in any campaign.
    """
    missing = missing_on_machine(kind)
    if kind == EMULATED and needed_qdiscs(experiment, settings) and not missing:
        return [f"{name} in its kernel" for name in missing_qdiscs()]
    return missing


def choose(experiment: Experiment, settings: ConfigModel | None = None) -> tuple[str, str]:
    """Return the best available testbed for an experiment on this machine, and the reason.

    Without ``settings`` it must support the experiment in any campaign.
    """
    skipped = []
    for kind in experiment.kinds:
        if kind in SHARED_KINDS:
            continue
        missing = missing_requirements(experiment, kind, settings)
        if not missing:
            return kind, "; ".join(skipped) or _REASONS[kind]
        skipped.append(f"for {kind} this machine lacks {', '.join(missing)}")
    return "", "; ".join(skipped)


_REASONS = {
    EMULATED: "root and network namespaces are available",
    GUEST: "qemu is available",
    MODEL: "it has no requirements",
}
