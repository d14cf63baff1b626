"""A built paper and its supplement as one self-contained HTML page.

pandoc converts the expanded text. The numbering is that of the PDFs, and every value, figure and
published cell is a link to its entry in the supplement, as in the PDF.
"""

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.expansion import expand, is_korean
from tsnrepro.papers.latex_source import argument
from tsnrepro.papers.manuscript import SUPPLEMENT
from tsnrepro.papers.pandoc_source import (
    HEAD_END,
    PICTURE,
    PROVENANCE,
    Numbering,
    pandoc_source,
)
from tsnrepro.papers.programs import run
from tsnrepro.papers.provenance import SHORT_SUM, short_commits
from tsnrepro.papers.submission import files_of
from tsnrepro.papers.svg import data_uri, latex_to_svg, pdf_to_svg
from tsnrepro.records.values import Result
from tsnrepro.results.numbers import TEXT, printed
from tsnrepro.results.runs import TEXT_UNITS, shown
from tsnrepro.results.templates import environment

_SVG = "image/svg+xml"
_BELOW_TITLE = "--shift-heading-level-by=1"
_TITLE = re.compile(r"pdftitle=(?=\{)")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_KOREAN, _ENGLISH = "koreanabstract", "englishabstract"
# An empty corner of a table is not a header cell.
_EMPTY_HEAD = re.compile(r"<th\b([^>]*)></th>")
# Elements for the divisions that pandoc reads.
_ELEMENTS = {"paperfloat": "figure", "papercaption": "figcaption", "papertitle": "h1"}


def write_html(manuscript: Path, results: Path, output: Path) -> None:
    """Write a built paper as one self-contained HTML page.

    ``manuscript``: folder of the manuscript in ``paper/``. ``results``: folder of the built paper,
    with the numbering in ``NAME.aux`` and ``NAME-supplement.aux``. Raises PublishError if the paper
    is not built, pandoc does not support something in its text, or the number of a table or figure
    would differ from that in the PDF.
    """
    name = manuscript.name
    files = files_of(manuscript, results, "arxiv")
    parts = [results / f"{name}{end}.aux" for end in ("", SUPPLEMENT)]
    for aux in parts:
        if not aux.is_file():
            raise PublishError("the paper is not built", str(aux), "Run snakemake first")
    text = expand(files, name, value=_linked)
    korean = is_korean(text)
    source = pandoc_source(
        text,
        Numbering.from_aux(
            "".join(aux.read_text(encoding="utf-8", errors="replace") for aux in parts)
        ),
        files[f"{name}.bbl"].decode("utf-8"),
        korean,
    )
    pictures = latex_to_svg(expand(files, name), source.pictures, files)
    images = {f"{PICTURE}{number}": svg for number, svg in enumerate(pictures, 1)}
    provenance = json.loads((results / "provenance.json").read_text(encoding="utf-8"))
    appendix = _rendered("paper_provenance.html.j2", korean=korean, **_entries(provenance))
    page = _Page(images, results, appendix)
    body = page.html(_pandoc(source.text, "latex", "json", _BELOW_TITLE))
    found = _TITLE.search(text)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(
        _rendered(
            "paper.html.j2",
            title=argument(text, found.end())[0] if found else name,
            language="ko" if korean else "en",
            policy=_POLICY,
            style=(Path(__file__).parent / "templates" / "paper.css").read_text(encoding="utf-8"),
            body=body,
            pdf=f"{name}.pdf",
        ),
        encoding="utf-8",
    )


def _linked(key: str, text: str) -> str:
    return f"\\hyperlink{{tsn:{key}}}{{{text}}}"


def _pandoc(text: str, read: str, write: str, *options: str) -> str:
    """Return a text in another format.

    Raises PublishError if pandoc failed, or warned that it drops something.
    """
    formats = ["-f", read, "-t", write]
    return run(
        ["pandoc", *formats, "--fail-if-warnings", "--wrap=none", *options], text=text
    ).decode()


def _rendered(template: str, **content: Any) -> str:
    return environment("tsnrepro.papers").get_template(template).render(content)


class _Page:
    """The conversion of pandoc's document tree to the body of a page."""

    def __init__(self, images: Mapping[str, bytes], results: Path, provenance: str) -> None:
        self._images, self._results, self._provenance = images, results, provenance

    def html(self, tree: str) -> str:
        document = json.loads(tree)
        document["blocks"] = self._blocks(document["blocks"])
        body = _pandoc(json.dumps(document), "json", "html5", "--mathml")
        return _EMPTY_HEAD.sub(r"<td\1></td>", body)

    def _blocks(self, blocks: list[dict[str, Any]], caption: str = "") -> list[dict[str, Any]]:
        return [new for block in blocks for new in self._block(block, caption)]

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
        inner = self._blocks(blocks, caption)
        element = _ELEMENTS.get(name)
        if element is None:
            language = {_KOREAN: "ko", _ENGLISH: "en"}.get(name)
            pairs = [*pairs, ["lang", language]] if language else pairs
            return [{"t": "Div", "c": [[identity, classes, pairs], inner]}]
        if element == "h1":
            inner = [{"t": "Plain", "c": block["c"]} for block in inner]
        return [_raw(f"<{element}>"), *inner, _raw(f"</{element}>")]

    def _table(self, content: list[Any]) -> list[Any]:
        """Return a table with a head, which the row with ``HEAD_END`` ends."""
        attributes, caption, columns, (head_attributes, head), bodies, foot = content
        rows = [*head, *(row for body in bodies for row in [*body[2], *body[3]])]
        end = next((i for i, row in enumerate(rows) if HEAD_END in _text(row[1])), -1)
        head, rows = (rows[:end], rows[end + 1 :]) if end >= 0 else ([], rows)
        body = [bodies[0][0], 0, [], rows]
        return [attributes, caption, columns, [head_attributes, head], [body], foot]

    def _inline(self, node: Any, caption: str) -> Any:
        """Return inline content with embedded images."""
        if isinstance(node, list):
            return [self._inline(item, caption) for item in node]
        if not isinstance(node, dict):
            return node
        if node.get("t") == "Image":
            _, _, (path, title) = node["c"]
            alternative = [{"t": "Str", "c": caption or path}]
            return {"t": "Image", "c": [["", [], []], alternative, [self._uri(path), title]]}
        return {key: self._inline(value, caption) for key, value in node.items()}

    def _uri(self, path: str) -> str:
        svg = self._images.get(path)
        return data_uri(_SVG, pdf_to_svg(self._results / path) if svg is None else svg)


_WIDE = '<div class="wide" tabindex="0" role="region" aria-label="%s">'


def _raw(html: str) -> dict[str, Any]:
    return {"t": "RawBlock", "c": ["html", html]}


def _text(node: Any) -> str:
    """Return the text of a part of pandoc's document tree."""
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
    """Return the contents of the appendix: values grouped by their trials, cells, files."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in provenance["measured"]:
        item = Result(**{name: entry[name] for name in Result.model_fields})
        group = groups.setdefault(
            (item.run, item.sha256),
            {
                "run": item.run,
                "trials": item.trials,
                "sha256": item.sha256[:SHORT_SUM],
                "commit": short_commits(entry["commits"]) or TEXT.unknown,
                "values": [],
            },
        )
        group["values"].append({"key": item.key, "value": shown(item), "method": item.method})
    return {
        "groups": sorted(groups.values(), key=lambda group: (not group["run"], group["run"])),
        "cells": [_cell(entry) for entry in provenance["published"]],
        "files": [
            entry
            | {"name": entry["path"].removesuffix(".pdf"), "sha256": entry["sha256"][:SHORT_SUM]}
            for entry in provenance["files"]
        ],
    }


def _cell(entry: Mapping[str, Any]) -> dict[str, Any]:
    cell = entry["cell"]
    unit = "" if cell["unit"] in ("", "1") or not cell["printed"] else cell["unit"]
    text = printed(cell["printed"], cell["qualifier"], TEXT)
    return {
        "key": entry["key"],
        "printed": f"{text} {TEXT_UNITS.get(unit, unit)}".strip(),
        "document": entry["document"],
        "origin": cell["origin"],
    }
