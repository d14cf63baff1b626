"""What a campaign has measured so far: counts, time left, odd trials; from the records alone."""

import io
import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import files as campaigns
from tsnrepro.explore import watch as watching
from tsnrepro.explore.watch import now, watch, watched, watched_runs
from tsnrepro.records.store import DOCUMENT, RawStore
from tsnrepro.runner.control import RUN_CONTROL, controlled
from tsnrepro.runner.plan import planned_trials

RUN = ("model", "short", "loss")


@pytest.fixture
def repository(short_repository, tmp_path, monkeypatch):
    folder = tmp_path / "repository"
    shutil.copytree(short_repository, folder)
    monkeypatch.setattr(campaigns, "root", lambda: folder)
    monkeypatch.setattr("tsnrepro.workflow.status.root", lambda: folder)
    return folder


@pytest.fixture
def store(repository):
    return RawStore(campaigns.raw_root(), *RUN)


def change(store, item, **fields):
    """Change the document of a trial's attempt; checksums are not what is watched."""
    path = store.attempts(item.trial)[0] / DOCUMENT
    document = json.loads(path.read_text())
    values = document["values"] | fields.pop("values", {})
    path.write_text(json.dumps(document | {"values": values} | fields))


def text_of(shown) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(shown)
    return console.file.getvalue()


def test_measured_and_missing_trials_are_counted(store):
    planned = planned_trials("loss", "model", "short")
    for item in planned[-3:]:
        shutil.rmtree(store.attempts(item.trial)[0])
    found = watched(*RUN)
    assert (found.done, found.left, found.live) == (len(planned) - 3, 3, False)
    assert found.left_s > 0
    assert sum(len(values) for _, values in found.groups.values()) == len(planned) - 3
    with controlled(store.folder / RUN_CONTROL, {}):
        assert watched(*RUN).live
        assert watched_runs() == [RUN]
        shown = text_of(now())
    assert "loss of short on model: measuring" in shown
    assert f"{len(planned) - 3} of {len(planned)} trials measured, 3 left, about" in shown
    assert "loss_percent" in shown


def test_the_time_left_follows_what_trials_took(store):
    planned = planned_trials("loss", "model", "short")
    began, spent = datetime(2026, 1, 1, tzinfo=UTC), -1.0
    for number, item in enumerate(planned):
        if number >= len(planned) // 2:
            shutil.rmtree(store.attempts(item.trial)[0])
            continue
        # Twice as long as planned, and one second between two; then an hour's interruption.
        change(store, item, seconds=2 * item.nominal_s, started=began.isoformat())
        began += timedelta(seconds=2 * item.nominal_s + 1)
        spent += 2 * item.nominal_s + 1
    half = planned[: len(planned) // 2]
    last, seconds = half[-1], 2 * half[-1].nominal_s
    change(store, last, seconds=seconds, started=(began + timedelta(hours=1)).isoformat())
    spent -= 1 if len(half) > 1 else 0
    left = sum(item.nominal_s for item in planned[len(half) :])
    per_nominal_s = spent / sum(item.nominal_s for item in half)
    assert watched(*RUN).left_s == pytest.approx(left * per_nominal_s, rel=0.25)


def test_odd_trials_are_named(store):
    items = planned_trials("loss", "model", "short")
    change(store, items[0], status="unsteady", reason="the machine stalled for 50 ms")
    change(store, items[1], values={"accounting": {"unaccounted": 7}})
    change(store, items[2], values={"result": {"offered_mbps": 1.0, "sent": 10, "lost": 0}})
    change(store, items[3], values={"trials": [{"generator_limited": True}, {"lost": 1}]})
    odd = "\n".join(watched(*RUN).odd)
    assert f"{items[0].trial.name(1)}: unsteady: the machine stalled for 50 ms" in odd
    assert f"{items[1].trial.name(1)}: 7 datagrams are not accounted for" in odd
    assert f"{items[2].trial.name(1)}: the generator offered 1 of" in odd
    assert f"{items[3].trial.name(1)}: the generator limited 1 of its loads" in odd


def test_an_outlier_is_one_of_enough_trials_that_are_alike():
    def documents(values):
        return [
            {"label": "frer", "trial": f"r{n}", "values": {"goodput_mbps": value}, "factors": {}}
            for n, value in enumerate(values)
        ]

    found = list(watching._outliers(documents([90.0, 91.0, 90.5, 89.5, 60.0])))
    assert found == ["r4: outlier: goodput_mbps 60, median of 5 90"]
    assert not list(watching._outliers(documents([90.0, 91.0, 90.5, 60.0])))


def test_a_page_reloads_itself(repository, tmp_path):
    page = tmp_path / "page.html"
    watching.write_page(now(*RUN), page, 5)
    text = page.read_text()
    assert '<meta http-equiv="refresh" content="5">' in text
    assert "of short on model: not measuring" in text


def test_without_a_terminal_it_is_shown_once(repository):
    stream = io.StringIO()
    watch(stream, (None, "short", "tcp"))
    assert "tcp of short on model: not measuring" in stream.getvalue()


def test_where_nothing_was_measured_it_says_so(repository):
    with pytest.raises(ConfigurationError, match=r"nothing was measured yet.*\*/long/\*"):
        watched_runs(None, "long")
