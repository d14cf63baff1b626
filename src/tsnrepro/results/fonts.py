"""The fonts of figures: the papers' sans serif, and a Korean one beside it."""

import hashlib
import logging
import os
from functools import cache
from pathlib import Path

import matplotlib as mpl
from fontTools.pens.cu2quPen import Cu2QuPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont, newTable
from matplotlib import font_manager

# The sans serif of paper/tsnrepro.sty; of the Korean ones the first that is installed.
_LATIN = "texgyreheros-regular"
_KOREAN = ("NanumGothic", "UnDotum")
# Latin, Greek, punctuation, arrows and signs of mathematics: all that a label has.
_LETTERS = (*range(0x20, 0x250), *range(0x370, 0x400), *range(0x2000, 0x2300))
_MAX_ERROR_UNITS = 0.5
# Of Korean fonts it cannot reduce some tables, which no PDF needs.
logging.getLogger("fontTools.subset").setLevel(logging.ERROR)


@cache
def families() -> list[str]:
    """Return the installed families of figures' text in order: Latin letters, then Korean ones.

    Without the papers' fonts it is Matplotlib's own.
    """
    # Matplotlib's own list is as old as its first use on this machine.
    there = {Path(path).stem: Path(path) for path in font_manager.findSystemFonts()}
    korean = [there[name] for name in _KOREAN if name in there][:1]
    latin = [there[_LATIN]] if _LATIN in there else []
    families = [] if latin else ["DejaVu Sans"]
    for path in (*latin, *korean):
        usable = _truetype(path) if path.suffix == ".otf" else path
        font_manager.fontManager.addfont(usable)
        families.append(font_manager.get_font(usable).family_name)
    return families


def _truetype(path: Path) -> Path:
    """Return a font with quadratic outlines, made once from one with cubic outlines.

    Matplotlib embeds the latter in PDFs as if they were the former, which readers complain of.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    made = Path(mpl.get_cachedir()) / f"{path.stem}-{digest}.ttf"
    if not made.is_file():
        font = TTFont(path, recalcTimestamp=False)
        subsetter = Subsetter(Options(layout_features=["kern"], notdef_outline=True))
        subsetter.populate(unicodes=_LETTERS)
        subsetter.subset(font)
        _make_quadratic(font)
        written = made.with_suffix(f".{os.getpid()}")
        font.save(written)
        written.replace(made)
    return made


def _make_quadratic(font: TTFont) -> None:
    """Replace the outlines of an OpenType font: table CFF by the tables glyf and loca."""
    glyphs, order = font.getGlyphSet(), font.getGlyphOrder()
    outlines = {}
    for name in order:
        pen = TTGlyphPen(None)
        glyphs[name].draw(Cu2QuPen(pen, _MAX_ERROR_UNITS, reverse_direction=True))
        outlines[name] = pen.glyph()
    font["loca"], font["glyf"] = newTable("loca"), newTable("glyf")
    font["glyf"].glyphOrder, font["glyf"].glyphs = order, outlines
    del font["CFF "]
    # No program for hinting; the numbers of points follow from the outlines.
    unused = ("TwilightPoints", "Storage", "FunctionDefs", "InstructionDefs", "StackElements")
    vars(font["maxp"]).update(
        {f"max{name}": 0 for name in unused},
        tableVersion=0x00010000,
        maxZones=1,
        maxSizeOfInstructions=0,
    )
    vars(font["post"]).update(formatType=2.0, extraNames=[], mapping={}, glyphOrder=order)
    font.sfntVersion = "\0\1\0\0"
