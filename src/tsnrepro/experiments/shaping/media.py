"""Latencies on different media are compared only on request.

The latencies of a network card, a software bridge, a virtual link and a model differ by orders of
magnitude, so their ratio does not describe the shapers that are compared.
"""

from collections.abc import Mapping

from tsnrepro.common.errors import TsnreproError


class DifferentMediaError(TsnreproError):
    """A comparison of latencies on different media."""


def check_same_medium(
    media: Mapping[str, str | None], quantity: str = "latency", *, across_media: bool = False
) -> str:
    """Check that all sides of a comparison have one medium; return a note for its table.

    ``media``: the medium of each side by name: testbed and network card or virtual link. ``None``
    is an unrecorded medium, which is equal to no other. ``quantity``: the compared quantity, for
    the message; ``across_media``: allow different media. Returns the media where they differ, else
    empty. Raises DifferentMediaError if the media differ, and ``across_media`` is false. Raises
    ValueError if there are fewer than two sides.
    """
    if len(media) < 2:
        raise ValueError(f"a comparison has two sides, got {list(media) or 'none'}")
    known = set(media.values())
    if len(known) == 1 and None not in known:
        return ""
    listed = ", ".join(
        f"{side} on {medium or 'an unknown medium'}" for side, medium in media.items()
    )
    if not across_media:
        raise DifferentMediaError(
            f"{quantity} of different media: {listed}",
            "comparison",
            "Measure both sides on one testbed, or set across_media",
        )
    return f"across media: {listed}"
