"""What the commands of ``tsnrepro`` that are about a rack do: doctor, configure, restore."""

import json
from contextlib import ExitStack
from typing import cast, get_args

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.config import Configuration, NicPairSettings, RackSettings
from tsnrepro.config.files import testbed_settings
from tsnrepro.testbeds.lock import TestbedLock
from tsnrepro.testbeds.nic_pair import testbed as cards
from tsnrepro.testbeds.nic_pair.hosts import STATIONS
from tsnrepro.testbeds.rack import time_service
from tsnrepro.testbeds.rack.doctor import examine
from tsnrepro.testbeds.rack.findings import STOP
from tsnrepro.testbeds.rack.journal import Journal
from tsnrepro.testbeds.rack.proof import prove_rack
from tsnrepro.testbeds.rack.shell import tell
from tsnrepro.testbeds.rack.testbed import HardwareTestbed, Rack, rack_settings, restore
from tsnrepro.tools import iperf3
from tsnrepro.tools.frerctl import StreamFilter

# The stream that is shown: that of iperf3, which most experiments send.
_STREAM = StreamFilter("udp", iperf3.PORT, iperf3.MIN_UDP_PAYLOAD_BYTES)


def doctor(name: str, *, as_json: bool, frer: bool) -> None:
    """Print what was found of a rack, each with its remedy.

    With ``frer`` the rack is set up for FRER, sent through, and put back, if nothing else says
    stop.

    Raises
    ------
    TestbedError
        Something was found that keeps the rack from measuring.
    """
    settings = _reached(name)
    findings = examine(settings)
    if frer and all(finding.verdict != STOP for finding in findings):
        findings += prove_rack(rack_settings(name, settings), name)
    if as_json:
        print(json.dumps([finding.document() for finding in findings], indent=1))
    else:
        for finding in findings:
            print(finding.line())
    if stops := [finding for finding in findings if finding.verdict == STOP]:
        raise TestbedError(
            f"{len(stops)} of {len(findings)} checks say stop", name, "Each names its remedy"
        )


def pair_settings(name: str) -> NicPairSettings | None:
    """Return the settings of a testbed of two cards, None where it is a rack."""
    settings = _reached(name)
    return settings if isinstance(settings, NicPairSettings) else None


def configure(name: str, configuration: str, *, dry_run: bool) -> None:
    """Set a rack up as a campaign would, and leave it so until ``tsnrepro restore``.

    With ``dry_run`` every command is printed and nothing is changed.

    Raises
    ------
    ConfigurationError
        A testbed of this kind has no such configuration, or is not set up beforehand.
    """
    settings = _reached(name)
    if isinstance(settings, NicPairSettings):
        raise ConfigurationError(
            "each trial sets two cards up for itself, and takes all back at its end",
            f"config/testbeds/{name}.yaml",
            f"`tsnrepro configure {name} {configuration} --dry-run` prints what it would do",
        )
    if configuration not in get_args(Configuration):
        raise ConfigurationError(
            f"a rack is set up as {' or '.join(get_args(Configuration))}, not as {configuration}",
            f"config/testbeds/{name}.yaml",
            "Modes of shaping are those of testbeds of kind nic-pair",
        )
    if not dry_run:
        with HardwareTestbed(settings, name, "set up by hand") as testbed:
            testbed.configure(cast("Configuration", configuration), _STREAM)
            testbed.leave_as_it_is()
        print(f"{name}: set up as {configuration}; `tsnrepro restore {name}` undoes it")
        return
    with ExitStack() as stack:
        rack = Rack(settings, stack, tell)
        rack.save()
        rack.prepare()
        rack.configure(cast("Configuration", configuration), _STREAM)
    tell_clocks(settings)


def tell_clocks(settings: RackSettings) -> None:
    """Print what keeps the clocks together in trials that need it, where anything does."""
    ptp = settings.ptp
    if ptp is None:
        return
    stamping = settings.stamping
    told = [
        time_service.told(ptp, role, [getattr(ptp.interfaces, role)], stamping.get(role))
        for role in STATIONS
    ]
    print("# before each trial that needs the clocks together")
    print("\n".join(line for started, _ in told for line in started))
    print("# and after it")
    print("\n".join(line for _, ended in told for line in ended))


def restore_rack(name: str, *, dry_run: bool) -> None:
    """Bring a rack back to what it was before a campaign that did not end."""
    restoring = cards.restore if isinstance(_reached(name), NicPairSettings) else restore
    with TestbedLock(name, f"restoring {name}"):
        found = restoring(name, Journal(name), tell if dry_run else None)
    if not found:
        print(f"{name}: nothing to restore")
    elif not dry_run:
        print(f"{name}: as it was before the campaign")


def _reached(name: str) -> RackSettings | NicPairSettings:
    settings = testbed_settings(name)
    return settings if isinstance(settings, NicPairSettings) else rack_settings(name, settings)
