"""Failures, several streams, load trials and mausezahn on the emulated testbed."""

import json
import time
from functools import partial

import pytest

from tsnrepro.common.errors import CommandError
from tsnrepro.config.files import campaign
from tsnrepro.config.frer import LatentSettings
from tsnrepro.experiments.failure import measure as failure
from tsnrepro.experiments.mausezahn import measure as mausezahn
from tsnrepro.experiments.rfc2544 import frame_loss
from tsnrepro.experiments.rfc2544 import measure as experiment
from tsnrepro.experiments.rfc2544.load_trial import Series, SystemUnderTest
from tsnrepro.experiments.rfc2544.plan import plan as plan_rfc2544
from tsnrepro.experiments.rfc2544.settings import FrameLossSettings, Rfc2544Settings
from tsnrepro.experiments.streams import measure as streams
from tsnrepro.experiments.traffic import measure as traffic
from tsnrepro.native.streams import command
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.load import IntendedLoad, RateStep
from tsnrepro.runner.measurement import Measurement
from tsnrepro.tools import iperf3

pytestmark = pytest.mark.namespaces


def measured(testbed, module, **factors) -> Measurement:
    trial = Trial(module.__name__.split(".")[-2], "label", factors, 1)
    found = Measurement()
    module.measure(testbed, trial, found)
    json.dumps(found.values)
    return found


def failing(testbed, scenario, configuration, duration_s=3.0) -> dict:
    return measured(
        testbed,
        failure,
        scenario=scenario,
        configuration=configuration,
        delay_ms=None,
        paths=None,
        payload_bytes=256,
        rate_pps=2000.0,
        duration_s=duration_s,
        loss_percent=20.0,
        duplicate_percent=20.0,
        latent=LatentSettings(period_ms=300, difference=20).model_dump(),
    ).values


def test_a_cut_path_loses_for_control_what_frer_delivers(testbed):
    """Both, one, none, one, both paths: 20 % of the time each."""
    control, frer = (failing(testbed, "cuts", c) for c in ("control", "frer"))
    assert control["result"]["lost"] == pytest.approx(0.6 * 6000, rel=0.05)
    assert control["result"]["longest_gap_ms"] == pytest.approx(1800, rel=0.05)
    # No path lives for 0.6 s, and the numbers after it are beyond the history (1024 < 1200) until
    # the recovery function's reset time passes, which is later than the trial's end.
    assert frer["result"]["lost"] == pytest.approx(0.6 * 6000, rel=0.05)
    assert frer["recovery"]["rogue"] > 0
    times = [fault["from_s"] for fault in frer["faults"]]
    assert times == pytest.approx([0.6, 1.2, 1.8, 2.4], abs=0.2)
    for values in (control, frer):
        assert values["accounting"]["unaccounted"] == 0


@pytest.mark.slow
def test_a_silently_dead_path_is_noticed_and_costs_frer_nothing(testbed):
    frer = failing(testbed, "silent-death", "frer")
    assert frer["result"]["lost"] == frer["accounting"]["drops"]["listener socket buffer"]
    assert frer["alarms"]
    assert 0.9 < frer["alarms"][0]["at_s"] < 0.9 + 3 * 0.3
    assert failing(testbed, "silent-death", "control")["result"]["lost"] > 3600


@pytest.mark.parametrize("configuration", ["control", "frer"])
def test_every_source_of_a_car_is_counted_on_its_own(testbed, configuration):
    sources = [
        {"kind": "camera", "name": "camera", "pictures_per_s": 20, "picture_bytes": 40_000},
        {"kind": "constant", "name": "lidar", "rate_mbps": 10, "payload_bytes": 1248},
        {"kind": "random", "name": "v2x", "count": 2, "rate_pps": 500, "payload_bytes": 256},
    ]
    factors = {"mix": "car", "sources": sources, "receive_buffer_bytes": 8_000_000}
    of = measured(testbed, traffic, configuration=configuration, duration_s=0.5, **factors).values
    camera, lidar, *random = of["streams"]
    assert camera["sent"] == 10 * 28  # 40,000 bytes are 27.2 datagrams
    assert lidar["sent"] == round(0.5 * 10e6 / 8 / 1248)
    for stream in random:  # a Poisson count of mean 250
        assert stream["sent"] == pytest.approx(250, abs=4 * 250**0.5)
    for stream in of["streams"]:
        accounting, copies = stream["accounting"], stream["recovery"]["discarded"]
        assert accounting["unaccounted"] == 0
        assert copies == (stream["sent"] if configuration == "frer" else 0)
        assert stream["unique"] == stream["sent"]
        assert 0 < stream["p50_us"] <= stream["p99_us"] <= stream["max_us"]
    assert camera["pictures"]["whole"] == camera["pictures"]["sent"] == 10


@pytest.mark.slow
def test_the_testbed_is_whole_again_after_a_fault(testbed):
    failing(testbed, "lossy", "control", 1.0)
    after = failing(testbed, "none", "control", 1.0)
    lost_elsewhere = (
        after["result"]["lost"] - after["accounting"]["drops"]["listener socket buffer"]
    )
    assert lost_elsewhere == 0


def test_streams_keep_their_own_numbers(testbed):
    values = measured(
        testbed,
        streams,
        streams=3,
        best_effort_mbps=5.0,
        payload_bytes=200,
        rate_pps=300.0,
        duration_s=1.0,
    ).values
    assert values["result"]["own_sequences"]
    assert values["result"]["sent"] == 900


@pytest.mark.parametrize("port", [{}, {"port": 5000}])
def test_mausezahn_is_the_limit_and_a_deadline_is_a_timeout(testbed, port):
    values = measured(
        testbed,
        mausezahn,
        configuration="frer",
        frame_bytes=512,
        load_percent=100.0,
        duration_s=1,
        deadline_s=2,
        **port,
    ).values["result"]
    assert values["limited_by"] == "generator"
    assert values["timed_out"]
    assert 0 < values["achieved_pps"] < 0.5 * values["target_pps"]
    assert values["lost_in_network"] == 0


def test_a_load_trial_counts_what_left_and_what_came(testbed):
    found = Measurement()
    requests = backend(testbed, Trial("rfc2544", "label", {"configuration": "frer"}, 1), found)
    outcome = experiment.load_trial(requests, IntendedLoad("frer", 200, 2000.0, 1.0))
    assert outcome.sent == 2000
    assert 0 <= outcome.received_unique <= 2000
    assert outcome.sending_s == pytest.approx(1.0, rel=0.2)
    assert outcome.accounting["unaccounted"] == 0
    burst = experiment.load_trial(requests, IntendedLoad("frer", 200, 50_000.0, 0.001, burst=50))
    assert burst.sent == 50
    assert len(found.commands) == 4, "a talker and a listener each"


def test_a_search_of_the_documents_is_made_by_iperf3(testbed):
    """From the line rate in trials of a second; the record keeps every one of them."""
    part = {"frames_bytes": [], "payloads_bytes": [512], "methods": ["binary-search"]}
    search = {"generator": "iperf3", "from_line_rate": True, "steps": 3, "duration_s": 1}
    settings = Rfc2544Settings(throughput={**part, "binary_search": search})
    (planned,) = [
        item
        for item in plan_rfc2544(settings, 1, "emulated")
        if item.trial.factors["configuration"] == "frer"
    ]
    found = Measurement()
    experiment.measure(testbed, planned.trial, found)
    trials = found.values["trials"]
    line = found.values["results"]["binary_search"]["line_pps"]
    assert [trial["purpose"] for trial in trials] == ["search"] * 3
    assert trials[0]["rate_pps"] == pytest.approx(line / 2)
    for number, trial in enumerate(trials, 1):
        prefix = "" if number == 1 else f"run-{number:03d}-"
        report = iperf3.parse_udp(found.outputs[f"{prefix}iperf3.json"])
        assert (report.payload_bytes, report.sent) == (512, trial["offered"])
        assert trial["received"] >= report.received
        assert f"{prefix}counters-after.json.gz" in found.outputs
        assert trial["accounting"]["unaccounted"] == 0
    assert [command["argv"][0] for command in found.commands] == ["iperf3"] * 3
    lower = found.values["results"]["binary_search"]["lower_pps"]
    assert lower is None or lower <= max(trial["achieved_pps"] for trial in trials)
    assert found.values["search_s"] > found.values["sending_s"] > 2.5


@pytest.mark.slow
def test_a_load_trial_with_the_waits_of_rfc_2544_tells_when_its_rate_fell(testbed):
    trial = Trial("rfc2544", "label", {"configuration": "control"}, 1)
    load = IntendedLoad(*("control", 200, 2000.0, 0.5), then=RateStep(500.0, 0.5), full_waits=True)
    outcome = experiment.load_trial(backend(testbed, trial, Measurement()), load)
    assert outcome.sent == 1250
    assert 0.45 < outcome.step_s(load) < 1
    # 2 s after learning frames, sending, 2 s for late frames and 5 s of rest.
    assert outcome.elapsed_s > 2 + 0.9 + 2 + 5


def test_the_campaign_measures_rfc2544(testbed):
    settings = campaign("quick")
    (planned,) = [
        p
        for p in plan_rfc2544(settings.rfc2544, settings.seed, "emulated")
        if p.trial.label == "one-way-idle-frer-frame1518" and p.trial.repetition == 1
    ]
    found = Measurement()
    experiment.measure(testbed, planned.trial, found)
    one_way = found.values["latencies"]["one_way"]
    assert one_way["samples"] > 900
    assert 0 < one_way["p50_us"] < 10_000


@pytest.mark.slow
def test_a_one_way_latency_trial_makes_the_waits_that_are_asked_for(testbed):
    settings = campaign("quick").rfc2544.model_copy(update={"rfc2544_waits": True})
    (planned,) = [
        p
        for p in plan_rfc2544(settings, 1, "emulated")
        if p.trial.label == "one-way-idle-frer-frame1518"
    ]
    found, began = Measurement(), time.monotonic()
    experiment.measure(testbed, planned.trial, found)
    # 2 s after learning frames, a second of sending, 2 s for late frames and 5 s of rest.
    assert time.monotonic() - began > 2 + 1 + 2 + 5
    assert found.values["latencies"]["one_way"]["samples"] > 900
    assert not any("RFC 2544, 23" in reason for reason in found.values["reasons"])


WHATEVER_COMES = IntendedLoad("control", 200, 2000.0, 0.2)


def listening(testbed) -> str:
    sockets = ["ss", "-H", "-n", "-l", "-u", "sport", "=", ":5202"]
    return testbed.hosts["listener"].run(sockets, deadline_s=5).check().stdout


def test_a_listener_that_fails_says_why(testbed, monkeypatch):
    """What it printed until then looks like a report."""
    failing = 'trap : TERM; "$@"; echo "no room for the log" >&2; exit 3'

    def listener(*words, **options):
        return ["sh", "-c", failing, "sh", *command.listener(*words, **options)]

    monkeypatch.setattr("tsnrepro.runner.backends.hosts.listener", listener)
    found = Measurement()
    requests = backend(testbed, Trial("rfc2544", "label", {"configuration": "control"}, 1), found)
    with pytest.raises(CommandError, match="exit status 3: no room for the log"):
        requests.constant_rate([WHATEVER_COMES], arrivals=True)
    assert found.outputs["run-001-listener.stderr.txt"] == "no room for the log\n"
    assert '"received"' in found.outputs["run-001-listener.json"]
    left = testbed.hosts["listener"].run(["ls", "/run"], deadline_s=5).check().stdout
    assert "arrivals" not in left
    assert listening(testbed) == ""


def test_a_listener_does_not_outlive_a_trial_that_cannot_settle(testbed, monkeypatch):
    def refuse(*_):
        raise CommandError("no answer", "sw2")

    requests = backend(testbed, Trial("rfc2544", "label", {}, 1), Measurement())
    with monkeypatch.context() as broken:
        broken.setattr("tsnrepro.runner.backends.hosts.settle", refuse)
        with pytest.raises(CommandError, match="no answer"):
            requests.constant_rate([WHATEVER_COMES])
    assert listening(testbed) == ""
    (outcome,) = requests.constant_rate([WHATEVER_COMES])
    assert outcome.sent == 400


@pytest.mark.parametrize("configuration", ["control", "frer"])
def test_the_talker_fills_slow_links_with_the_smallest_frames(bring_up, configuration):
    """A machine that stands still for a moment may cost one of the trials its rate."""
    rate = 10
    testbed = bring_up(link_rate_mbps=rate)
    label = Trial("rfc2544", "label", {"configuration": configuration}, 1)
    settings = FrameLossSettings(
        frames_bytes=[64], duration_s=0.2, step_percent=None, loads_percent=[100]
    )
    points = []
    for _ in range(3):
        requests = backend(testbed, label, Measurement())
        assert requests.link_rate_mbps == rate
        sut = SystemUnderTest(configuration, 18, requests.link_rate_mbps)
        series = Series(partial(experiment.load_trial, requests), sut, full_waits=False)
        points += frame_loss.at_loads(series, settings).points
        if not points[-1].generator_limited:
            break
    assert not points[-1].generator_limited, points
    assert points[-1].offered_wire_mbps == pytest.approx(rate, rel=0.1)
