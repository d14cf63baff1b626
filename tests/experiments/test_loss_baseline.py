"""Losses through a device beside those over a cable between the same ports."""

import pandas as pd
import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.experiments.loss.baseline import beside_baseline
from tsnrepro.explore import load


def trials(losses):
    """Return trials of one payload by the load, each with the losses of its repetitions."""
    rows = [
        {
            **{"question": "sweep", "payload_bytes": 1472, "configuration": "control"},
            **{"target_mbps": float(rate), "offered_mbps": float(rate), "sent": 1000},
            **{"lost": lost, "loss_percent": lost / 10, "repetition": number, "duration_s": 1.0},
            "trial": f"{rate}-{number}",
        }
        for rate, repetitions in losses.items()
        for number, lost in enumerate(repetitions)
    ]
    return pd.DataFrame(rows)


DEVICE = trials({100: [0, 0], 500: [0, 3], 900: [50, 60], 950: [70, 80]})
CABLE = trials({100: [0, 0], 500: [0, 0], 900: [0, 1]})


def test_a_load_that_the_cable_does_not_carry_is_no_limit_of_the_device():
    table = beside_baseline(DEVICE, CABLE).set_index("target_mbps")
    assert table["limited_by"].loc[[100.0, 500.0, 900.0]].to_list() == ["none", "device", "bench"]
    assert pd.isna(table.loc[950.0, "limited_by"])
    assert table.loc[900.0, "loss_percent"] == pytest.approx(5.5)
    assert table.loc[900.0, "loss_percent_baseline"] == pytest.approx(0.05)


def bench(device, rate=1000):
    return {"testbed": "bench", "settings": {"device": device, "link_rate_mbps": rate}}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ([bench("GS308"), bench("none")], ""),
        ([bench("GS308"), bench("unmanaged")], "no bench with `device: none`"),
        ([bench("GS308"), {"testbed": "model", "settings": {}}], "no bench with `device: none`"),
        ([{"testbed": "model", "settings": {}}, bench("none")], "not of a bench"),
        ([bench("GS308", 100), bench("none")], "100 Mb/s.*1000 Mb/s"),
    ],
)
def test_only_a_cable_at_the_same_rate_is_a_baseline(monkeypatch, tmp_path, facts, says):
    ran = dict(zip(("device", "cable"), facts, strict=True))
    found = {name: load.Measured({"loss": tmp_path / name / "quick" / "loss"}) for name in ran}
    frames = {"device": DEVICE, "cable": CABLE}
    monkeypatch.setattr(load, "load_trials", lambda run: frames[run.parents[2].name])
    monkeypatch.setattr(
        "tsnrepro.results.testbed.facts_of", lambda run: ("", ran[run.parents[2].name])
    )
    if says:
        with pytest.raises(RecordError, match=says):
            found["device"].beside_baseline(found["cable"])
    else:
        table = found["device"].beside_baseline(found["cable"])
        assert table["limited_by"].value_counts().to_dict() == {"none": 1, "device": 1, "bench": 1}
