"""The HTML twin of a paper: one page with everything inside, made from the same frozen text.

pandoc reads the text. Numbers of sections, tables and figures are those of the printed pages, and
every value, figure and published cell leads to its entry in the appendix, as in the PDF.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.drawings import data_address, drawings_as_svg, svg_of
from tsnrepro.papers.frozen import frozen, is_korean
from tsnrepro.papers.html_source import DRAWING, HEAD_ENDS, PROVENANCE, Numbers, twin_source
from tsnrepro.papers.latex_source import argument
from tsnrepro.papers.provenance import SHORT_SUM, short_commits
from tsnrepro.papers.submission import files_of
from tsnrepro.records.values import Result
from tsnrepro.results.numbers import TEXT, printed
from tsnrepro.results.pages import environment
from tsnrepro.results.runs import TEXT_UNITS, shown

_SVG = "image/svg+xml"
_SECONDS = 120
_BELOW_TITLE = "--shift-heading-level-by=1"
_TITLE = re.compile(r"pdftitle=(?=\{)")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_KOREAN, _ENGLISH = "koreanabstract", "englishabstract"
# A corner of a table, where two heads meet, is no head itself.
_EMPTY_HEAD = re.compile(r"<th\b([^>]*)></th>")
# What pandoc reads as a division, and the element that it is.
_ELEMENTS = {"paperfloat": "figure", "papercaption": "figcaption", "papertitle": "h1"}


def write_twin(manuscript: Path, results: Path, output: Path) -> None:
    """Write a printed paper as one self-contained HTML page.

    Parameters
    ----------
    manuscript
        Its folder below ``paper/``.
    results
        The folder of its printed results, with what LaTeX numbered in ``NAME.aux``.
    output
        The page.

    Raises
    ------
    PublishError
        The paper was not printed yet, its text has what pandoc cannot read, or a number of a table
        or figure would differ from that in the PDF.
    """
    name = manuscript.name
    files = files_of(manuscript, results, "arxiv")
    aux = results / f"{name}.aux"
    if not aux.is_file():
        raise PublishError("the paper was not printed yet", str(aux), "Run snakemake first")
    text = frozen(files, name, value=_linked)
    korean = is_korean(text)
    source = twin_source(
        text,
        Numbers.read(aux.read_text(encoding="utf-8", errors="replace")),
        files[f"{name}.bbl"].decode("utf-8"),
        korean,
    )
    drawings = drawings_as_svg(frozen(files, name), source.drawings, files)
    images = {f"{DRAWING}{number}": svg for number, svg in enumerate(drawings, 1)}
    provenance = json.loads((results / "provenance.json").read_text(encoding="utf-8"))
    page = _Page(
        images, results, _rendered("twin_provenance.html.j2", korean=korean, **_entries(provenance))
    )
    body = page.html(_pandoc(source.text, "latex", "json", _BELOW_TITLE))
    found = _TITLE.search(text)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        _rendered(
            "twin.html.j2",
            title=argument(text, found.end())[0] if found else name,
            language="ko" if korean else "en",
            policy=_POLICY,
            style=(Path(__file__).parent / "templates" / "twin.css").read_text(encoding="utf-8"),
            body=body,
            pdf=f"{name}.pdf",
        ),
        encoding="utf-8",
    )


def _linked(key: str, text: str) -> str:
    return f"\\hyperlink{{tsn:{key}}}{{{text}}}"


def _pandoc(text: str, read: str, write: str, *options: str) -> str:
    """Return a text in another format.

    Raises
    ------
    PublishError
        pandoc failed, or warned: what it does not know it leaves out.
    """
    done = subprocess.run(
        ["pandoc", "-f", read, "-t", write, "--wrap=none", *options],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode or done.stderr.strip():
        raise PublishError(f"pandoc: {done.stderr.strip()[:2000]}")
    return done.stdout


def _rendered(template: str, **content: Any) -> str:
    return environment("tsnrepro.papers").get_template(template).render(content)


class _Page:
    """pandoc's tree of a text, made into the body of a page."""

    def __init__(self, images: Mapping[str, bytes], results: Path, provenance: str) -> None:
        self._images, self._results, self._provenance = images, results, provenance

    def html(self, tree: str) -> str:
        """Return the body."""
        document = json.loads(tree)
        document["blocks"] = self._blocks(document["blocks"])
        made = _pandoc(json.dumps(document), "json", "html5", "--mathml")
        return _EMPTY_HEAD.sub(r"<td\1></td>", made)

    def _blocks(self, blocks: list[dict[str, Any]], caption: str = "") -> list[dict[str, Any]]:
        return [made for block in blocks for made in self._block(block, caption)]

    def _block(self, block: dict[str, Any], caption: str) -> Iterable[dict[str, Any]]:
        kind, content = block["t"], block.get("c", [])
        if kind == "Div":
            return self._division(content, caption)
        if kind == "Table":
            before = _raw(_WIDE % escape(caption.partition(".")[0] or kind))
            return [before, {"t": kind, "c": self._table(content)}, _raw("</div>")]
        if kind in ("Para", "Plain"):
            if _text(content).strip() == PROVENANCE:
                return [_raw(self._provenance)]
            return [{"t": kind, "c": self._inline(content, caption)}]
        return [block]

    def _division(self, content: list[Any], caption: str) -> list[dict[str, Any]]:
        (identity, classes, pairs), blocks = content
        name = classes[0] if classes else ""
        if name == "paperfloat":
            captions = [b for b in blocks if b["t"] == "Div" and "papercaption" in b["c"][0][1]]
            caption = " ".join(_text(found["c"][1]) for found in captions)
        made = self._blocks(blocks, caption)
        element = _ELEMENTS.get(name)
        if element is None:
            language = {_KOREAN: "ko", _ENGLISH: "en"}.get(name)
            pairs = [*pairs, ["lang", language]] if language else pairs
            return [{"t": "Div", "c": [[identity, classes, pairs], made]}]
        if element == "h1":
            made = [{"t": "Plain", "c": block["c"]} for block in made]
        return [_raw(f"<{element}>"), *made, _raw(f"</{element}>")]

    def _table(self, content: list[Any]) -> list[Any]:
        """Return a table whose first rows, up to the one that says so, are its head."""
        attributes, caption, columns, (head_attributes, head), bodies, foot = content
        rows = [*head, *(row for body in bodies for row in [*body[2], *body[3]])]
        ends = next((i for i, row in enumerate(rows) if HEAD_ENDS in _text(row[1])), -1)
        head, rows = (rows[:ends], rows[ends + 1 :]) if ends >= 0 else ([], rows)
        body = [bodies[0][0], 0, [], rows]
        return [attributes, caption, columns, [head_attributes, head], [body], foot]

    def _inline(self, node: Any, caption: str) -> Any:
        """Return inline content with its images held in the page."""
        if isinstance(node, list):
            return [self._inline(item, caption) for item in node]
        if not isinstance(node, dict):
            return node
        if node.get("t") == "Image":
            _, _, (place, title) = node["c"]
            words = [{"t": "Str", "c": caption or place}]
            return {"t": "Image", "c": [["", [], []], words, [self._address(place), title]]}
        return {key: self._inline(value, caption) for key, value in node.items()}

    def _address(self, place: str) -> str:
        svg = self._images.get(place)
        return data_address(_SVG, svg_of(self._results / place) if svg is None else svg)


_WIDE = '<div class="wide" tabindex="0" role="region" aria-label="%s">'


def _raw(html: str) -> dict[str, Any]:
    return {"t": "RawBlock", "c": ["html", html]}


def _text(node: Any) -> str:
    """Return the words of a part of pandoc's tree."""
    if isinstance(node, list):
        return "".join(map(_text, node))
    if not isinstance(node, dict):
        return ""
    if node["t"] in ("Space", "SoftBreak", "LineBreak"):
        return " "
    content = node.get("c", [])
    if node["t"] in ("Str", "Code"):
        return content if isinstance(content, str) else content[1]
    if node["t"] == "Math":
        return content[1]
    return _text(content)


def _entries(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the appendix lists: values by the trials they rest on, cells, files."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for said in provenance["measured"]:
        item = Result(**{name: said[name] for name in Result.model_fields})
        group = groups.setdefault(
            (item.run, item.sha256),
            {
                "run": item.run,
                "trials": item.trials,
                "sha256": item.sha256[:SHORT_SUM],
                "commit": short_commits(said["commits"]) or TEXT.unknown,
                "values": [],
            },
        )
        group["values"].append({"key": item.key, "value": shown(item), "method": item.method})
    return {
        "groups": sorted(groups.values(), key=lambda group: (not group["run"], group["run"])),
        "cells": [_cell(said) for said in provenance["published"]],
        "files": [
            said | {"name": said["path"].removesuffix(".pdf"), "sha256": said["sha256"][:SHORT_SUM]}
            for said in provenance["files"]
        ],
    }


def _cell(said: Mapping[str, Any]) -> dict[str, Any]:
    cell = said["cell"]
    unit = "" if cell["unit"] in ("", "1") or not cell["printed"] else cell["unit"]
    text = printed(cell["printed"], cell["qualifier"], TEXT)
    return {
        "key": said["key"],
        "printed": f"{text} {TEXT_UNITS.get(unit, unit)}".strip(),
        "document": said["document"],
        "origin": cell["origin"],
    }
