"""A count with its noun, as sentences have it."""


def plural(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun; ``several`` is its plural where that is not regular."""
    return f"{count} {noun if count == 1 else several or noun + 's'}"
