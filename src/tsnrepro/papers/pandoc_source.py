r"""An expanded manuscript as LaTeX for pandoc: without layout, with the numbering of the PDF.

Sections, tables, figures and references have the numbers in the ``.aux`` file of the PDF; those of
pandoc would differ.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.korean_particles import PARTICLES, particle
from tsnrepro.papers.latex_source import argument, substitute

HEAD_END, PROVENANCE, PICTURE = "@headends@", "@provenance@", "drawing-"
_BODY = re.compile(r"\\begin\{document\}(.*)\\end\{document\}", re.S)
_PICTURE = re.compile(r"\\begin\{(picture|tikzpicture)\}.*?\\end\{\1\}", re.S)
_FLOAT = re.compile(
    r"\\begin\{(?P<kind>figure|table|center)(?P<star>\*?)\}(?:\[[^]]*\])?(?P<inner>.*?)"
    r"\\end\{(?P=kind)(?P=star)\}",
    re.S,
)
_TABULAR = re.compile(r"(\\begin\{tabular\})(.*?)(\\end\{tabular\})", re.S)
_RULES = re.compile(r"\\cmidrule(?:\([lr]+\))?\{[^}]*\}|\\(?:toprule|bottomrule|endhead|endfoot)\b")
_SPACE = re.compile(r"\\(?:addlinespace|nopagebreak)(?:\[[^]]*\])?|\\\\\[[^]]*\]\s*(?=\\Large)")
_LABEL = re.compile(r"\\label\{([^}]*)\}")
_MATH = re.compile(r"(?<!\\)\$[^$]*\$|\\begin\{equation\}.*?\\end\{equation\}", re.S)
_EQUATION = re.compile(r"\\begin\{equation\}(.*?)\\end\{equation\}", re.S)
_BREAK = re.compile(r"\\\\(?:\[[^]]*\])?")
_ITEM = re.compile(r"\\bibitem\{([^}]*)\}\s*(.*?)(?=\\bibitem|\\end\{thebibliography\})", re.S)
_SIGNS = {"-": "−", "/": "/", r"\times": "×", "<": "<", r"\ge": "≥", r"\le": "≤", r"\sim": "∼"}
_SIMPLE = re.compile(r"\A\$([\d.,]*)\s*(-|/|\\times)\$\Z")
# Dropped commands, with their number of arguments.
_DROPPED = {
    **dict.fromkeys(
        (
            *("centering", "tablesize", "selectfont", "hfill", "LARGE", "large", "footnotesize"),
            *("scriptsize", "clearpage", "onecolumn", "maketitle", "appendices", "raggedbottom"),
            *("nobreak", "newpage"),
            *("BIBentryALTinterwordspacing", "BIBentrySTDinterwordspacing", "newblock"),
        ),
        0,
    ),
    **dict.fromkeys(("phantom", "bibliographystyle", "nocite"), 1),
    **dict.fromkeys(("setlength", "fontsize", "renewcommand", "setcounter", "markboth"), 2),
}
# luatexko reads one syllable as a command.
_PARTICLE = re.compile(rf"\\([{PARTICLES}])")
_SILENT = re.compile(r"\\hyperlink\{[^{}]*\}|\\[A-Za-z]+\*?|[{}$~,\s]")
# Characters before a particle in which its word is found.
_CONTEXT = 200
_COUNTED: tuple[str, ...] = ("figure", "table", "equation")
# The parts of a manuscript, of which a page has both.
_PARTS = re.compile(r"\\(?:begin\{paper\}|end\{(?:paper|supplement)\})")
_SUPPLEMENT = "\\begin{supplement}"
_ROMAN = {40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
_TERMS = {
    False: {
        **{"table": "Table", "figure": "Figure", "references": "References"},
        **{"abstract": "Abstract", "keywords": "Index terms"},
        **{"unmeasured": "Not measured in this campaign.", "supplement": "Supplement"},
    },
    True: {
        **{"table": "표", "figure": "그림", "references": "참고문헌"},
        **{"abstract": "초록", "keywords": "주제어"},
        **{"unmeasured": "이 캠페인에서는 측정하지 않았다.", "supplement": "보충 자료"},
    },
}


@dataclass
class Numbering:
    """The numbers that LaTeX assigned: by label, and those of the sections in order."""

    labels: dict[str, str] = field(default_factory=dict)
    sections: list[str] = field(default_factory=list)

    @classmethod
    def from_aux(cls, aux: str) -> "Numbering":
        """Return the numbers in an ``.aux`` file."""
        found = cls()
        for match in re.finditer(r"\\newlabel\{([^}]*)\}", aux):
            fields, _ = argument(aux, match.end())
            found.labels[match[1]] = _bare(argument(fields, 0)[0])
        for match in re.finditer(r"\\contentsline \{(?:sub)*section\}", aux):
            title, _ = argument(aux, match.end())
            if title.startswith(r"\numberline"):
                found.sections.append(_bare(argument(title, len(r"\numberline"))[0]))
            elif r"\nobreakspace" in title:
                found.sections.append(_bare(title.partition(":")[0]))
        return found


@dataclass(frozen=True)
class PandocSource:
    """LaTeX for pandoc, and its pictures, which are the images ``drawing-1`` and so on."""

    text: str
    pictures: list[str]


def pandoc_source(text: str, numbering: Numbering, bibliography: str, korean: bool) -> PandocSource:
    """Return an expanded manuscript as LaTeX for pandoc.

    Raises PublishError if the number of a table or figure differs from that in the PDF, or a
    section, reference or citation has no number there.
    """
    return _Conversion(numbering, bibliography, korean).converted(text)


class _Conversion:
    def __init__(self, numbering: Numbering, bibliography: str, korean: bool) -> None:
        self._numbering, self._korean = numbering, korean
        self._terms = _TERMS[korean]
        self._entries = dict(_ITEM.findall(bibliography))
        self._sections = iter(numbering.sections)
        self._counts: dict[str, int] = dict.fromkeys(_COUNTED, 0)
        self._prefix = ""
        self._pictures: list[str] = []

    def converted(self, text: str) -> PandocSource:
        found = _BODY.search(text)
        if found is None:
            raise PublishError("the manuscript has no body")
        paper, begin, supplement = _PARTS.sub("", found[1]).partition(_SUPPLEMENT)
        body = self._numbered(paper)
        if begin:
            body += f"\n\n\\section*{{{self._terms['supplement']}}}\n\n"
            self._prefix, self._counts = "S", dict.fromkeys(_COUNTED, 0)
            body += self._numbered(supplement)
        body = _TABULAR.sub(_table, _SPACE.sub("", body))
        for name, word in (("abstract", "abstract"), ("IEEEkeywords", "keywords")):
            body = body.replace(f"\\begin{{{name}}}", self._part(name, self._terms[word]))
            body = body.replace(f"\\end{{{name}}}", f"\\end{{paper{name}}}")
        for name, word in (("koreanabstract", "국문 초록"), ("englishabstract", "Abstract")):
            body = body.replace(f"\\begin{{{name}}}", f"\\begin{{{name}}}\\textbf{{{word}.}} ")
        body = substitute(body, self._commands())
        return PandocSource(_with_particles(body), self._pictures)

    def _numbered(self, body: str) -> str:
        """Return a part with pictures as images and with numbers of its equations and floats."""
        body = _PICTURE.sub(self._picture, body)
        body = _MATH.sub(lambda math: _without_links(math[0]), body)
        body = _EQUATION.sub(self._equation, body)
        body = body.replace("{longtable}", "{tabular}").replace(
            "\\input{provenance.tex}", PROVENANCE
        )
        return _FLOAT.sub(self._float, body)

    @staticmethod
    def _part(name: str, word: str) -> str:
        return f"\\begin{{paper{name}}}\\textbf{{{word}.}} "

    def _commands(self) -> dict[str, tuple[int, Callable[..., str]]]:
        dropped = {name: (count, lambda *_: "") for name, count in _DROPPED.items()}
        return {
            **dropped,
            **dict.fromkeys(("rlap", "llap"), (1, lambda text: text)),
            "note": (1, lambda text: f"\\textsuperscript{{{text}}}"),
            "tablenotes": (1, lambda text: _block("tablenotes", text)),
            "IEEEPARstart": (2, lambda first, rest: first + rest),
            "ensuremath": (1, lambda text: _SIGNS.get(text.strip(), f"${text}$")),
            "textmu": (0, lambda: "µ"),
            "title": (1, self._title),
            "author": (1, lambda text: _block("paperauthors", text)),
            "thanks": (1, lambda text: f"\n\n\\begin{{paperthanks}}{text}\\end{{paperthanks}}\n\n"),
            "label": (1, lambda name: f"\\hypertarget{{{name}}}{{}}"),
            "ref": (1, self._reference),
            "cite": (1, self._citation),
            "section": (1, lambda title: self._heading("section", title)),
            "subsection": (1, lambda title: self._heading("subsection", title)),
            "measuredfigure": (1, lambda _: f"\\emph{{{self._terms['unmeasured']}}}"),
            "bibliography": (1, lambda _: "".join(self._bibliography())),
        }

    def _picture(self, found: re.Match[str]) -> str:
        self._pictures.append(found[0])
        return f"\\includegraphics{{{PICTURE}{len(self._pictures)}}}"

    def _equation(self, found: re.Match[str]) -> str:
        self._counts["equation"] += 1
        self._check("equation", found[1])
        targets = "".join(f"\\hypertarget{{{label}}}{{}}" for label in _LABEL.findall(found[1]))
        text = f"{_LABEL.sub('', found[1]).strip()}\\qquad({self._counted('equation')})"
        return f"\n\n{targets}\\[{text}\\]\n\n"

    def _float(self, found: re.Match[str]) -> str:
        inner, kind = found["inner"], found["kind"]
        of = re.search(r"\\captionof\{(\w+)\}", inner)
        if of:
            kind, inner = of[1], inner.replace(of[0], "\\caption")
        if kind in self._counts:
            inner = re.sub(r"\\caption(?=\{)", lambda _: f"\\caption{{{self._next(kind)}}}", inner)
            self._check(kind, inner)
            inner = substitute(inner, {"caption": (2, _caption)})
        return _block("paperfloat", inner)

    def _next(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{self._terms[kind]} {self._counted(kind)}"

    def _counted(self, kind: str) -> str:
        count = self._counts[kind]
        is_roman = kind == "table" and not (self._korean or self._prefix)
        return _roman(count) if is_roman else f"{self._prefix}{count}"

    def _check(self, kind: str, inner: str) -> None:
        """Raise PublishError where the number of a caption differs from that in the PDF."""
        for label in _LABEL.findall(inner):
            number = self._numbering.labels.get(label)
            if number is not None and number != self._counted(kind):
                raise PublishError(f"{kind} {self._counted(kind)} is {number} in the PDF", label)

    def _title(self, text: str) -> str:
        lines = [line for line in (part.strip() for part in _BREAK.split(text)) if line]
        return _block("papertitle", r" \\ ".join(lines))

    def _heading(self, command: str, title: str) -> str:
        if title == "*":
            return f"\\{command}*"
        number = next(self._sections, None)
        if number is None:
            raise PublishError("the PDF has no number for a section", title)
        return f"\\{command}{{{number}. {title}}}"

    def _number(self, label: str) -> str:
        number = self._numbering.labels.get(label)
        if number is None:
            raise PublishError("the PDF has no number for a reference", label)
        return number

    def _reference(self, label: str) -> str:
        return f"\\hyperlink{{{label}}}{{{self._number(label)}}}"

    def _citation(self, keys: str) -> str:
        order = list(self._entries)
        unknown = [key for key in keys.split(",") if key.strip() not in order]
        if unknown:
            raise PublishError("a citation has no reference", ", ".join(unknown))
        numbers = [(key.strip(), order.index(key.strip()) + 1) for key in keys.split(",")]
        return ", ".join(f"\\hyperlink{{bib:{key}}}{{[{number}]}}" for key, number in numbers)

    def _bibliography(self) -> Iterator[str]:
        yield f"\\section*{{{self._terms['references']}}}\n\n"
        for number, (key, entry) in enumerate(self._entries.items(), 1):
            text = re.sub(r"\\hskip.*?\\relax", " ", entry)
            text = substitute(text, {name: (0, lambda: "") for name in _DROPPED if "BIB" in name})
            yield _block("bibentry", f"\\hypertarget{{bib:{key}}}{{[{number}]}} {text}")


def _with_particles(text: str) -> str:
    """Return a text with Korean particles in the form that the word before them requires."""

    def form(found: re.Match[str]) -> str:
        before = _SILENT.sub("", text[max(0, found.start() - _CONTEXT) : found.start()])
        return particle(found[1], before, text[found.end() :])

    return _PARTICLE.sub(form, text)


def _block(name: str, text: str) -> str:
    return f"\n\n\\begin{{{name}}}\n{text}\n\\end{{{name}}}\n\n"


def _caption(number: str, text: str) -> str:
    return _block("papercaption", f"\\textbf{{{number}.}} {text}")


def _table(found: re.Match[str]) -> str:
    """Return a table without rules and widths, with an extra row that ends the head."""
    columns, start = argument(found[2], 0)
    inner = _BREAK.sub(r"\\\\ ", _RULES.sub("", found[2][start:]))
    inner = substitute(inner, {"multicolumn": (3, _spanning)})
    head, rule, rows = inner.partition("\\midrule")
    end = f"{HEAD_END} \\\\" if rule else ""
    rows = rows.replace("\\midrule", "")
    return f"\n\n{found[1]}{{{_alignment(columns)}}}\n{head}{end}{rows}{found[3]}\n\n"


def _spanning(count: str, columns: str, text: str) -> str:
    return f"\\multicolumn{{{count}}}{{{_alignment(columns)}}}{{{text}}}"


def _alignment(columns: str) -> str:
    """Return the alignment letters of a column specification."""
    columns = re.sub(r"[@><!]\{(?:[^{}]|\{[^{}]*\})*\}", "", columns)
    return re.sub(r"[pmb]\{[^{}]*\}", "l", columns).replace(" ", "")


def _without_links(math: str) -> str:
    """Return a formula without links in it; a formula of one value becomes the link."""
    targets: list[str] = []

    def text_of_link(target: str, text: str) -> str:
        targets.append(target)
        return text

    bare = substitute(math, {"hyperlink": (2, text_of_link)})
    # Screen readers read a sign better than a formula.
    bare = _SIMPLE.sub(lambda found: found[1] + _SIGNS[found[2]], bare)
    single = math.startswith("$") and len(targets) == 1
    return f"\\hyperlink{{{targets[0]}}}{{{bare}}}" if single else bare


def _bare(text: str) -> str:
    """Return a number from an ``.aux`` file without boxes and spaces."""
    text = text.replace(r"\nobreakspace", " ").replace(r"\mbox", "")
    return " ".join(re.sub(r"[{}]", "", text).split())


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN.items():
        while number >= value:
            text += letters
            number -= value
    return text
