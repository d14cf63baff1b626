"""The loss analysis on sweeps whose truth is known."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from tsnrepro.experiments.loss import analysis as loss
from tsnrepro.experiments.loss.settings import EXPERIMENT
from tsnrepro.records.accounting import SOCKET_BUFFER, SOCKET_CLOSED
from tsnrepro.records.tables import LOSS, drop_column

PLACES = (
    "talker socket",
    "talker queue",
    "sw1 queue m0",
    "sw1 queue m1",
    "sw2 queue p0",
    "recovery: rogue",
    "recovery: tagless",
    SOCKET_BUFFER,
    SOCKET_CLOSED,
    "listener reassembly",
    "listener network stack",
)
RATES = (100, 200, 300, 400, 500, 600, 700, 800, 900)
SENT = 10_000


def trial(configuration, rate, repetition, lost, payload=1472, place=SOCKET_BUFFER):
    number = f"{configuration}-{payload}-{rate}-{repetition}"
    drops = dict.fromkeys(map(drop_column, PLACES), 0)
    frer = configuration == "frer"
    doubled = place.startswith("sw1") and frer
    drops[drop_column(place)] = lost
    if doubled:  # lost of the stream only if both copies went
        drops[drop_column("sw1 queue m1")] = lost
    return {
        "trial": number,
        "sha256": number.encode().hex().ljust(64, "0")[:64],
        "repetition": repetition,
        "order": 0,
        "configuration": configuration,
        "duration_s": 2.0,
        "started": pd.Timestamp("2026-01-01", tz="UTC"),
        "payload_bytes": payload,
        "target_mbps": float(rate),
        "offered_mbps": rate * 0.999,
        "delivered_mbps": rate * 0.999 * (1 - lost / SENT),
        "send_seconds": 2.0,
        "sent": SENT,
        "received": SENT - lost,
        "lost": lost,
        "out_of_order": 0,
        "loss_percent": 100 * lost / SENT,
        "copies": SENT if frer else 0,
        "eliminated": SENT - lost if doubled else (SENT if frer else 0),
        "unaccounted": 0,
        **drops,
    }


def sweep(thresholds, repetitions=3, place=SOCKET_BUFFER):
    """Every load above a configuration's threshold loses something, more with more load."""
    rows = [
        trial(
            name, rate, r, max(0, round((rate - limit) / 10)) + 3 * r * (rate > limit), 1472, place
        )
        for name, limit in thresholds.items()
        for rate in RATES
        for r in range(1, repetitions + 1)
    ]
    return LOSS.validate(pd.DataFrame(rows))


def values(results):
    return {key: item.model_dump() for key, item in results._items.items()}


def test_equal_configurations_are_not_told_apart():
    found = values(loss.analyse(sweep({"control": 450, "frer": 450})))
    for configuration in ("control", "frer"):
        threshold = found[f"loss.threshold.{configuration}.mbps"]
        assert threshold["low"] < 450 < threshold["high"]
        assert found[f"loss.highest_clean.{configuration}.mbps"]["value"] == pytest.approx(399.6)
    assert found["loss.threshold.ratio"]["value"] == pytest.approx(1)
    assert found["loss.threshold.verdict"]["value"] == "cannot tell"


def test_a_higher_threshold_is_found():
    trials = sweep({"control": 250, "frer": 750}, repetitions=5)
    found = values(loss.analyse(trials))
    assert found["loss.threshold.ratio"]["low"] > 1
    assert found["loss.threshold.verdict"]["value"] == "frer higher"
    assert "cannot be shown" not in found["loss.threshold.verdict"]["method"]
    swapped = trials.assign(
        configuration=trials["configuration"].map({"control": "frer", "frer": "control"})
    )
    assert values(loss.analyse(swapped))["loss.threshold.verdict"]["value"] == "control higher"


def test_a_single_clean_trial_above_does_not_raise_the_highest_clean_load():
    trials = sweep({"control": 450, "frer": 450})
    odd = (trials["target_mbps"] == 700) & (trials["repetition"] == 1)
    trials.loc[odd, ["lost", "loss_percent"]] = [0, 0.0]
    found = values(loss.analyse(trials))
    assert found["loss.highest_clean.frer.mbps"]["value"] == pytest.approx(399.6)


@pytest.mark.parametrize(
    ("place", "share"),
    [
        (SOCKET_BUFFER, "listener_socket"),
        ("talker queue", "talker"),
        ("sw1 queue m0", "switches"),
        ("sw2 queue p0", "switches"),
        ("listener network stack", "other"),
    ],
)
def test_shares_by_place_add_up(place, share):
    found = values(loss.analyse(sweep({"control": 450, "frer": 450}, place=place)))
    shares = {
        name: found[f"loss.share.{name}.percent"]["value"]
        for name in ("listener_socket", "talker", "switches", "other")
    }
    assert shares[share] == pytest.approx(100)
    assert sum(shares.values()) == pytest.approx(100)


def test_a_copy_dropped_on_one_path_is_not_a_lost_datagram():
    trials = sweep({"control": 950, "frer": 950})
    trials.loc[trials["configuration"] == "frer", drop_column("sw1 queue m0")] = 500
    assert loss.loss_locations(trials)["switches"].sum() == 0


def test_no_loss_is_a_statement_about_trials_and_loss_has_the_range_of_runs():
    table = loss.summary(sweep({"control": 450, "frer": 450}))
    clean = table[table["lost"] == 0]
    assert clean["loss_high_percent"].isna().all()
    # One-sided: 1 - alpha^(1 / trials), whatever the number of datagrams.
    assert np.allclose(clean["chance_to_lose_high_percent"], 100 * (1 - 0.05 ** (1 / 3)))
    lossy = table[table["lost"] > 0]
    assert lossy["chance_to_lose_high_percent"].isna().all()
    assert (lossy["loss_low_percent"] <= lossy["loss_percent"]).all()
    assert (lossy["loss_high_percent"] >= lossy["loss_percent"]).all()
    assert set(lossy["loss_limits"]) == {"range"}


def test_what_was_unread_when_the_program_closed_its_socket_is_lost_to_the_program_alone():
    trials = sweep({"control": 450, "frer": 450}, place=SOCKET_CLOSED)
    lost, lossy = trials["lost"].sum(), (trials["lost"] > 0).sum()
    found = values(loss.analyse(trials, 1000))
    table = loss.summary(trials)
    assert (table["lost"].sum(), table["unread"].sum()) == (lost, lost)
    assert table["trials_with_loss"].sum() == lossy
    for configuration in ("control", "frer"):
        to_program = found[f"loss.threshold.{configuration}.mbps"]
        assert to_program["value"] == pytest.approx(450, rel=0.05)
        to_socket = found[f"loss.threshold.socket.{configuration}.mbps"]
        assert (to_socket["value"], to_socket["low"]) == (None, pytest.approx(899.1))
        clean = [found[f"loss.highest_clean.{of}{configuration}.mbps"] for of in ("", "socket.")]
        assert [each["value"] for each in clean] == pytest.approx([399.6, 899.1])
    assert found["loss.lost.total.count"]["value"] == lost
    assert found["loss.socket_lost.total.count"]["value"] == 0
    assert found["loss.unread.total.count"]["value"] == lost
    assert found["loss.unread.trials.count"]["value"] == lossy
    assert found["loss.share.listener_socket.percent"]["value"] is None
    assert not loss.loss_locations(trials).to_numpy().any()
    assert found["loss.frame_1518.frer.percent"]["value"] > 0


def test_what_was_not_read_takes_nothing_off_what_the_network_lost():
    trials = sweep({"control": 450, "frer": 450}, place="sw2 queue p0")
    before = values(loss.analyse(trials))
    unread = (trials["configuration"] == "frer") & (trials["lost"] > 0)
    trials.loc[unread, drop_column(SOCKET_CLOSED)] = 60
    trials["lost"] += trials[drop_column(SOCKET_CLOSED)]
    trials["received"] = trials["sent"] - trials["lost"]
    trials["loss_percent"] = 100 * trials["lost"] / trials["sent"]
    after = values(loss.analyse(trials))
    scopes = ("network", "socket")
    alike = [f"threshold.{scope}.{c}.mbps" for scope in scopes for c in ("frer", "control")]
    for key in (*alike, "socket_lost.total.count"):
        assert after[f"loss.{key}"]["value"] == before[f"loss.{key}"]["value"]
    assert after["loss.share.switches.percent"]["value"] == 100
    lost = before["loss.lost.total.count"]["value"]
    assert after["loss.lost.total.count"]["value"] == lost + 60 * unread.sum()
    assert after["loss.unread.trials.count"]["value"] == unread.sum()


@pytest.mark.parametrize("question", ["limit", "bottleneck", "paced", "paths"])
def test_a_question_of_the_network_leaves_out_what_was_unread_and_counts_it(question):
    trials = sweep({"control": 450, "frer": 450}, place=SOCKET_CLOSED)
    trials = trials.assign(question=question, paths=2, member_link_rate_mbps=500, network_lost=0)
    found = values(loss.analyse(trials, 1000))
    assert found[f"loss.{question}.lost.total.count"]["value"] == 0
    assert found[f"loss.{question}.unread.total.count"]["value"] == trials["lost"].sum()
    assert found[f"loss.{question}.unread.trials.count"]["value"] == (trials["lost"] > 0).sum()


def test_a_trial_of_the_intervention_loses_what_was_unread():
    trials = sweep({"control": 450, "frer": 450}, place=SOCKET_CLOSED).assign(
        question="intervention", receive_buffer_bytes=1_000_000
    )
    found = values(loss.analyse(trials, 1000))
    lossy = found["loss.intervention.size_1.ordinary.frer.lossy.percent"]["value"]
    assert lossy == pytest.approx(100 * 5 / 9)
    assert found["loss.intervention.unread.total.count"]["value"] == trials["lost"].sum()


def test_without_a_place_for_what_was_unread_both_losses_are_as_recorded():
    trials = sweep({"control": 450, "frer": 450}).drop(columns=drop_column(SOCKET_CLOSED))
    found = values(loss.analyse(trials, 1000))
    for key in ("lost", "socket_lost"):
        assert found[f"loss.{key}.total.count"]["value"] == trials["lost"].sum()
    assert found["loss.unread.total.count"]["value"] is None
    assert found["loss.unread.trials.count"]["value"] is None


def test_the_network_has_a_threshold_of_its_own():
    found = values(loss.analyse(sweep({"control": 450, "frer": 450}), 1000))
    assert found["loss.threshold.frer.mbps"]["value"] == pytest.approx(450, rel=0.05)
    # All was lost in the listener's socket: the network lost nothing up to the highest load.
    network = found["loss.threshold.network.frer.mbps"]
    assert network["value"] is None
    assert network["low"] == pytest.approx(899.1)
    # 1472 of 1544 bytes on the wire, with the R-TAG.
    assert network["high"] == pytest.approx(1000 * 1472 / 1544)
    inside = values(loss.analyse(sweep({"control": 450, "frer": 450}, place="sw2 queue p0"), 1000))
    assert inside["loss.threshold.network.frer.mbps"]["value"] == pytest.approx(450, rel=0.05)


def test_nothing_lost_in_enough_repetitions_is_equivalent_where_the_line_is_near():
    trials = sweep({"control": 2000, "frer": 2000}, repetitions=6)
    near = trials["target_mbps"] / 900 * 950
    trials = trials.assign(target_mbps=near, offered_mbps=near)
    found = values(loss.analyse(trials, 1000))
    ratio = found["loss.threshold.ratio"]
    assert ratio["method"].startswith("bound")
    assert (ratio["low"], ratio["high"]) == pytest.approx(
        (950 * 1538 / 1472e3, 1472e3 / 1544 / 950)
    )
    assert found["loss.threshold.verdict"]["value"] == "equivalent"
    # No load was tried at which control loses: none could show that FRER carries more.
    assert "FRER higher cannot be shown" in found["loss.threshold.verdict"]["method"]
    few = values(loss.analyse(trials[trials["repetition"] <= 3], 1000))
    assert few["loss.threshold.ratio"]["method"].startswith("range")
    assert few["loss.threshold.verdict"]["value"] == "cannot tell"


def test_unlike_loads_are_not_compared():
    trials = sweep({"control": 450, "frer": 450})
    slow = (trials["configuration"] == "frer") & (trials["target_mbps"] == 900)
    trials.loc[slow, "offered_mbps"] = 850.0
    found = values(loss.analyse(trials))
    # At 900 asked FRER was offered less: 800 is the highest load that both were.
    assert found["loss.frame_1518.target_mbps"]["value"] == 800
    alone = trials[trials["target_mbps"] == 900]
    difference = values(loss.analyse(alone))["loss.frame_1518.difference.percent"]
    assert difference["value"] is None
    assert "899.1 and 850.0 Mb/s are not compared" in difference["method"]


def test_payloads_of_no_frame_size_show_their_effect():
    rows = [
        trial(name, 500, r, lost, payload=payload)
        for payload in (64, 1400)
        for name, lost in (("control", 100), ("frer", 2000))
        for r in (1, 2, 3)
    ]
    found = values(loss.analyse(LOSS.validate(pd.DataFrame(rows))))
    assert found["loss.frame_64.frer.percent"]["value"] is None
    assert [found[f"loss.size_{k}.payload_bytes"]["value"] for k in (1, 2, 3)] == [64, 1400, None]
    assert found["loss.size_1.frame_bytes"]["value"] == 110
    assert found["loss.size_2.difference.percent"]["value"] == pytest.approx(19)


def test_each_payload_has_its_loads_in_a_table_of_its_own():
    rows = [
        trial("frer", rate, r, rate // 10, payload=payload)
        for payload, rates in ((18, (100, 200, 300)), (82, (200,)), (1472, (500, 600, 700, 800)))
        for rate in rates
        for r in (1, 2, 3)
    ]
    trials = LOSS.validate(pd.DataFrame(rows))
    table = loss.by_payload(trials)
    assert list(table["frame_bytes"]) == [64] * 3 + [128] + [1518] * 4
    assert list(table["target_mbps"][:4]) == [100, 200, 300, 200]
    assert table["loss_percent"].iloc[2] == pytest.approx(100 * 30 / SENT)
    # Besides the main sweep the smallest has the most.
    assert loss.analyse(trials).of("loss.sizes.loads.count").value == 3
    assert len(loss.by_payload(trials.iloc[:0])) == 0


def test_every_result_names_its_trials():
    trials = sweep({"control": 450, "frer": 450})
    for key, item in values(loss.analyse(trials)).items():
        assert set(item["trials"]) <= set(trials["trial"]), key
        assert len(item["sha256"]) == 64
    threshold = values(loss.analyse(trials))["loss.threshold.frer.mbps"]
    assert all(name.startswith("frer-") for name in threshold["trials"])


def test_results_of_one_repetition_have_no_invented_interval():
    found = values(loss.analyse(sweep({"control": 450, "frer": 450}, repetitions=1)))
    item = found["loss.frame_1518.control.percent"]
    assert item["value"] > 0
    assert item["low"] is None
    assert item["high"] is None


def test_a_difference_of_two_clean_groups_is_not_located():
    found = values(loss.analyse(sweep({"control": 950, "frer": 950})))
    difference = found["loss.frame_1518.difference.percent"]
    assert (difference["value"], difference["low"], difference["high"]) == (0, None, None)
    assert difference["method"] == "no interval: all 3 runs are equal"


# --- questions ------------------------------------------------------------------------------------


def part(question, trials, **columns):
    """Return trials of another question, under names of their own."""
    named = trials.assign(
        question=question,
        trial=question + trials["trial"],
        sha256=[f"{question}{n}".encode().hex().ljust(64, "0")[:64] for n in trials["trial"]],
    )
    return named.assign(**columns)


def near(loads, limits, place="sw2 queue p0", repetitions=6):
    rows = [
        trial(name, load, r, 10 * (load > limit), place=place)
        for name, limit in limits.items()
        for load in loads
        for r in range(1, repetitions + 1)
    ]
    table = pd.DataFrame(rows)
    return table.assign(offered_mbps=table["target_mbps"], duration_s=1.0)


def all_questions():
    none_lost = near((940, 945, 950), {"control": 999, "frer": 999})
    slow = near((470, 474, 478, 482, 486, 490), {"control": 481, "frer": 479})
    sizes = {"receive_buffer_bytes": 8_000_000}
    readers = []
    for buffer, realtime in product((None, 16_000_000), (False, True)):
        limit = 400 if buffer is None and not realtime else 999
        cell = near((300, 600, 900), {"control": limit, "frer": limit}, SOCKET_BUFFER)
        names = cell["trial"] + f"-{buffer}-{realtime}"
        readers.append(
            part(
                "intervention",
                cell.assign(trial=names),
                receive_buffer_bytes=buffer,
                realtime_listener=realtime,
            )
        )
    parts = [
        part("sweep", sweep({"control": 450, "frer": 450})),
        part("limit", none_lost, **sizes),
        part("bottleneck", slow, member_link_rate_mbps=500, **sizes),
        *readers,
    ]
    return LOSS.validate(pd.concat(parts, ignore_index=True))


def test_questions_are_not_pooled():
    table = all_questions()
    alone = values(loss.analyse(sweep({"control": 450, "frer": 450}), 1000))
    found = values(loss.analyse(table, 1000))
    whole = {"loss.trials.count", "loss.sent.total.count", "loss.eliminated.total.count"}
    for key, item in alone.items():
        if not key.startswith(("loss.limit.", "loss.bottleneck.", "loss.intervention.")):
            same = item["value"] == found[key]["value"]
            assert same or key in whole or item["value"] is None, key
    assert found["loss.trials.count"]["value"] == len(table)
    assert len(loss.summary(table)) == len(loss.summary(sweep({"control": 450, "frer": 450})))


def test_nothing_lost_near_the_line_decides():
    found = values(loss.analyse(all_questions(), 1000))
    assert found["loss.limit.end_to_end.verdict"]["value"] == "equivalent"
    ratio = found["loss.limit.network.ratio"]
    assert (ratio["low"], ratio["high"]) == pytest.approx(
        (950 * 1538 / 1472e3, 1472e3 / 1544 / 950)
    )
    assert found["loss.limit.receive_buffer.mb"]["value"] == 8
    assert found["loss.limit.line_limit.ratio"]["value"] == pytest.approx(1538 / 1544)
    assert found["loss.limit.lost.total.count"]["value"] == 0


def test_links_of_its_own_are_the_lines_of_a_limit():
    none_lost = near((470, 472.5, 475), {"control": 999, "frer": 999})
    table = LOSS.validate(part("limit", none_lost, link_rate_mbps=500))
    found = values(loss.analyse(table, 1000))
    assert found["loss.limit.link_rate_mbps"]["value"] == 500
    ratio = found["loss.limit.end_to_end.ratio"]
    assert (ratio["low"], ratio["high"]) == pytest.approx((475 * 1538 / 736e3, 736e3 / 1544 / 475))
    assert found["loss.limit.end_to_end.verdict"]["value"] == "equivalent"


def test_a_network_with_slow_links_loses_at_their_limit():
    found = values(loss.analyse(all_questions(), 1000))
    assert found["loss.bottleneck.line_limit.control.mbps"]["value"] == pytest.approx(
        500 * 1472 / 1538
    )
    ratio = found["loss.bottleneck.network.ratio"]
    assert 0.99 < ratio["low"] < ratio["high"] < 1.01
    assert found["loss.bottleneck.network.verdict"]["value"] == "equivalent"
    counts = [found[f"loss.bottleneck.{n}.total.count"]["value"] for n in ("lost", "network_lost")]
    assert counts[0] == counts[1] > 0


SIDES = ("with", "without")


def test_an_intervention_finds_what_makes_the_difference():
    found = values(loss.analyse(all_questions(), 1000))
    # At two of three loads the default buffer loses with an ordinary reader, and nothing else.
    for name, points in (("buffer", -200 / 3), ("realtime", -200 / 3), ("frer", 0)):
        change = found[f"loss.intervention.{name}.difference.percent"]
        assert change["value"] == pytest.approx(points), name
        trials, lossy = (
            [found[f"loss.intervention.{name}.{side}.{kind}.count"]["value"] for side in SIDES]
            for kind in ("trials", "lossy")
        )
        assert trials[0] == trials[1]  # pairs: one larger buffer, one other priority
        # All pairs that differ lost without the change: a coin that falls on one side each time.
        differing = round(-points / 100 * trials[0])
        assert lossy[1] - lossy[0] == differing
        adjusted = 3 * 0.5 ** (differing - 1) if differing else 1
        assert found[f"loss.intervention.{name}.exploratory.p"]["value"] == pytest.approx(adjusted)
    lossy = found["loss.intervention.size_1.ordinary.frer.lossy.percent"]["value"]
    assert lossy == pytest.approx(200 / 3)
    assert found["loss.intervention.size_2.mb"]["value"] == 16
    assert found["loss.intervention.size_2.ordinary.frer.lossy.percent"]["value"] == 0
    assert found["loss.intervention.size_3.mb"]["value"] is None
    table = loss.intervention_summary(all_questions())
    assert len(table) == 2 * 2 * 2 * 3
    assert set(table["buffer_bytes"]) == {0, 16e6}


def eliminating():
    """Control and FRER below and above what a link of 500 Mb/s carries twice."""
    table = near((200, 270), {"control": 999, "frer": 999}, repetitions=3).assign(network_lost=0)
    over = (table["configuration"] == "frer") & (table["target_mbps"] > 240)
    dropped = over * 0.1 * 2 * SENT
    return part(
        "elimination",
        table.assign(
            **{drop_column("sw2 queue p0"): dropped.astype(int)},
            eliminated=table["eliminated"] - dropped.astype(int),
        ),
        link_rate_mbps=500,
    )


def test_a_listener_that_eliminates_tells_frames_from_datagrams():
    found = values(loss.analyse(LOSS.validate(eliminating()), 1000))
    name = "loss.elimination"
    assert found[f"{name}.both_copies.mbps"]["value"] == pytest.approx(500 * 1472 / (2 * 1544))
    assert found[f"{name}.one_copy.mbps"]["value"] == pytest.approx(500 * 1472 / 1544)
    for load, dropped, excess in ((1, 0, 0), (2, 10, 100 * (1 - 238.342 / 270))):
        assert found[f"{name}.load_{load}.frer.percent"]["value"] == 0
        assert found[f"{name}.load_{load}.frer.dropped.percent"]["value"] == pytest.approx(dropped)
        told = found[f"{name}.load_{load}.frer.excess.percent"]["value"]
        assert told == pytest.approx(excess, abs=0.01)
    assert found[f"{name}.load_3.target_mbps"]["value"] is None
    assert found[f"{name}.between.verdict"]["value"] == "none lost"
    assert all(EXPERIMENT.declares_key(key) for key in found)


@pytest.mark.parametrize(
    ("loads", "network_lost", "expected"),
    [((200, 270), 3, "lost"), ((200, 270), 0, "none lost"), ((200,), 0, "not tried")],
)
def test_the_network_is_asked_for_losses_between_the_limits(loads, network_lost, expected):
    """What the listener's socket lost says nothing of the last link."""
    table = eliminating().query("target_mbps in @loads")
    above = (table["configuration"] == "frer") & (table["target_mbps"] == 270)
    table = table.assign(network_lost=above * network_lost, lost=above * 3)
    found = values(loss.analyse(table, 1000))
    assert found["loss.elimination.between.verdict"]["value"] == expected


def over_paths(delivered):
    """Control, and FRER over two and three paths, with delivered rates by repetition."""
    table = near((190, 254), {"control": 200, "frer": 200}, repetitions=4)
    over = table[table["configuration"] == "frer"].copy()
    over["trial"] += "-three"
    table = pd.concat([table.assign(paths=2), over.assign(paths=3)], ignore_index=True)
    for paths, rates in delivered.items():
        chosen = (table["target_mbps"] == 254) & (table["paths"] == paths)
        table.loc[chosen, "delivered_mbps"] = table.loc[chosen, "repetition"].map(
            dict(enumerate(rates, start=1))
        )
    return part("paths", table.assign(network_lost=table["lost"]), member_link_rate_mbps=200)


@pytest.mark.parametrize(
    ("three", "expected"),
    [
        ([193.0, 193.2, 193.1, 193.3], "equivalent"),
        ([220.0, 222.0, 221.0, 219.0], "higher"),
        ([160.0, 161.0, 162.0, 161.0], "lower"),
        ([150.0, 240.0, 180.0, 210.0], "cannot tell"),
    ],
)
def test_what_a_third_path_adds_to_the_delivered_rate_is_told(three, expected):
    trials = over_paths({2: [193.1, 193.1, 193.2, 193.2], 3: three})
    found = values(loss.analyse(LOSS.validate(trials), 1000))
    name = "loss.paths"
    assert found[f"{name}.load_2.verdict"]["value"] == expected
    for paths in (2, 3):
        rates = trials.query(f"target_mbps == 254 and paths == {paths} and configuration == 'frer'")
        told = found[f"{name}.load_2.frer_{paths}.delivered_mbps"]
        assert told["low"] < told["value"] < told["high"]
        assert told["value"] == pytest.approx(rates["delivered_mbps"].mean(), rel=0.02)
        assert found[f"{name}.load_1.frer_{paths}.percent"]["value"] == 0
        assert found[f"{name}.load_2.frer_{paths}.percent"]["value"] > 0
    assert found[f"{name}.line_limit.frer.mbps"]["value"] == pytest.approx(200 * 1472 / 1544)
    counts = {key: found[f"{name}.{key}.count"]["value"] for key in ("fewest", "most", "trials")}
    assert counts == {"fewest": 2, "most": 3, "trials": 3 * 2 * 4}
    lost = [found[f"{name}.{key}.total.count"]["value"] for key in ("lost", "network_lost")]
    assert lost[0] == lost[1] > 0
    assert all(EXPERIMENT.declares_key(key) for key in found)


@pytest.mark.parametrize(("three", "expected"), [(193.1, "none"), (193.2, "cannot tell")])
def test_without_spread_only_a_change_of_nothing_is_told(three, expected):
    trials = over_paths({2: [193.1] * 4, 3: [three] * 4})
    found = values(loss.analyse(LOSS.validate(trials), 1000))
    assert found["loss.paths.load_2.verdict"]["value"] == expected
    assert found["loss.paths.load_2.delivered.difference.percent"]["low"] is None


def test_loads_that_differ_and_one_number_of_paths_are_not_compared():
    trials = over_paths({2: [193.1] * 4, 3: [193.2] * 4})
    slower = (trials["paths"] == 3) & (trials["target_mbps"] == 254)
    held_up = trials.assign(offered_mbps=trials["offered_mbps"].where(~slower, 220.0))
    for table in (held_up, trials[trials["paths"] == 2]):
        found = values(loss.analyse(LOSS.validate(table), 1000))
        assert found["loss.paths.load_2.verdict"]["value"] == "cannot tell"
        assert found["loss.paths.load_2.delivered.difference.percent"]["value"] is None
    assert found["loss.paths.load_1.frer_2.percent"]["value"] == 0


def test_a_question_that_was_not_asked_has_no_results():
    found = values(loss.analyse(sweep({"control": 450, "frer": 450}), 1000))
    assert not [key for key in found if ".limit." in key or ".bottleneck." in key]
    others = ("loss.intervention.", "loss.elimination.", "loss.paths.")
    assert not [key for key in found if key.startswith(others)]


@pytest.mark.parametrize(
    ("lost", "limits"),
    [
        # Every trial loses, at the one load that was tried; 64 bytes are framed for 18 of payload.
        (7, (None, 99.9 * 64 / 18)),
        # None does: the line sets the other limit, with 90 bytes on it for a tagged frame.
        (0, (99.9 * 64 / 18, 1000 * 64 / 90)),
    ],
)
def test_of_small_frames_tried_at_one_load_the_side_of_the_threshold_is_known(lost, limits):
    main = [trial(c, 500, r, 0) for c in ("control", "frer") for r in (1, 2, 3)]
    small = [trial(c, 100, r, lost, payload=18) for c in ("control", "frer") for r in (1, 2, 3)]
    found = loss.analyse(LOSS.validate(pd.DataFrame(main + small)), 1000.0)
    threshold = found.of("loss.frame_64.threshold.frer.frame_mbps")
    assert threshold.value is None
    for end, wanted in zip((threshold.low, threshold.high), limits, strict=True):
        assert (end is None) == (wanted is None)
        assert wanted is None or end == pytest.approx(wanted)
    assert found.of("loss.frame_128.threshold.frer.frame_mbps").value is None
