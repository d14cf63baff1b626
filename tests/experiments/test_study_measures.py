"""Measures of a point against closed forms."""

import pytest

from tsnrepro.common.ethernet import payload_limit_mbps, skb_truesize
from tsnrepro.experiments.studies.measures import measure_point
from tsnrepro.experiments.studies.study import Study

FAST = {"receive_time_us": 1, "stack_time_us": 0.1, "send_time_us": 0.5}


def rows(measure, duration_s=0.5, replications=1, seed=1, **values):
    """Return the rows of a study whose listed values are factors, the others its base."""
    base = {key: value for key, value in values.items() if not isinstance(value, list)}
    factors = {key: value for key, value in values.items() if isinstance(value, list)}
    study = Study(
        description="test",
        duration_s=duration_s,
        replications=replications,
        seed=seed,
        measure=measure,
        base=base,
        parts={"only": {"factors": factors or {"nic_ring_frames": [256]}}},
    )
    return [measure_point(study, point) for point in study.points()]


def threshold(precision=0.002, **values):
    return rows({"kind": "threshold", "precision": precision}, **values)


def loss(**values):
    return rows({"kind": "loss"}, **values)


def test_threshold_of_a_slow_reader_is_its_rate_plus_its_buffer():
    """Reading takes 20 us: 50,000 a second, and the backlog of the trial may fill the buffer."""
    [row] = threshold(receive_time_us=20, duration_s=0.5)
    held = 212_992 // skb_truesize(1500) + 1
    least, most = 50_000.0, 50_000 + held / 0.5
    assert least * 0.998 <= row["threshold_kpps"] * 1000 <= most * 1.002
    assert row["threshold_mbps"] <= row["threshold_high_mbps"] <= row["threshold_mbps"] * 1.0021
    assert row["censored"] == ""


def test_without_a_bottleneck_the_threshold_is_the_limit_of_the_link():
    [row] = threshold(**FAST)
    assert row["threshold_mbps"] == row["line_limit_mbps"] == payload_limit_mbps(1472)
    assert (row["censored"], row["trials"]) == ("line limit", 1)


def test_the_tag_lowers_the_limit_of_a_link():
    """Six bytes more on the member paths: the excess fills the queue of the switch."""
    [row] = threshold(configuration="frer", switch_queue_bytes=16_384, precision=0.0005, **FAST)
    tagged = payload_limit_mbps(1472, tagged=True)
    # 16 KiB in half a second are 0.26 Mb/s, and the last of 500 bursts is not sent.
    assert tagged * 0.999 <= row["threshold_mbps"] <= (tagged + 0.3) * 500 / 499
    assert row["threshold_mbps"] < row["line_limit_mbps"]
    assert row["censored"] == ""


def test_replication_does_not_raise_the_threshold_of_a_stalling_listener():
    control, frer = threshold(
        configuration=["control", "frer"], stall_length_ms=2, replications=1, precision=0.01
    )
    assert control["threshold_mbps"] < 700
    assert frer["threshold_mbps"] == pytest.approx(control["threshold_mbps"], rel=0.011)


def test_no_threshold_if_every_frame_is_lost():
    [row] = threshold(path_loss_probability=1.0)
    assert row["threshold_mbps"] is None
    assert row["censored"] == "below the lowest load"


def test_replication_squares_the_loss_of_the_paths():
    chance = 0.03
    control, frer = loss(
        configuration=["control", "frer"], rate_mbps=900, path_loss_probability=chance, **FAST
    )
    sent = control["sent"]
    assert control["lost"] / sent == pytest.approx(chance, abs=4 * (chance / sent) ** 0.5)
    assert frer["lost"] / sent == pytest.approx(chance**2, abs=4 * chance / sent**0.5)
    assert control["lost"] == control["path_losses"]
    assert frer["eliminated"] == 2 * sent - frer["path_losses"] - (sent - frer["lost"])


def test_background_on_one_path_is_compensated_by_the_second():
    control, frer = loss(
        configuration=["control", "frer"],
        rate_mbps=700,
        background_mbps=700,
        switch_queue_bytes=65_536,
        **FAST,
    )
    assert control["loss_percent"] > 10
    assert frer["lost"] == 0
    assert frer["queue_drops"] > 0


def test_a_seed_gives_the_same_row_and_another_seed_another():
    values = {"rate_mbps": 500, "stall_length_ms": 2, "replications": 2, "duration_s": 0.2}
    first, second = loss(**values), loss(**values)
    assert first == second
    assert first[0]["latency_max_us"] != first[1]["latency_max_us"]
    assert loss(**values, seed=2)[0]["latency_max_us"] != first[0]["latency_max_us"]


def test_a_later_second_path_reorders_nothing_and_loses_nothing():
    [row] = loss(configuration="frer", rate_mbps=500, path_skew_us=300, **FAST)
    assert (row["lost"], row["duplicates"], row["out_of_order"]) == (0, 0, 0)
    assert row["eliminated"] == row["sent"]
