"""Latencies on different media are not compared."""

import pytest

from tsnrepro.experiments.shaping.media import DifferentMediaError, check_same_medium
from tsnrepro.published.documents import catalog


def test_one_medium_is_compared():
    check_same_medium({"tas": "model", "fifo": "model"})


def test_different_media_are_refused_and_both_are_named():
    with pytest.raises(DifferentMediaError, match="prio on guest veth, fifo on i210"):
        check_same_medium({"prio": "guest veth", "fifo": "i210"})


def test_an_unknown_medium_equals_no_other_not_even_itself():
    with pytest.raises(DifferentMediaError, match="an unknown medium"):
        check_same_medium({"prio": None, "fifo": None})


def test_one_side_is_no_comparison():
    with pytest.raises(ValueError, match="two sides"):
        check_same_medium({"prio": "model"})


def test_published_ratio_of_unloaded_and_loaded_media_is_refused():
    """Strict priority under load printed faster than the idle card: another medium."""
    loaded = catalog().cell("tas-i210-i225/table-prio/prio/mean_latency_ns").value
    idle = catalog().cell("tas-i210-i225/table-idle/no-tas/mean_latency_ns").value
    assert loaded < idle  # an added load cannot have made the same medium faster
    with pytest.raises(DifferentMediaError):
        check_same_medium({"prio": "veth", "no-tas": "i210/i225"})
