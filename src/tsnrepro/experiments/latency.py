"""Experiment ``latency``: half round trips of one request at a time (sockperf ping-pong)."""

import json
from dataclasses import asdict

from tsnrepro.experiments.iperf3_trial import OVERHEAD_SECONDS, command, serving
from tsnrepro.experiments.plan import randomised_blocks
from tsnrepro.experiments.run import Measurement, Planned
from tsnrepro.records.store import Trial
from tsnrepro.settings import Campaign
from tsnrepro.testbed.emulated import LISTENER, TALKER, EmulatedTestbed
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


def measure(testbed: EmulatedTestbed, trial: Trial) -> Measurement:
    """Measure one trial; the record keeps every observation."""
    factors, talker = trial.factors, testbed.hosts[TALKER]
    testbed.configure(factors["configuration"], STREAM)
    log = talker.run(["mktemp"], deadline_s=FILE_SECONDS).check().stdout.strip()
    try:
        done, before, after = _ping_pong(testbed, trial, log)
        observations = talker.run(["cat", log], deadline_s=FILE_SECONDS).check().stdout
    finally:
        talker.run(["rm", "-f", log], deadline_s=FILE_SECONDS)
    outputs = {
        "sockperf.txt": done.stdout,
        "sockperf.stderr.txt": done.stderr,
        LOG: observations,
        "counters-before.json.gz": json.dumps(before.raw, indent=1),
        "counters-after.json.gz": json.dumps(after.raw, indent=1),
    }
    values = {
        "result": asdict(sockperf.parse(done.stdout)),
        "recovery": after.hosts["sw2"].station["recovery"],
    }
    return Measurement(values, outputs, [command(done)])


def _ping_pong(testbed: EmulatedTestbed, trial: Trial, log: str):
    address, duration = testbed.address(LISTENER), trial.factors["duration_s"]
    deadline = duration + OVERHEAD_SECONDS
    server_command = sockperf.server(address)
    client = sockperf.ping_pong(address, trial.factors["payload_bytes"], duration, log)
    before = testbed.snapshot()
    with serving(testbed, server_command, "udp", sockperf.PORT, deadline + 30) as server:
        try:
            argv = testbed.bound(TALKER, client)
            done = testbed.hosts[TALKER].run(argv, deadline_s=deadline).check()
        finally:
            server.stop()
            server.wait()
    return done, before, testbed.snapshot()
