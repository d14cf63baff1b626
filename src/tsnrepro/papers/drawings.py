"""Vector pictures for pages: a manuscript's drawings, set by LuaLaTeX, and figures that are PDF."""

import base64
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.common.temporary import temporary_folder

_SECONDS = 120
_NAME = "drawings"
_BODY = re.compile(r"\\begin\{document\}.*", re.S)
# Each drawing is a page of its own size.
_PAGE = r"""
\setbox0\hbox{%s}
\pagewidth\dimexpr\wd0+4pt\relax \pageheight\dimexpr\ht0+\dp0+4pt\relax
\hoffset\dimexpr-1in+2pt\relax \voffset\dimexpr-1in+2pt\relax
\shipout\box0
"""


def drawings_as_svg(
    manuscript: str, drawings: Sequence[str], files: Mapping[str, bytes]
) -> list[bytes]:
    """Return a manuscript's drawings as SVG, their letters as outlines.

    Parameters
    ----------
    manuscript
        Its frozen text, whose preamble the drawings need.
    drawings
        LaTeX source of each, ``picture`` or ``tikzpicture``.
    files
        What the preamble reads, by place.

    Raises
    ------
    PublishError
        They do not compile, or the result cannot be converted.
    """
    if not drawings:
        return []
    preamble = _BODY.sub("", manuscript)
    pages = "".join(_PAGE % drawing for drawing in drawings)
    text = f"{preamble}\\begin{{document}}\\footnotesize{pages}\\end{{document}}\n"
    with temporary_folder() as folder:
        for place, content in files.items():
            if "/" not in place and place.endswith((".sty", ".lua", ".tex")):
                (Path(folder) / place).write_bytes(content)
        (Path(folder) / f"{_NAME}.tex").write_text(text, encoding="utf-8")
        _run(["lualatex", "-halt-on-error", "-interaction=nonstopmode", _NAME], Path(folder))
        pdf = Path(folder) / f"{_NAME}.pdf"
        return [svg_of(pdf, page) for page in range(1, len(drawings) + 1)]


def svg_of(pdf: Path, page: int = 1) -> bytes:
    """Return a page of a PDF as SVG.

    Raises
    ------
    PublishError
        pdftocairo cannot convert it.
    """
    pages = ["-f", str(page), "-l", str(page)]
    return _run(["pdftocairo", "-svg", *pages, str(pdf.absolute()), "-"], pdf.parent)


def data_address(kind: str, data: bytes) -> str:
    """Return content as an address that a page holds it in."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _run(command: list[str], folder: Path) -> bytes:
    environment = {key: value for key, value in os.environ.items() if key != "TEXINPUTS"}
    if shutil.which(command[0]) is None:
        package = "poppler-utils" if command[0].startswith("pdf") else "texlive-luatex"
        raise PublishError(
            f"a page cannot show a PDF without {command[0]}", command[-2], f"Install {package}"
        )
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()[-2000:]
        raise PublishError(f"{command[0]} failed: {said}", command[-1])
    return done.stdout
