"""Every experiment on the model testbed, against what is known in closed form."""

import io
import json
from contextlib import nullcontext

import numpy as np
import pytest

from tsnrepro.common.ethernet import payload_limit_mbps, tcp_limit_mbps
from tsnrepro.config.files import campaign
from tsnrepro.config.frer import LatentSettings
from tsnrepro.experiments.failure import measure as failure
from tsnrepro.experiments.latency import measure as latency
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.mausezahn import measure as mausezahn
from tsnrepro.experiments.rfc2544 import measure as rfc2544
from tsnrepro.experiments.rfc2544.analysis import latency_table
from tsnrepro.experiments.rfc2544.plan import plan as plan_rfc2544
from tsnrepro.experiments.rfc2544.settings import (
    Rfc2544Settings,
    RfcLatencySettings,
    ThroughputSettings,
)
from tsnrepro.experiments.streams import measure as streams
from tsnrepro.experiments.tcp import measure as tcp
from tsnrepro.experiments.traffic.measure import IntendedLoad
from tsnrepro.native.streams.log import decompress
from tsnrepro.records.store import ARRIVALS, HALF_ROUND_TRIPS, RawStore, Trial
from tsnrepro.runner.backends import backend
from tsnrepro.runner.backends.model import faulty_route
from tsnrepro.runner.design import Planned
from tsnrepro.runner.faults import Fault, Timeline
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.run import run_trials
from tsnrepro.runner.testbed import open_testbed
from tsnrepro.testbeds.model import spread

BOTH = pytest.mark.parametrize("configuration", ["frer", "control"])


@pytest.fixture(scope="module")
def model():
    """The model without what is uncertain of hosts: no stalls."""
    return open_testbed("model", campaign("smoke"), "test", stalls=None)


def measured(model, module, repetition=1, **factors) -> Measurement:
    trial = Trial(module.__name__.split(".")[-2], "label", factors, repetition)
    found = Measurement()
    module.measure(model, trial, found)
    json.dumps(found.values)  # what a record takes
    return found


@BOTH
def test_a_load_below_every_limit_loses_nothing(model, configuration):
    factors = {"configuration": configuration, "payload_bytes": 1472, "duration_s": 1}
    values = measured(model, loss, rate_mbps=300.0, **factors).values
    result, accounting = values["result"], values["accounting"]
    assert result["sent"] == pytest.approx(300e6 / 8 / 1472, rel=0.01)
    assert result["lost"] == 0
    assert accounting["unaccounted"] == 0
    assert accounting["copies"] == (result["sent"] if configuration == "frer" else 0)
    assert accounting["eliminated"] == accounting["copies"]


@BOTH
@pytest.mark.parametrize("payload", [18, 1472, 1518])
def test_beyond_the_line_every_datagram_is_accounted_for(model, configuration, payload):
    factors = {"configuration": configuration, "payload_bytes": payload, "duration_s": 1}
    values = measured(model, loss, rate_mbps=960.0, **factors).values
    assert values["accounting"]["unaccounted"] == 0
    limit = payload_limit_mbps(payload, tagged=configuration == "frer")
    assert values["result"]["delivered_mbps"] <= limit * 1.01


@pytest.fixture(scope="module")
def eliminating():
    """The same where the listener eliminates."""
    return open_testbed("model", campaign("smoke"), "test", stalls=None, elimination="listener")


LAST_QUEUE = "sw2 queue p0"


def test_a_listener_eliminates_every_copy_that_its_link_carries(eliminating):
    factors = {"configuration": "frer", "payload_bytes": 1472, "duration_s": 1}
    values = measured(eliminating, loss, rate_mbps=470.0, **factors).values
    sent, accounting = values["result"]["sent"], values["accounting"]
    assert (values["result"]["lost"], accounting["unaccounted"]) == (0, 0)
    assert accounting["copies"] == accounting["eliminated"] == sent
    assert not any(accounting["drops"].values())


def test_a_link_that_cannot_carry_all_copies_drops_frames_before_datagrams(eliminating):
    """Copies come in pairs, and a full queue always has room for one of them again."""
    factors = {"configuration": "frer", "payload_bytes": 1472, "duration_s": 2}
    values = measured(eliminating, loss, rate_mbps=540.0, **factors).values
    result, accounting = values["result"], values["accounting"]
    assert (result["lost"], accounting["unaccounted"]) == (0, 0)
    dropped = accounting["drops"][LAST_QUEUE]
    assert accounting["copies"] - accounting["eliminated"] == dropped
    # By bits: the line carries 476.7 of 540 Mb/s twice. The queue keeps 172 frames of the rest.
    excess = (1 - 476.684 / 540) * 2 * result["sent"]
    assert dropped == pytest.approx(excess - 172, rel=0.01)


def test_copies_that_come_apart_may_both_be_dropped():
    late = {"stalls": None, "elimination": "listener", "delay_us": [0.0, 1000.0]}
    testbed = open_testbed("model", campaign("smoke"), "test", **late)
    factors = {"configuration": "frer", "payload_bytes": 1472, "duration_s": 1}
    values = measured(testbed, loss, rate_mbps=900.0, generator="talker", **factors).values
    assert values["result"]["lost"] > 0
    assert values["accounting"]["unaccounted"] == 0
    assert values["accounting"]["network_lost"] == values["result"]["lost"]


def test_a_listener_that_eliminates_does_not_forget_when_a_switch_restarts(eliminating, model):
    restart = Timeline((Fault(0.5, "restart", switch="sw2"),))
    forgets = faulty_route(model.route("frer"), restart).faults.recovery_restarts_ns
    keeps = faulty_route(eliminating.route("frer"), restart).faults.recovery_restarts_ns
    assert (forgets, keeps) == ([500_000_000], [])


@BOTH
def test_answers_come_back_from_a_listener_that_eliminates(eliminating, model, configuration):
    factors = {"configuration": configuration, "payload_bytes": 1472, "duration_s": 1}
    here, there = (
        np.median(np.load(io.BytesIO(measured(of, latency, **factors).outputs[HALF_ROUND_TRIPS])))
        for of in (eliminating, model)
    )
    # The tag is on one link more, 48 ns at 1 Gb/s, of which half a round trip has a half.
    tag_ps = 24_000 if configuration == "frer" else 0
    assert here - there == pytest.approx(tag_ps, abs=1000)


@BOTH
def test_tcp_reaches_the_line(model, configuration):
    values = measured(model, tcp, configuration=configuration, duration_s=2).values
    limit = tcp_limit_mbps(tagged=configuration == "frer")
    assert values["result"]["goodput_mbps"] == pytest.approx(limit, rel=0.02)
    assert values["result"]["goodput_mbps"] <= limit


@BOTH
def test_half_a_round_trip_is_the_sum_of_its_parts(model, configuration):
    found = measured(model, latency, configuration=configuration, payload_bytes=1472, duration_s=1)
    parameters, result = found.values["parameters"], found.values["result"]
    plain, tagged = (1518 + 20) * 8 / 1000, (1524 + 20) * 8 / 1000
    member = tagged if configuration == "frer" else plain
    # Write, three links store and forward, two switches, network stack, and reading. The last
    # link's preamble and gap are no part of a frame's arrival; nor are cables of 25 ns much.
    expected = parameters["send_us"] + 2 * plain + member + 2 * parameters["switch_us"]
    expected += parameters["stack_us"] + parameters["receive_us"]
    assert result["mean_us"] == pytest.approx(expected, abs=0.6)
    assert HALF_ROUND_TRIPS in found.outputs


def failing(model, scenario, configuration, **changed) -> Measurement:
    factors = {
        "scenario": scenario,
        "configuration": configuration,
        "delay_ms": None,
        "paths": None,
        "payload_bytes": 256,
        "rate_pps": 2000.0,
        "duration_s": 6.0,
        "loss_percent": 10.0,
        "duplicate_percent": 10.0,
        "latent": LatentSettings(period_ms=500).model_dump(),
    }
    return measured(model, failure, **(factors | changed))


def test_a_cut_of_the_only_path_loses_what_was_sent_meanwhile(model):
    result = failing(model, "cuts", "control").values["result"]
    # Path 0 is cut from 1.2 to 4.8 s.
    assert result["lost"] == pytest.approx(3.6 * 2000, abs=2)
    assert result["longest_gap_ms"] == pytest.approx(3600, abs=2)


def test_frer_loses_while_no_path_lives_and_until_recovery_takes_any(model):
    found = failing(model, "cuts", "frer").values
    result = found["result"]
    # No path lives from 2.4 to 3.6 s; the numbers after it are beyond the history of 512, so the
    # recovery function calls them rogue until its reset time of 2 s has passed without a frame.
    assert result["lost"] == pytest.approx(2.0 * 2000, abs=3)
    assert result["longest_gap_ms"] == pytest.approx(2000, abs=2)
    assert found["recovery"]["resets"] >= 1


@pytest.mark.parametrize(
    ("configuration", "during", "silence_ms"), [("frer", 1, 1), ("control", 0, 2000)]
)
def test_one_path_carries_the_whole_rate_while_the_other_is_cut(
    model, configuration, during, silence_ms
):
    result = failing(model, "failover", configuration).values["result"]
    # Full copies take both paths, so the surviving one has the whole rate and not half of it.
    assert result["during_mbps"] / result["before_mbps"] == pytest.approx(during, abs=0.01)
    assert result["after_mbps"] == pytest.approx(result["before_mbps"], rel=0.01)
    assert result["recovery_ms"] == pytest.approx(silence_ms, abs=2)
    as_long = {"frer": 100, "control": 0}[configuration]
    assert result["as_long_windows_percent"] == pytest.approx(as_long)


@pytest.mark.parametrize("scenario", ["silent-death", "lossy", "duplicating", "restart-sw2"])
def test_frer_hides_what_befalls_one_path(model, scenario):
    result = failing(model, scenario, "frer").values["result"]
    assert (result["lost"], result["duplicated"]) == (0, 0)


@pytest.mark.parametrize("scenario", ["silent-death", "lossy", "duplicating"])
def test_a_latent_error_is_reported_by_frer_alone(model, scenario):
    found = failing(model, scenario, "frer").values
    began = next(fault["at_s"] for fault in found["faults"])
    assert found["alarms"]
    assert began < found["alarms"][0]["at_s"] <= began + 2 * 0.5
    assert not failing(model, scenario, "control").values["alarms"]


def test_no_alarm_where_nothing_fails(model):
    assert not failing(model, "none", "frer").values["alarms"]


def test_a_stuck_generator_repeats_one_number(model):
    result = failing(model, "stuck-generator", "frer").values["result"]
    # From 2.4 to 3.6 s all frames have one number, of which recovery lets one through.
    assert result["lost"] == pytest.approx(1.2 * 2000 - 1, abs=2)


def test_a_lossy_path_loses_its_share(model):
    result = failing(model, "lossy", "control", duration_s=20.0).values["result"]
    assert result["lost"] / (0.9 * result["sent"]) == pytest.approx(0.1, abs=0.01)


def test_arrivals_are_kept_and_their_delays_are_those_of_the_paths(model):
    slow = open_testbed("model", campaign("smoke"), "test", stalls=None, delay_us=[0.0, 5000.0])
    found = failing(slow, "delay", "frer", delay_ms=5.0)
    arrivals = decompress(found.outputs[ARRIVALS])
    assert len(arrivals) == found.values["result"]["unique"]
    delay_us = (arrivals["stamped_ns"] - arrivals["sent_ns"]) / 1e3
    assert delay_us.max() < 100, "the faster path's copy wins"
    turned = open_testbed("model", campaign("smoke"), "test", stalls=None, delay_us=[5000.0])
    arrivals = decompress(failing(turned, "delay", "control").outputs[ARRIVALS])
    assert np.median((arrivals["stamped_ns"] - arrivals["sent_ns"]) / 1e3) > 5000


@pytest.mark.parametrize("count", [1, 5])
def test_streams_have_their_own_sequences(model, count):
    values = measured(
        model,
        streams,
        streams=count,
        best_effort_mbps=20.0,
        payload_bytes=200,
        rate_pps=500.0,
        duration_s=1.0,
    ).values
    assert values["result"]["own_sequences"]
    assert values["result"]["passed"] == values["result"]["sent"] == count * 500
    assert values["streams"][-1]["recovery"] is None


@pytest.mark.parametrize(
    ("load_percent", "limit"), [(0.01, "nothing"), (50.0, "generator"), (100.0, "generator")]
)
def test_the_sleeping_generator_is_told_from_the_network(model, load_percent, limit):
    values = measured(
        model,
        mausezahn,
        configuration="control",
        frame_bytes=1518,
        load_percent=load_percent,
        duration_s=2,
        deadline_s=3,
    ).values
    assert values["result"]["limited_by"] == limit
    assert values["result"]["timed_out"] == (load_percent > 1)
    assert values["result"]["lost_in_network"] == 0


def test_trials_of_one_repetition_share_the_uncertain_parameters():
    testbed = open_testbed("model", campaign("smoke"), "test")
    assert testbed.parameters(1) == testbed.parameters(1)
    assert testbed.parameters(1) != testbed.parameters(2)
    low, high = testbed.settings.talker.send_us.low, testbed.settings.talker.send_us.high
    values = [testbed.parameters(n).send_us for n in range(1, 9)]
    assert all(low <= value <= high for value in values)
    assert max(values) / min(values) > (high / low) ** 0.5, "they span the range"


@pytest.mark.parametrize("count", [4, 32, 200])
def test_repetitions_fill_each_range_evenly(count):
    points = np.array(
        [[x for x, _ in zip(spread(1, n, 6), range(6), strict=False)] for n in range(1, count + 1)]
    )
    assert ((points >= 0) & (points < 1)).all()
    largest_gap = max(np.diff(np.sort(column)).max() for column in points.T)
    assert largest_gap < 4 / count + 0.5 / count**0.5, "random points leave larger gaps"


def test_the_same_trial_gives_the_same_record():
    testbed = open_testbed("model", campaign("smoke"), "test")
    factors = {"configuration": "frer", "payload_bytes": 1472, "duration_s": 1}
    first, second = (measured(testbed, loss, rate_mbps=700.0, **factors) for _ in range(2))
    assert first.values == second.values
    assert first.outputs == second.outputs


@pytest.mark.parametrize(
    ("method", "quantities"),
    [("round-trip-throughput", {"half_round_trip", "round_trip"}),
     ("one-way-throughput", {"one_way"})],
)  # fmt: skip
def test_latency_at_a_throughput_that_was_not_found_is_recorded_with_its_reason(
    model, tmp_path, method, quantities
):
    settings = Rfc2544Settings(throughput=ThroughputSettings(), latency=RfcLatencySettings())
    planned = plan_rfc2544(settings, 1, "model")
    trial = next(item.trial for item in planned if item.trial.factors["method"] == method)
    store = RawStore(tmp_path, "model", "test", "rfc2544")
    item = Planned(trial, 1, 1.0)
    run_trials(store, [item], 1, lambda: nullcontext(model), rfc2544.measure)
    (document,) = store.documents()
    assert document["status"] == "measured"
    assert document["values"]["latencies"] == dict.fromkeys(quantities)
    assert document["values"]["case"]["background_pps"] is None
    table = latency_table([document])
    assert set(table["quantity"]) == quantities
    assert table["mean_us"].isna().all()
    assert not table["compliant"].any()
    assert table["reasons"].str.startswith("no throughput was found for this").all()


@BOTH
def test_no_more_is_offered_than_the_talkers_line_carries(model, configuration):
    line_pps = payload_limit_mbps(1472) * 1e6 / (8 * 1472)
    trial = Trial("rfc2544", "label", {"configuration": configuration}, 1)
    load = IntendedLoad(configuration, 1472, 1.1 * line_pps, 0.2)
    (outcome,) = backend(model, trial, Measurement()).constant_rate([load])
    assert outcome.sent == load.datagrams
    assert outcome.offered_pps == pytest.approx(line_pps)


@BOTH
def test_a_search_as_iperf3_sends_ends_at_the_line(model, configuration):
    part = {"frames_bytes": [], "payloads_bytes": [1472], "methods": ["binary-search"]}
    search = {"generator": "iperf3", "from_line_rate": True, "duration_s": 1, "resolution_mbps": 1}
    settings = Rfc2544Settings(
        throughput=part | {"configurations": [configuration], "binary_search": search}
    )
    (item,) = plan_rfc2544(settings, 1, "model")
    found = Measurement()
    rfc2544.measure(model, item.trial, found)
    result, trials = found.values["results"]["binary_search"], found.values["trials"]
    assert {trial["purpose"] for trial in trials} == {"search"}
    # Without stalls nothing but the line holds it, the member paths' with the R-TAG.
    limit = payload_limit_mbps(1472, tagged=configuration == "frer")
    assert result["limited_by"] == "line"
    # In a second a queue takes in what its link does not carry.
    held = model.settings.queue_bytes * 8e-6
    assert limit - 2.0 <= result["offered"]["payload_mbps"] <= limit + held
    above = result["upper_pps"] or result["ceiling_pps"]
    assert (above - result["lower_pps"]) * 1472 * 8e-6 <= 2.0
