"""How the listener reads, as a factor of the loss experiment: plans, hosts, model."""

import json
import os

import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config.testbeds import load_testbed
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.experiments.loss.settings import LossSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.backends.receiver_options import (
    ReceiverOptions,
    check_window,
    receiver_options,
)
from tsnrepro.runner.design import StallLimits
from tsnrepro.runner.load import OF_TESTBED, HostOptions
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.run import _measure_metered
from tsnrepro.testbeds.choose import unsupported_trial_reason
from tsnrepro.testbeds.emulated.testbed import LISTENER
from tsnrepro.testbeds.model import ModelTestbed

PART = {
    "objective": "intervention",
    "payload_bytes": 1472,
    "rates_mbps": [100.0, 900.0],
    "duration_s": 0.5,
    "generator": "talker",
}
BUFFER_BYTES = 3_000_000
KINDS = ("model", "guest")


def planned(*parts, repetitions=2):
    settings = {"repetitions": repetitions, "parts": [PART | part for part in parts]}
    return plan_loss(LossSettings.model_validate(settings), 1, "emulated")


def test_every_reader_meets_every_load_and_configuration():
    readers = {
        "receive_buffers_bytes": [None, BUFFER_BYTES],
        "listener_sched_fifo": [False, True],
    }
    trials = [item.trial for item in planned(readers)]
    assert len(trials) == 2 * 2 * 2 * 2 * 2
    assert len({(trial.label, trial.repetition) for trial in trials}) == len(trials)
    assert len({(trial.digest, trial.repetition) for trial in trials}) == len(trials)
    readers = {
        (trial.factors["receive_buffer_bytes"], trial.factors["realtime_listener"])
        for trial in trials
    }
    assert readers == {(None, False), (None, True), (BUFFER_BYTES, False), (BUFFER_BYTES, True)}


def test_a_question_may_allow_shorter_stalls_than_the_campaign():
    narrow = {"objective": "bottleneck", "member_link_rate_mbps": 500, "max_stall_ms": 12}
    for item in planned({}, narrow):
        own = item.trial.factors["question"] == "bottleneck"
        assert item.stall_limits == StallLimits(12 if own else None)


def test_parts_have_repetitions_and_links_of_their_own_in_blocks():
    slow = {"objective": "bottleneck", "member_link_rate_mbps": 500}
    items = planned({"repetitions": 3}, slow)
    assert [item.order for item in items] == [*range(len(items))]
    blocks = [(item.trial.repetition, item.testbed) for item in items]
    # Four trials of a part in a repetition; a testbed with other links is brought up once.
    expected = [(1, {})] * 4 + [(2, {})] * 4 + [(3, {})] * 4
    expected += [(r, {"member_link_rate_mbps": 500}) for r in (1, 2) for _ in range(4)]
    assert blocks == expected


def test_a_part_may_have_links_that_its_machines_can_fill():
    (item, *_) = planned({"objective": "limit", "link_rate_mbps": 500})
    assert item.testbed == {"link_rate_mbps": 500}
    assert item.trial.factors["link_rate_mbps"] == 500
    with pytest.raises(ValueError, match="not for sweep"):
        planned({"objective": "sweep", "link_rate_mbps": 500})


def test_elimination_at_the_listener_is_a_question_for_testbeds_that_can_place_it():
    (item, *_) = planned({"objective": "elimination", "link_rate_mbps": 500})
    assert item.testbed == {"elimination": "listener", "link_rate_mbps": 500}
    settings = {kind: load_testbed(root() / f"config/testbeds/{kind}.yaml") for kind in KINDS}
    assert not unsupported_trial_reason(item.testbed, (), settings["model"])
    refused = unsupported_trial_reason(item.testbed, (), settings["guest"])
    assert refused == "a testbed of kind guest has no setting link_rate_mbps and elimination"


PATHS = {"objective": "paths", "paths": [2, 3], "member_link_rate_mbps": 200}


def test_frer_is_tried_over_each_number_of_member_paths_and_control_once():
    items = planned(PATHS, repetitions=1)
    tried = {(item.trial.factors["configuration"], item.trial.factors["paths"]) for item in items}
    assert tried == {("control", 2), ("frer", 2), ("frer", 3)}
    # Two loads of each; what needs the same testbed comes together.
    assert [item.testbed["paths"] for item in items] == [2] * 4 + [3] * 2
    assert all(item.testbed["member_link_rate_mbps"] == 200 for item in items)
    assert {item.trial.label for item in items if item.trial.factors["paths"] == 3} == {
        "paths-frer-1472B-100M-3paths",
        "paths-frer-1472B-900M-3paths",
    }


def test_other_questions_have_no_number_of_paths():
    assert not [item for item in planned({}) if "paths" in item.trial.factors or item.testbed]


@pytest.mark.parametrize("kind", ["emulated", "model"])
def test_numbers_of_paths_are_for_testbeds_that_can_be_cabled(kind):
    settings = load_testbed(root() / f"config/testbeds/{kind}.yaml")
    assert not unsupported_trial_reason(planned(PATHS)[0].testbed, (), settings)


def test_a_rack_leaves_numbers_of_paths_out():
    rack = load_testbed(root() / "config/testbeds/d10-example.yaml")
    (item, *_) = planned(PATHS | {"member_link_rate_mbps": None})
    refused = unsupported_trial_reason(item.testbed, (), rack)
    assert refused == "a rack's paths cannot be changed"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"paths": None}, r"paths and the objective paths need each other, .* \[2, 3\]"),
        ({"objective": "bottleneck"}, "paths and the objective paths need each other"),
        ({"paths": [3]}, "at least 2 items"),
        ({"paths": [3, 3]}, "items 0 and 1 are the same"),
        ({"paths": [2, 9]}, "less than or equal to 8"),
        (
            {"max_repetitions": 5, "ratio_precision_percent": 1.0},
            "max_repetitions is for the objectives limit, bottleneck, not for paths",
        ),
    ],
)
def test_numbers_of_paths_that_contradict_the_part_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        planned(PATHS | changes)


def test_all_parts_compare_the_same_numbers_of_paths():
    other = PATHS | {"paths": [2, 4], "rates_mbps": [50.0]}
    with pytest.raises(
        ValueError, match=r"all parts of the objective paths need the same .* paths,"
    ):
        planned(PATHS, other)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"generator": "iperf3", "duration_s": 1.0, "send_buffer_bytes": 4_000_000},
            "send_buffer_bytes needs generator: talker",
        ),
        (
            {"objective": "limit", "listener_sched_fifo": [False, True]},
            "several receive_buffers_bytes or listener_sched_fifo",
        ),
    ],
)
def test_parts_that_cannot_be_asked_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        planned(changes)


def test_one_question_is_asked_in_one_way():
    with pytest.raises(
        ValueError, match="all parts of the objective intervention need the same generator"
    ):
        planned({}, {"payload_bytes": 18, "duration_s": 1.0, "generator": "iperf3"})


def measured(testbed, **factors) -> Measurement:
    factors = {"configuration": "frer", "payload_bytes": 200, "rate_mbps": 2.0} | factors
    found = Measurement()
    trial = Trial("loss", "label", factors | {"duration_s": 1}, 1)
    _measure_metered(loss.measure, testbed, trial, found)
    return found


@pytest.mark.namespaces
def test_our_listener_reads_as_asked(testbed):
    found = measured(
        testbed, generator="talker", receive_buffer_bytes=BUFFER_BYTES, realtime_listener=True
    )
    result, accounting = found.values["result"], found.values["accounting"]
    assert result["sent"] == pytest.approx(2e6 / 8 / 200, rel=0.01)
    assert (result["lost"], accounting["unaccounted"], accounting["network_lost"]) == (0, 0, 0)
    assert result["offered_mbps"] == pytest.approx(2.0, rel=0.02)
    report = json.loads(found.outputs["run-001-listener.json"])
    assert report["streams"][0]["buffer_bytes"] == BUFFER_BYTES
    assert report["realtime_priority"] == 1


@pytest.mark.namespaces
def test_every_trial_says_how_steady_its_machine_was(testbed):
    found = measured(testbed, generator="talker")
    stalls = found.values["stalls"][LISTENER]
    assert {int(number) for number in stalls["processors"]} == os.sched_getaffinity(0)
    assert stalls["longest_ms"] > 0
    assert stalls["cost"] < 0.01
    assert stalls["seconds"] > 1
    assert f"stalls-{LISTENER}.json" in found.outputs


@pytest.mark.namespaces
def test_iperf3_reads_as_asked(testbed):
    found = measured(testbed, receive_buffer_bytes=200_000, realtime_listener=True)
    document = json.loads(found.outputs["iperf3.json"])
    assert document["server_output_json"]["start"]["rcvbuf_actual"] == 200_000
    assert found.values["result"]["lost"] == 0


@pytest.mark.namespaces
def test_a_buffer_that_iperf3_cannot_have_is_refused(testbed):
    shown = testbed.hosts[LISTENER].run(["sysctl", "-n", "net.core.rmem_max"], deadline_s=5)
    most = int(shown.check().stdout)
    check_window(testbed, min(most, 100_000))
    with pytest.raises(TestbedError, match=r"net.core.rmem_max is \d+") as error:
        measured(testbed, receive_buffer_bytes=2 * most + 2)
    assert "generator: talker" in error.value.remedy


@pytest.mark.namespaces
def test_the_testbeds_settings_hold_where_a_trial_says_nothing(bring_up):
    testbed = bring_up(receive_buffer_bytes=BUFFER_BYTES, listener_sched_fifo=True)
    own = ReceiverOptions(BUFFER_BYTES, realtime=True)
    assert receiver_options(testbed, OF_TESTBED) == own
    changed = HostOptions(receive_buffer_bytes=1_000_000, realtime_listener=False)
    assert receiver_options(testbed, changed) == ReceiverOptions(1_000_000, realtime=False)


@pytest.mark.namespaces
def test_a_switch_drops_what_is_too_much_only_where_the_talker_can_send_on(bring_up):
    """Sockets of namespaces are charged until a datagram leaves the last queue of the machine."""
    slow = bring_up(member_link_rate_mbps=20)
    load = {"payload_bytes": 1472, "rate_mbps": 30.0, "generator": "talker"}
    held_up = measured(slow, **load).values
    assert held_up["accounting"]["network_lost"] == 0
    assert held_up["result"]["offered_mbps"] < 25
    found = measured(slow, **load, send_buffer_bytes=4_000_000).values
    sent, seconds = (found["result"][name] for name in ("sent", "send_seconds"))
    # A tagged frame's link of 20 Mb/s carries 19.07, and its queue and bucket 326 kB once. On a
    # busy machine the talker takes longer than a second.
    carried = seconds * 19.07e6 / 8 / 1472 + (262_144 + 64_000) / 1524
    assert found["accounting"]["network_lost"] == pytest.approx(sent - carried, abs=0.02 * sent)
    assert found["accounting"]["host_lost"] == found["accounting"]["unaccounted"] == 0
    assert found["result"]["offered_mbps"] > 25


@pytest.mark.namespaces
def test_over_three_paths_three_copies_come_and_two_are_eliminated(bring_up):
    found = measured(bring_up(paths=3), generator="talker", receive_buffer_bytes=BUFFER_BYTES)
    result, accounting = found.values["result"], found.values["accounting"]
    sent = result["sent"]
    assert (result["lost"], result["received"], accounting["unaccounted"]) == (0, sent, 0)
    assert accounting["copies"] == accounting["eliminated"] == 2 * sent
    assert not any(accounting["drops"].values())


@pytest.mark.namespaces
def test_over_three_full_paths_every_copy_is_accounted_for(bring_up):
    narrow = bring_up(paths=3, member_link_rate_mbps=20)
    load = {"payload_bytes": 1472, "rate_mbps": 30.0, "generator": "talker"}
    found = measured(narrow, **load, send_buffer_bytes=4_000_000).values
    accounting = found["accounting"]
    dropped = [accounting["drops"][f"sw1 queue m{path}"] for path in range(3)]
    assert min(dropped) > 0
    # A copy counts where it was made, whether or not its queue had room for it.
    assert accounting["copies"] == 2 * found["result"]["sent"]
    assert accounting["network_lost"] == found["result"]["lost"] > 0
    assert (accounting["host_lost"], accounting["unaccounted"]) == (0, 0)


# --- the model ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stalled_model():
    """A listener that stands still for 10 ms, some twenty times a second."""
    from tsnrepro.config import ModelSettings  # noqa: PLC0415

    settings = {
        "forwarding_delay_us": 1.0,
        "talker": {"send_us": 1.0},
        "listener": {"receive_us": 1.0, "stack_us": 0.5},
        "stalls": {"interval_s": 0.05, "length_ms": 10.0},
    }
    return ModelTestbed(ModelSettings.model_validate(settings))


def lost_on(model, **factors) -> dict:
    trial = Trial(
        "loss",
        "label",
        {
            "configuration": "frer",
            "payload_bytes": 1472,
            "rate_mbps": 800.0,
            "duration_s": 1,
            "generator": "talker",
            **factors,
        },
        1,
    )
    found = Measurement()
    loss.measure(model, trial, found)
    return found.values["accounting"]


def test_on_the_model_a_large_buffer_or_priority_ends_the_loss_of_the_host(stalled_model):
    default = lost_on(stalled_model)
    assert default["host_lost"] > 1000
    assert (default["network_lost"], default["unaccounted"]) == (0, 0)
    large = lost_on(stalled_model, receive_buffer_bytes=64_000_000)
    assert (large["host_lost"], large["unaccounted"]) == (0, 0)
    assert lost_on(stalled_model, realtime_listener=True)["host_lost"] == 0


def test_on_the_model_slower_member_links_make_the_network_lose(stalled_model):
    settings = stalled_model.settings.model_copy(
        update={"member_link_rate_mbps": 500, "stalls": None}
    )
    slow = ModelTestbed(settings)
    # Of 600 Mb/s a tagged frame's link of 500 Mb/s carries 476.7, and the queue 262 kB once.
    found = lost_on(slow, rate_mbps=600.0)
    carried = 476.7e6 / 8 / 1472 + 262_144 / 1524
    sent = 600e6 / 8 / 1472
    assert found["network_lost"] == pytest.approx(sent - carried, rel=0.01)
    assert (found["host_lost"], found["unaccounted"]) == (0, 0)
    assert lost_on(slow, rate_mbps=470.0)["network_lost"] == 0


def test_on_the_model_a_third_path_carries_what_two_carry(stalled_model):
    def over(paths):
        changes = {"member_link_rate_mbps": 200, "stalls": None, "paths": paths}
        return lost_on(
            ModelTestbed(stalled_model.settings.model_copy(update=changes)), rate_mbps=254.0
        )

    two, three = over(2), over(3)
    # Queues that fill in step drop the same frames, however many they are.
    assert three["network_lost"] == two["network_lost"] > 0
    assert three["copies"] == 2 * two["copies"]
    assert (three["host_lost"], three["unaccounted"]) == (0, 0)
