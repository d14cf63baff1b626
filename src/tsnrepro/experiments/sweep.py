"""Experiment ``sweep``: UDP frame loss against offered load (RFC 2544, 26.3, by iperf3)."""

from dataclasses import asdict

from tsnrepro.experiments import iperf3_trial
from tsnrepro.experiments.plan import randomised_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.accounting import account
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign, SweepSettings
from tsnrepro.testbed.emulated import LISTENER, EmulatedTestbed
from tsnrepro.tools import iperf3
from tsnrepro.tools.frerctl import StreamFilter

STREAM = StreamFilter("udp", iperf3.PORT, iperf3.MIN_UDP_PAYLOAD_BYTES)
# Beyond this a datagram is several frames on a link with an MTU of 1500 bytes.
LARGEST_UNFRAGMENTED_BYTES = 1472
# Configuring, counters, server and connection; only the first estimate of time uses it.
SET_UP_SECONDS = 1.5


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, payload, load and repetition."""
    settings = campaign.sweep
    if settings is None:
        return []
    ordered = randomised_blocks(_trials(settings), campaign.seed)
    return [
        Planned(trial, order, trial.factors["duration_s"] + SET_UP_SECONDS)
        for order, trial in enumerate(ordered)
    ]


def _trials(settings: SweepSettings) -> list[Trial]:
    return [
        Trial(
            "sweep",
            f"{configuration}-{part.payload_bytes}B-{rate:g}M",
            {
                "configuration": configuration,
                "payload_bytes": part.payload_bytes,
                "rate_mbps": rate,
                "duration_s": part.duration_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for part in settings.parts
        for rate in part.rates_mbps
        for configuration in settings.configurations
    ]


def measure(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial: send, count what arrived, and say where the rest went."""
    factors = trial.factors
    client = iperf3.udp_client(
        testbed.address(LISTENER),
        factors["payload_bytes"],
        factors["rate_mbps"],
        factors["duration_s"],
    )
    fragmented = factors["payload_bytes"] > LARGEST_UNFRAGMENTED_BYTES
    settle = iperf3_trial.REASSEMBLY_SECONDS if fragmented else iperf3_trial.SETTLE_SECONDS
    done, before, after = iperf3_trial.between(
        testbed, trial, STREAM, client, measured, settle_s=settle
    )
    result = iperf3.parse_udp(done.stdout)
    accounting = account(before, after, result.sent, result.received, testbed.host_of)
    measured.values |= {
        "result": asdict(result) | {"lost": result.lost},
        "accounting": asdict(accounting) | {"unaccounted": accounting.unaccounted},
        "recovery": after.hosts["sw2"].station["recovery"],
    }
    if accounting.unaccounted:
        print(f"{trial.label}: {accounting.unaccounted} datagrams are not accounted for")
