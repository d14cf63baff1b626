"""A count with its noun."""

import pytest

from tsnrepro.common.counts import plural


@pytest.mark.parametrize(
    ("said", "count", "nouns"),
    [
        ("0 trials", 0, ["trial"]),
        ("1 extra block", 1, ["extra block"]),
        ("2 trials", 2, ["trial"]),
        ("1 entry", 1, ["entry", "entries"]),
        ("3 entries", 3, ["entry", "entries"]),
    ],
)
def test_one_is_singular(said, count, nouns):
    assert plural(count, *nouns) == said
