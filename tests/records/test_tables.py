"""Tables of trials: columns that every experiment's trials have."""

import json

import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.records.store import RawStore, Trial
from tsnrepro.records.tables import load_trials, table_of_records


def metered(longest_ms: float, stalls: int) -> dict:
    """Return a stall monitor's record of a host with two processors, one of which stalled."""
    processor = {"checks": 1000, "stalls": 0, "stalled_ms": 0.0, "longest_ms": 0.1}
    kept = processor | {"stalls": stalls, "stalled_ms": longest_ms, "longest_ms": longest_ms}
    return {
        "threshold_ms": 1.0,
        "longest_ms": longest_ms,
        "processors": {"0": processor, "1": kept},
    }


def record(order: int, **values) -> dict:
    return {
        "trial": f"bridge-r{order + 1}",
        "sha256": "0" * 64,
        "repetition": order + 1,
        "order": order,
        "started": "2026-01-01T00:00:00+00:00",
        "factors": {"mode": "tas"},
        "values": {"result": {"lost": 0}, **values},
    }


def test_each_trial_has_the_longest_stall_of_its_hosts():
    stalls = {"listener": metered(3.5, 2), "talker": metered(7.25, 1)}
    trials = table_of_records("shaping", [record(0, stalls=stalls), record(1)])
    assert trials["longest_stall_ms"].tolist() == pytest.approx([7.25, float("nan")], nan_ok=True)
    assert trials["stalls"].tolist() == pytest.approx([3, float("nan")], nan_ok=True)
    assert trials["mode"].tolist() == ["tas", "tas"]


def test_without_stall_monitors_there_is_no_such_column():
    assert "longest_stall_ms" not in table_of_records("shaping", [record(0)])


def test_a_trial_that_does_not_fit_is_named(tmp_path):
    store = RawStore(tmp_path / "raw", "rack", "quick", "shaping")
    entries = []
    for number, order in enumerate((0, -5), start=1):
        trial = Trial("shaping", "tas", {"mode": "tas"}, number)
        folder = store.put(trial, 1, record(0) | {"order": order, "repetition": number}, {})
        entries.append({"trial": folder.name, "sha256": store.sha256(folder)})
    run = dict(
        zip(("testbed", "campaign", "experiment"), ("rack", "quick", "shaping"), strict=True)
    )
    manifest = tmp_path / "run.json"
    manifest.write_text(json.dumps(run | {"folder": str(store.folder), "trials": entries}))
    with pytest.raises(RecordError, match="-5") as raised:
        load_trials(manifest)
    assert raised.value.where == str(store.folder / entries[1]["trial"])
