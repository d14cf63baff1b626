"""Remove from records what identifies who measured: folders, and addresses of shared machines."""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tsnrepro.common.repository import root

_HARDWARE_ADDRESS = re.compile(r"(?<![0-9a-f:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:])", re.I)
# A clock's identity as linuxptp prints it; of a card's clock it is the card's address with fffe in
# its middle (IEEE Std 1588-2008, 7.5.2.2).
_CLOCK_IDENTITY = re.compile(
    r"(?<![0-9a-f.])[0-9a-f]{6}\.[0-9a-f]{4}\.[0-9a-f]{6}(?![0-9a-f])", re.I
)
# Those of no card: none, and all.
_OF_NO_CARD = ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "000000.0000.000000")


def without_folders(value: Any) -> Any:
    """Return a value of a record with paths relative to the repository; bytes stay as they are.

    Programs in a Python environment elsewhere are named as if it were ``.venv`` of the repository.
    """
    programs = f"{sys.prefix}/libexec/tsnrepro/"
    here = f"{root()}/"
    return _in_texts(
        value, lambda text: text.replace(programs, ".venv/libexec/tsnrepro/").replace(here, "")
    )


def _in_texts(value: Any, act: Callable[[str], str]) -> Any:
    """Return a value with all texts in it replaced."""
    if isinstance(value, str):
        return act(value)
    if isinstance(value, Mapping):
        return {key: _in_texts(item, act) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_in_texts(item, act) for item in value]
    return value


class Anonymizer:
    """Puts names in the place of addresses, the same for the same one.

    ``names``: what stands for an IP address; a hardware address gets a number, and the identity of
    its clock the same.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        # Not a longer address that begins or ends in the same way.
        known = "|".join(re.escape(address) for address in names)
        self._known = re.compile(rf"(?<![\d.])(?:{known})(?!\d|\.\d)") if names else None
        self._numbers: dict[str, int] = {}

    def __call__(self, value: Any) -> Any:
        """Return a value of a record with names for addresses; bytes stay as they are."""
        return _in_texts(value, self._text)

    def _text(self, text: str) -> str:
        if self._known:
            text = self._known.sub(lambda found: self._names[found[0]], text)
        text = _HARDWARE_ADDRESS.sub(self._number, text)
        return _CLOCK_IDENTITY.sub(self._number, text)

    def _number(self, found: re.Match[str]) -> str:
        address = found[0].lower()
        if address in _OF_NO_CARD:
            return found[0]
        known = _digits_of_card(address)
        return f"card-{self._numbers.setdefault(known, len(self._numbers) + 1)}"


def _digits_of_card(address: str) -> str:
    """Return what an address and the identity of its clock have in common."""
    return address.replace(":", "").replace(".fffe.", "")
