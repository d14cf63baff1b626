"""Figures of a run as a page shows them: inside the page, whatever format they were drawn in."""

import io
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.drawings import data_address, svg_of
from tsnrepro.results.runs import AnalysedRun

_SVG = "image/svg+xml"
_COLOURS = 32


def figures_of(run: AnalysedRun) -> Iterator[dict[str, str]]:
    """Yield the figures of a run in the order of their declaration."""
    declared = run.experiment
    names = {path.stem for path in (run.folder / "figures").glob("*.*")}
    for pattern, caption in declared.figures.items():
        for name in sorted(name for name in names if fnmatchcase(name, pattern)):
            title = caption if name == pattern else f"{caption} ({name.replace('-', ' ')})"
            yield {
                "name": f"{declared.name}-{name}",
                "caption": title,
                "origin": run.origin,
                "source": _embedded(run.folder / "figures" / name),
            }


def _embedded(stem: Path) -> str:
    """Return a figure as a data address: as it is where a browser shows it, else converted."""
    drawn = stem.with_name(f"{stem.name}.svg")
    if drawn.is_file():
        return data_address(_SVG, drawn.read_bytes())
    pixels = stem.with_name(f"{stem.name}.png")
    if pixels.is_file():
        return data_address("image/webp", _small(pixels.read_bytes()))
    return data_address(_SVG, svg_of(stem.with_name(f"{stem.name}.pdf")))


def _small(data: bytes) -> bytes:
    """Return a drawing with as many colours as it needs, as WebP without loss: a fifth below PNG.

    Raises
    ------
    PublishError
        It is no picture.
    """
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        drawn = Image.open(io.BytesIO(data)).convert("RGB")
    except UnidentifiedImageError as error:
        raise PublishError(f"a figure is no picture: {error}") from error
    packed = io.BytesIO()
    few = drawn.quantize(_COLOURS, dither=Image.Dither.NONE).convert("RGB")
    # The slowest method takes twenty times as long and saves a hundredth.
    few.save(packed, format="WEBP", lossless=True, quality=100, method=4)
    return packed.getvalue()
