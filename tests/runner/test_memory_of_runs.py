"""A run that goes on for days holds no more memory than one of minutes: nothing is kept a trial."""

import gc
import tracemalloc
import weakref
from itertools import pairwise

import pytest

from tsnrepro.config import files as campaigns
from tsnrepro.experiments.loss import measure as loss
from tsnrepro.experiments.loss.plan import plan as plan_loss
from tsnrepro.records.store import RawStore
from tsnrepro.runner.run import run_trials
from tsnrepro.testbeds.model import ModelTestbed

# After the caches of a process have filled, and twice: what is made once, whenever that is, is not
# kept a trial.
LOOKS = (80, 140, 200)
# Progress keeps which trials have ended: an element of a set, which grows by doubling, and its
# integer. A record of one trial alone takes 11 kB when it is read.
BYTES_A_TRIAL = 300


class Look:
    """Measures on the model, and looks at the memory when so many trials have been measured."""

    def __init__(self) -> None:
        self._trials = 0
        self.held: list[int] = []

    def __call__(self, testbed, trial, measured) -> None:
        if self._trials in LOOKS:
            gc.collect()
            self.held.append(tracemalloc.get_traced_memory()[0])
        self._trials += 1
        loss.measure(testbed, trial, measured)

    def bytes_a_trial(self) -> float:
        grown = zip(pairwise(self.held), pairwise(LOOKS), strict=True)
        return min((held - before) / (n - few) for (before, held), (few, n) in grown)


class Keeping(Look):
    """Keeps what each trial gave, as a cache by trials would."""

    def __init__(self) -> None:
        super().__init__()
        self._kept = []

    def __call__(self, testbed, trial, measured) -> None:
        super().__call__(testbed, trial, measured)
        self._kept.append(measured.values)


@pytest.fixture
def planned():
    settings = campaigns.campaign("soak").loss
    assert settings is not None
    part = settings.parts[0].model_copy(update={"duration_s": 1, "rates_mbps": [1]})
    changed = {"parts": [part], "repetitions": LOOKS[-1] // len(settings.configurations) + 1}
    return plan_loss(settings.model_copy(update=changed), 1, "model")


class OneByOne(ModelTestbed):
    """Takes a trial at a time, as measuring does: a look sees nothing of one that still runs."""

    max_parallel = 1


@pytest.fixture
def testbed():
    return OneByOne(campaigns.testbed_settings("model"))


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def run(root, groups, testbed, measure) -> None:
    for number, items in enumerate(groups):
        store = RawStore(root / str(number), "model", "soak", "loss")
        run_trials(store, items, 1, lambda: testbed, measure)


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_a_run_keeps_nothing_of_its_trials(tmp_path, planned, testbed):
    look = Look()
    run(tmp_path, [planned], testbed, look)
    assert look.bytes_a_trial() < BYTES_A_TRIAL


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_a_process_keeps_nothing_of_its_runs(tmp_path, planned, testbed):
    look = Look()
    run(tmp_path, [[item] for item in planned], testbed, look)
    assert look.bytes_a_trial() < BYTES_A_TRIAL


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_what_is_kept_would_be_seen(tmp_path, planned, testbed):
    look = Keeping()
    run(tmp_path, [planned], testbed, look)
    assert look.bytes_a_trial() > BYTES_A_TRIAL


class Ring:
    """Refers to itself, as do the closures of an indented JSON text."""

    def __init__(self) -> None:
        self.others = [self, *([] for _ in range(1000))]


def test_garbage_of_a_trial_goes_with_it(tmp_path, planned, testbed):
    """Left alone, it waits until it is a quarter of all that is loaded: for tens of trials here."""
    rings, there = weakref.WeakSet(), []

    def measure(_testbed, _trial, _measured):
        there.append(len(rings))
        rings.add(ring := Ring())
        gc.collect(1)  # it outlives a young collection, and only a full one takes it away
        assert ring in rings

    run(tmp_path, [planned], testbed, measure)
    assert len(there) == len(planned)
    assert max(there) == 0
    assert not gc.get_freeze_count(), "what was set aside is back"


def test_what_the_first_trial_loads_is_looked_through_once(tmp_path, planned, testbed):
    """A library or a compiler would else cost every trial a tenth of a second."""
    loaded, looked_through = [], []

    def measure(_testbed, _trial, _measured):
        looked_through.append(len(gc.get_objects()))  # what is set aside is not among them
        if not loaded:
            loaded.extend([] for _ in range(1_000_000))

    run(tmp_path, [planned], testbed, measure)
    assert len(loaded) == 1_000_000
    assert max(looked_through[1:]) < len(loaded) / 10
