r"""The ledger of an audit: an HTML page, a LaTeX table, and LaTeX macros of the verdicts.

The LaTeX table needs the packages longtable, booktabs and array. Korean text in it is an argument
of ``\hangul``, which a document without a Korean main font redefines.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tsnrepro.common.latex import SPECIAL
from tsnrepro.published import documents as published
from tsnrepro.published.audit import THIRD_PARTY_SOURCE, AuditResult
from tsnrepro.published.audit_findings import Finding, Severity
from tsnrepro.published.claims import Judgement, Verdict
from tsnrepro.published.expressions import readable
from tsnrepro.published.rules import RULES

Translate = Callable[..., str]
"""Returns an English text in the language of a page, with values for its fields."""

_SCRIPT = "ledger-filter.js"
_SEVERITIES = {
    Severity.IMPOSSIBLE: "against arithmetic, a definition or the physics of the line",
    Severity.CONTRADICTION: "two statements that do not hold together",
    Severity.UNSUPPORTED: "a statement that the data behind it cannot carry",
    Severity.ROUNDING: "a printed number off by one unit of its last digit",
}
_VERDICTS = {
    Verdict.SUPPORTED: "the numbers show it",
    Verdict.OWN_TABLE: "true of the claim's own table; of the network it shows nothing",
    Verdict.ROUNDING: "true but for one unit of a last digit",
    Verdict.CONTRADICTED: "the numbers show the opposite",
    Verdict.CANNOT_TELL: "the numbers leave it open, or there are none",
}


def in_english(text: str, **fields: object) -> str:
    """Return an English text, with values for its fields."""
    return text.format(**fields) if fields else text


def write_ledger(
    result: AuditResult,
    folder: Path,
    report: str | None = None,
    language: str = "en",
    text: Translate = in_english,
) -> None:
    r"""Write the ledger into a folder, which is created if necessary.

    ``ledger.html`` is the page and ``ledger.tex`` a table to be input in a document.
    ``verdicts.tex`` defines ``\verdict``, ``\recordverdict`` and ``\verdictnumbers`` and is input
    in the preamble. The rest is as for :func:`html_ledger`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "ledger.html": html_ledger(result, report, language, text),
        "ledger.tex": latex_ledger(result),
        "verdicts.tex": latex_macros(result),
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def html_ledger(
    result: AuditResult,
    report: str | None = None,
    language: str = "en",
    text: Translate = in_english,
) -> str:
    """Return the ledger as a self-contained HTML page.

    ``report`` is a link to the report, relative to the page. ``text`` gives its texts in
    ``language``; formulas, keys, and what the tables of the documents print stay as they are.
    """
    template = _environment(latex=False).get_template("ledger.html.j2")
    script = (Path(__file__).parent / "templates" / _SCRIPT).read_text(encoding="utf-8")
    # The content security policy of the page allows this script alone.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    title = "Audit of the published record" if result.is_published else "Audit of {name}"
    name = ", ".join(dict.fromkeys(run.name for run in result.runs))
    context = _context(result)
    return template.render(
        context | {"origins": ", ".join(map(text, context["origins"]))},
        _=text,
        title=text(title, name=name),
        language=language,
        report=report,
        script=Markup(script),
        script_sum=f"sha256-{digest}",
    )


def latex_ledger(result: AuditResult, rows_per_check: int = 3) -> str:
    """Return the ledger as LaTeX tables that break over pages."""
    template = _environment(latex=True).get_template("ledger.tex.j2")
    return template.render(_context(result), rows_per_check=rows_per_check)


def latex_macros(result: AuditResult) -> str:
    r"""Return macros that print the verdict on a claim by its id.

    ``\verdict{id}`` is the verdict on this testbed, ``\recordverdict{id}`` the verdict by the
    published numbers, ``\verdictnumbers{id}`` the decisive numbers. An unknown id is an error.
    """
    return _environment(latex=True).get_template("verdicts.tex.j2").render(_context(result))


def _context(result: AuditResult) -> dict[str, Any]:
    documents = published.documents()
    titles = {name: document.short for name, document in documents.items()}
    titles[THIRD_PARTY_SOURCE] = "The authors' public data set"
    groups: dict[str, dict[str, list[Finding]]] = {}
    for check, findings in result.by_check().items():
        groups.setdefault(findings[0].source, {})[check] = findings
    claims: dict[str, list[tuple[Judgement, Judgement]]] = {}
    for here, there in result.verdicts():
        claims.setdefault(here.claim.document, []).append((here, there))
    used = sorted({finding.rule for finding in result.findings})
    # One line per origin: the experiments of one campaign share their testbed.
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


# Braces and percent signs have a meaning in LaTeX.
_LATEX_DELIMITERS: dict[str, Any] = {
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
        autoescape=not latex,  # for LaTeX the filter `tex` escapes
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        **(_LATEX_DELIMITERS if latex else {}),
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
# Paths may break after a slash; a number and its unit stay on one line.
_PATHS = re.compile(r"/(?=\w{3})")
_UNITS = re.compile(r"(?<=\d) (?=(?:\\%|[kMG]?b/s|[kM]B/s|\\textmu\{\}s|[mn]?s\b|B\b))")
_HANGUL = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]+")


def escape_latex(text: object) -> str:
    """Return a text as LaTeX source, with break points in long names."""
    escaped = _LATEX_CHARACTERS.sub(lambda match: _LATEX[match[0]], str(text))
    escaped = _UNITS.sub("~", _PATHS.sub(r"/\\allowbreak{}", escaped))
    return _HANGUL.sub(lambda match: rf"\hangul{{{match[0]}}}", escaped)
