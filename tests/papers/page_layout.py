"""How full the pages of a built paper are, and how far its floats stand from their mention.

``python tests/papers/page_layout.py PDF...`` prints both.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from tsnrepro.papers.pdf_text import pages

_DPI = 36
# Above and below these fractions of a page are the running head and the margin.
_TOP, _BOTTOM = 0.055, 0.95
_LABEL = re.compile(r"\\newlabel\{(?P<kind>fig|tab):[^{}]*\}\{\{(?P<number>\w+)\}\{(?P<page>\d+)\}")
# A Korean word may break anywhere.
_KINDS = {"figure": r"(?:Figs?\.|그\s?림)", "table": r"(?:Tables?|표)"}


def page_fill(pdf):
    """Return the share of the text height of each page down to the last ink of its columns."""
    done = subprocess.run(
        ["pdftoppm", "-r", str(_DPI), "-gray", str(pdf)], capture_output=True, check=True
    )
    images, data = [], done.stdout
    while data:
        _, size, _, rest = data.split(b"\n", 3)
        width, height = (int(number) for number in size.split())
        images.append(np.frombuffer(rest[: width * height], np.uint8).reshape(height, width))
        data = rest[width * height :]
    return [_fill(image) for image in images]


def _fill(image):
    height, width = image.shape
    block = image[int(_TOP * height) : int(_BOTTOM * height)]
    columns = block[:, : width // 2], block[:, width // 2 :]
    last = [np.flatnonzero((column < 200).any(axis=1)) for column in columns]
    return sum(rows[-1] + 1 if rows.size else 0 for rows in last) / (2 * len(block))


def floats_and_mentions(pdf):
    """Yield the kind, number and page of each float, and the page of its first mention or None.

    The numbers and pages are those of the ``.aux`` beside the PDF.
    """
    labels = pdf.with_suffix(".aux").read_text(encoding="utf-8")
    texts = [" ".join(text.split()) for text in pages(pdf)]
    for found in _LABEL.finditer(labels):
        kind = "figure" if found["kind"] == "fig" else "table"
        number = found["number"]
        # "Table IV", "Tables II and IV", "그림 2, 3", but no item "of the report" or "원 논문의". A
        # caption has a full stop behind a figure's number, and a table's in capitals.
        listed = rf"(?<!의 ){_KINDS[kind]}\s?(?:\w+(?:,|\sand|\sto|[,와과])\s)*{number}"
        mention = re.compile(rf"{listed}(?![\dA-Za-z-])(?!\.\s[A-Z가-힣])(?!:| of the)")
        first = next((page for page, text in enumerate(texts, 1) if mention.search(text)), None)
        yield kind, number, int(found["page"]), first


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        print(path.stem, *(f"{fill:.2f}" for fill in page_fill(path)))
        for kind, number, page, first in floats_and_mentions(path):
            if first is None or abs(page - first) > 1:
                print(f"  {kind} {number} on page {page}, mentioned on {first}")
