"""Settings of the experiment ``tcp``."""

from tsnrepro.config.base import (
    CONFIGURATIONS,
    ConfigModel,
    Configurations,
    LinkRateMbps,
    OneOrMore,
    Repetitions,
    WholeSeconds,
)
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment


class TcpLimitSettings(ConfigModel):
    """Trials over links that the hosts can fill, so that the path limits TCP and not the hosts."""

    link_rate_mbps: LinkRateMbps
    """Wire rate of all links, in Mb/s. A rack cannot change its links and leaves the trials out."""
    duration_s: WholeSeconds
    """Duration of a trial, in whole seconds."""
    repetitions: Repetitions
    """Trials of each configuration."""


class TcpSettings(ConfigModel):
    """TCP goodput by iperf3."""

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Trials of each duration and configuration."""
    durations_s: OneOrMore[WholeSeconds]
    """Durations of trials, in whole seconds; 10, 30 and 60 in the documents."""
    limit: TcpLimitSettings | None = None
    """Further trials over links that the hosts can fill; by default none."""


EXPERIMENT = Experiment(
    TcpSettings,
    title="TCP goodput",
    kinds=(EMULATED, MODEL, RACK, BENCH),
    order=2,
    outcomes=("goodput_mbps", "retransmits"),
    keys=(
        "tcp.goodput.{control,frer}.mbps",
        "tcp.goodput.{control,frer}.{short,middle,long}.mbps",
        "tcp.retransmits.{control,frer}.count",
        "tcp.retransmits.{control,frer}.{short,middle,long}.count",
        "tcp.window.{control,frer}.{short,middle,long}.kb",
        "tcp.efficiency.{control,frer}.{short,middle,long}.{line,limit}.percent",
        "tcp.trials.{short,middle,long}.count",
        "tcp.line_limit.{control,frer}.mbps",
        "tcp.duration.{short,middle,long}.s",
        "tcp.difference.percent",
        "tcp.difference.{short,middle,long}.percent",
        "tcp.equivalence.{verdict,p,margin.percent}",
        "tcp.limit.{link_rate.mbps,duration.s,trials.count}",
        "tcp.limit.{goodput,line_limit}.{control,frer}.mbps",
        "tcp.limit.difference.percent",
        "tcp.limit.equivalence.{verdict,p}",
    ),
)
