"""``tsnrepro doctor``, ``configure`` and ``restore``, for racks, NIC pairs and benches."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import cast, get_args

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.common.topology import STATIONS
from tsnrepro.config import BenchSettings, Configuration, NicPairSettings, RackSettings
from tsnrepro.config.files import testbed_settings
from tsnrepro.config.registry import SHARED_KINDS
from tsnrepro.testbeds.bench import switched
from tsnrepro.testbeds.doctor import bench, bench_frames
from tsnrepro.testbeds.doctor.examine import examine, examine_switches
from tsnrepro.testbeds.doctor.findings import STOP, Finding
from tsnrepro.testbeds.doctor.frer import verify_frer_on
from tsnrepro.testbeds.doctor.machine import examine_machine
from tsnrepro.testbeds.hosts import clock_sync
from tsnrepro.testbeds.hosts.lease import TestbedLock
from tsnrepro.testbeds.hosts.rollback import Journal
from tsnrepro.testbeds.hosts.shell import print_command
from tsnrepro.testbeds.nic_pair import testbed as nic_pair
from tsnrepro.testbeds.rack import testbed as rack
from tsnrepro.testbeds.rack.testbed import RackHosts, RackTestbed, rack_settings
from tsnrepro.tools import iperf3
from tsnrepro.tools.frerctl import StreamFilter

# The stream of most experiments, iperf3's.
_STREAM = StreamFilter("udp", iperf3.PORT, iperf3.MIN_UDP_PAYLOAD_BYTES)


def doctor(name: str, *, as_json: bool, frer: bool) -> None:
    """Print the findings of all checks, each with its remedy.

    Of a testbed on this machine they are processors, governor, other load, what is missing and
    what will not run. With ``frer`` a rack is also configured for FRER, tested by sending traffic,
    and restored, unless another check fails; over a bench frames are sent, and its ports given
    back.

    Raises TestbedError if a finding prevents measurements.
    """
    settings = testbed_settings(name)
    if isinstance(settings, BenchSettings):
        findings, send = _examine_bench(settings, name)
    elif settings.kind not in SHARED_KINDS:
        findings, send = examine_machine(name), list
    else:
        remote = _remote_settings(name)
        findings, send = examine(remote), partial(_verify_frer, remote, name)
    if frer and all(finding.verdict != STOP for finding in findings):
        findings += send()
    if as_json:
        print(json.dumps([finding.as_dict() for finding in findings], indent=1))
    else:
        for finding in findings:
            print(finding.line())
    if stops := [finding for finding in findings if finding.verdict == STOP]:
        raise TestbedError(
            f"{len(stops)} of {len(findings)} checks failed", name, "Each names its remedy"
        )


def _examine_bench(
    settings: BenchSettings, name: str
) -> tuple[list[Finding], Callable[[], list[Finding]]]:
    """Return the findings on a bench, and what sends frames over it."""
    findings = bench.examine(settings)
    if settings.switches is None:
        return findings, partial(bench_frames.send, settings, name)
    return findings + examine_switches(settings), partial(verify_frer_on, settings, name)


def _verify_frer(settings: RackSettings | NicPairSettings, name: str) -> list[Finding]:
    return verify_frer_on(rack_settings(name, settings), name)


def pair_settings(name: str) -> NicPairSettings | None:
    """Return the settings of a NIC pair, None if the testbed is a rack."""
    settings = _remote_settings(name)
    return settings if isinstance(settings, NicPairSettings) else None


def configure(name: str, configuration: str, *, dry_run: bool) -> None:
    """Configure a rack as a campaign would, until ``tsnrepro restore``.

    With ``dry_run`` the commands are printed and nothing is changed.

    Raises ConfigurationError if the testbed has no such configuration, or is configured by each
    trial.
    """
    settings = _remote_settings(name)
    if isinstance(settings, NicPairSettings):
        raise ConfigurationError(
            "each trial configures a NIC pair for itself, and restores it",
            f"config/testbeds/{name}.yaml",
            f"`tsnrepro configure {name} {configuration} --dry-run` prints its commands",
        )
    if configuration not in get_args(Configuration):
        raise ConfigurationError(
            f"a rack has configurations {' and '.join(get_args(Configuration))}, "
            f"not {configuration}",
            f"config/testbeds/{name}.yaml",
            "Modes of shaping are for testbeds of kind nic-pair",
        )
    if not dry_run:
        with RackTestbed(settings, name, "tsnrepro configure") as testbed:
            testbed.configure(cast("Configuration", configuration), _STREAM)
            testbed.keep_configured()
        print(f"{name}: configured as {configuration}; `tsnrepro restore {name}` restores it")
        return
    with ExitStack() as stack:
        hosts = RackHosts(settings, stack, print_command)
        hosts.save()
        hosts.prepare()
        hosts.configure(cast("Configuration", configuration), _STREAM)
    print_clock_commands(settings)


def print_clock_commands(settings: RackSettings) -> None:
    """Print linuxptp's commands for trials that need synchronized clocks, if it is configured."""
    ptp = settings.ptp
    if ptp is None:
        return
    lines = [
        clock_sync.command_lines(
            ptp, role, [getattr(ptp.interfaces, role)], settings.stamping.get(role)
        )
        for role in STATIONS
    ]
    print("# before each trial that needs synchronized clocks")
    print("\n".join(line for start, _ in lines for line in start))
    print("# after it")
    print("\n".join(line for _, stop in lines for line in stop))


def restore_rack(name: str, *, dry_run: bool) -> None:
    """Restore a rack, NIC pair or bench to its state before a killed campaign."""
    settings, journal = testbed_settings(name), Journal(name)
    sink = print_command if dry_run else None
    with TestbedLock(name, f"restoring {name}"):
        if isinstance(settings, BenchSettings):
            found = switched.restore(name, sink=sink)
        elif isinstance(settings, NicPairSettings):
            found = nic_pair.restore(name, journal, sink)
        else:
            rack_settings(name, settings)
            found = rack.restore(name, journal, sink)
    if not found:
        print(f"{name}: nothing to restore")
    elif not dry_run:
        print(f"{name}: restored to its state before the campaign")


def _remote_settings(name: str) -> RackSettings | NicPairSettings:
    settings = testbed_settings(name)
    return settings if isinstance(settings, NicPairSettings) else rack_settings(name, settings)
