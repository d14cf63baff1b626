"""Figures of a run as a page shows them: inside the page, whatever format they were drawn in."""

import io
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tsnrepro.publish.drawings import data_address, svg_of
from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.runs import AnalysedRun

_IMAGES = {".svg": "image/svg+xml", ".png": "image/png"}
_COLOURS = 48


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
    for suffix, kind in _IMAGES.items():
        path = stem.with_name(stem.name + suffix)
        if path.is_file():
            data = path.read_bytes()
            return data_address(kind, _small(data) if suffix == ".png" else data)
    pdf = stem.with_name(f"{stem.name}.pdf")
    return data_address(_IMAGES[".svg"], svg_of(pdf))


def _small(data: bytes) -> bytes:
    """Return a PNG with as many colours as a drawing needs, where that is smaller.

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
    few = drawn.quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(packed, format="PNG", optimize=True)
    return min(data, packed.getvalue(), key=len)
