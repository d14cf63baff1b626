r"""Write the ledger of an audit: a page to read, a table to print, macros to cite.

The LaTeX table needs the packages longtable, booktabs and array. It prints Korean words inside
``\hangul{...}``, which a document without a Korean main font redefines.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tsnrepro.audit import published
from tsnrepro.audit.claims import Judgement, Verdict
from tsnrepro.audit.expressions import readable
from tsnrepro.audit.findings import Finding, Severity
from tsnrepro.audit.report import FOREIGN_SOURCE, AuditResult
from tsnrepro.audit.rules import RULES

_SEVERITIES = {
    Severity.IMPOSSIBLE: "against arithmetic, a definition or the physics of the line",
    Severity.CONTRADICTION: "two statements that do not hold together",
    Severity.UNSUPPORTED: "a statement that the data behind it cannot carry",
}
_VERDICTS = {
    Verdict.SUPPORTED: "the numbers show it",
    Verdict.CONTRADICTED: "the numbers show the opposite",
    Verdict.CANNOT_TELL: "the numbers leave it open, or there are none",
}


def write_ledger(
    result: AuditResult, *, html: Path, latex: Path, macros: Path, rows_per_check: int = 3
) -> None:
    r"""Write the ledger as HTML, as a LaTeX table and as LaTeX macros.

    Args:
        result: what the audit found.
        html: file of the page.
        latex: file of the table, to be input where it is to stand.
        macros: file of ``\verdict``, ``\recordverdict`` and ``\verdictnumbers``, to be input
            before the document begins.
        rows_per_check: findings of one check that the LaTeX table shows; the page shows all.

    """
    for path, text in (
        (html, html_ledger(result)),
        (latex, latex_ledger(result, rows_per_check)),
        (macros, latex_macros(result)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def html_ledger(result: AuditResult) -> str:
    """Return the ledger as one HTML page without references to other files."""
    return _environment(latex=False).get_template("ledger.html.j2").render(_context(result))


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
    titles = {name: document.short for name, document in published.documents().items()}
    titles[FOREIGN_SOURCE] = "The authors' public data set"
    groups: dict[str, dict[str, list[Finding]]] = {}
    for check, findings in result.by_check().items():
        groups.setdefault(findings[0].source, {})[check] = findings
    claims: dict[str, list[tuple[Judgement, Judgement]]] = {}
    for here, there in result.verdicts():
        claims.setdefault(here.claim.document, []).append((here, there))
    used = sorted({finding.rule for finding in result.findings})
    return {
        "result": result,
        "titles": titles,
        "groups": groups,
        "claims": claims,
        "severities": _SEVERITIES,
        "verdicts": _VERDICTS,
        "severity_counts": Counter(finding.severity for finding in result.findings),
        "verdict_counts": Counter(judgement.verdict for judgement in result.judgements),
        "principles": {name: RULES[name].principle for name in used},
    }


@cache
def _environment(*, latex: bool) -> Environment:
    loader = PackageLoader("tsnrepro.audit", "templates")
    if not latex:
        environment = Environment(
            loader=loader,
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
    else:
        # LaTeX uses braces and percent signs itself.
        environment = Environment(
            loader=loader,
            autoescape=False,  # the filter tex escapes
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            block_start_string="<%",
            block_end_string="%>",
            variable_start_string="<<",
            variable_end_string=">>",
            comment_start_string="<#",
            comment_end_string="#>",
        )
        environment.filters["tex"] = escape_latex
    environment.filters["anchor"] = lambda text: re.sub(r"[^\w-]", "-", str(text))
    environment.filters["readable"] = readable
    return environment


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
    "|": r"\ensuremath{|}",
    '"': r"\textquotedbl{}",
    "*": r"\ensuremath{*}",
    "_": r"\_\allowbreak{}",
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
