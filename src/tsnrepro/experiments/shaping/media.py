"""Latencies on different media are not compared.

The latencies of a network card, a software bridge, a virtual link and a model differ by orders of
magnitude, so their ratio does not describe the shapers that are compared.
"""

from collections.abc import Mapping

from tsnrepro.common.errors import TsnreproError


class DifferentMediaError(TsnreproError):
    """A comparison of latencies on different media."""


def check_same_medium(media: Mapping[str, str | None]) -> None:
    """Refuse a comparison whose sides do not have one medium.

    ``media`` is that of each side by name: testbed and network card or virtual link. ``None`` is an
    unrecorded medium, which is equal to no other. Raises DifferentMediaError if they differ, and
    ValueError if there are fewer than two sides.
    """
    if len(media) < 2:
        raise ValueError(f"a comparison has two sides, got {list(media) or 'none'}")
    if len({*media.values()}) > 1 or None in media.values():
        sides = (f"{side} on {medium or 'an unknown medium'}" for side, medium in media.items())
        raise DifferentMediaError(
            f"latency of different media: {', '.join(sides)}",
            "comparison",
            "Measure both sides on one testbed",
        )
