"""Experiment ``latency``: half round trips of one request at a time (sockperf ping-pong)."""

import json
from dataclasses import asdict

from tsnrepro.experiments.iperf3_trial import OVERHEAD_SECONDS, command, serving
from tsnrepro.experiments.plan import randomised_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign
from tsnrepro.testbed.emulated import LISTENER, TALKER, EmulatedTestbed
from tsnrepro.testbed.host import Completed
from tsnrepro.tools import sockperf
from tsnrepro.tools.frerctl import StreamFilter

STREAM = StreamFilter("udp", sockperf.PORT)
SET_UP_SECONDS = 3.0
FILE_SECONDS = 120
LOG = "sockperf-log.csv.gz"


def plan(campaign: Campaign) -> list[Planned]:
    """Return the trials: every configuration, payload and repetition."""
    settings = campaign.latency
    if settings is None:
        return []
    trials = [
        Trial(
            "latency",
            f"{configuration}-{payload}B",
            {
                "configuration": configuration,
                "payload_bytes": payload,
                "duration_s": settings.duration_s,
            },
            repetition,
        )
        for repetition in range(1, settings.repetitions + 1)
        for payload in settings.payloads_bytes
        for configuration in settings.configurations
    ]
    return [
        Planned(trial, order, trial.factors["duration_s"] + SET_UP_SECONDS)
        for order, trial in enumerate(randomised_blocks(trials, campaign.seed))
    ]


def measure(testbed: EmulatedTestbed, trial: Trial, measured: Measurement) -> None:
    """Measure one trial; the record keeps every observation."""
    talker = testbed.hosts[TALKER]
    testbed.configure(trial.factors["configuration"], STREAM)
    before = testbed.snapshot()
    measured.outputs["counters-before.json.gz"] = json.dumps(before.raw, indent=1)
    log = talker.run(["mktemp"], deadline_s=FILE_SECONDS).check().stdout.strip()
    try:
        done = _ping_pong(testbed, trial, log)
        measured.commands.append(command(done))
        measured.outputs |= {"sockperf.txt": done.stdout, "sockperf.stderr.txt": done.stderr}
        printed = talker.run(["cat", log], deadline_s=FILE_SECONDS).check()
        measured.outputs[LOG] = printed.stdout
    finally:
        talker.run(["rm", "-f", log], deadline_s=FILE_SECONDS)
    after = testbed.snapshot()
    measured.outputs["counters-after.json.gz"] = json.dumps(after.raw, indent=1)
    measured.values |= {
        "result": asdict(sockperf.parse(done.check().stdout)),
        "recovery": after.hosts["sw2"].station["recovery"],
    }


def _ping_pong(testbed: EmulatedTestbed, trial: Trial, log: str) -> Completed:
    address, duration = testbed.address(LISTENER), trial.factors["duration_s"]
    deadline = duration + OVERHEAD_SECONDS
    client = sockperf.ping_pong(address, trial.factors["payload_bytes"], duration, log)
    with serving(
        testbed, sockperf.server(address), "udp", sockperf.PORT, deadline + FILE_SECONDS
    ) as server:
        try:
            return testbed.hosts[TALKER].run(testbed.bound(TALKER, client), deadline_s=deadline)
        finally:
            server.stop()
            server.wait()
