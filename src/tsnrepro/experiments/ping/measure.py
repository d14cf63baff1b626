"""Measure a trial of ``ping``: round trips of ICMP echo requests from talker to listener.

They belong to no FRER stream, so they go untagged over the first member path.
"""

from typing import cast

from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.experiments.ping.plan import Factors
from tsnrepro.records.store import Trial
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.protocol import HostTestbed, Testbed
from tsnrepro.tools import ping
from tsnrepro.tools.frerctl import StreamFilter

# The stream that FRER identifies; no datagram of this port is sent here.
_STREAM = StreamFilter("udp", 5203)


def measure(testbed: Testbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps what ping printed, with every round trip."""
    factors, hosts = Factors.of(trial), cast("HostTestbed", testbed)
    hosts.configure("frer", _STREAM)
    argv = ping.ping(
        hosts.address(LISTENER),
        payload_bytes=factors.payload_bytes,
        requests=factors.requests,
        interval_ms=factors.interval_ms,
    )
    done = hosts.hosts[TALKER].run(argv, deadline_s=factors.sending_s + 10)
    measured.outputs["ping.txt"] = done.stdout
    # The exit status is 1 where a request had no reply, which is a result.
    result = ping.parse((done.stdout or done.check().stdout) + done.stderr)
    counts = {"sent": result.sent, "received": result.received}
    measured.values["result"] = counts | ping.quantiles_us(result)
