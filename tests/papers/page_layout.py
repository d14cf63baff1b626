"""How full the pages of a built paper are, where its floats stand, and lines that stand alone.

``python tests/papers/page_layout.py PDF...`` prints all three.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

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


# --- lines that stand alone ---------------------------------------------------------------------

# In points: less than an indent, and more than the pitch of text with fonts of two scripts.
_INDENT, _PITCH = 5, 17
_XHTML = "{http://www.w3.org/1999/xhtml}"


@dataclass(frozen=True)
class Line:
    """A line of text on a page, its edges in points."""

    text: str
    left: float
    top: float
    right: float


def columns_of(pdf):
    """Return the lines of each column of a paper in two columns, from the head down."""
    command = ["pdftotext", "-bbox-layout", str(pdf), "-"]
    layout = subprocess.run(command, capture_output=True, check=True).stdout.decode(
        errors="replace"
    )
    found = []
    # Control characters of symbol fonts are no XML.
    for page in ElementTree.fromstring(re.sub(r"[\x00-\x08\x0b-\x1f]", "", layout)).iter(
        f"{_XHTML}page"
    ):
        width, height = float(page.get("width")), float(page.get("height"))
        lines = [_line(line) for line in page.iter(f"{_XHTML}line")]
        block = [line for line in lines if _TOP * height < line.top < _BOTTOM * height]
        for start, end in ((0, width / 2), (width / 2, width)):
            inside = [line for line in block if start <= line.left and line.right <= end]
            found.append(sorted(inside, key=lambda line: line.top))
    return found


def _line(element):
    edges = (float(element.get(name)) for name in ("xMin", "yMin", "xMax"))
    text = " ".join(word.text or "" for word in element.iter(f"{_XHTML}word"))
    return Line(text, *edges)


def last_lines_alone(columns):
    """Yield the lines at the head of a column that end a paragraph of the column before it.

    Only where text stands on both sides of the break: the line before it fills its column and ends
    no sentence, and what follows is indented or further away than a line of text.
    """
    edges = [
        (min(ln.left for ln in c), max(ln.right for ln in c)) if c else (0, 0) for c in columns
    ]
    for (before, (left, right)), (after, (start, _)) in pairwise(zip(columns, edges, strict=True)):
        if not before or len(after) < 2:
            continue
        foot, head, following = before[-1], after[0], after[1]
        goes_on = foot.left - left < _INDENT and right - foot.right < _INDENT
        goes_on = goes_on and foot.text[-1:] not in ".:!?)" and head.left - start < _INDENT
        # Cells of a table stand side by side.
        goes_on = goes_on and all(abs(line.top - head.top) > 4 for line in after[1:])
        if goes_on and (following.left - start >= _INDENT or following.top - head.top > _PITCH):
            yield head


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        print(path.stem, *(f"{fill:.2f}" for fill in page_fill(path)))
        for kind, number, page, first in floats_and_mentions(path):
            if first is None or abs(page - first) > 1:
                print(f"  {kind} {number} on page {page}, mentioned on {first}")
        for line in last_lines_alone(columns_of(path)):
            print(f"  alone at the head of a column: {line.text}")
