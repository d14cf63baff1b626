"""Shaping by commands: the job of a trial, and the gate of a kernel that has taprio."""

import time
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from gate_lists import two_windows
from shaping_parts import measured_on_hosts, part, trials_of

from tsnrepro.common.errors import ConfigurationError, TestbedError, ToolError
from tsnrepro.config import files as campaigns
from tsnrepro.config.gates import GateControlList, GateWindow
from tsnrepro.experiments.shaping import on_hosts, software_bridge, topology, veth_queues
from tsnrepro.experiments.shaping.bounds import bound_ns
from tsnrepro.experiments.shaping.log import LOG, decompress, latency_us, talker_wait_us
from tsnrepro.experiments.shaping.phase import Gate, adherence
from tsnrepro.experiments.shaping.plan import Factors, plan
from tsnrepro.experiments.shaping.settings import MODES_OF
from tsnrepro.runner.testbed import open_for
from tsnrepro.testbeds.emulated import local_jobs
from tsnrepro.testbeds.emulated.local_jobs import LocalJobs
from tsnrepro.testbeds.guest import testbed as guest_testbed
from tsnrepro.testbeds.guest.testbed import GuestTestbed
from tsnrepro.testbeds.jobs.job import Bridge, Link, LinkEnd, Pause, Step, Stop


def shape(settings, mode):
    """Return the commands that shape a trial's port, as text."""
    job = on_hosts.job_of(settings, mode, 1)
    return [(s.host, " ".join(s.argv)) for s in job.configure if s.name.startswith("shape")]


ALL_MODES = ["tas", "prio", "cbs", "mqprio", "etf", "fifo"]


@pytest.mark.parametrize(
    ("kind", "switch"),
    [*product(("end-station", "bridge"), ("kernel", "bridge")), ("tas-frer", "bridge")],
)
def test_nothing_behind_the_shaped_port_queues(kind, switch):
    """It ends at the listener, or at the switch that recovers, and no qdisc stands there."""
    modes = [mode for mode in (*ALL_MODES, "direct") if mode in MODES_OF[kind]]
    if switch == "bridge":
        modes = [mode for mode in modes if mode not in ("mqprio", "etf")]
    changes = {"switch": switch, "link_rate_mbps": 100.0, "idle_slope_mbps": 20.0}
    settings = part(kind, modes=modes, **changes)
    for mode in modes:
        job = on_hosts.job_of(settings, mode, 1)
        shaped = on_hosts.topology.of_veth(settings, mode).shaped
        ends = [(link.one, link.other) for link in job.links]
        behind = [two.host for one, two in ends if (one.host, one.device) in shaped]
        assert behind == (["sw2", "sw2"] if kind == "tas-frer" else ["listener"])
        limited = {s.host for s in job.configure if {"tbf", "netem", "fq"} & {*s.argv}}
        assert not limited & {*behind, "listener"}


def test_gates_come_before_the_line_and_the_line_below_each_class():
    commands = shape(part(link_rate_mbps=200.0), "tas")
    assert [host for host, _ in commands] == ["talker"] * 3
    assert "taprio num_tc 8" in commands[0][1]
    assert [text.split()[6] for _, text in commands[1:]] == ["100:1", "100:6"]
    assert all("tbf rate 200000000bit" in text for _, text in commands[1:])


def test_gates_close_a_frame_of_the_line_before_their_window_ends():
    """322 bytes of the wire take 12.88 us at 200 Mb/s, the load's 1538 take 61.52 us."""
    settings = part(link_rate_mbps=200.0, loads_mbps=[100.0])
    assert veth_queues.gate_entries(settings) == [
        *((0x20, 20_000 - 12_880), (0x00, 12_880)),
        *((0x01, 80_000 - 61_520), (0x00, 61_520)),
    ]
    loose = settings.gates.model_copy(update={"guard_band": False})
    entries = veth_queues.gate_entries(settings.model_copy(update={"gates": loose}))
    assert entries == [(0x20, 20_000), (0x01, 80_000)]


def test_a_window_over_the_end_of_the_cycle_closes_inside_it():
    gates = GateControlList(
        entries=[
            GateWindow(open_classes=[5], interval_ns=20_000),
            GateWindow(open_classes=[0, 3], interval_ns=60_000),
            GateWindow(open_classes=[3, 5], interval_ns=20_000),
        ]
    )
    settings = part(link_rate_mbps=1000.0, gates=gates)
    assert veth_queues.gate_entries(settings) == [
        *((0x20, 20_000 - 2_576), (0x00, 2_576)),
        *((0x09, 60_000), (0x28, 20_000)),
    ]


def test_priority_stands_below_the_line():
    first, second = shape(part(), "prio")
    assert "root handle 1: tbf" in first[1]
    assert "parent 1:1 handle 2: prio bands 8" in second[1]


def test_credit_is_taken_off_at_what_veth_claims_and_saved_up_at_the_line():
    settings = part("bridge", modes=["cbs"], idle_slope_mbps=10.0, link_rate_mbps=100.0)
    host, text = shape(settings.model_copy(update={"loads_mbps": [90.0]}), "cbs")[-1]
    assert host == "sw"
    # Priority 5 is the third band of eight. Of 326 bytes the kernel counts 298: 9.141 Mb/s.
    assert "parent 2:3 cbs idleslope 9141 sendslope -9990859" in text
    # A load's 1530 bytes at 100 Mb/s let 9.141 Mb/s save up 139.9 bytes.
    assert "hicredit 140 locredit -297" in text


@pytest.mark.parametrize("mode", ["etf", "mqprio"])
def test_where_nothing_arbitrates_the_load_has_what_the_stream_leaves(mode):
    settings = part(modes=[mode], link_rate_mbps=100.0, loads_mbps=[100.0])
    (load,) = (text for _, text in shape(settings, mode) if "parent 100:1 " in text)
    # 322 bytes each 300 us.
    assert f"rate {round((100 - 322 * 8 / 300) * 1e6)}bit" in load


def test_nothing_is_waited_for_but_what_there_is():
    """A load that has to fill queues, and listeners until they say that they are ready."""

    def before(load_mbps: float) -> list:
        steps = on_hosts.job_of(part(loads_mbps=[load_mbps]), "fifo", 1).steps
        talker = next(n for n, s in enumerate(steps) if isinstance(s, Step) and s.name == "talker")
        return list(steps[:talker])

    assert [step.seconds for step in before(20.0) if isinstance(step, Pause)] == [0.2]
    assert not [step for step in before(0.0) if isinstance(step, Pause)]
    awaited = [step.name for step in before(20.0) if isinstance(step, Step) and step.ready]
    assert awaited == ["listener", "load-listener"]


def test_sends_in_step_begin_with_the_cycle_and_others_take_all_of_it():
    def options(**changes):
        job = on_hosts.job_of(part(**changes), "fifo", 1)
        return next(s.argv for s in job.steps if isinstance(s, Step) and s.name == "talker")

    in_step = options(interval_spread_us=0.0)
    assert in_step[in_step.index("--cycle-ns") + 1] == "100000"
    assert in_step[in_step.index("--interval-ns") + 1] == "300000"
    assert "--cycle-ns" not in options()
    with pytest.raises(ConfigurationError, match="cannot spread over 50 us of a cycle of 100 us"):
        options(interval_spread_us=50.0)


def test_a_switch_chooses_queues_by_pcp_before_it_shapes():
    commands = [text for _, text in shape(part("bridge"), "tas")]
    pins = [text for text in commands if "flower vlan_prio" in text]
    assert [text.split("vlan_prio ")[1] for text in pins] == [
        "0 action skbedit queue_mapping 0 priority 0",
        "5 action skbedit queue_mapping 5 priority 5",
    ]
    assert commands.index(pins[-1]) < next(i for i, c in enumerate(commands) if "taprio" in c)


def test_launches_fall_on_their_phase():
    settings = part(modes=["etf"], txtime_offset_us=30.0, interval_us=500.0)
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


def test_a_kernels_queues_do_not_shape_behind_frer():
    with pytest.raises(ConfigurationError, match="only the software bridge shapes behind FRER"):
        on_hosts.job_of(part("tas-frer"), "tas", 1)
    with pytest.raises(ValueError, match=r"testbeds.emulated: tas-frer needs switch: bridge"):
        part("tas-frer", testbeds={"emulated": {}})
    with pytest.raises(
        ValueError, match=r"testbeds.guest: only model and emulated support tas-frer"
    ):
        part("tas-frer", testbeds={"guest": {"switch": "bridge"}})


# In a kernel that has the queueing disciplines


@pytest.fixture
def guest(monkeypatch, tmp_path):
    if lacks := guest_testbed.missing_requirements():
        pytest.skip(f"this machine lacks {', '.join(lacks)} for the guest testbed")
    # A temporary folder of its own has a lock of its own: other tests boot guests at the same time.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with GuestTestbed(purpose="tests of shaping") as testbed:
        yield testbed


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
    measurement = measured_on_hosts(guest, settings)
    document = {"values": measurement.values, "trial": "t"}
    log = decompress(measurement.outputs[LOG])
    found = adherence(Gate.of(document, settings.gates, 5), log)
    assert found.frames == settings.packets
    assert found.without_stamp == 0
    # The application sends at any time: half of the frames had to wait.
    assert np.mean(log["sent_ns"] % 1_000_000 >= 500_000) == pytest.approx(0.5, abs=0.1)
    assert found.outside / found.frames <= 0.005
    assert measurement.values["medium"] == "guest veth"
    kinds = {row["kind"] for row in measurement.values["qdiscs"]}
    assert {"taprio", "tbf"} <= kinds


@pytest.mark.guest
def test_a_frame_enters_its_queue_before_it_reaches_the_listener(guest):
    """The kernel stamps it at the talker's VLAN, at the card below, and at the switch's port."""
    settings = part("bridge", modes=["prio"], link_rate_mbps=100.0, packets=60)
    log = decompress(measured_on_hosts(guest, settings).outputs[LOG])
    ordered = [log[name].astype(np.int64) for name in ("sent_ns", "queued_ns", "stamped_ns")]
    assert all(np.all(np.diff(times) > 0) for times in zip(*ordered, strict=True))


@pytest.mark.guest
def test_a_burst_takes_the_same_time_in_every_mode(guest):
    """40 datagrams at once: each takes its bytes' time on the line, or twice that by credit.

    Launch times of etf cannot be at once: there each is twice that after the one before.
    """
    wire_ns = (1400 + 66) * 8000 / 100
    for mode in ALL_MODES:
        expected = wire_ns * (2 if mode in ("cbs", "etf") else 1)
        settings = part(
            modes=[mode],
            gates=two_windows(90_000_000, 10_000_000, scheduled=5, others=[0]),
            link_rate_mbps=100.0,
            idle_slope_mbps=50.0,
            payload_bytes=1400,
            packets=40,
            interval_us=expected / 1000 if mode == "etf" else 1.0,
            interval_spread_us=0.0,
            txtime_offset_us=5_000.0,
        )
        log = decompress(measured_on_hosts(guest, settings).outputs[LOG])
        # etf drops what its timer reaches after the launch, now and then most; others drop nothing.
        assert len(log) > (5 if mode == "etf" else 39), mode
        gaps = np.diff(log["stamped_ns"].astype(np.int64))
        assert np.median(gaps) == pytest.approx(expected, rel=0.005), mode
        # The guest's one processor is late at some gap of the forty; the line never is early.
        assert gaps[1:].mean() == pytest.approx(expected, rel=0.1), mode


# On this machine's own kernel


@pytest.mark.namespaces
def test_a_wait_in_the_talkers_own_queue_is_latency(monkeypatch, tmp_path):
    """Of a burst each frame waits for those before it, from the queue that it entered at once."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    burst = {"payload_bytes": 1400, "packets": 40, "interval_us": 1.0, "interval_spread_us": 0.0}
    settings = part(modes=["fifo"], link_rate_mbps=100.0, **burst)
    with LocalJobs(purpose="tests of shaping") as testbed:
        log = decompress(measured_on_hosts(testbed, settings).outputs[LOG])
    wire_us = (1400 + 66) * 8 / 100
    waits_us = latency_us(log)
    # A timer is late at some gap of the forty; the line never is early.
    assert np.median(np.diff(waits_us)) == pytest.approx(wire_us, rel=0.15)
    assert np.ptp(waits_us) > 0.85 * 39 * wire_us
    assert np.median(talker_wait_us(log)) < wire_us


@pytest.mark.namespaces
def test_a_trial_without_gates_runs_on_any_kernel(monkeypatch, tmp_path):
    """A line of 100 Mb/s and nothing else to shape needs none of the disciplines that may lack."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings = part(modes=["fifo"], link_rate_mbps=100.0, packets=300, loads_mbps=[30.0])
    with LocalJobs(purpose="tests of shaping") as testbed:
        measurement = measured_on_hosts(testbed, settings)
    values = measurement.values
    log = decompress(measurement.outputs[LOG])
    assert values["result"]["sent"] == settings.packets
    assert len(log) == values["result"]["received"]
    assert values["result"]["received"] + values["result"]["lost"] == settings.packets
    assert values["result"]["load_offered_mbps"] == pytest.approx(30, rel=0.2)
    assert (values["medium"], values["machine"]["virtual_time"]) == ("emulated veth", False)
    ordered = [log[name].astype(np.int64) for name in ("sent_ns", "queued_ns", "stamped_ns")]
    assert all(np.all(np.diff(times) >= 0) for times in zip(*ordered, strict=True))
    # Stamps of the machine's clock, a few minutes from now at most.
    assert abs(int(log["stamped_ns"][-1]) / 1e9 - time.time()) < 300


def test_an_emulated_testbed_runs_shaping_as_jobs():
    settings = campaigns.campaign("documents")
    opened = open_for("shaping", "emulated", settings, "a test")
    assert isinstance(opened, LocalJobs)
    assert not isinstance(open_for("loss", "emulated", settings, "a test"), LocalJobs)


def test_an_emulated_testbed_runs_the_parts_of_a_guest():
    settings = campaigns.campaign("documents")
    plans = {
        kind: plan(settings.shaping, settings.seed, kind) for kind in ("guest", "emulated", "model")
    }
    parts = {k: {item.trial.factors["part"] for item in items} for k, items in plans.items()}
    shared = {"short-cycle", "long-cycle", "bridge", "bridge-any-time"}
    assert parts["guest"] == shared
    by_cycle = {f"{name}-cycle-synchronised" for name in ("short", "long", "wide")} | {"wide-cycle"}
    assert parts["model"] == {*shared, *by_cycle, "on-and-off", "tas-frer"}
    # The model has no threads to divide the work between.
    assert parts["emulated"] == {*parts["model"], "bridge-two-threads", "bridge-receiver-each"}


@pytest.mark.parametrize("name", ["quick", "documents"])
def test_the_software_bridge_has_the_guests_conditions(name):
    """What the two give is held beside each other: all but the switch and how much is alike."""
    aside = {"switch", "testbeds", "modes", "packets", "repetitions"}
    aside |= {"max_stalled_percent", "max_stall_ms"}
    for asked in campaigns.campaign(name).shaping.parts:
        if "guest" in asked.testbeds:
            guest, emulated = (
                asked.on(kind).model_dump(exclude=aside) for kind in ("guest", "emulated")
            )
            assert guest == emulated
            assert asked.on("emulated").software_bridge


def test_a_kernel_without_the_queues_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(local_jobs, "missing_qdiscs", lambda: ["taprio", "cbs"])
    monkeypatch.setattr(local_jobs.os, "geteuid", lambda: 0)
    with pytest.raises(TestbedError, match=r"lacks taprio, cbs .*--config testbed=guest") as error:
        local_jobs.check_requirements(("taprio", "cbs", "etf"))
    assert "\n" not in str(error.value)
    local_jobs.check_requirements(("etf",))


# --- the software bridge ------------------------------------------------------------------------


def software(**changes):
    values = {"switch": "bridge", "link_rate_mbps": 100.0, "idle_slope_mbps": 20.0}
    return part("bridge", **values | changes)


def test_the_software_bridge_needs_no_queues_and_no_vlans_of_the_kernel():
    job = on_hosts.job_of(software(), "tas", 1)
    assert not job.bridges
    assert not [vlan for port in job.ports() for vlan in port.vlans]
    qdiscs = {s.argv[s.argv.index("dev") + 2 :] for s in job.configure if s.argv[1] == "qdisc"}
    assert {words[0] for words in qdiscs} <= {"clsact", "root"}
    assert all("tbf" in words for words in qdiscs if words[0] == "root")
    tagged = {s.host for s in job.configure if s.name.startswith("tag-")}
    assert tagged == {"talker", "loader", "listener"}


def test_talker_and_listener_run_before_the_bridge_that_shares_their_processors():
    steps = {step.name: step for step in on_hosts.job_of(software(), "tas", 1).commands()}
    priority = str(software_bridge.END_PRIORITY)
    assert steps["talker"].argv[:3] == ("chrt", "--fifo", priority)
    assert ("--realtime", priority) in pairwise(steps["listener"].argv)
    of_kernel = {step.name: step for step in on_hosts.job_of(part("bridge"), "tas", 1).commands()}
    assert of_kernel["talker"].argv[0] != "chrt"
    assert "--realtime" not in of_kernel["listener"].argv


@pytest.mark.parametrize(
    ("mode", "has", "lacks"),
    [
        ("tas", ["gates 0 100000", "gate 0x20 20000", "guard frame"], ["shape 5 20"]),
        ("cbs", ["shape 5 20 -80"], ["gate 0x20 20000"]),
        ("prio", ["shape 5 0"], ["gate 0x20 20000", "class * 5 0"]),
        ("fifo", ["class * 5 0", "class * 0 0"], ["gate 0x20 20000"]),
    ],
)
def test_a_mode_is_what_the_software_bridge_is_told(mode, has, lacks):
    layout = topology.of_veth(software(), mode)
    told = software_bridge.settings(software(), mode, layout, "02:00:00:00:00:08")
    lines = told.text().splitlines()
    assert "address 02:00:00:00:00:08 10 p0" in lines
    shaped = lines[lines.index("port p0") :]
    assert "rate_mbps 100" in shaped
    for line in has:
        assert line in (lines if line.startswith("class") else shaped)
    assert not {*lacks} & {*lines}


def test_a_part_of_the_kernels_has_the_factors_it_always_had():
    (trial,) = trials_of(part("bridge", modes=["fifo"]), 1)
    assert "switch" not in trial.factors
    (trial,) = trials_of(software(modes=["fifo"]), 1)
    assert trial.factors["switch"] == "bridge"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ["threads 1", "receivers one"]),
        ({"threads": 2}, ["threads 2", "receivers one"]),
        ({"receivers": "each"}, ["threads 1", "receivers each"]),
    ],
)
def test_a_part_divides_the_bridges_work(given, told):
    settings = software(modes=["fifo"], **given)
    layout = topology.of_veth(settings, "fifo")
    text = software_bridge.settings(settings, "fifo", layout, "02:00:00:00:00:08").text()
    assert {*told} <= {*text.splitlines()}
    (trial,) = trials_of(settings, 1)
    # One thread is what trials had before there was a choice, and they stay the same trials.
    assert {
        key: trial.factors[key] for key in ("threads", "receivers") if key in trial.factors
    } == given
    again = Factors.of(trial).part
    assert (again.threads, again.receivers) == (settings.threads, settings.receivers)


def test_a_kernels_switch_has_no_threads():
    with pytest.raises(ValueError, match="threads and receivers need switch: bridge"):
        part("bridge", threads=2)


def test_the_software_bridge_has_no_modes_of_a_kernels_queues():
    with pytest.raises(ValueError, match="the software bridge has no mode mqprio, etf"):
        part("end-station", switch="bridge", modes=["tas", "mqprio", "etf"])
    with pytest.raises(ValueError, match=r"testbeds.nic-pair: its hardware shapes"):
        part("end-station", testbeds={"nic-pair": {"switch": "bridge"}})


def test_it_can_stand_for_the_talkers_own_port():
    """Stream and load come from one host, which nothing but the shaped port holds back."""
    settings = part("end-station", switch="bridge", loads_mbps=[100.0], load_payload_bytes=1460)
    job = on_hosts.job_of(settings, "tas", 1)
    at = {s.name: s.host for s in job.commands()}
    assert at["load"] == at["talker"] == "talker"
    assert at["bridge"] == "port"
    assert not [s for s in job.configure if "tbf" in s.argv]


def test_a_campaign_of_the_software_bridge_needs_nothing_of_the_kernel():
    settings = campaigns.campaign("bridge")
    opened = open_for("shaping", "emulated", settings, "the test suite")
    assert isinstance(opened, LocalJobs)
    assert not opened._qdiscs
    kernels = [part("bridge", testbeds={"emulated": {}})]
    settings = settings.model_copy(
        update={"shaping": settings.shaping.model_copy(update={"parts": kernels})}
    )
    opened = open_for("shaping", "emulated", settings, "the test suite")
    assert "taprio" in opened._qdiscs


@pytest.mark.namespaces
def test_the_software_bridge_holds_gates_and_credit(monkeypatch, tmp_path):
    """Sent at any time of cycles of 10 ms, hardly any frame is beside its window; all are counted.

    Credit of 20 Mb/s never holds back a stream of 1 Mb/s, which overtakes the load.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a lock of its own
    settings = software(
        gates=two_windows(5_000_000, 5_000_000, scheduled=5, others=[0]),
        packets=150,
        interval_us=12_000.0,
        interval_spread_us=10_000.0,
        loads_mbps=[100.0],
        payload_bytes=1460,
    )
    with LocalJobs(purpose="the test suite") as jobs:
        for mode in ("tas", "cbs"):
            measured = measured_on_hosts(jobs, settings.model_copy(update={"modes": [mode]}))
            result, bridge = measured.values["result"], measured.values["bridge"]
            assert (result["sent"], result["received"]) == (150, 150)
            assert bridge["unaccounted"] == 0
            assert measured.values["stalls"]["listener"]["longest_ms"] > 0
            queues = {row["queue"]: row for row in bridge["ports"][-1]["queues"]}
            assert queues[5]["sent"] == 150
            if mode == "tas":
                log = decompress(measured.outputs[LOG])
                gate = Gate.of({"values": measured.values, "trial": ""}, settings.gates, 5)
                assert adherence(gate, log).outside <= 7
                assert result["load_delivered_mbps"] < 0.6 * result["load_offered_mbps"]
            else:
                assert result["load_delivered_mbps"] > 60


@pytest.mark.namespaces
@pytest.mark.parametrize("division", [{"threads": 2}, {"receivers": "each"}])
def test_threads_of_the_software_bridge_hold_the_gates_together(monkeypatch, tmp_path, division):
    """One that receives and one that sends, and one that receives for each port."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a lock of its own
    settings = software(
        modes=["tas"],
        gates=two_windows(5_000_000, 5_000_000, scheduled=5, others=[0]),
        packets=100,
        interval_us=12_000.0,
        interval_spread_us=10_000.0,
        loads_mbps=[100.0],
        payload_bytes=1460,
        **division,
    )
    with LocalJobs(purpose="the test suite") as jobs:
        measured = measured_on_hosts(jobs, settings)
    result, bridge = measured.values["result"], measured.values["bridge"]
    assert (result["sent"], result["received"]) == (100, 100)
    assert bridge["unaccounted"] == 0
    queues = {row["queue"]: row for row in bridge["ports"][-1]["queues"]}
    assert queues[5]["sent"] == 100
    gate = Gate.of({"values": measured.values, "trial": ""}, settings.gates, 5)
    assert adherence(gate, decompress(measured.outputs[LOG])).outside <= 5
    assert result["load_delivered_mbps"] < 0.6 * result["load_offered_mbps"]


def with_bridge(wiring: topology.Wiring) -> topology.Wiring:
    """Put a bridge of the kernel before the listener."""
    last = wiring.links[-1]
    near, far = (LinkEnd("between", name, mtu=last.one.mtu) for name in ("p0", "p1"))
    links = (*wiring.links[:-1], Link(last.one, near), Link(far, last.other))
    return replace(wiring, links=links, bridges=(Bridge("between", ("p0", "p1")),))


@pytest.mark.namespaces
def test_a_trial_with_a_queue_behind_its_shaped_port_is_refused(monkeypatch, tmp_path):
    """A token bucket of half the port's rate is never empty again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a lock of its own
    changes = {"modes": ["prio"], "packets": 150, "interval_us": 2_000.0, "payload_bytes": 1460}
    settings = software(**changes, loads_mbps=[100.0])
    of_veth, job_of = topology.of_veth, on_hosts.job_of
    monkeypatch.setattr(topology, "of_veth", lambda *given: with_bridge(of_veth(*given)))
    bucket = "tc qdisc add dev p1 root tbf rate 50mbit burst 1600 limit 20000"
    queue = Step("queue", "between", tuple(bucket.split()), 5)

    def with_queue(*given):
        job = job_of(*given)
        return replace(job, configure=(*job.configure, queue))

    with LocalJobs(purpose="the test suite") as jobs:
        measured_on_hosts(jobs, settings)
        monkeypatch.setattr(on_hosts, "job_of", with_queue)
        with pytest.raises(ToolError, match=r"Something queues behind the shaped port"):
            measured_on_hosts(jobs, settings)


# --- FRER behind gates --------------------------------------------------------------------------


def behind_frer(**changes):
    values = {"switch": "bridge", "link_rate_mbps": 100.0, "loads_mbps": [100.0]}
    return part("tas-frer", **values | changes)


def test_each_member_path_has_gates_and_a_load_of_its_own():
    job = on_hosts.job_of(behind_frer(), "tas", 1)
    background = {s.name: s.host for s in job.commands() if s.background}
    assert background == {
        **{"bridge": "gate", "bridge1": "gate1", "load": "loader", "load1": "loader1"},
        **{"listener": "listener", "load-listener": "listener", "stallmeter": "listener"},
    }
    ends = {(end.host, end.device): end for end in job.ports()}
    # A full packet has a VLAN tag and an R-TAG between the switches.
    assert {ends[at].mtu for at in (("sw1", "m0"), ("gate1", "p0"), ("sw2", "m1"))} == {1510}


def test_the_bridges_know_the_listener_and_take_frames_with_both_tags():
    text = on_hosts.job_of(behind_frer(), "tas", 1).inputs["/tmp/bridge.settings"].decode()
    lines = text.splitlines()
    # The listener's port is the fourth of the topology.
    assert "address 02:00:00:00:00:04 10 p0" in lines
    assert "longest_bytes 1528" in lines


@pytest.mark.namespaces
def test_the_first_copy_comes_through_gates_on_both_paths(monkeypatch, tmp_path):
    """Every datagram is numbered, copied through two gates and passed once; each copy is told of.

    The gates let the stream out within its windows, and its wait for them is bounded.
    """
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # a lock of its own
    settings = behind_frer(
        modes=["tas"],
        gates=two_windows(5_000_000, 5_000_000, scheduled=5, others=[0]),
        packets=100,
        interval_us=20_000.0,
        interval_spread_us=10_000.0,
    )
    with LocalJobs(purpose="the test suite") as jobs:
        measured = measured_on_hosts(jobs, settings)
    values = measured.values
    assert (values["result"]["sent"], values["result"]["received"]) == (100, 100)
    frer = values["frer"]
    assert frer["numbered"] == frer["recovery"]["passed"] == 100
    assert frer["recovery"]["discarded"] == 100
    assert frer["copies"] == {name: {"sent": 100, "received": 100} for name in ("m0", "m1")}
    assert frer["unaccounted"] == 0
    for name in ("bridge", "bridge1"):
        assert values[name]["unaccounted"] == 0
        queues = {row["queue"]: row for row in values[name]["ports"][-1]["queues"]}
        assert queues[5]["sent"] == 100
        assert queues[0]["sent"] > 1000
    # Half of each line is closed to the load.
    assert values["result"]["load_delivered_mbps"] < 0.6 * values["result"]["load_offered_mbps"]
    log = decompress(measured.outputs[LOG])
    gate = Gate.of({"values": values, "trial": ""}, settings.gates, 5)
    assert adherence(gate, log).outside <= 5
    bound, _ = bound_ns({"factors": trials_of(settings, 1)[0].factors, "values": values})
    assert bound == pytest.approx(5_000_000 + 332 * 80, rel=0.01)
    assert np.median(latency_us(log)) < bound / 1000
