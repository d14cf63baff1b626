"""Figures of a run as a page shows them: inside the page, whatever format they were drawn in."""

import base64
import io
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.runs import AnalysedRun

_IMAGES = {".svg": "image/svg+xml", ".png": "image/png"}
_CONVERT_SECONDS = 60
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
            return _data_address(kind, _small(data) if suffix == ".png" else data)
    pdf = stem.with_name(f"{stem.name}.pdf")
    converter = shutil.which("pdftocairo")
    if converter is None:
        raise PublishError(
            "a figure is there as PDF only, which a page cannot show",
            str(pdf),
            "Install poppler-utils, or save the figure as PNG too",
        )
    done = subprocess.run(
        [converter, "-svg", str(pdf), "-"],
        capture_output=True,
        timeout=_CONVERT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PublishError(f"pdftocairo failed: {done.stderr.decode().strip()}", str(pdf))
    return _data_address(_IMAGES[".svg"], done.stdout)


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


def _data_address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
