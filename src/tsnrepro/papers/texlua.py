"""The calculations of a manuscript, by the Lua code that LuaLaTeX runs."""

import subprocess
from pathlib import Path
from typing import IO, cast

from tsnrepro.common.errors import PublishError
from tsnrepro.common.repository import root

_PROGRAM = Path(__file__).parent / "templates" / "calculator.lua"
_CODE = "paper/tsnrepro.lua"


class TexLua:
    """A texlua process that evaluates expressions; a context manager."""

    def __enter__(self) -> "TexLua":
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
        """Return the value of an expression with ``digits`` decimals, as LaTeX source.

        Raises PublishError if it cannot be evaluated.
        """
        return self._evaluate("calc", digits, expression)

    def holds(self, comparison: str) -> bool:
        """Return whether a comparison is true; PublishError if it cannot be evaluated."""
        return "firstoftwo" in self._evaluate("decide", 0, comparison)

    def padding(self, wanted: int, decimals: int) -> str:
        """Return the LaTeX source that pads a number to the width of ``wanted`` decimals."""
        return self._evaluate("pad", wanted, str(decimals))

    def _evaluate(self, function: str, digits: int, argument: str) -> str:
        stdin, stdout = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        stdin.write(f"{function} {digits} {' '.join(argument.split())}\n")
        stdin.flush()
        status, _, text = stdout.readline().rstrip("\n").partition(" ")
        if status != "good":
            raise PublishError(text or "texlua exited", argument.strip(), "Is the value known?")
        return text
