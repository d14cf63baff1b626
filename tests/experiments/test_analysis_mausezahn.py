"""mausezahn's 42 points on trials whose rates are known."""

import pandas as pd
import pytest

from tsnrepro.experiments.mausezahn import analysis as mausezahn
from tsnrepro.experiments.mausezahn.measure import target_pps
from tsnrepro.experiments.mausezahn.settings import EXPERIMENT

REACHED_PPS = 20_000.0


def trials(loads=(50, 100), frames=(64, 1518)):
    rows = []
    for frame in frames:
        for load in loads:
            target = target_pps(frame, load, 1000)
            for number in (1, 2, 3):
                achieved = min(target, REACHED_PPS * (1 + number / 100))
                rows.append(
                    {
                        "trial": f"{frame}-{load}-{number}",
                        "sha256": f"{frame}{load}{number}".ljust(64, "0"),
                        "repetition": number,
                        "configuration": "frer",
                        "frame_bytes": frame,
                        "load_percent": load,
                        "target_pps": target,
                        "achieved_pps": achieved,
                        "delivered_pps": achieved,
                        "achieved_frame_mbps": achieved * frame * 8e-6,
                        "timed_out": achieved < target,
                        "limited_by": "generator",
                        "duration_s": 10,
                        "deadline_s": 40,
                    }
                )
    return pd.DataFrame(rows)


def test_every_one_of_the_42_points_has_its_keys():
    found = mausezahn.analyse(trials())
    assert [key for key in found.keys if not EXPERIMENT.declares_key(key)] == []
    for frame in mausezahn.FRAMES_BYTES:
        for load in mausezahn.LOADS_PERCENT:
            item = found.of(f"mausezahn.frame_{frame}.frer.load_{load}.achieved_frame_mbps")
            assert (item.value is not None) == (frame in (64, 1518) and load in (50, 100))
    assert found.of("mausezahn.frame_256.frer.achieved_pps").method.startswith("no interval")
    assert found.of("mausezahn.deadline_s").value == 40


def test_the_share_of_the_target_is_the_generators():
    found = mausezahn.analyse(trials())
    value, low, high = found.interval("mausezahn.frame_64.frer.efficiency_percent")
    truth = 100 * REACHED_PPS * 1.02 / target_pps(64, 100, 1000)
    assert value == pytest.approx(truth, rel=0.001)
    assert low < value < high


def test_the_table_has_the_published_column_at_full_load_only():
    table = mausezahn.by_load(trials())
    assert len(table) == 2 * 42
    full = table[table["load_percent"] == 100].set_index(["frame_bytes", "configuration"])
    assert full.loc[(1518, "frer"), "published_frame_mbps"] == 246.50
    assert full.loc[(256, "frer"), "published_percent"] == 25.0
    assert pd.isna(full.loc[(256, "frer"), "achieved_pps"])
    assert table[table["load_percent"] < 100]["published_frame_mbps"].isna().all()
    assert len(mausezahn.summary(trials())) == 12


def test_the_rate_of_the_links_follows_from_the_targets():
    found = mausezahn.analyse(trials()).of("mausezahn.link_rate.mbps")
    assert (found.value, found.unit) == (1000, "Mb/s")
