"""Statements on FRER's steps from captures: each follows from the frames of all trials."""

import pytest
from crafted_captures import MadeTrial, frame

from tsnrepro.experiments.capture import analysis as capture

SHOWN = ("tagged", "from_zero", "ordered", "both_paths", "single_delivery")


def results(*trials):
    reported = [
        (
            {
                "trial": f"frer-{number}",
                "sha256": f"{number}".ljust(64, "0"),
                "repetition": number,
                "factors": {
                    **{"configuration": "frer", "payload_bytes": 64},
                    **{"rate_mbps": 100, "duration_s": 1},
                },
            },
            trial.report(trial.as_counted()),
        )
        for number, trial in enumerate(trials, start=1)
    ]
    table = capture.trials_of(reported)
    return capture.analyse(table, capture.delays(reported))


def statements(*trials):
    found = results(*trials)
    return {name: found.of(f"capture.shown.{name}").value for name in SHOWN}


def untagged():
    trial = MadeTrial()
    time_ns, _ = trial.paths[0][17]
    trial.paths[0][17] = (time_ns, frame(MadeTrial.content(17)))
    return trial


def on_one_path():
    trial = MadeTrial()
    del trial.paths[1][40]
    return trial


def twice_at_the_listener():
    trial = MadeTrial()
    trial.listener.insert(31, (trial.listener[30][0] + 10, trial.listener[30][1]))
    return trial


def out_of_order():
    trial = MadeTrial()
    path = trial.paths[0]
    path[50], path[51] = (path[50][0], path[51][1]), (path[51][0], path[50][1])
    return trial


def from_another_number():
    return MadeTrial(numbers=list(range(7, 207)))


def test_faultless_trials_show_all_steps():
    found = results(MadeTrial(), MadeTrial())
    assert {found.of(f"capture.shown.{name}").value for name in SHOWN} == {"yes"}
    assert found.of("capture.frer.stream_frames.count").value == 800
    assert found.of("capture.frer.tagged_stream.count").value == 800
    assert found.of("capture.frer.first_number.highest").value == 0


@pytest.mark.parametrize(
    ("spoiled", "refuted"),
    [
        (untagged, {"tagged", "both_paths"}),
        (on_one_path, {"both_paths"}),
        (twice_at_the_listener, {"single_delivery"}),
        (out_of_order, {"ordered"}),
        (from_another_number, {"from_zero"}),
    ],
)
def test_one_frame_in_one_trial_refutes_a_step(spoiled, refuted):
    found = statements(MadeTrial(), spoiled())
    assert {name for name, word in found.items() if word == "no"} == refuted
