"""A rule: latencies of different media are not compared unless somebody asks for it.

What a network card, a software bridge, a virtual link and a model add to a latency differs by
orders of magnitude, so a ratio across them says nothing of the shaping that is being compared.
"""

from collections.abc import Mapping

from tsnrepro.common.errors import TsnreproError

__all__ = ["DifferentMediaError", "refuse_across_media"]


class DifferentMediaError(TsnreproError):
    """A comparison of latencies that were taken on different media."""


def refuse_across_media(
    media: Mapping[str, str | None], quantity: str = "latency", *, asked: bool = False
) -> str:
    """Return the note that a comparison carries; refuse it where the media differ.

    Parameters
    ----------
    media
        Each side of the comparison, by its name, and the medium it was measured on: testbed and
        network card or virtual link. ``None`` is a medium that nobody recorded, which equals no
        other.
    quantity
        What is compared, for the message.
    asked
        Compare all the same; the note then names the media.

    Returns
    -------
    str
        Empty where all sides share one medium.

    Raises
    ------
    DifferentMediaError
        The sides were measured on different media and the comparison was not asked for.
    ValueError
        There are fewer than two sides.
    """
    if len(media) < 2:
        raise ValueError(f"a comparison has two sides, got {list(media) or 'none'}")
    known = set(media.values())
    if len(known) == 1 and None not in known:
        return ""
    listed = ", ".join(
        f"{side} on {medium or 'an unknown medium'}" for side, medium in media.items()
    )
    if not asked:
        raise DifferentMediaError(
            f"{quantity} of different media: {listed}",
            "comparison",
            "Measure both sides on one testbed, or ask for the comparison across media",
        )
    return f"across media: {listed}"
