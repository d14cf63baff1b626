"""Settings of the experiment ``tcp``."""

from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    LinkRateMbps,
    OneOrMore,
    Repetitions,
    WholeSeconds,
)
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment


class TcpLimitSettings(ConfigModel):
    """Links that the hosts can fill: TCP then reaches what the path allows, not what they do."""

    link_rate_mbps: LinkRateMbps
    """Wire rate of all links in these trials. A rack's links are as fast as they are, so it leaves
    them out."""
    duration_s: WholeSeconds
    repetitions: Repetitions


class TcpSettings(ConfigModel):
    """TCP goodput by iperf3; the durations stand for the documents' 10, 30 and 60 s."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    durations_s: OneOrMore[WholeSeconds]
    limit: TcpLimitSettings | None = None


EXPERIMENT = Experiment(
    TcpSettings,
    title="TCP goodput",
    kinds=(EMULATED, MODEL, HARDWARE),
    order=2,
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
