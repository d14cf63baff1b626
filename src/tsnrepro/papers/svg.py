"""Vector graphics for HTML pages: LaTeX pictures and PDF figures as SVG."""

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.programs import run

_NAME = "pictures"
_BODY = re.compile(r"\\begin\{document\}.*", re.S)
# One page per picture, of its size.
_PAGE = r"""
\setbox0\hbox{%s}
\pagewidth\dimexpr\wd0+4pt\relax \pageheight\dimexpr\ht0+\dp0+4pt\relax
\hoffset\dimexpr-1in+2pt\relax \voffset\dimexpr-1in+2pt\relax
\shipout\box0
"""


def latex_to_svg(
    manuscript: str, pictures: Sequence[str], files: Mapping[str, bytes]
) -> list[bytes]:
    """Return the pictures of a manuscript as SVG, with text as outlines.

    ``manuscript``: its expanded text, with the preamble for the pictures; ``pictures``: the LaTeX
    source of each ``picture`` or ``tikzpicture``; ``files``: the files that the preamble reads, by
    path. Raises PublishError if the pictures do not compile or cannot be converted.
    """
    if not pictures:
        return []
    preamble = _BODY.sub("", manuscript)
    pages = "".join(_PAGE % picture for picture in pictures)
    text = f"{preamble}\\begin{{document}}\\footnotesize{pages}\\end{{document}}\n"
    with temporary_folder() as folder:
        for path, content in files.items():
            if "/" not in path and path.endswith((".sty", ".lua", ".tex")):
                (Path(folder) / path).write_bytes(content)
        (Path(folder) / f"{_NAME}.tex").write_text(text, encoding="utf-8")
        run(
            ["lualatex", "-no-shell-escape", "-halt-on-error", "-interaction=nonstopmode", _NAME],
            Path(folder),
        )
        pdf = Path(folder) / f"{_NAME}.pdf"
        return [pdf_to_svg(pdf, page) for page in range(1, len(pictures) + 1)]


def pdf_to_svg(pdf: Path, page: int = 1) -> bytes:
    """Return a page of a PDF as SVG; PublishError if it cannot be converted."""
    return run(["pdftocairo", "-svg", "-f", str(page), "-l", str(page), str(pdf), "-"])


def data_uri(media_type: str, data: bytes) -> str:
    """Return content as a data URI (RFC 2397)."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
