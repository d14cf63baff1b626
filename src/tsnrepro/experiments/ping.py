"""Experiment ``ping``: round trips of ICMP echo requests from talker to listener.

They belong to no FRER stream, so they go untagged over the first member path.
"""

from typing import cast

from tsnrepro.experiments.measurement import Measurement
from tsnrepro.experiments.plan import Planned, randomised_blocks
from tsnrepro.records.store import Trial
from tsnrepro.settings.ping import PingSettings
from tsnrepro.testbed.protocol import HostTestbed, Testbed
from tsnrepro.tools import ping
from tsnrepro.tools.frerctl import StreamFilter
from tsnrepro.topology import LISTENER, TALKER

SET_UP_SECONDS = 2.0
# What FRER would take for its stream; no datagram of this port is sent here.
STREAM = StreamFilter("udp", 5203)


def plan(settings: PingSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every payload and repetition."""
    trials = [
        Trial(
            "ping",
            f"{payload}B",
            {
                "payload_bytes": payload,
                "requests": settings.requests,
                "interval_ms": settings.interval_ms,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for payload in settings.payloads_bytes
    ]
    seconds = settings.requests * settings.interval_ms / 1000 + SET_UP_SECONDS
    return [
        Planned(trial, order, seconds)
        for order, trial in enumerate(randomised_blocks(trials, seed))
    ]


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps what ping printed, with every round trip."""
    hosts = cast("HostTestbed", testbed)
    factors = trial.factors
    hosts.configure("frer", STREAM)
    argv = ping.ping(
        hosts.address(LISTENER),
        factors["payload_bytes"],
        factors["requests"],
        factors["interval_ms"],
    )
    deadline = factors["requests"] * factors["interval_ms"] / 1000 + 10
    done = hosts.hosts[TALKER].run(argv, deadline_s=deadline)
    measured.outputs["ping.txt"] = done.stdout
    # Its exit status is 1 where a request had no reply, which is a result.
    result = ping.parse(done.stdout or done.check().stdout)
    measured.values["result"] = {
        "sent": result.sent,
        "received": result.received,
        **ping.quantiles_us(result),
    }
