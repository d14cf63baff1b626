"""The stored trials of the benchmarks, and measuring one of each."""

import json
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from rfc2544_documents import record
from rfc2544_networks import KnownNetwork

from tsnrepro.common.errors import ConfigurationError, RecordError, ToolError
from tsnrepro.config.files import campaign
from tsnrepro.experiments.rfc2544 import measure as rfc2544
from tsnrepro.experiments.rfc2544.measure import measure_benchmark, throughput_of
from tsnrepro.experiments.rfc2544.plan import Factors, plan
from tsnrepro.experiments.rfc2544.settings import (
    BackToBackSettings,
    FrameLossSettings,
    Rfc2544Settings,
    RfcLatencySettings,
    SlowLinks,
    SystemRecoverySettings,
    ThroughputSettings,
)
from tsnrepro.records.store import RawStore
from tsnrepro.runner.load import IntendedLoad, LoadOutcome
from tsnrepro.runner.measurement import Measurement
from tsnrepro.runner.run import run_trials
from tsnrepro.runner.testbed import open_testbed

FULL = Rfc2544Settings(
    throughput=ThroughputSettings(),
    frame_loss=FrameLossSettings(),
    back_to_back=BackToBackSettings(),
    system_recovery=SystemRecoverySettings(),
    latency=RfcLatencySettings(),
)
SMALL = Rfc2544Settings(
    throughput=ThroughputSettings(frames_bytes=[512], payloads_bytes=[512]),
    frame_loss=FrameLossSettings(frames_bytes=[512], duration_s=1),
    back_to_back=BackToBackSettings(frames_bytes=[512], searches=3),
    system_recovery=SystemRecoverySettings(frames_bytes=[512], repetitions=1),
)


def test_the_full_campaign_holds_every_benchmark_size_and_method():
    trials = [item.trial for item in plan(FULL, 1, "emulated")]
    counted = Counter(trial.factors["benchmark"] for trial in trials)
    assert counted == {
        "throughput": 4 * 2 * (7 + 6),
        "frame-loss": 2 * 2 * 7,
        "back-to-back": 2 * 7,
        "system-recovery": 5 * 2 * 7,
        "latency": 20 * 4 * 2 * 7,
    }
    assert len({trial.name(1) for trial in trials}) == len(trials)


def test_frames_and_the_documents_payloads_are_told_apart():
    sizes = {
        (item.trial.factors["frame_bytes"], item.trial.factors["payload_bytes"])
        for item in plan(FULL, 1, "emulated")
        if item.trial.factors["benchmark"] == "throughput"
    }
    frames = {(f, f - 46) for f in (64, 128, 256, 512, 1024, 1280, 1518)}
    assert sizes == frames | {(None, p) for p in (64, 128, 256, 512, 1024, 1518)}


def test_throughput_is_measured_first_and_times_are_positive():
    planned = plan(FULL, 1, "emulated")
    order = [item.trial.factors["benchmark"] for item in planned]
    assert order == sorted(order, key=list(dict.fromkeys(order)).index)
    assert order[0] == "throughput"
    assert [item.order for item in planned] == list(range(len(planned)))
    assert all(item.nominal_s > 0 for item in planned)


def test_other_settings_of_a_search_are_another_trial_and_more_sizes_are_not():
    def digests(**changed):
        part = ThroughputSettings(frames_bytes=[512], payloads_bytes=[], **changed)
        return {item.trial.digest for item in plan(Rfc2544Settings(throughput=part), 1, "emulated")}

    assert digests() < digests(repetitions=2)
    assert digests(binary_search={"steps": 12}) - digests()
    assert len(digests(binary_search={"steps": 12}) & digests()) == 6


def test_a_trial_is_measured_with_the_settings_of_its_method():
    searches = {
        "binary-search": {"steps": 3, "loss_percent": 0.1, "resolution_mbps": 2.0},
        "mlrsearch": {"min_load_percent": 2.0},
        "systematic": {"loads": 7, "repetitions": 5, "last_repetitions": 4, "direction": "down"},
    }
    asked = {name.replace("-", "_"): own for name, own in searches.items()}
    part = ThroughputSettings(frames_bytes=[512], payloads_bytes=[], methods=[*searches], **asked)
    for item in plan(Rfc2544Settings(throughput=part), 1, "emulated"):
        factors = Factors.of(item.trial)
        assert factors.method_settings == getattr(part, factors.method.replace("-", "_"))


def bisection(**settings):
    part = {"frames_bytes": [], "payloads_bytes": [64], "methods": ["binary-search"]}
    throughput = ThroughputSettings(**part, binary_search=settings)
    item, _ = plan(Rfc2544Settings(throughput=throughput), 1, "emulated")
    return item.trial


def test_who_sends_in_a_search_is_a_factor_and_ours_is_that_of_older_records():
    ours, theirs = bisection(), bisection(generator="iperf3", from_line_rate=True)
    assert {"generator", "from_line_rate"}.isdisjoint(ours.factors["settings"])
    assert Factors.of(ours).generator == "talker"
    assert Factors.of(theirs).generator == "iperf3"
    assert Factors.of(theirs).method_settings.from_line_rate
    assert ours.digest != theirs.digest
    assert ours.digest == bisection(generator="talker", from_line_rate=False).digest


def test_a_search_from_the_line_rate_tries_no_ceiling():
    for settings, purposes in (({}, {"ceiling", "search"}), ({"from_line_rate": True}, {"search"})):
        network = KnownNetwork(100_000.0)
        values = measure_benchmark(Factors.of(bisection(**settings)), network, 1000.0)
        assert {trial["purpose"] for trial in values["trials"]} == purposes


@pytest.mark.parametrize(
    ("throughput", "others", "said"),
    [
        ({"frames_bytes": [64], "include_r_tag": True}, {}, "at least 16 bytes, and a size has 12"),
        ({"payloads_bytes": [15]}, {}, "at least 16 bytes, and a size has 15"),
        ({}, {"rfc2544_waits": True}, "rfc2544_waits needs binary_search.generator: talker"),
    ],
)
def test_what_iperf3_cannot_do_is_refused(throughput, others, said):
    sizes = {"frames_bytes": [64], "payloads_bytes": [16]}
    part = sizes | {"binary_search": {"generator": "iperf3"}} | throughput
    with pytest.raises(ValueError, match=said):
        Rfc2544Settings(throughput=part, **others)


def test_what_iperf3_does_not_send_in_has_its_own_limits():
    part = {"payloads_bytes": [15], "methods": ["mlrsearch"]}
    part |= {"binary_search": {"generator": "iperf3"}}
    Rfc2544Settings(throughput=part, rfc2544_waits=True, line_rate_trial_s=0.5)


class Iperf3:
    """A backend of iperf3 alone, on a network that loses nothing and a socket that closes early."""

    link_rate_mbps = 1000.0

    def __init__(self, unread):
        self.unread, self.loads = unread, []

    def udp(self, load):
        self.loads.append(load)
        sent = load.datagrams
        accounting = {"unread": self.unread}
        came = sent - self.unread
        return LoadOutcome(sent, came, came, load.duration_s, accounting=accounting)


def test_a_datagram_that_iperf3_left_in_its_socket_is_not_lost():
    outcome = rfc2544.iperf3_trial(Iperf3(2), IntendedLoad("frer", 64, 1000.0, 1))
    counts = outcome.sent, outcome.received_total, outcome.received_unique
    assert counts == (1000, 998, 1000)


def test_the_search_that_asks_for_iperf3_is_sent_by_it(monkeypatch):
    requests, found = Iperf3(1), Measurement()
    monkeypatch.setattr(rfc2544, "backend", lambda *_: requests)
    trial = bisection(generator="iperf3", from_line_rate=True, steps=3)
    rfc2544.measure(SimpleNamespace(kind="emulated"), trial, found)
    assert len(requests.loads) == 3
    assert found.values["results"]["binary_search"]["limited_by"] == "line"
    assert not found.values["results"]["binary_search"]["compliant"]


def test_the_mean_of_ten_bisections_beside_one_search_of_another_method():
    def trials(**binary_search):
        part = ThroughputSettings(
            frames_bytes=[512],
            payloads_bytes=[],
            methods=["binary-search", "mlrsearch"],
            binary_search=binary_search,
        )
        return [item.trial for item in plan(Rfc2544Settings(throughput=part), 1, "emulated")]

    ten = trials(searches=10)
    counted = Counter((trial.factors["method"], trial.factors["configuration"]) for trial in ten)
    both = ("control", "frer")
    assert counted == {
        **{("binary-search", configuration): 10 for configuration in both},
        **{("mlrsearch", configuration): 1 for configuration in both},
    }
    assert len({trial.name(1) for trial in ten}) == len(ten)
    assert {t.digest for t in trials()} < {t.digest for t in ten}  # what one found is kept


def test_a_tag_that_counts_shrinks_the_payload():
    part = ThroughputSettings(frames_bytes=[512], payloads_bytes=[], include_r_tag=True)
    assert {
        i.trial.factors["payload_bytes"]
        for i in plan(Rfc2544Settings(throughput=part), 1, "emulated")
    } == {460}


def test_what_starts_from_a_throughput_needs_it_in_the_campaign():
    with pytest.raises(ValueError, match="back_to_back, latency start from the throughput"):
        Rfc2544Settings(back_to_back=BackToBackSettings(), latency=RfcLatencySettings())


def test_every_planned_trial_can_be_measured_and_recorded():
    documents = []
    for item in plan(SMALL, 1, "emulated"):
        factors = Factors.of(item.trial)
        network = KnownNetwork(100_000.0, buffer=200)
        known = throughput_of(documents, factors.configuration, factors.payload_bytes)
        values = measure_benchmark(factors, network, 1000.0, known)
        assert values["load_trials"] == len(values["trials"]) == len(network.loads)
        document = {"status": "measured", "factors": item.trial.factors, "values": values}
        documents.append(json.loads(json.dumps(document, allow_nan=False)))
    assert throughput_of(documents, "frer", 466) == pytest.approx(1e5, rel=0.01)
    assert throughput_of(documents, "frer", 512) == pytest.approx(1e5, rel=0.01)
    assert throughput_of(documents, "frer", 1472) is None
    of = {
        d["factors"]["benchmark"]: d["values"]["result"]
        for d in documents
        if "result" in d["values"]
    }
    assert of["back-to-back"]["buffer"]["datagrams"] == pytest.approx(200, rel=0.05)
    assert of["system-recovery"]["recovery_s"] == 0.0


def search_of(method, pps, status="measured", repetition=1):
    factors = {"benchmark": "throughput", "method": method}
    factors |= {"configuration": "frer", "payload_bytes": 466, "frame_bytes": 512}
    factors |= {"duration_s": 30.0, "settings": {}}
    values = {} if status == "failed" else {"results": {"goal": {"lower_pps": pps}}}
    return {"status": status, "repetition": repetition, "factors": factors, "values": values}


def test_throughput_prefers_the_compliant_search():
    some = [search_of("binary-search", 1.0), search_of("mlrsearch", 2.0)]
    assert throughput_of(some, "frer", 466) == 2.0
    two = [search_of("mlrsearch-rfc2544", pps, repetition=n) for n, pps in ((1, 5.0), (2, 3.0))]
    assert throughput_of([*some, *two], "frer", 466) == 4.0
    assert throughput_of([search_of("mlrsearch-rfc2544", None), *some], "frer", 466) == 2.0


def test_a_throughput_on_a_machine_that_stalled_counts_where_none_is_better():
    stalled = search_of("mlrsearch", 2.0, "unsteady")
    assert throughput_of([stalled], "frer", 466) == 2.0
    assert throughput_of([stalled, search_of("mlrsearch", 6.0)], "frer", 466) == 6.0


def test_a_throughput_that_failed_is_none_that_no_load_passed():
    """The one is mended and found later; the other is a result."""
    failed = search_of("mlrsearch", 0.0, "failed")
    warm_up = search_of("mlrsearch", 5.0, repetition=0)
    with pytest.raises(ToolError, match=r"no throughput trial .* has a result \(frer, 466 B\)"):
        throughput_of([failed, failed, warm_up], "frer", 466)
    assert throughput_of([failed, search_of("binary-search", None)], "frer", 466) is None
    assert throughput_of([failed], "control", 466) is None


def test_what_starts_from_a_throughput_that_failed_is_measured_once_it_is_found(tmp_path):
    rfc = Rfc2544Settings(
        throughput={
            **{"configurations": ["control"], "frames_bytes": [512], "payloads_bytes": []},
            **{"methods": ["binary-search"], "binary_search": {"steps": 4, "duration_s": 0.01}},
        },
        back_to_back={"configurations": ["control"], "frames_bytes": [512], "searches": 1}
        | {"max_burst_s": 0.01},
        line_rate_trial_s=0.01,
    )
    store = RawStore(tmp_path, "model", "test", "rfc2544")
    model, broken = open_testbed("model", campaign("smoke"), "test", stalls=None), [True]

    def measure(testbed, trial, measured):
        if trial.factors["benchmark"] == "throughput" and broken:
            raise ToolError("no JSON", "talker")
        rfc2544.measure(testbed, trial, measured)

    items = plan(rfc, 1, "model")
    (bursts,) = [i.trial for i in items if i.trial.factors["benchmark"] == "back-to-back"]
    with pytest.raises(RecordError, match="could not be measured"):
        run_trials(store, items, 2, lambda: nullcontext(model), measure)
    assert store.attempt_statuses(bursts) == ["failed", "failed"]
    broken.clear()
    run_trials(store, items, 2, lambda: nullcontext(model), measure)
    assert store.attempt_statuses(bursts) == ["failed", "failed", "measured"]
    result = store.read(store.attempts(bursts)[-1])["values"]["result"]
    assert result["throughput_pps"] > 0


def test_recovery_without_a_throughput_says_so():
    (item,) = [
        i
        for i in plan(SMALL, 1, "emulated")
        if i.trial.factors["benchmark"] == "system-recovery"
        and i.trial.factors["configuration"] == "frer"
    ]
    result = measure_benchmark(Factors.of(item.trial), KnownNetwork(1e5), 1000.0)["result"]
    assert result["recovery_s"] is None
    assert not result["compliant"]
    assert "no throughput was found" in result["reasons"][0]


def test_what_the_trial_starts_from_decides_which_trial_it_is():
    def digests(**changed):
        settings = SMALL.model_copy(update=changed)
        return {item.trial.digest for item in plan(settings, 1, "emulated")}

    assert not digests(shortfall_percent=5.0) & digests()
    assert not digests(line_rate_trial_s=2.0) & digests()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"benchmark": "reset"}, "no benchmark 'reset'"),
        ({"settings": {"steps": 10}}, "steps"),
    ],
)
def test_a_benchmark_that_is_not_there_is_refused(changed, said):
    factors = plan(SMALL, 1, "emulated")[-1].trial.factors | changed
    with pytest.raises(ConfigurationError, match=said):
        measure_benchmark(Factors.read(factors), KnownNetwork(1e5), 1000.0, 1e5)


def test_links_of_a_rate_of_their_own_are_a_factor_and_the_testbeds_are_none():
    part = {"throughput": ThroughputSettings(frames_bytes=[64], payloads_bytes=[])}
    usual = plan(Rfc2544Settings(**part), 1, "emulated")
    slow = plan(Rfc2544Settings(**part, link_rate_mbps=10), 1, "emulated")
    assert not any("link_rate_mbps" in item.trial.factors for item in usual)
    assert {item.trial.factors["link_rate_mbps"] for item in slow} == {10}
    assert all(item.testbed == {} for item in usual)
    assert all(item.testbed == {"link_rate_mbps": 10} for item in slow)
    assert not {item.trial.digest for item in usual} & {item.trial.digest for item in slow}


def test_a_throughput_over_other_links_is_none_to_start_from():
    part = {"throughput": ThroughputSettings(frames_bytes=[512], payloads_bytes=[])}
    documents = record(Rfc2544Settings(**part, link_rate_mbps=100))
    assert throughput_of(documents, "frer", 466) is None
    assert throughput_of(documents, "frer", 466, 100) > 0


SLOW = SlowLinks(
    link_rate_mbps=20,
    queue_bytes=8192,
    burst_bytes=4096,
    send_buffer_bytes=4_000_000,
    receive_buffer_bytes=8_000_000,
)


@pytest.mark.parametrize(
    ("kind", "links"),
    [
        ("emulated", {"link_rate_mbps": 20, "queue_bytes": 8192, "burst_bytes": 4096}),
        ("model", {"link_rate_mbps": 20, "queue_bytes": 8192}),
        ("rack", {}),
        ("bench", {}),
    ],
)
def test_all_benchmarks_have_slow_links_where_a_testbed_can_set_them(kind, links):
    part = SMALL.model_copy(update={"slow_links": SLOW})
    planned = plan(part, 1, kind)
    assert {item.trial.factors["benchmark"] for item in planned} > {"throughput", "frame-loss"}
    assert all(item.testbed == links for item in planned)
    stored = SLOW.model_dump() if links else {}
    for item in planned:
        assert {n: v for n, v in item.trial.factors.items() if n in SLOW.model_dump()} == stored


def test_links_have_one_rate():
    with pytest.raises(ValueError, match="give one of the two"):
        Rfc2544Settings(slow_links=SLOW, link_rate_mbps=20)
