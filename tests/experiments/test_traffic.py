"""What a car sends, on the model: against store-and-forward arithmetic and a queue told by hand."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy import stats

from tsnrepro.config.files import campaign
from tsnrepro.experiments.traffic import analysis
from tsnrepro.experiments.traffic import measure as traffic
from tsnrepro.experiments.traffic.measure import loads_of, whole_pictures_us
from tsnrepro.experiments.traffic.plan import Factors
from tsnrepro.experiments.traffic.plan import plan as plan_traffic
from tsnrepro.experiments.traffic.settings import Camera, Lidar, Mix, TrafficSettings
from tsnrepro.native.streams.log import LISTENER_DTYPE, decompress
from tsnrepro.records.store import Trial, arrivals_file
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.testbed import open_testbed

BOTH = pytest.mark.parametrize("configuration", ["control", "frer"])
LINE_US = {"control": 1538 * 8 / 1000, "frer": 1544 * 8 / 1000}


def opened(**overrides):
    return open_testbed("model", campaign("smoke"), "test", stalls=None, **overrides)


@pytest.fixture(scope="module")
def model():
    return opened()


def camera(**values):
    return {"kind": "camera", "name": "camera", "pictures_per_s": 20} | values


def trial_of(*sources, configuration="control", repetition=1, duration_s=0.5, **factors):
    mix = Mix.model_validate({"name": "mix", "sources": list(sources)})
    given = {"mix": "mix", "sources": mix.model_dump(mode="json")["sources"]}
    given |= {"configuration": configuration, "duration_s": duration_s} | factors
    return Trial("traffic", "label", given, repetition)


def loads_of_trial(trial):
    return loads_of(Factors.of(trial), trial.repetition)


def measured(testbed, *sources, **factors):
    found = Measurement()
    traffic.measure(testbed, trial_of(*sources, **factors), found)
    return found


@BOTH
def test_a_picture_takes_its_time_on_the_line_and_three_hops(model, configuration):
    found = measured(model, camera(picture_bytes=50 * 1472), configuration=configuration)
    (stream,) = found.values["streams"]
    known = found.values["parameters"]
    plain, member = LINE_US["control"], LINE_US[configuration]
    # The talker's link hands on a frame each 12.3 us. On the member link, slower by the R-TAG,
    # the last of them waits for 49 times the difference.
    expected = known["send_us"] + 50 * plain + 49 * (member - plain) + member + plain
    expected += 2 * known["switch_us"]
    assert stream["pictures"]["p50_us"] == pytest.approx(expected, rel=0.01)
    assert stream["pictures"] | {"sent": 10, "whole": 10} == stream["pictures"]
    # The 25th of 50 has 25 fewer ahead of it, and is written when 24 have been.
    median = expected - 25 * plain - 24 * known["send_us"]
    assert stream["p50_us"] == pytest.approx(median, rel=0.01)


def kept_of_a_train(frames, comes_us, goes_us, queue_bytes):
    """Tail drop, told step by step: frames of 1518 bytes come and go at constant gaps."""
    ends, kept = [], 0
    for number in range(frames):
        now = number * comes_us
        ends = [end for end in ends if end > now]
        if 1518 * (len(ends) + 1) <= queue_bytes:
            ends.append(max(now, ends[-1] if ends else now) + goes_us)
            kept += 1
    return kept


@pytest.mark.parametrize("frames", [15, 40])
def test_a_picture_that_no_queue_holds_is_not_whole(frames):
    narrow = opened(
        member_link_rate_mbps=100,
        queue_bytes=30_000,
        # Ten datagrams wait in the talker's socket: its own queue drops none.
        talker={"send_us": 1.0, "send_buffer_bytes": 23_040},
    )
    (stream,) = measured(narrow, camera(picture_bytes=frames * 1472)).values["streams"]
    kept = kept_of_a_train(frames, 1538 * 0.008, 1538 * 0.08, 30_000)
    pictures = stream["pictures"]["sent"]
    assert pictures == 10
    assert stream["unique"] == pytest.approx(pictures * kept, abs=pictures)
    assert stream["pictures"]["whole"] == (pictures if kept == frames else 0)
    assert (kept == frames) is (frames == 15)


def test_random_sources_send_at_random_times_and_equally_with_and_without_frer(model):
    source = {"kind": "random", "name": "v2x", "rate_pps": 4000, "payload_bytes": 100}
    found = {c: measured(model, source, configuration=c) for c in ("control", "frer")}
    logs = {c: decompress(of.outputs[arrivals_file(0)]) for c, of in found.items()}
    sent = {c: np.sort(log["sent_ns"].astype(np.int64)) for c, log in logs.items()}
    np.testing.assert_array_equal(sent["control"], sent["frer"])
    times = sent["control"] / 1e9
    assert len(times) == pytest.approx(2000, abs=4 * 2000**0.5)
    assert stats.kstest(times, "uniform", args=(0, 0.5)).pvalue > 1e-3
    assert stats.kstest(np.diff(times), "expon", args=(0, 1 / 4000)).pvalue > 1e-3


def test_a_repetition_draws_its_own_phases():
    sources = camera(picture_bytes=3000, count=3)
    phases = {
        (c, r): [
            load.phase_s
            for _, load in loads_of_trial(trial_of(sources, configuration=c, repetition=r))
        ]
        for c in ("control", "frer")
        for r in (1, 2)
    }
    assert phases["control", 1] == phases["frer", 1] != phases["control", 2]
    assert len({*phases["control", 1]}) == 3
    assert all(0 <= phase < 1 / 20 for phase in phases["control", 1])


@BOTH
def test_streams_of_mixed_sizes_have_numbers_of_their_own(model, configuration):
    sources = [
        {"kind": "constant", "name": f"b{size}", "rate_mbps": 20, "payload_bytes": size}
        for size in (64, 512, 1472)
    ]
    streams = measured(model, *sources, configuration=configuration).values["streams"]
    for stream in streams:
        assert stream["sent"] == stream["unique"] == round(10e6 / 8 / stream["payload_bytes"])
        passed = stream["recovery"]["passed"] if configuration == "frer" else stream["sent"]
        assert passed == stream["sent"]
    assert streams[0]["p50_us"] < streams[1]["p50_us"] < streams[2]["p50_us"]


def test_pictures_are_whole_only_with_every_datagram():
    log = np.zeros(7, LISTENER_DTYPE)
    # Pictures of three: the first whole and out of order, the second with one repeated and one
    # missing, of the third only one.
    log["sequence"] = [1, 0, 2, 3, 3, 5, 8]
    log["sent_ns"] = [1000, 1000, 1500, 4000, 4000, 4000, 9000]
    log["stamped_ns"] = [3000, 2500, 8000, 5000, 5100, 6000, 9500]
    assert whole_pictures_us(log, (3,)).tolist() == [7.0]
    assert whole_pictures_us(log[:0], (3,)).size == 0


def test_pictures_of_a_group_are_told_apart_by_their_sizes():
    log = np.zeros(6, LISTENER_DTYPE)
    # Groups of three and one: 0 to 2 and 3, then 4 to 6 and 7; of the second group 5 is missing.
    log["sequence"] = [0, 1, 2, 3, 4, 7]
    log["sent_ns"] = [1000, 1000, 1000, 2000, 3000, 4000]
    log["stamped_ns"] = [2000, 3000, 4000, 7000, 5000, 4500]
    assert whole_pictures_us(log, (3, 1)).tolist() == [3.0, 5.0, 0.5]


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ([camera(picture_bytes=2_000_000, payload_bytes=1000)], "less than or equal"),
        ([camera(picture_bytes=1_400_000, payload_bytes=1000)], "1400 datagrams"),
        ([camera(picture_bytes=1, count=16), camera(picture_bytes=1, name="b")], "16 streams"),
        ([camera(picture_bytes=1), camera(picture_bytes=2)], "name used twice: camera"),
    ],
)
def test_a_mix_that_cannot_be_sent_is_refused(sources, said):
    with pytest.raises(ValidationError, match=said):
        Mix.model_validate({"name": "mix", "sources": sources})


def test_a_picture_is_a_train_of_datagrams():
    picture = Camera(name="c", pictures_per_s=30, picture_bytes=100_000)
    assert picture.trains == (68,)
    # Factors of all cameras have one type: they are a column of the table of trials.
    assert picture.model_dump()["picture_bytes"] == [100_000]
    assert picture.rate_pps * picture.payload_bytes * 8 / 1e6 == pytest.approx(24.0, rel=0.001)


def test_a_group_of_pictures_is_sent_over_and_over_from_anywhere(model):
    """4, 2 and 1 datagrams a picture; 10 pictures in half a second, whichever is the first."""
    group = camera(picture_bytes=[4 * 1472, 2 * 1472, 1472])
    ((_, load),) = loads_of_trial(trial_of(group))
    assert sorted(load.trains) == [1, 2, 4]
    assert load.datagrams == 3 * 7 + load.trains[0]
    assert load.sending_s == pytest.approx(0.5)
    firsts = {loads_of_trial(trial_of(group, repetition=r))[0][1].trains[0] for r in range(1, 30)}
    assert firsts == {1, 2, 4}
    found = measured(model, group)
    (stream,) = found.values["streams"]
    assert stream["sent"] == stream["unique"] == load.datagrams
    assert stream["pictures"] | {"sent": 10, "whole": 10} == stream["pictures"]
    kept = {name: stream[name] for name in ("train", "smallest_train", "group")}
    assert kept == {"train": 4, "smallest_train": 1, "group": 3}
    assert stream["trains_per_s"] == pytest.approx(20)
    log = decompress(found.outputs[arrivals_file(0)])
    gaps = np.diff(log["sent_ns"].astype(np.int64), prepend=-(10**9))
    sizes = [int(n) for n in np.diff(np.flatnonzero(gaps > 1e7))]
    assert sizes == [load.trains[n % 3] for n in range(9)]


def test_a_lidar_sends_each_sector_of_its_scan_at_once(model):
    source = {"kind": "lidar", "name": "lidar", "scans_per_s": 10, "sectors": 36}
    lidar = Lidar.model_validate(source | {"scan_bytes": 868_320, "payload_bytes": 1206})
    assert lidar.trains == (20,)
    assert lidar.rate_pps * lidar.payload_bytes * 8 / 1e6 == pytest.approx(69.5, abs=0.1)
    (stream,) = measured(model, lidar.model_dump(mode="json")).values["streams"]
    assert stream["sent"] == stream["unique"] == 180 * 20
    assert "pictures" not in stream
    # The last of a sector waits for the 19 before it on the line.
    frame_us = (1206 + 46 + 20) * 8 / 1000
    assert stream["max_us"] > 19 * frame_us


def test_the_analysis_pools_streams_and_takes_the_trial_as_its_unit(model):
    settings = TrafficSettings(
        repetitions=3,
        duration_s=0.3,
        mixes=[
            Mix.model_validate({"name": "a-mix", "sources": [camera(picture_bytes=9000, count=2)]})
        ],
    )
    rows, trials = [], []
    for item in plan_traffic(settings, 1, "model"):
        found = Measurement()
        traffic.measure(model, item.trial, found)
        named = {"trial": f"t{item.order}", "sha256": f"{item.order:064x}", "duration_s": 0.3}
        named["repetition"] = item.trial.repetition
        trials.append(named)
        for stream in found.values["streams"]:
            plain = {k: v for k, v in stream.items() if not isinstance(v, dict)}
            pictures = {f"pictures_{k}": v for k, v in stream["pictures"].items()}
            rows.append(named | plain | pictures | item.trial.factors)
    rows[0]["unique"] -= 6  # of 84 of two streams of 6 pictures of 7
    rows[0]["pictures_whole"] -= 3
    sources = analysis.by_source(pd.DataFrame(rows))
    results = analysis.analyse(pd.DataFrame(trials), sources)
    hurt = rows[0]["configuration"]
    key = f"traffic.a_mix.camera.{hurt}"
    lost = results.of(f"{key}.lost.percent")
    assert lost.value == pytest.approx(100 * 6 / 84 / 3)
    assert results.of(f"{key}.pictures.incomplete.percent").value == pytest.approx(25 / 3)
    assert len(lost.trials) == 3
    assert results.of("traffic.a_mix.camera.streams.count").value == 2
    # 5 of its 7 datagrams' gaps wait for the slower member link: 7 x 0.048 us of some 130 us.
    change = results.of("traffic.a_mix.camera.pictures.p50.difference.percent")
    assert 0 < change.value < 1
    shift = results.of("traffic.a_mix.camera.p50.difference.us")
    medians = [results.of(f"traffic.a_mix.camera.{c}.p50.us").value for c in ("frer", "control")]
    assert shift.value == pytest.approx(medians[0] - medians[1], abs=0.01)
    assert shift.unit == "us"


def test_a_mix_may_have_more_repetitions_than_the_others():
    settings = TrafficSettings(
        repetitions=1,
        duration_s=0.3,
        mixes=[
            Mix.model_validate({"name": "one", "sources": [camera(picture_bytes=9000)]}),
            Mix.model_validate(
                {"name": "six", "repetitions": 6, "sources": [camera(picture_bytes=9000)]}
            ),
        ],
    )
    planned = [item.trial for item in plan_traffic(settings, 1, "model")]
    assert sorted((t.factors["mix"], t.repetition) for t in planned) == sorted(
        2 * [("one", 1), *(("six", number) for number in range(1, 7))]
    )
