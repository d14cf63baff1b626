"""The remaining time: right within a factor of two after a tenth, and said plainly."""

import os
import pty
import random
import termios
import time
from contextlib import closing

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbclient import NotebookClient
from pseudo_terminal import CLEARED, said_to

from tsnrepro.common.durations import duration
from tsnrepro.config.files import campaign
from tsnrepro.experiments.latency import plan as latency
from tsnrepro.experiments.loss import plan as loss
from tsnrepro.experiments.tcp import plan as tcp
from tsnrepro.runner import progress
from tsnrepro.runner.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def estimates(clock, nominal, actual) -> list[tuple[float, float]]:
    """Return, at the start of each trial, the estimate and the truth of what remains."""
    shown, found = Progress("loss", nominal), []
    for index, seconds in enumerate(actual):
        shown.begin(index, "label")
        found.append((shown.remaining_s(), sum(actual[index:])))
        clock.now += seconds
        shown.end(index)
    return found


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("overhead_s", [0.0, 0.3, 6.0])
@pytest.mark.parametrize("module", [loss, tcp, latency])
@pytest.mark.parametrize("name", ["quick", "documents"])
def test_right_within_a_factor_of_two_after_a_tenth(clock, name, module, overhead_s, factor):
    """Real plans; trials that take longer or shorter than they should, and a constant besides."""
    settings = campaign(name)
    own = settings.section(module.__name__.split(".")[-2])
    nominal = [item.nominal_s for item in module.plan(own, settings.seed, "emulated")]
    noise = random.Random(f"{name}{module.__name__}{overhead_s}{factor}")
    actual = [factor * seconds * noise.uniform(0.8, 1.2) + overhead_s for seconds in nominal]
    tenth = max(1, len(nominal) // 10)
    for estimate, truth in estimates(clock, nominal, actual)[tenth:]:
        assert truth / 2 <= estimate <= truth * 2


def test_exact_when_every_trial_takes_so_many_times_longer(clock):
    nominal = [1.0, 10.0, 2.0, 60.0, 3.0]
    found = estimates(clock, nominal, [1.7 * seconds for seconds in nominal])
    assert found[0][0] == sum(nominal), "before the first trial the plan is all there is"
    for estimate, truth in found[1:]:
        assert estimate == pytest.approx(truth)


def test_each_trial_is_one_line(clock, capsys):
    estimates(clock, [60.0, 60.0], [90.0, 90.0])
    assert capsys.readouterr().out.splitlines() == [
        "loss: trial 1 of 2 (label), 2 min 0 s left",
        "loss: trial 2 of 2 (label), 1 min 30 s left",
    ]


def test_further_trials_are_counted_on(clock, capsys):
    shown = Progress("loss", [60.0])
    shown.begin(0, "label")
    clock.now += 90
    shown.end(0)
    first = shown.further([20.0, 20.0])
    shown.begin(first, "label")
    assert capsys.readouterr().out.splitlines()[-1] == "loss: trial 2 of 3 (label), 1 min 0 s left"


def test_lines_go_to_the_terminal_of_the_campaign_too(clock, capsys, monkeypatch, tmp_path):
    terminal = tmp_path / "terminal"
    monkeypatch.setenv("TSNREPRO_PROGRESS", str(terminal))
    estimates(clock, [1.0], [1.0])
    assert terminal.read_text() == "loss: trial 1 of 1 (label), 0 done, 1 s left\n"
    assert capsys.readouterr().out == "loss: trial 1 of 1 (label), 1 s left\n"


def test_a_file_in_the_terminals_place_gets_a_line_every_minute(monkeypatch, tmp_path):
    """Also while one trial lasts, and none after the run has ended."""
    file = tmp_path / "file"
    monkeypatch.setenv("TSNREPRO_PROGRESS", str(file))
    monkeypatch.setattr(progress, "_LINE_EVERY_SECONDS", 0.3)
    with closing(Progress("loss", [600.0] * 6, testbed="emulated")) as shown:
        for index in range(2):
            shown.begin(index, "frer-500M")
            if index == 0:
                shown.end(index)
        time.sleep(0.8)
    lines = file.read_text().splitlines()
    time.sleep(0.5)
    assert lines == file.read_text().splitlines()
    assert lines[0] == "emulated loss: trial 1 of 6 (frer-500M), 0 done, 1 h 0 min left"
    assert 2 <= len(lines[1:]) <= 3
    assert all("emulated loss: trial 2 of 6 (frer-500M), 1 done, " in line for line in lines[1:])


def test_a_terminal_has_one_line_that_is_cleared_in_the_end(clock, monkeypatch):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 30))
    monkeypatch.setenv("TSNREPRO_PROGRESS", os.ttyname(theirs))
    estimates(clock, [60.0, 60.0], [90.0, 90.0])
    said = said_to(ours, until=CLEARED, times=3)
    os.close(theirs)
    os.close(ours)
    lines = said.split(CLEARED)
    assert lines == ["", "loss: trial 1 of 2 (label), 2", "loss: trial 2 of 2 (label), 1", ""]
    assert max(map(len, lines)) < 30


def test_a_notebook_shows_a_bar(tmp_path):
    cells = [
        nbformat.v4.new_code_cell(
            "from tsnrepro.runner.progress import Progress\n"
            "shown = Progress('loss', [1.0, 1.0])\n"
            "for index in range(2):\n"
            "    shown.begin(index, 'label')\n"
            "    shown.end(index)"
        )
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3").execute()
    (output,) = notebook.cells[0].outputs
    assert '<progress value="2" max="2"' in output.data["text/html"]
    assert output.data["text/plain"] == "loss: 2 trials recorded in 0 s"


def test_a_terminal_that_is_gone_stops_nothing(clock, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TSNREPRO_PROGRESS", str(tmp_path / "no" / "terminal"))
    estimates(clock, [1.0], [1.0])
    said = capsys.readouterr()
    assert "trial 1 of 1" in said.out
    assert "no progress on" in said.err


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (7.6, "8 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (90000, "25 h 0 min"),
    ],
)
def test_durations_as_people_say_them(seconds, said):
    assert duration(seconds) == said


@given(st.floats(0, 1e6))
def test_a_duration_says_the_time_to_its_last_unit(seconds):
    units = {"s": 1, "min": 60, "h": 3600}
    words = duration(seconds).split()
    said = sum(int(n) * units[unit] for n, unit in zip(words[::2], words[1::2], strict=True))
    assert abs(said - seconds) <= (60.5 if "h" in words else 0.5)


def test_a_trial_may_end_while_another_thread_estimates():
    shown = Progress("loss", [1.0, 1.0, 1.0, 1.0])

    class Nominal(list):
        """Ends trial 2 when the seconds of a trial are read, as another thread may."""

        def __getitem__(self, index: int) -> float:
            if 2 not in shown._took:
                shown.end(2)
            return super().__getitem__(index)

    for index in range(3):
        shown.begin(index, "label")
    shown.end(0)
    shown.end(1)
    shown._nominal = Nominal(shown._nominal)
    assert shown.remaining_s() >= 0
