"""The order of trials: random within a block, the same for a seed, and nothing left out."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import parse
from tsnrepro.config.files import campaign
from tsnrepro.experiments.latency import plan as latency
from tsnrepro.experiments.loss import plan as loss
from tsnrepro.experiments.loss.settings import LossSettings
from tsnrepro.experiments.mausezahn import plan as mausezahn
from tsnrepro.experiments.mausezahn.settings import MausezahnSettings
from tsnrepro.experiments.tcp import plan as tcp
from tsnrepro.experiments.tcp.settings import TcpSettings
from tsnrepro.records.store import Trial
from tsnrepro.runner.design import Planned, in_blocks
from tsnrepro.runner.plan import planned_trials

MODULES = {"loss": loss, "tcp": tcp, "latency": latency}
CAMPAIGNS = ("smoke", "quick", "documents")
EVERY_CAMPAIGN = sorted(path.stem for path in (root() / "config/campaigns").glob("*.yaml"))
# Factors that the cells of one comparison differ by, besides the configuration.
CELLS = {
    "loss": ("paths", "rate_mbps", "receive_buffer_bytes", "realtime_listener"),
    "shaping": ("mode", "load_mbps"),
    "tcp": ("duration_s",),
}


def blocks(trials, seed):
    """Return trials in random blocks; the order that they are planned in is that of the list."""
    planned = in_blocks([Planned(trial, 0, 1.0) for trial in trials], seed)
    assert [item.order for item in planned] == [*range(len(planned))]
    return [item.trial for item in planned]


@st.composite
def experiments(draw):
    conditions = draw(st.lists(st.integers(0, 1000), unique=True, min_size=1, max_size=12))
    repetitions = draw(st.integers(1, 5))
    trials = [
        Trial("loss", str(number), {"number": number}, repetition)
        for repetition in range(1, repetitions + 1)
        for number in conditions
    ]
    return trials, len(conditions), repetitions


@given(experiments(), st.integers(0, 2**32))
def test_blocks_are_complete_and_in_order(experiment, seed):
    trials, conditions, repetitions = experiment
    ordered = blocks(trials, seed)
    assert Counter(t.digest for t in ordered) == Counter(t.digest for t in trials)
    for repetition in range(1, repetitions + 1):
        block = ordered[(repetition - 1) * conditions : repetition * conditions]
        assert {trial.repetition for trial in block} == {repetition}
        assert len({trial.factors["number"] for trial in block}) == conditions


@given(experiments(), st.integers(0, 2**32), st.randoms())
def test_the_order_depends_on_the_seed_alone(experiment, seed, random):
    """Not on the order in which the trials are listed, nor on what was planned before."""
    trials, _, _ = experiment
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert blocks(trials, seed) == blocks(shuffled, seed)


def test_another_seed_is_another_order_and_blocks_differ():
    trials = [Trial("loss", str(n), {"number": n}, r) for r in (1, 2, 3) for n in range(20)]
    orders = {
        tuple(trial.factors["number"] for trial in blocks(trials, seed)[:20]) for seed in range(20)
    }
    assert len(orders) == 20
    ordered = [trial.factors["number"] for trial in blocks(trials, 1)]
    assert len({tuple(ordered[i : i + 20]) for i in (0, 20, 40)}) == 3


def test_every_place_in_the_order_is_equally_likely():
    """Over many seeds a trial stands at every place about as often: no systematic drift."""
    trials = [Trial("loss", str(n), {"number": n}, 1) for n in range(4)]
    places = Counter(
        next(i for i, t in enumerate(blocks(trials, seed)) if t.factors["number"] == 0)
        for seed in range(4000)
    )
    # Binomial with n = 4000, p = 1/4: standard deviation 27; five of them is once in a million.
    assert all(abs(places[place] - 1000) < 137 for place in range(4))


@pytest.mark.parametrize("name", CAMPAIGNS)
@pytest.mark.parametrize("experiment", MODULES)
def test_a_campaigns_plan_is_balanced(name, experiment):
    settings = campaign(name)
    items = MODULES[experiment].plan(getattr(settings, experiment), settings.seed, "emulated")
    assert [item.order for item in items] == list(range(len(items)))
    assert len({item.trial.name(1) for item in items}) == len(items)
    # Over further member paths there is FRER alone.
    factors = [item.trial.factors for item in items]
    paired = [each for each in factors if each.get("question") != "paths" or each["paths"] == 2]
    configurations = Counter(each["configuration"] for each in paired)
    assert configurations["frer"] == configurations["control"] == len(paired) / 2
    for item in items:
        assert item.trial.experiment == experiment
        assert item.nominal_s > item.trial.factors["duration_s"]
        assert "/" not in item.trial.name(1)


def comparison_and_cell(trial):
    """Return what a trial shares with those that it is compared with, and what it differs by."""
    own = ("configuration", *CELLS.get(trial.experiment, ()))
    if trial.factors.get("phase"):  # its loads are described, and none is compared with another
        own = ("configuration",)
    shared = {name: value for name, value in trial.factors.items() if name not in own}
    return repr(shared), repr([trial.factors.get(name) for name in own])


@pytest.mark.parametrize("name", EVERY_CAMPAIGN)
@pytest.mark.parametrize("testbed", ["emulated", "model", "guest"])
def test_every_cell_of_a_comparison_is_measured_in_every_block(name, testbed):
    compared = 0
    for experiment in campaign(name).experiments:
        try:
            planned = planned_trials(experiment, testbed, name)
        except ConfigurationError:
            continue  # not for this testbed
        order, cells = defaultdict(list), defaultdict(lambda: defaultdict(list))
        for item in planned:
            shared, own = comparison_and_cell(item.trial)
            order[shared].append(item.trial.repetition)
            cells[shared][own].append(item.trial.repetition)
        for shared, repetitions in cells.items():
            blocks_of = {own: sorted(numbers) for own, numbers in repetitions.items()}
            first, *_ = blocks_of.values()
            assert len(first) == len({*first}), shared
            assert all(numbers == first for numbers in blocks_of.values()), (shared, blocks_of)
            # One block after another: nothing of another hour is paired.
            assert order[shared] == sorted(order[shared]), shared
            compared += len(blocks_of) > 1
    assert compared or testbed == "guest" or name == "rfc2544-full"


def test_the_sweep_has_every_load_of_every_payload():
    settings = LossSettings.model_validate(
        {
            "repetitions": 2,
            "parts": [
                {"payload_bytes": 18, "rates_mbps": [10, 20], "duration_s": 1},
                {"payload_bytes": 1472, "rates_mbps": [500], "duration_s": 3},
            ],
        }
    )
    found = Counter(
        (f["configuration"], f["payload_bytes"], f["rate_mbps"], f["duration_s"])
        for f in (item.trial.factors for item in loss.plan(settings, 1, "emulated"))
    )
    loads = [(18, 10.0, 1), (18, 20.0, 1), (1472, 500.0, 3)]
    assert found == {(c, *load): 2 for c in ("control", "frer") for load in loads}


@pytest.mark.parametrize("experiment", MODULES)
def test_the_model_plans_the_same_trials_and_takes_less_time(experiment):
    settings = getattr(campaign("quick"), experiment)
    here, model = (MODULES[experiment].plan(settings, 1, kind) for kind in ("emulated", "model"))
    assert [item.trial for item in here] == [item.trial for item in model]
    assert sum(item.nominal_s for item in model) < 0.2 * sum(item.nominal_s for item in here)


def test_a_trial_keeps_its_name_when_the_campaign_grows():
    """Resuming finds what was measured before more loads were asked for."""

    def named(rates):
        part = {"payload_bytes": 64, "rates_mbps": rates, "duration_s": 1}
        settings = LossSettings.model_validate({"repetitions": 1, "parts": [part]})
        return {i.trial.name(1) for i in loss.plan(settings, 1, "emulated")}

    assert named([10, 20]) < named([10, 20, 30])
    assert named([10]) == named([10.0])


def test_tcp_over_links_that_hosts_fill_comes_last():
    limit = {"link_rate_mbps": 500, "duration_s": 2, "repetitions": 3}
    asked = {"repetitions": 2, "durations_s": [1, 2], "limit": limit}
    planned = tcp.plan(TcpSettings.model_validate(asked), 1, "emulated")
    own = [item.testbed for item in planned]
    assert own == [{}] * 8 + [{"link_rate_mbps": 500}] * 6
    assert [item.order for item in planned] == list(range(14))
    # What other trials are does not change with it: those on record stay theirs.
    without = tcp.plan(TcpSettings.model_validate(asked | {"limit": None}), 1, "emulated")
    names = {item.trial.name(1) for item in planned[:8]}
    assert {item.trial.name(1) for item in without} == names


def test_numbers_of_paths_are_brought_up_in_every_block():
    section = campaign("quick").loss
    planned = loss.plan(section, 1, "emulated")
    own = [item for item in planned if "paths" in item.testbed]
    brought_up = [
        (item.trial.repetition, item.testbed["paths"])
        for before, item in zip([None, *own], own, strict=False)
        if before is None or before.testbed != item.testbed
    ]
    assert brought_up == [(block, paths) for block in (1, 2, 3) for paths in (2, 3)]


def test_repetitions_take_the_ports_of_mausezahn_in_turn_and_the_usual_one_is_no_factor():
    settings = campaign("documents").mausezahn

    def trials(**changed):
        given = settings.model_copy(update=changed)
        return [item.trial for item in mausezahn.plan(given, 1, "emulated")]

    ports = {(trial.repetition, trial.factors.get("port")) for trial in trials()}
    assert ports == {(1, None), (2, 5000)}
    usual, other = ({trial.digest for trial in trials(ports=[port])} for port in (5001, 5000))
    assert not usual & other
    assert {trial.digest for trial in trials()} < usual | other
    assert MausezahnSettings.model_validate(settings.model_dump(exclude={"ports"})).ports == [5001]
    with pytest.raises(ConfigurationError, match="ports"):
        parse(MausezahnSettings, settings.model_dump() | {"ports": [0]}, "a file")


def test_links_of_mausezahn_are_a_factor_only_where_they_are_its_own():
    settings = campaign("documents").mausezahn
    slow = mausezahn.plan(settings.model_copy(update={"link_rate_mbps": 10}), 1, "emulated")
    usual = mausezahn.plan(settings, 1, "emulated")
    assert not any("link_rate_mbps" in item.trial.factors for item in usual)
    assert {item.trial.factors["link_rate_mbps"] for item in slow} == {10}
    assert all(item.testbed == {"link_rate_mbps": 10} for item in slow)
    assert all(item.testbed == {} for item in usual)
