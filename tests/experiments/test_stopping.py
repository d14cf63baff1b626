"""Further repetitions of `loss` and `latency` until a ratio of FRER to control is known."""

from contextlib import nullcontext
from functools import partial

import pytest

from tsnrepro.config import ModelSettings
from tsnrepro.experiments.latency import measure as latency
from tsnrepro.experiments.latency import stopping as latency_stopping
from tsnrepro.experiments.latency.plan import plan as plan_latency
from tsnrepro.experiments.latency.settings import LatencySettings
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss import stopping as loss_stopping
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.experiments.loss.settings import LossSettings
from tsnrepro.records.store import RawStore, read_listed_trial
from tsnrepro.runner.run import run_trials
from tsnrepro.testbeds.model import ModelTestbed

STOPPING = {"latency": latency_stopping, "loss": loss_stopping}
PLANS = {"latency": plan_latency, "loss": plan_loss}
LIMIT = {
    **{"objective": "limit", "payload_bytes": 1472, "rates_mbps": [470.0, 475.0]},
    **{"link_rate_mbps": 500, "duration_s": 0.1, "generator": "talker"},
    **{"receive_buffers_bytes": [8_000_000], "repetitions": 6, "max_repetitions": 8},
}
SWEEP = {"payload_bytes": 1472, "rates_mbps": [100.0], "duration_s": 1, "repetitions": 7}


def asked(within_percent=1.0, *others, **changes):
    part = LIMIT | {"ratio_precision_percent": within_percent} | changes
    return LossSettings.model_validate({"repetitions": 3, "parts": [part, *others]})


def test_what_may_not_be_needed_comes_last():
    items = plan_loss(asked(1.0, SWEEP), 1, "emulated")
    assert [item.order for item in items] == [*range(len(items))]
    further = [item for item in items if item.stopping_rule]
    # Two loads of two configurations, in repetitions 7 and 8.
    assert items[-8:] == further
    assert [item.trial.repetition for item in further] == [7] * 4 + [8] * 4
    assert {item.stopping_rule for item in further} == {"limit"}
    assert {item.trial.repetition for item in items[:-8]} == {*range(1, 8)}


def test_a_trial_is_the_same_whether_or_not_it_is_needed():
    few, many = (asked(max_repetitions=most) for most in (6, 8))
    always = asked(repetitions=8)
    named = [{item.trial.name(1) for item in plan_loss(s, 1, "emulated")} for s in (few, many)]
    assert named[0] < named[1] == {item.trial.name(1) for item in plan_loss(always, 1, "emulated")}


def measured_on_model(folder, experiment, settings):
    """Measure on the model, whose links of 500 Mb/s carry both loads; return all records."""
    hosts = {
        "talker": {"send_us": {"low": 1, "high": 4}},
        "listener": {"receive_us": {"low": 1, "high": 4}, "stack_us": 0.5},
    }
    links = ModelSettings.model_validate(
        {"forwarding_delay_us": 1.0, "link_rate_mbps": 500, **hosts}
    )
    name = experiment.__name__.split(".")[-2]
    store = RawStore(folder, "model", "test", name)
    found = run_trials(
        store,
        PLANS[name](settings, 1, "model"),
        1,
        lambda **_: nullcontext(ModelTestbed(links, 1)),
        experiment.measure,
        is_precise=partial(STOPPING[name].is_precise, settings),
    )
    return [read_listed_trial(store, entry) for entry in found["trials"]]


def repetitions_of(documents, **factors):
    return {d["repetition"] for d in documents if d["factors"] | factors == d["factors"]}


def test_what_is_known_is_not_measured_again(tmp_path):
    """Nothing lost in six repetitions: both thresholds lie between the highest load and the line.

    So their ratio lies between 475 / 478.5 and 476.7 / 475, which is within 0.6 %.
    """
    for within_percent, last in ((1.0, 6), (0.1, 8)):
        documents = measured_on_model(tmp_path / f"{last}", loss, asked(within_percent))
        assert repetitions_of(documents, question="limit") == {*range(1, last + 1)}


def test_medians_are_asked_for_at_the_main_payload_alone(tmp_path):
    """The model's hosts differ between repetitions, by less than a tenth."""
    few = {"repetitions": 2, "payloads_bytes": [18, 1472], "duration_s": 1, "max_repetitions": 8}
    for within_percent, last in ((10, 6), (1e-6, 8)):
        settings = LatencySettings.model_validate(few | {"ratio_precision_percent": within_percent})
        documents = measured_on_model(tmp_path / f"{last}", latency, settings)
        assert repetitions_of(documents, payload_bytes=1472) == {*range(1, last + 1)}
        assert repetitions_of(documents, payload_bytes=18) == {1, 2}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_repetitions": None}, "max_repetitions and ratio_precision_percent need each other"),
        (
            {"objective": "intervention", "link_rate_mbps": None},
            "max_repetitions is for the objectives limit, bottleneck, not",
        ),
        ({"max_repetitions": 5}, "max_repetitions of 5 is below repetitions of 6"),
    ],
)
def test_what_cannot_be_known_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        asked(**changes)
