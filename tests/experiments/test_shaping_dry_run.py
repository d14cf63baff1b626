"""A dry run of a trial between two cards prints what a trial runs on the hosts, in its order."""

import re
import shlex

import pytest
from hosts_of_cards import CARD, CardOfTest

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import files as campaigns
from tsnrepro.config import load_testbed
from tsnrepro.experiments.shaping import dry_run as told
from tsnrepro.testbeds import commands
from tsnrepro.testbeds.hosts import programs
from tsnrepro.testbeds.hosts.aliases import AliasedHost
from tsnrepro.testbeds.jobs.sessions import SessionJobs
from tsnrepro.testbeds.nic_pair.hosts import NicPairHosts
from tsnrepro.testbeds.nic_pair.testbed import NicPairTestbed

NAME = "i210-example"
ROLES = ("talker", "listener")


@pytest.fixture
def hosts(monkeypatch):
    """Stand in for the connections; what is noted is of both hosts, in order."""
    noted = []
    made = {role: CardOfTest(role, noted) for role in ROLES}
    monkeypatch.setattr("tsnrepro.testbeds.nic_pair.hosts.connect", lambda *_: made)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return made, noted


@pytest.fixture
def settings():
    return load_testbed(root() / "config" / "testbeds" / f"{NAME}.yaml")


# What looks at a host and changes nothing.
LOOKS = ("ip -j", "tc -j", "ethtool -k", "ethtool --show-eee", "sysctl -n", "sysctl --ignore -n")
LOOKS += ("uname", "sed -n", "nproc", "cat /sys/class/net", "sh -c")


def told_lines(capsys, settings, mode, campaign="quick"):
    """Return what is printed, a command an entry: linuxptp's configuration has several lines."""
    told.print_dry_run(NAME, settings, mode, campaign)
    printed = capsys.readouterr().out.rstrip("\n")
    return re.split(r"\n(?=#|talker#|listener#)", printed)


@pytest.mark.parametrize(
    ("mode", "campaign", "ptp"),
    [
        *(("tas", "quick", True), ("tas", "quick", False), ("prio", "quick", False)),
        *((mode, "documents", False) for mode in ("etf", "mqprio", "fifo")),
    ],
)
def test_what_is_told_is_what_a_trial_runs(hosts, settings, capsys, mode, campaign, ptp):
    """The trial's job runs on the same hosts: every change it makes, and nothing else."""
    made, noted = hosts
    if not ptp:
        settings = settings.model_copy(update={"ptp": None})
    printed = told_lines(capsys, settings, mode, campaign)
    asked = [line.partition("# ")[2] for line in noted]
    assert all(line.startswith(LOOKS) for line in asked), "a dry run changed a host"

    testbed = NicPairTestbed(settings, NAME)
    trial = told.trial_of(campaigns.campaign(campaign), campaign, mode)
    job = told.job_for(trial, testbed)
    noted.clear()
    on_host = programs.on_host()
    SessionJobs({role: AliasedHost(host, {}, on_host) for role, host in made.items()}).run(job)
    last = job.commands()[-1]
    # Read before and after: what comes behind the second reading gives back.
    end = len(noted) - noted[::-1].index(f"{last.host}# {shlex.join(last.argv)}")
    counted = "tc -s -j qdisc show"  # a step of the job, although it looks only
    changes = [n for n in noted[:end] if counted in n or not n.partition("# ")[2].startswith(LOOKS)]
    ran = [n for n in changes if ": end " not in n]

    first = next(n for n, line in enumerate(printed) if line.endswith(f"dev {CARD} down"))
    job_lines = [line for line in printed[first:] if not _beside(line)]
    typed = [line.rpartition(" & ")[0] + " &" if "=$!" in line else line for line in job_lines]
    assert [line for line in typed if "# kill" not in line] == ran
    assert sum("# kill" in line for line in typed) == sum(": end " in n for n in changes)
    assert any("linuxptp" in line for line in printed) == ptp


def _beside(line):
    """Whether a line is a comment or linuxptp's, which runs beside a job."""
    return line.startswith("# ") or "linuxptp" in line or "ptp4l" in line or "phc2sys" in line


def test_what_comes_before_a_trial_is_told_too(hosts, settings, capsys):
    printed = told_lines(capsys, settings, "tas")
    job = next(n for n, line in enumerate(printed) if line.endswith(f"dev {CARD} down"))
    before = printed[:job]
    for role in ROLES:
        assert f"{role}# ethtool --set-eee {CARD} eee off" in before
        assert any(line.startswith(f"{role}# scp ") and "listener" in line for line in before)
    (gates,) = [line for line in printed if " taprio " in line]
    assert gates.startswith("talker# tc qdisc replace dev enp3s0 root handle 100: taprio num_tc 4")
    assert gates.endswith("flags 0x2")


def test_linuxptp_is_told_between_links_and_steps(hosts, settings, capsys):
    printed = told_lines(capsys, settings, "tas")

    def place(part):
        return next(n for n, line in enumerate(printed) if part in line)

    up = place("ip address add 10.0.101.1/24")
    sending = place("talker# /run/tsnrepro-programs/talker")
    for role in ROLES:
        assert up < place(f"{role}# ptp4l -f /run/tsnrepro-programs/linuxptp/ptp4l.conf") < sending
        assert up < place(f"{role}# sh -c 'printf %s") < sending
        assert place(f"{role}# kill -TERM $ptp4l") > sending
    assert f"phc2sys -s CLOCK_REALTIME -c {CARD} -O 37" in "\n".join(printed)
    assert f"phc2sys -s {CARD} -c CLOCK_REALTIME -O -37" in "\n".join(printed)


def test_the_highest_load_is_told(settings):
    trial = told.trial_of(campaigns.campaign("quick"), "quick", "tas")
    assert trial.factors["load_mbps"] == 1000


def test_a_mode_that_the_campaign_has_not_is_refused(settings):
    with pytest.raises(
        ConfigurationError, match=r"no mode cbs of end-station between cards.*It has: tas"
    ):
        told.trial_of(campaigns.campaign("quick"), "quick", "cbs")
    with pytest.raises(ConfigurationError, match="It has: none"):
        told.trial_of(campaigns.campaign("soak"), "soak", "tas")


def test_two_cards_are_not_set_up_by_hand():
    with pytest.raises(ConfigurationError, match="each trial configures a NIC pair"):
        commands.configure(NAME, "tas", dry_run=False)


def test_a_rack_has_no_mode_of_shaping():
    with pytest.raises(ConfigurationError, match="configurations control and frer, not tas"):
        commands.configure("d10-example", "tas", dry_run=True)


def test_a_card_in_use_is_refused_before_anything_is_told(hosts, settings, capsys, monkeypatch):
    monkeypatch.setattr(
        NicPairHosts, "check", lambda *_: (_ for _ in ()).throw(TestbedError("in use"))
    )
    with pytest.raises(TestbedError, match="in use"):
        told.print_dry_run(NAME, settings, "tas", "quick")
    assert "taprio" not in capsys.readouterr().out
