"""Loss by load, saturation and the ends of searches on networks whose capacity is known."""

import numpy as np
import pandas as pd
import pytest
from rfc2544_documents import capacity_pps, record

from tsnrepro.experiments.rfc2544 import (
    analysis as rfc2544,
)
from tsnrepro.experiments.rfc2544 import (
    figures as rfc2544_figures,
)
from tsnrepro.experiments.rfc2544 import (
    loads as rfc2544_loads,
)
from tsnrepro.experiments.rfc2544.rates import limit_pps
from tsnrepro.experiments.rfc2544.settings import (
    DOCUMENT_LOADS_PERCENT,
    EXPERIMENT,
    BinarySearchSettings,
    FrameLossSettings,
    Rfc2544Settings,
    ThroughputSettings,
)

REPETITIONS = 3
SETTINGS = Rfc2544Settings(
    # The documents' search: 10 iterations at most, to 1 Mb/s, 0.001 %, the mean of repetitions.
    throughput=ThroughputSettings(
        frames_bytes=[64],
        payloads_bytes=[512],
        repetitions=REPETITIONS,
        methods=["binary-search"],
        binary_search=BinarySearchSettings(steps=10, duration_s=30, resolution_mbps=1),
    ),
    frame_loss=FrameLossSettings(
        frames_bytes=[64], payloads_bytes=[512], repetitions=REPETITIONS, duration_s=10
    ),
)


@pytest.fixture(scope="module")
def documents():
    return record(SETTINGS)


@pytest.fixture(scope="module")
def found(documents):
    results = rfc2544.analyse(documents)
    assert [key for key in results.keys if not EXPERIMENT.declares_key(key)] == []
    return results


def line_mbps(payload):
    return limit_pps(payload, 1000.0) * payload * 8e-6


def test_frames_and_payloads_have_their_losses_by_load(found):
    for word, payload in (("frame_64", 18), ("payload_512", 512)):
        for load in DOCUMENT_LOADS_PERCENT:
            name = f"rfc2544.frame_loss.{word}.frer.load_{load}"
            # This network's talker has no line that would hold it back.
            offered = load / 100 * limit_pps(payload, 1000.0)
            truth = 100 * max(0, 1 - capacity_pps("frer", payload) / offered)
            # The network's buffer takes in a little more than its capacity.
            assert found.of(f"{name}.percent").value == pytest.approx(truth, abs=0.5), load
    assert found.of("rfc2544.frame_loss.frame_1518.frer.load_50.percent").value is None


def test_it_is_said_how_long_trials_were_and_how_often_a_size_was_searched(found):
    search = "rfc2544.throughput.binary_search"
    seconds, loss = (found.of(f"{at}.duration_s") for at in (search, "rfc2544.frame_loss"))
    assert (seconds.value, seconds.unit, seconds.digits) == (30, "s", 0)
    assert loss.value == 10
    assert found.of(f"{search}.searches.count").value == REPETITIONS


def test_who_sent_stands_beside_what_was_found(documents, found):
    key = "rfc2544.throughput.binary_search.generator"
    assert found.of(key).value == "talker"
    assert set(rfc2544.throughput_table(documents)["generator"]) == {"talker"}
    search = BinarySearchSettings(generator="iperf3", from_line_rate=True)
    part = {"frames_bytes": [], "payloads_bytes": [512], "methods": ["binary-search", "mlrsearch"]}
    settings = Rfc2544Settings(throughput=ThroughputSettings(**part, binary_search=search))
    theirs = record(settings)
    assert rfc2544.analyse(theirs).of(key).value == "iperf3"
    table = rfc2544.throughput_table(theirs)
    senders = table.groupby("goal")["generator"].unique().map(list).to_dict()
    assert senders == {
        **{"binary_search": ["iperf3"], "zero_loss": ["talker"], "half_percent": ["talker"]},
    }
    (row,) = rfc2544.throughput_beside_published(table).itertuples()
    assert row.binary_search_generator == "iperf3"
    legend = rfc2544_figures.throughput(table, "test").legends[0]
    assert "bisection (iperf3)" in [text.get_text() for text in legend.get_texts()]


def test_trials_of_a_fraction_of_a_second_are_not_printed_as_none():
    short = FrameLossSettings(
        frames_bytes=[],
        payloads_bytes=[512],
        duration_s=0.25,
        step_percent=None,
        loads_percent=[50],
    )
    results = rfc2544.analyse(record(Rfc2544Settings(frame_loss=short)))
    item = results.of("rfc2544.frame_loss.duration_s")
    assert (item.value, item.digits) == (0.25, 2)
    assert results.of("rfc2544.throughput.binary_search.duration_s").value is None
    assert results.of("rfc2544.throughput.binary_search.searches.count").value is None
    assert results.of("rfc2544.throughput.binary_search.generator").value is None


def test_the_downward_procedure_is_not_pooled_with_given_loads(documents):
    losses = rfc2544.loss_table(documents)
    assert set(losses["procedure"]) == {"downward", "at_loads"}
    assert set(rfc2544_loads.given_loads(losses)["procedure"]) == {"at_loads"}
    table = rfc2544_loads.loss_by_load(losses)
    assert set(table["repetitions"]) == {REPETITIONS}


def test_only_payloads_stand_beside_the_documents_table(documents):
    table = rfc2544_loads.loss_by_load(rfc2544.loss_table(documents))
    by = table.set_index(["asked_as", "size_bytes", "configuration", "load_percent"])
    assert by.loc[("payload", 512, "frer", 98.0), "published_loss_percent"] == 3.97
    assert pd.isna(by.loc[("frame", 64, "frer", 98.0), "published_loss_percent"])


def test_saturation_is_what_the_network_can_deliver(found):
    value, *_ = found.interval("rfc2544.saturation.frame_64.frer.payload_mbps")
    truth = capacity_pps("frer", 18) * 18 * 8e-6
    assert value == pytest.approx(truth, rel=0.01)
    share = found.of("rfc2544.saturation.frame_64.frer.line_percent").value
    assert share == pytest.approx(100 * truth / line_mbps(18), rel=0.01)
    ratio = found.of("rfc2544.saturation.frame_64.frer.ratio").value
    rate = found.of("rfc2544.throughput.binary_search.frame_64.frer.payload_mbps").value
    assert ratio == pytest.approx(value / rate, rel=1e-6)


def test_saturation_without_a_throughput_has_no_ratio(found):
    item = found.of("rfc2544.saturation.frame_512.frer.ratio")
    assert item.value is None
    assert "no throughput by bisection" in item.method


def test_each_repetition_has_its_own_highest():
    points = pd.DataFrame(
        {
            "trial": ["a", "a", "b", "b"],
            "delivered_payload_mbps": [90.0, 100.0, 104.0, 80.0],
        }
    )
    best = rfc2544_loads.highest_delivered(points)
    assert list(best["delivered_payload_mbps"]) == [100, 104]


def test_the_search_ends_at_its_resolution(documents, found):
    table = rfc2544.throughput_table(documents)
    for row in table.itertuples():
        width = line_mbps(row.payload_bytes) / 2**row.iterations
        assert row.bracket_mbps == pytest.approx(width, rel=0.01)
        assert row.converged == (row.bracket_mbps <= 1)
        assert width <= 1 < 2 * width
    name = "rfc2544.throughput.binary_search.frame_64.frer"
    assert found.of(f"{name}.converged").value == "yes"
    assert found.of(f"{name}.iterations.count").value == np.ceil(np.log2(line_mbps(18)))
    share = found.of(f"{name}.efficiency_percent").value
    truth, bracket = (100 * rate / line_mbps(18) for rate in (capacity_pps("frer", 18) * 144e-6, 1))
    assert truth - bracket <= share <= truth


def test_without_a_resolution_all_steps_are_taken():
    settings = Rfc2544Settings(
        throughput=ThroughputSettings(
            frames_bytes=[1518],
            payloads_bytes=[],
            methods=["binary-search"],
            binary_search=BinarySearchSettings(steps=4, duration_s=30),
        )
    )
    table = rfc2544.throughput_table(record(settings))
    assert set(table["iterations"]) == {4}
    assert not table["converged"].any()
    results = rfc2544.analyse(record(settings))
    assert results.of("rfc2544.throughput.binary_search.frame_1518.frer.converged").value == "no"


def test_payloads_have_a_panel_of_their_own(documents):
    figure = rfc2544_figures.frame_loss(rfc2544.loss_table(documents), "invented")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["64 B:\nloss (%)", "512 B payload:\nloss (%)"]


def test_loads_that_were_not_offered_have_no_loss_and_are_counted():
    """A talker that reaches 92 % of the line for full frames."""
    of = FrameLossSettings(frames_bytes=[1518], duration_s=10, step_percent=10)
    settings = Rfc2544Settings(frame_loss=of)
    reached = 0.92 * limit_pps(1472, 1000.0)
    documents = record(settings, generator_pps=reached)
    losses = rfc2544.loss_table(documents)
    results = rfc2544.analyse(documents)
    # Of both configurations: 95 to 110 % of the given loads, and 100 % of the downward ones.
    assert results.of("rfc2544.frame_loss.left_out.count").value == 2 * (6 + 1)
    name = "rfc2544.frame_loss.frame_1518.control"
    for at in ("load_100", "full_load"):
        item = results.of(f"{name}.{at}.percent")
        assert item.value is None
        assert item.method.endswith("the generator did not reach the load")
        assert results.of(f"{name}.{at}.offered_percent").value is None
    assert results.of(f"{name}.load_90.offered_percent").value == pytest.approx(90)
    table = rfc2544_loads.loss_by_load(losses).set_index(["configuration", "load_percent"])
    assert table.loc[("frer", 100.0), "left_out"] == 1
    assert pd.isna(table.loc[("frer", 100.0), "loss_percent"])
    assert table.loc[("frer", 90.0), "left_out"] == 0
    figure = rfc2544_figures.frame_loss(losses, "invented")
    drawn = [line for line in figure.axes[0].get_lines() if line.get_marker() != "x"]
    assert max(x for line in drawn for x in line.get_xdata()) == pytest.approx(90)
    shown = len(losses) - 14
    assert figure.axes[0].get_title(loc="right") == f"invented, {shown} of {len(losses)} trials"


def test_what_all_loads_reached_leaves_none_out(found):
    assert found.of("rfc2544.frame_loss.left_out.count").value == 0


def test_the_rate_of_the_links_is_the_records(documents, found):
    assert found.of("rfc2544.link_rate.mbps").value == 1000
    slow = [d | {"values": d["values"] | {"link_rate_mbps": 10.0}} for d in documents]
    assert rfc2544.analyse(slow).of("rfc2544.link_rate.mbps").value == 10
    wide = rfc2544.throughput_table(slow)
    assert not wide["converged"].any(), "1 Mb/s is a tenth of these links"
    legend = rfc2544_figures.throughput(wide, "test", 10.0).legends[0]
    assert not any("published" in text.get_text() for text in legend.get_texts())


def test_a_record_whose_frame_loss_had_other_links_keeps_the_rates_apart():
    throughput = {"throughput": ThroughputSettings(frames_bytes=[64], payloads_bytes=[])}
    loss = {"frame_loss": FrameLossSettings(frames_bytes=[64])}
    documents = record(Rfc2544Settings(**throughput))
    documents += record(Rfc2544Settings(**loss, link_rate_mbps=20))
    assert rfc2544.link_rate_mbps(documents) == 1000.0
    found = rfc2544.analyse(documents)
    assert found.of("rfc2544.link_rate.mbps").value == 1000.0
    assert found.of("rfc2544.frame_loss.link_rate.mbps").value == 20.0
    ratio = found.of("rfc2544.saturation.frame_64.frer.ratio")
    assert ratio.value is None
    assert "links of another rate" in ratio.method
    assert found.of("rfc2544.saturation.frame_64.frer.line_percent").value <= 100


def test_over_the_same_links_what_was_delivered_has_a_ratio_to_the_throughput():
    sizes = {"frames_bytes": [64], "payloads_bytes": []}
    documents = record(
        Rfc2544Settings(
            throughput=ThroughputSettings(**sizes),
            frame_loss=FrameLossSettings(**sizes),
            link_rate_mbps=20,
        )
    )
    found = rfc2544.analyse(documents)
    assert found.of("rfc2544.link_rate.mbps").value == 20.0
    assert found.of("rfc2544.saturation.frame_64.frer.ratio").value == pytest.approx(1, abs=0.05)


def test_the_highest_load_without_loss_is_the_throughput_among_the_given_loads(documents, found):
    for word, payload in (("frame_64", 18), ("payload_512", 512)):
        line_pps = limit_pps(payload, 1000.0)
        carried = 100 * capacity_pps("frer", payload) / line_pps
        clean = [load for load in DOCUMENT_LOADS_PERCENT if load <= min(carried, 100)]
        item = found.of(f"rfc2544.saturation.{word}.frer.clean_percent")
        assert item.value == (max(clean) if clean else None)


def test_a_load_that_was_not_offered_is_no_load_without_loss():
    points = pd.DataFrame(
        {
            "trial": ["a", "a", "a", "b"],
            "load_percent": [50.0, 60.0, 110.0, 50.0],
            "lost": [0, 0, 0, 3],
            "generator_limited": [False, True, False, False],
        }
    )
    assert rfc2544_loads.highest_clean(points)[["trial", "load_percent"]].values.tolist() == [
        ["a", 50.0]
    ]
