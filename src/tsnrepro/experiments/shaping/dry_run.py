"""Every command of a trial between two network cards, for every host: nothing is changed."""

from contextlib import ExitStack
from typing import get_args

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.topology import TALKER
from tsnrepro.config import NicPairSettings
from tsnrepro.config.campaigns import Campaign
from tsnrepro.config.files import campaign
from tsnrepro.config.registry import NIC_PAIR
from tsnrepro.experiments.shaping import on_hosts
from tsnrepro.experiments.shaping.plan import Factors
from tsnrepro.experiments.shaping.settings import Mode, ShapingSettings
from tsnrepro.records.store import Trial
from tsnrepro.testbeds.hosts import clock_sync, programs
from tsnrepro.testbeds.hosts.aliases import AliasedHost
from tsnrepro.testbeds.hosts.shell import print_command
from tsnrepro.testbeds.jobs import dry_run
from tsnrepro.testbeds.jobs.job import Job, LinkEnd
from tsnrepro.testbeds.nic_pair.hosts import NicPairHosts, ptp_ports
from tsnrepro.testbeds.nic_pair.testbed import NicPairTestbed

# A trial's own differs; nothing but the moment at which steps begin goes by it.
_SEED = 1


def trial_of(measured: Campaign, name: str, mode: str, *, kind: str = "end-station") -> Trial:
    """Return the first trial between cards of a mode and a kind of part, of the highest load.

    Raises ConfigurationError if the campaign has none.
    """
    settings = measured.section("shaping")
    listed = settings.parts if isinstance(settings, ShapingSettings) else []
    parts = [
        part.on(NIC_PAIR) for part in listed if NIC_PAIR in part.testbeds and part.kind == kind
    ]
    for part in parts:
        for known in part.modes:
            if known == mode:
                return Factors.one(part, known, max(part.loads_mbps)).trial(1)
    have = {mode for part in parts for mode in part.modes}
    known = [mode for mode in get_args(Mode) if mode in have]
    raise ConfigurationError(
        f"the campaign measures no mode {mode} of {kind} between cards",
        f"config/campaigns/{name}.yaml, shaping",
        f"It has: {', '.join(known) or 'none'}",
    )


def job_for(trial: Trial, testbed: NicPairTestbed) -> Job:
    """Return the job that the trial is on a testbed of two cards."""
    factors = Factors.of(trial)
    return on_hosts.job_of(factors.part, factors.mode, _SEED, testbed.cable)


def lines(job: Job, pair: NicPairHosts, testbed: NicPairTestbed) -> list[str]:
    """Return the command lines of a trial, including linuxptp's."""
    settings, on_host = testbed.settings, programs.on_host()
    resolve = AliasedHost(pair.connections[TALKER], {}, on_host).resolve
    starting, ending = [], []
    for role, cards in ptp_ports(settings).items() if settings.ptp else ():
        assert settings.ptp is not None
        start, stop = clock_sync.command_lines(settings.ptp, role, cards)
        starting += start
        ending += stop

    def hardware_address(port: LinkEnd) -> str:
        shell = pair.shells[port.host]
        return shell.read(["cat", f"/sys/class/net/{port.device}/address"]).strip()

    return [*dry_run.lines(job, resolve, hardware_address, (starting, ending))]


def print_dry_run(name: str, settings: NicPairSettings, mode: str, campaign_name: str) -> None:
    """Print every command of a trial between two cards, for both hosts.

    Raises ConfigurationError if the campaign has no such trial. Raises TestbedError if a host
    cannot be reached, or its card is in use.
    """
    kind = "bridge" if settings.hosts.sw else "end-station"
    trial = trial_of(campaign(campaign_name), campaign_name, mode, kind=kind)
    testbed = NicPairTestbed(settings, name)
    print(f"# {trial.label} of campaign {campaign_name}")
    with ExitStack() as stack:
        pair = NicPairHosts(settings, stack, print_command)
        pair.check(pair.save())
        pair.prepare()
        print("\n".join(lines(job_for(trial, testbed), pair, testbed)))
