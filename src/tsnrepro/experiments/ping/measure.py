"""Experiment ``ping``: round trips of ICMP echo requests from talker to listener.

They belong to no FRER stream, so they go untagged over the first member path.
"""

from typing import cast

from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.experiments.ping.settings import PingSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.plan import Planned, full_factorial, in_blocks
from tsnrepro.testbeds.protocol import HostTestbed, Testbed
from tsnrepro.tools import ping
from tsnrepro.tools.frerctl import StreamFilter

_SET_UP_SECONDS = 2.0
# What FRER would take for its stream; no datagram of this port is sent here.
_STREAM = StreamFilter("udp", 5203)


def plan(settings: PingSettings, seed: int, kind: str) -> list[Planned]:
    """Return the trials: every payload and repetition."""
    same = ["requests", "interval_ms"]
    trials = full_factorial(
        "ping", "{payload_bytes}B", settings, same, payload_bytes=settings.payloads_bytes
    )
    return in_blocks(trials, seed, lambda trial: _sending_s(trial) + _SET_UP_SECONDS)


def _sending_s(trial: Trial) -> float:
    return trial.factors["requests"] * trial.factors["interval_ms"] / 1000


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps what ping printed, with every round trip."""
    hosts = cast("HostTestbed", testbed)
    hosts.configure("frer", _STREAM)
    argv = ping.ping(hosts.address(LISTENER), **trial.factors)
    done = hosts.hosts[TALKER].run(argv, deadline_s=_sending_s(trial) + 10)
    measured.outputs["ping.txt"] = done.stdout
    # Its exit status is 1 where a request had no reply, which is a result.
    result = ping.parse(done.stdout or done.check().stdout)
    counts = {"sent": result.sent, "received": result.received}
    measured.values["result"] = counts | ping.quantiles_us(result)
