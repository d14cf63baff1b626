r"""Write the ledger of an audit: a page to read, a table to print, macros to cite.

The LaTeX table needs the packages longtable, booktabs and array. It prints Korean words inside
``\hangul{...}``, which a document without a Korean main font redefines.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tsnrepro.common.latex import SPECIAL
from tsnrepro.published import documents as published
from tsnrepro.published.audit import FOREIGN_SOURCE, AuditResult
from tsnrepro.published.claims import Grade, Judgement
from tsnrepro.published.expressions import readable
from tsnrepro.published.findings import AuditFinding, Severity
from tsnrepro.published.rules import RULES

_FILTER = "ledger-filter.js"
_SEVERITIES = {
    Severity.IMPOSSIBLE: "against arithmetic, a definition or the physics of the line",
    Severity.CONTRADICTION: "two statements that do not hold together",
    Severity.UNSUPPORTED: "a statement that the data behind it cannot carry",
    Severity.ROUNDING: "a printed number off by one unit of its last digit",
}
_VERDICTS = {
    Grade.SUPPORTED: "the numbers show it",
    Grade.OWN_TABLE: "true of the claim's own table; of the network it shows nothing",
    Grade.ROUNDING: "true but for one unit of a last digit",
    Grade.CONTRADICTED: "the numbers show the opposite",
    Grade.CANNOT_TELL: "the numbers leave it open, or there are none",
}


def write_ledger(result: AuditResult, folder: Path, report: str | None = None) -> None:
    r"""Write the ledger into a folder, which is made where missing.

    ``ledger.html`` is the page, ``ledger.tex`` a table to be input where it is to stand, and
    ``verdicts.tex`` holds ``\verdict``, ``\recordverdict`` and ``\verdictnumbers``, to be input
    before the document begins. ``report`` is as :func:`html_ledger` takes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "ledger.html": html_ledger(result, report),
        "ledger.tex": latex_ledger(result),
        "verdicts.tex": latex_macros(result),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")


def html_ledger(result: AuditResult, report: str | None = None) -> str:
    """Return the ledger as one HTML page.

    It refers to no other file but the page at ``report``, a link relative to where it will lie.
    """
    template = _environment(latex=False).get_template("ledger.html.j2")
    script = (Path(__file__).parent / "templates" / _FILTER).read_text(encoding="utf-8")
    # The page's policy lets this script run and no other.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        _context(result), report=report, script=Markup(script), script_sum=f"sha256-{digest}"
    )


def latex_ledger(result: AuditResult, rows_per_check: int = 3) -> str:
    """Return the ledger as LaTeX tables that break over pages."""
    template = _environment(latex=True).get_template("ledger.tex.j2")
    return template.render(_context(result), rows_per_check=rows_per_check)


def latex_macros(result: AuditResult) -> str:
    r"""Return macros that print the verdict on a claim by its id.

    ``\verdict{id}`` is the verdict on this testbed, ``\recordverdict{id}`` that by the published
    numbers, ``\verdictnumbers{id}`` what decides it. An unknown id stops the build.
    """
    return _environment(latex=True).get_template("verdicts.tex.j2").render(_context(result))


def _context(result: AuditResult) -> dict[str, Any]:
    documents = published.documents()
    titles = {name: document.short for name, document in documents.items()}
    titles[FOREIGN_SOURCE] = "The authors' public data set"
    groups: dict[str, dict[str, list[AuditFinding]]] = {}
    for check, findings in result.by_check().items():
        groups.setdefault(findings[0].source, {})[check] = findings
    claims: dict[str, list[tuple[Judgement, Judgement]]] = {}
    for here, there in result.verdicts():
        claims.setdefault(here.claim.document, []).append((here, there))
    used = sorted({finding.rule for finding in result.findings})
    # One line an origin: the experiments of one campaign share their testbed.
    runs = {run.origin: run for run in result.runs}
    caveats = {
        name: [
            line
            for origin, run in runs.items()
            if any(origin in here.origins for here, _ in claims.get(name, ()))
            and (line := run.caveat(document.platform))
        ]
        for name, document in documents.items()
    }
    return {
        "result": result,
        "titles": titles,
        "groups": groups,
        "claims": claims,
        "origins": list(runs),
        "caveats": caveats,
        "verb": "simulated" if all(run.kind == "model" for run in result.runs) else "measured",
        "severities": _SEVERITIES,
        "verdicts": _VERDICTS,
        "severity_counts": Counter(finding.severity for finding in result.findings),
        "verdict_counts": Counter(judgement.verdict for judgement in result.judgements),
        "principles": {name: RULES[name].principle() for name in used},
    }


# LaTeX uses braces and percent signs itself.
_LATEX_MARKS: dict[str, Any] = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}


@cache
def _environment(*, latex: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("tsnrepro.published", "templates"),
        autoescape=not latex,  # there the filter tex escapes
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        **(_LATEX_MARKS if latex else {}),
    )
    environment.filters["tex"] = escape_latex
    environment.filters["anchor"] = lambda text: re.sub(r"[^\w-]", "-", str(text))
    environment.filters["readable"] = readable
    return environment


_LATEX = SPECIAL | {
    "_": r"\_\allowbreak{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
    "|": r"\ensuremath{|}",
    '"': r"\textquotedbl{}",
    "*": r"\ensuremath{*}",
    "\u00a0": "~",
    "µ": r"\textmu{}",
    "μ": r"\textmu{}",
    "×": r"\ensuremath{\times}",
    "±": r"\ensuremath{\pm}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "−": r"\ensuremath{-}",
    "∞": r"\ensuremath{\infty}",
    "→": r"\ensuremath{\rightarrow}",
    "✓": "yes",
    "✗": "no",
    "–": "--",
    "—": "---",
    "‘": "`",
    "’": "'",
}
_LATEX_CHARACTERS = re.compile("|".join(map(re.escape, _LATEX)))
# Identifiers and paths have no spaces to break lines at; units have one and keep it.
_PATHS = re.compile(r"/(?=\w{3})")
_UNITS = re.compile(r"(?<=\d) (?=(?:\\%|[kMG]?b/s|[kM]B/s|\\textmu\{\}s|[mn]?s\b|B\b))")
_HANGUL = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]+")


def escape_latex(text: object) -> str:
    """Return a text as LaTeX prints it, with places to break long names at."""
    escaped = _LATEX_CHARACTERS.sub(lambda match: _LATEX[match[0]], str(text))
    escaped = _UNITS.sub("~", _PATHS.sub(r"/\\allowbreak{}", escaped))
    return _HANGUL.sub(lambda match: rf"\hangul{{{match[0]}}}", escaped)
