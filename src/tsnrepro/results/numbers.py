"""How numbers are printed, the same on paper and on the report page."""

from dataclasses import dataclass

from tsnrepro.records.values import UNIT_SYMBOLS, Result

# From five digits on, groups of three are set apart by a thin space (ISO 80000-1, 7.3.1).
_GROUPED_FROM = 10_000


@dataclass(frozen=True)
class Style:
    """What a medium sets for the signs and spaces of a number."""

    minus: str
    below: str
    thin_space: str
    unknown: str
    at_least: str
    at_most: str
    about: str
    comma: str
    dots: str


TEX = Style(
    minus=r"\ensuremath{-}",
    below=r"\ensuremath{<}",
    thin_space=r"\,",
    unknown="--",
    at_least=r"\ensuremath{\ge}\,",
    at_most=r"\ensuremath{\le}\,",
    about=r"\ensuremath{\sim}",
    comma=",~",
    dots=r"\,\ldots\,",
)
TEXT = Style(
    minus="−",
    below="<",
    thin_space="\N{NARROW NO-BREAK SPACE}",
    unknown="–",
    at_least="≥\N{NARROW NO-BREAK SPACE}",
    at_most="≤\N{NARROW NO-BREAK SPACE}",
    about="~",
    comma=", ",
    dots=" … ",
)

TEXT_UNITS = UNIT_SYMBOLS | {"percentage points": "points"}
TEX_UNITS = TEXT_UNITS | {"%": r"\%"}


def number(value: float | None, digits: int, style: Style, *, signed: bool = False) -> str:
    """Return a number with ``digits`` decimals.

    A positive number that would round to zero prints as below the last digit (``<0.001``), so
    that a zero on the page is a zero in the record. ``signed`` puts a plus before positive
    numbers; a difference that rounds to zero prints without a sign.
    """
    if value is None:
        return style.unknown
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        small = value > 0 and not signed
        return f"{style.below}{10.0**-digits:.{digits}f}" if small else text
    whole, point, decimals = text.partition(".")
    whole = _grouped(whole, style)
    sign = style.minus if value < 0 else "+" if signed else ""
    return f"{sign}{whole}{point}{decimals}"


def _grouped(digits: str, style: Style) -> str:
    if int(digits) < _GROUPED_FROM:
        return digits
    return f"{int(digits):,}".replace(",", style.thin_space)


def estimate(item: Result, style: Style) -> str:
    """Return a number and its limits as :func:`interval` prints them, and a word as it is."""
    if isinstance(item.value, str):
        return item.value
    how = {"signed": item.signed, "seen": item.is_range}
    return interval(item.value, item.low, item.high, item.digits, style, **how)


def interval(
    value: float | None,
    low: float | None,
    high: float | None,
    digits: int,
    style: Style,
    *,
    signed: bool = False,
    seen: bool = False,
) -> str:
    """Return ``value [low, high]``, or what of it is known.

    Where the limits are but the smallest and the largest value ``seen``, that is
    ``value (low … high)``, which does not look like an interval. Limits that print as the value
    does are left out, and so are the decimals of an exact zero without limits.
    Without a value, a single limit prints as a bound (at least, at most), and two stand alone: so
    a sweep in which no trial lost anything still gives its start.
    """

    def shown(item: float | None) -> str:
        return number(item, digits, style, signed=signed)

    if low is None and high is None:
        # Decimals of nothing suggest that so little would have been seen.
        return "0" if value == 0 else shown(value)
    if value is None:
        if high is None:
            return f"{style.at_least}{shown(low)}"
        if low is None or low <= 0:
            return f"{style.at_most}{shown(high)}"
        return limits(low, high, digits, style, signed=signed, seen=seen)
    if shown(low) == shown(value) == shown(high):
        return shown(value)
    both = limits(low, high, digits, style, signed=signed, seen=seen)
    return f"{shown(value)} ({both})" if seen else f"{shown(value)} {both}"


def limits(
    low: float | None,
    high: float | None,
    digits: int,
    style: Style,
    *,
    signed: bool = False,
    seen: bool = False,
) -> str:
    """Return ``[low, high]``, or the sign for unknown where there is neither.

    The smallest and the largest value ``seen`` have dots between them and no brackets.
    """
    if low is None and high is None:
        return style.unknown
    shown = [number(item, digits, style, signed=signed) for item in (low, high)]
    return style.dots.join(shown) if seen else f"[{shown[0]}{style.comma}{shown[1]}]"


def printed(text: str, qualifier: str | None, style: Style) -> str:
    """Return a published cell as its document prints it, with its sign of approximation."""
    if not text:
        return style.unknown
    signs = {
        None: "",
        "approximately": style.about,
        "below": style.below,
        "above": style.below.replace("<", ">"),
        "at-least": style.at_least,
        "at-most": style.at_most,
    }
    body = f"{style.minus}{text[1:]}" if text.startswith("-") else text
    if text.isdigit():
        body = _grouped(text, style)
    return signs[qualifier] + body
