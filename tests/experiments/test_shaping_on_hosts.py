"""Shaping by commands: the job of a trial, and the gate of a kernel that has taprio."""

import time

import numpy as np
import pytest
from shaping_parts import part

from tsnrepro import campaigns
from tsnrepro.analysis.shaping_phase import Gate, held
from tsnrepro.errors import ConfigurationError, TestbedError
from tsnrepro.experiments.run import Measurement
from tsnrepro.experiments.shaping import on_hosts
from tsnrepro.experiments.shaping.log import LOG, decompress
from tsnrepro.experiments.shaping.plan import plan, trials_of
from tsnrepro.experiments.shaping.schedule import two_windows
from tsnrepro.testbed.guest import requirements
from tsnrepro.testbed.guest.testbed import GuestTestbed
from tsnrepro.testbed.jobs import here
from tsnrepro.testbed.jobs.here import JobsHere
from tsnrepro.testbed.jobs.job import Pause, Step, Stop


def shape(settings, mode):
    """Return the commands that shape a trial's port, as text."""
    job = on_hosts.job_of(settings, mode, 1)
    return [(s.host, " ".join(s.argv)) for s in job.configure if s.name.startswith("shape")]


def test_gates_come_before_the_line_and_the_line_below_each_class():
    commands = shape(part(link_rate_mbps=100.0), "tas")
    assert [host for host, _ in commands] == ["talker"] * 3
    assert "taprio num_tc 8" in commands[0][1]
    assert "sched-entry S 20 20000 sched-entry S 01 80000 cycle-time 100000" in commands[0][1]
    assert [text.split()[6] for _, text in commands[1:]] == ["100:1", "100:6"]
    assert all("tbf rate 100000000bit" in text for _, text in commands[1:])


def test_priority_stands_below_the_line():
    first, second = shape(part(), "prio")
    assert "root handle 1: tbf" in first[1]
    assert "parent 1:1 handle 2: prio bands 8" in second[1]


def test_credit_is_reckoned_against_what_veth_claims():
    commands = shape(part("bridge", modes=["cbs"], idle_slope_mbps=10.0), "cbs")
    host, text = commands[-1]
    assert host == "sw"
    # Priority 5 is the third band of eight; the port is of 10 Gb/s to the kernel.
    assert "parent 2:3 cbs idleslope 10000 sendslope -9990000" in text


def test_a_switch_chooses_queues_by_pcp_before_it_shapes():
    commands = [text for _, text in shape(part("bridge"), "tas")]
    pins = [text for text in commands if "flower vlan_prio" in text]
    assert [text.split("vlan_prio ")[1] for text in pins] == [
        "0 action skbedit queue_mapping 0 priority 0",
        "5 action skbedit queue_mapping 5 priority 5",
    ]
    assert commands.index(pins[-1]) < next(i for i, c in enumerate(commands) if "taprio" in c)


def test_launches_fall_on_their_phase():
    settings = part(modes=["etf"], launch_phase_us=30.0, interval_us=500.0)
    job = on_hosts.job_of(settings, "etf", 1)
    talker = next(s for s in job.steps if isinstance(s, Step) and s.name == "talker")
    words = dict(zip(talker.argv, talker.argv[1:], strict=False))
    assert words["--cycle-ns"] == "100000"
    assert words["--phase-ns"] == "30000"
    assert words["--interval-ns"] == "500000"
    assert "--txtime" in talker.argv


def test_the_load_starts_before_the_stream_and_ends_after_it():
    steps = on_hosts.job_of(part(loads_mbps=[80.0]), "fifo", 1).steps
    names = [
        s.name if isinstance(s, Step) else f"end {s.step}" if isinstance(s, Stop) else "pause"
        for s in steps
    ]
    assert names == [
        *("listener", "qdisc-before", "load-listener", "load", "pause", "talker"),
        *("end load", "pause", "end listener", "end load-listener", "qdisc-after"),
    ]
    assert all(s.seconds > 0 for s in steps if isinstance(s, Pause))


def test_stream_and_load_have_their_priorities_and_hosts():
    job = on_hosts.job_of(part("bridge", loads_mbps=[80.0]), "fifo", 1)
    sending = {s.name: s for s in job.steps if isinstance(s, Step) and "--priority" in s.argv}
    at = {name: s.argv[s.argv.index("--priority") + 1] for name, s in sending.items()}
    assert at == {"load": "0", "talker": "5"}
    assert (sending["load"].host, sending["talker"].host) == ("loader", "talker")


@pytest.mark.parametrize("count", [200, 1000])
def test_sends_meet_every_place_of_the_cycle_evenly(count):
    """Without chance: no tenth of the cycle is met twice as often as another."""
    interval = on_hosts.interval_ns(part(interval_us=300.0, interval_spread_us=100.0))
    assert 250_000 < interval < 300_000
    phases = np.arange(count) * interval % 100_000
    counts, _ = np.histogram(phases, 10, (0, 100_000))
    assert counts.min() > 0.9 * count / 10


def test_frer_behind_gates_takes_the_model():
    with pytest.raises(ConfigurationError, match="not built of namespaces"):
        on_hosts.job_of(part("tas-frer"), "tas", 1)


# In a kernel that has the queueing disciplines

PATIENCE_SECONDS = 240


@pytest.fixture
def guest():
    if lacks := requirements.missing():
        pytest.skip(f"this machine lacks {', '.join(lacks)} for the guest testbed")
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with GuestTestbed(purpose="tests of shaping") as testbed:
                yield testbed
                return
        except TestbedError as error:
            if "in use" not in error.what or time.monotonic() > end:
                raise
            time.sleep(1)


def measured(testbed, settings):
    trial = trials_of(settings, 1)[0]
    measurement = Measurement()
    on_hosts.measure(testbed, trial, measurement)
    return measurement


@pytest.mark.guest
def test_software_gates_hold_within_five_microseconds(guest):
    settings = part(
        modes=["tas"],
        gates=two_windows(500_000, 500_000, scheduled=5, others=[0]),
        link_rate_mbps=100.0,
        packets=300,
        interval_us=2_000.0,
        interval_spread_us=1_000.0,
        loads_mbps=[30.0],
    )
    measurement = measured(guest, settings)
    document = {"values": measurement.values, "trial": "t"}
    log = decompress(measurement.outputs[LOG])
    found = held(Gate.of(document, settings.gates, 5), log)
    assert found.frames == settings.packets
    assert found.without_stamp == 0
    # The application sends at any time: half of the frames had to wait.
    assert np.mean(log["sent_ns"] % 1_000_000 >= 500_000) == pytest.approx(0.5, abs=0.1)
    assert found.outside / found.frames <= 0.005
    assert measurement.values["medium"] == "guest veth"
    kinds = {row["kind"] for row in measurement.values["qdiscs"]}
    assert {"taprio", "tbf"} <= kinds


# On this machine's own kernel


@pytest.mark.namespaces
def test_a_trial_without_gates_runs_on_any_kernel(monkeypatch, tmp_path):
    """A line of 100 Mb/s and nothing else to shape needs none of the disciplines that may lack."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings = part(modes=["fifo"], link_rate_mbps=100.0, packets=300, loads_mbps=[30.0])
    with JobsHere(purpose="tests of shaping") as testbed:
        measurement = measured(testbed, settings)
    values = measurement.values
    log = decompress(measurement.outputs[LOG])
    assert values["result"]["sent"] == settings.packets
    assert len(log) == values["result"]["received"]
    assert values["result"]["received"] + values["result"]["lost"] == settings.packets
    assert values["result"]["load_offered_mbps"] == pytest.approx(30, rel=0.2)
    assert (values["medium"], values["machine"]["virtual_time"]) == ("emulated veth", False)
    # Stamps of the machine's clock, a few minutes from now at most.
    assert abs(int(log["stamped_ns"][-1]) / 1e9 - time.time()) < 300


def test_an_emulated_testbed_runs_shaping_as_jobs():
    settings = campaigns.campaign("shaping")
    assert campaigns.experiments_of(settings, "emulated") == ["shaping"]
    opened = campaigns.open_for("shaping", "emulated", settings, "a test")
    assert isinstance(opened, JobsHere)
    assert not isinstance(campaigns.open_for("sweep", "emulated", settings, "a test"), JobsHere)


def test_an_emulated_testbed_runs_the_parts_of_a_guest():
    settings = campaigns.campaign("shaping")
    plans = {kind: plan(settings, kind) for kind in ("guest", "emulated", "model")}
    parts = {k: {item.trial.factors["part"] for item in items} for k, items in plans.items()}
    assert parts["emulated"] == parts["guest"] == {"guest-end-station", "guest-bridge"}
    assert parts["emulated"].isdisjoint(parts["model"])
    assert [i.trial.digest for i in plans["emulated"]] == [i.trial.digest for i in plans["guest"]]


def test_a_kernel_without_the_queues_is_refused_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(here, "lacking_qdiscs", lambda: ["taprio", "cbs"])
    monkeypatch.setattr(here.os, "geteuid", lambda: 0)
    monkeypatch.setattr(campaigns, "raw_root", lambda: tmp_path)
    with pytest.raises(TestbedError, match=r"lacks taprio, cbs .*--config testbed=guest") as error:
        campaigns.refuse_unmeasurable(["sweep", "shaping"], "emulated", "shaping")
    assert "\n" not in str(error.value)
    # Elsewhere nothing is asked of the kernel, nor of what other experiments run on.
    campaigns.refuse_unmeasurable(["shaping"], "guest", "shaping")
    campaigns.refuse_unmeasurable(["shaping"], "model", "shaping")
    campaigns.refuse_unmeasurable(["sweep", "tcp"], "emulated", "quick")
    # What was recorded on another machine can be analysed on this one.
    (tmp_path / "emulated" / "shaping" / "shaping").mkdir(parents=True)
    campaigns.refuse_unmeasurable(["shaping"], "emulated", "shaping")
