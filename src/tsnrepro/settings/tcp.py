"""Settings of the experiment ``tcp``."""

from tsnrepro.registry import EMULATED, HARDWARE, MODEL, Experiment
from tsnrepro.settings.strict import Configurations, OneOrMore, Repetitions, Strict, WholeSeconds


class TcpSettings(Strict):
    """TCP goodput by iperf3; the durations stand for the documents' 10, 30 and 60 s."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    durations_s: OneOrMore[WholeSeconds]


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
    ),
)
