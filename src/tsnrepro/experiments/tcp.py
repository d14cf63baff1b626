"""Experiment ``tcp``: the goodput of one TCP connection (iperf3)."""

from dataclasses import asdict

from tsnrepro.experiments import iperf3_trial
from tsnrepro.experiments.plan import randomised_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign
from tsnrepro.testbed.emulated import LISTENER, EmulatedTestbed
from tsnrepro.tools import iperf3
from tsnrepro.tools.frerctl import StreamFilter

STREAM = StreamFilter("tcp", iperf3.PORT)
SET_UP_SECONDS = 1.5


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, duration and repetition."""
    settings = campaign.tcp
    if settings is None:
        return []
    trials = [
        Trial(
            "tcp",
            f"{configuration}-{duration}s",
            {"configuration": configuration, "duration_s": duration},
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for duration in settings.durations_s
        for configuration in settings.configurations
    ]
    return [
        Planned(trial, order, trial.factors["duration_s"] + SET_UP_SECONDS)
        for order, trial in enumerate(randomised_blocks(trials, campaign.seed))
    ]


def measure(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial."""
    client = iperf3.tcp_client(testbed.address(LISTENER), trial.factors["duration_s"])
    done, _, after = iperf3_trial.between(testbed, trial, STREAM, client, measured)
    measured.values |= {
        "result": asdict(iperf3.parse_tcp(done.stdout)),
        "recovery": after.hosts["sw2"].station["recovery"],
    }
