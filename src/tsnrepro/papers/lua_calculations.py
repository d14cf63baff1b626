"""The calculations of a manuscript, done by the same Lua code as on its pages."""

import subprocess
from pathlib import Path
from typing import IO, cast

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import root

_PROGRAM = Path(__file__).parent / "templates" / "calculations.lua"
_CODE = "paper/tsnrepro.lua"


class Calculations:
    """LuaTeX's interpreter, started once for all calculations of a text; a context manager."""

    def __enter__(self) -> "Calculations":
        self._process = subprocess.Popen(
            ["texlua", str(_PROGRAM), str(root() / _CODE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        cast(IO[str], self._process.stdin).close()
        cast(IO[str], self._process.stdout).close()
        self._process.wait()

    def number(self, digits: int, expression: str) -> str:
        """Return the result of an expression with so many digits, as LaTeX source.

        Raises
        ------
        PublishError
            It cannot be calculated.
        """
        return self._asked("calc", digits, expression)

    def holds(self, comparison: str) -> bool:
        """Tell whether a comparison holds.

        Raises
        ------
        PublishError
            It cannot be calculated.
        """
        return "firstoftwo" in self._asked("decide", 0, comparison)

    def padding(self, wanted: int, has: int) -> str:
        """Return what sets a number with ``has`` decimals as wide as one with ``wanted``."""
        return self._asked("pad", wanted, str(has))

    def _asked(self, kind: str, digits: int, what: str) -> str:
        sent, got = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        sent.write(f"{kind} {digits} {' '.join(what.split())}\n")
        sent.flush()
        good, _, said = got.readline().rstrip("\n").partition(" ")
        if good != "good":
            raise PublishError(said or "texlua ended", what.strip(), "Is the value known?")
        return said
