r"""A frozen manuscript as LaTeX that pandoc reads: layout taken out, numbers of the PDF put in.

Sections, tables, figures and references have the numbers that LaTeX gave them, which the paper's
``.aux`` file holds; pandoc would number anew.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.latex_source import argument, rewritten
from tsnrepro.papers.particles import PARTICLES, particle

HEAD_ENDS, PROVENANCE, DRAWING = "@headends@", "@provenance@", "drawing-"
_BODY = re.compile(r"\\begin\{document\}(.*)\\end\{document\}", re.S)
_DRAWN = re.compile(r"\\begin\{(picture|tikzpicture)\}.*?\\end\{\1\}", re.S)
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
_NOTHING = {
    **dict.fromkeys(
        (
            *("centering", "tablesize", "selectfont", "hfill", "LARGE", "large", "footnotesize"),
            *("scriptsize", "clearpage", "onecolumn", "maketitle", "appendices", "raggedbottom"),
            *("BIBentryALTinterwordspacing", "BIBentrySTDinterwordspacing", "newblock"),
        ),
        0,
    ),
    **dict.fromkeys(("phantom", "bibliographystyle"), 1),
    **dict.fromkeys(("setlength", "fontsize", "renewcommand", "setcounter", "markboth"), 2),
}
# luatexko reads one syllable as a command.
_PARTICLE = re.compile(rf"\\([{PARTICLES}])")
_LEADS = re.compile(r"\\hyperlink\{[^{}]*\}|\\[A-Za-z]+\*?|[{}$~,\s]")
# What is read before a particle stands within so many characters.
_BEFORE = 200
_ROMAN = {40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
_WORDS = {
    False: {
        **{"table": "Table", "figure": "Figure", "references": "References"},
        **{"abstract": "Abstract", "keywords": "Index terms"},
        "unmeasured": "Not measured in this campaign.",
    },
    True: {
        **{"table": "표", "figure": "그림", "references": "참고문헌"},
        **{"abstract": "초록", "keywords": "주제어"},
        "unmeasured": "이 캠페인에서는 측정하지 않았다.",
    },
}


@dataclass
class Numbers:
    """What LaTeX numbered: labels by name, and the numbers of sections in their order."""

    labels: dict[str, str] = field(default_factory=dict)
    sections: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, aux: str) -> "Numbers":
        """Return the numbers that an ``.aux`` file holds."""
        found = cls()
        for match in re.finditer(r"\\newlabel\{([^}]*)\}", aux):
            said, _ = argument(aux, match.end())
            found.labels[match[1]] = _bare(argument(said, 0)[0])
        for match in re.finditer(r"\\contentsline \{(?:sub)*section\}", aux):
            title, _ = argument(aux, match.end())
            if title.startswith(r"\numberline"):
                found.sections.append(_bare(argument(title, len(r"\numberline"))[0]))
            elif r"\nobreakspace" in title:
                found.sections.append(_bare(title.partition(":")[0]))
        return found


@dataclass(frozen=True)
class TwinSource:
    """LaTeX for pandoc, and the drawings that stand in it as images ``drawing-1`` and so on."""

    text: str
    drawings: list[str]


def twin_source(text: str, numbers: Numbers, bibliography: str, korean: bool) -> TwinSource:
    """Return a frozen manuscript as pandoc reads it.

    Raises
    ------
    PublishError
        A table or figure has another number in the text's order than on the printed pages, or a
        section, reference or citation has none.
    """
    return _Writing(numbers, bibliography, korean).written(text)


class _Writing:
    def __init__(self, numbers: Numbers, bibliography: str, korean: bool) -> None:
        self._numbers, self._korean = numbers, korean
        self._words = _WORDS[korean]
        self._entries = dict(_ITEM.findall(bibliography))
        self._sections = iter(numbers.sections)
        self._counts = {"figure": 0, "table": 0, "equation": 0}
        self._drawings: list[str] = []

    def written(self, text: str) -> TwinSource:
        found = _BODY.search(text)
        if found is None:
            raise PublishError("a manuscript without a body")
        body = _DRAWN.sub(self._drawing, found[1])
        body = _MATH.sub(lambda math: _without_links(math[0]), body)
        body = _EQUATION.sub(self._equation, body)
        body = body.replace("{longtable}", "{tabular}").replace(
            "\\input{provenance.tex}", PROVENANCE
        )
        body = _FLOAT.sub(self._float, body)
        body = _TABULAR.sub(_table, _SPACE.sub("", body))
        for name, word in (("abstract", "abstract"), ("IEEEkeywords", "keywords")):
            body = body.replace(f"\\begin{{{name}}}", self._part(name, self._words[word]))
            body = body.replace(f"\\end{{{name}}}", f"\\end{{paper{name}}}")
        for name, word in (("koreanabstract", "국문 초록"), ("englishabstract", "Abstract")):
            body = body.replace(f"\\begin{{{name}}}", f"\\begin{{{name}}}\\textbf{{{word}.}} ")
        body = rewritten(body, self._commands())
        return TwinSource(_with_particles(body), self._drawings)

    @staticmethod
    def _part(name: str, word: str) -> str:
        return f"\\begin{{paper{name}}}\\textbf{{{word}.}} "

    def _commands(self) -> dict[str, tuple[int, Callable[..., str]]]:
        gone = {name: (count, lambda *_: "") for name, count in _NOTHING.items()}
        return {
            **gone,
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
            "measuredfigure": (1, lambda _: f"\\emph{{{self._words['unmeasured']}}}"),
            "bibliography": (1, lambda _: "".join(self._bibliography())),
        }

    def _drawing(self, found: re.Match[str]) -> str:
        self._drawings.append(found[0])
        return f"\\includegraphics{{{DRAWING}{len(self._drawings)}}}"

    def _equation(self, found: re.Match[str]) -> str:
        self._counts["equation"] += 1
        self._check("equation", found[1])
        places = "".join(f"\\hypertarget{{{label}}}{{}}" for label in _LABEL.findall(found[1]))
        text = f"{_LABEL.sub('', found[1]).strip()}\\qquad({self._counts['equation']})"
        return f"\n\n{places}\\[{text}\\]\n\n"

    def _float(self, found: re.Match[str]) -> str:
        inner, kind = found["inner"], found["kind"]
        of = re.search(r"\\captionof\{(\w+)\}", inner)
        if of:
            kind, inner = of[1], inner.replace(of[0], "\\caption")
        if kind in self._counts:
            inner = re.sub(r"\\caption(?=\{)", lambda _: f"\\caption{{{self._next(kind)}}}", inner)
            self._check(kind, inner)
            inner = rewritten(inner, {"caption": (2, _caption)})
        return _block("paperfloat", inner)

    def _next(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{self._words[kind]} {self._shown(kind)}"

    def _shown(self, kind: str) -> str:
        count = self._counts[kind]
        return str(count) if self._korean or kind != "table" else _roman(count)

    def _check(self, kind: str, inner: str) -> None:
        """Raise where a caption's number is not that of the printed pages."""
        for label in _LABEL.findall(inner):
            number = self._numbers.labels.get(label)
            if number is not None and number != self._shown(kind):
                raise PublishError(
                    f"{kind} {self._shown(kind)} is {number} on the printed pages", label
                )

    def _title(self, text: str) -> str:
        lines = [line for line in (part.strip() for part in _BREAK.split(text)) if line]
        return _block("papertitle", r" \\ ".join(lines))

    def _heading(self, command: str, title: str) -> str:
        if title == "*":
            return f"\\{command}*"
        number = next(self._sections, None)
        if number is None:
            raise PublishError("a section that the printed pages do not number", title)
        return f"\\{command}{{{number}. {title}}}"

    def _number(self, label: str) -> str:
        number = self._numbers.labels.get(label)
        if number is None:
            raise PublishError("a reference to what the printed pages do not number", label)
        return number

    def _reference(self, label: str) -> str:
        return f"\\hyperlink{{{label}}}{{{self._number(label)}}}"

    def _citation(self, keys: str) -> str:
        order = list(self._entries)
        unknown = [key for key in keys.split(",") if key.strip() not in order]
        if unknown:
            raise PublishError("a citation without its reference", ", ".join(unknown))
        places = [(key.strip(), order.index(key.strip()) + 1) for key in keys.split(",")]
        return ", ".join(f"\\hyperlink{{bib:{key}}}{{[{number}]}}" for key, number in places)

    def _bibliography(self) -> Iterator[str]:
        yield f"\\section*{{{self._words['references']}}}\n\n"
        for number, (key, entry) in enumerate(self._entries.items(), 1):
            text = re.sub(r"\\hskip.*?\\relax", " ", entry)
            text = rewritten(text, {name: (0, lambda: "") for name in _NOTHING if "BIB" in name})
            yield _block("bibentry", f"\\hypertarget{{bib:{key}}}{{[{number}]}} {text}")


def _with_particles(text: str) -> str:
    """Return a text with Korean particles as the words before them are read."""

    def chosen(found: re.Match[str]) -> str:
        before = _LEADS.sub("", text[max(0, found.start() - _BEFORE) : found.start()])
        return particle(found[1], before, text[found.end() :])

    return _PARTICLE.sub(chosen, text)


def _block(name: str, text: str) -> str:
    return f"\n\n\\begin{{{name}}}\n{text}\n\\end{{{name}}}\n\n"


def _caption(number: str, text: str) -> str:
    return _block("papercaption", f"\\textbf{{{number}.}} {text}")


def _table(found: re.Match[str]) -> str:
    """Return a table without rules and widths; a row of its own ends the head."""
    columns, start = argument(found[2], 0)
    inner = _BREAK.sub(r"\\\\ ", _RULES.sub("", found[2][start:]))
    inner = rewritten(inner, {"multicolumn": (3, _spanning)})
    head, rule, rows = inner.partition("\\midrule")
    ends = f"{HEAD_ENDS} \\\\" if rule else ""
    rows = rows.replace("\\midrule", "")
    return f"\n\n{found[1]}{{{_plain(columns)}}}\n{head}{ends}{rows}{found[3]}\n\n"


def _spanning(count: str, columns: str, text: str) -> str:
    return f"\\multicolumn{{{count}}}{{{_plain(columns)}}}{{{text}}}"


def _plain(columns: str) -> str:
    """Return the letters of columns: which side their cells are at."""
    columns = re.sub(r"[@><!]\{(?:[^{}]|\{[^{}]*\})*\}", "", columns)
    return re.sub(r"[pmb]\{[^{}]*\}", "l", columns).replace(" ", "")


def _without_links(math: str) -> str:
    """Return mathematics without the links in it; a formula of one value is the link itself."""
    places: list[str] = []

    def text_alone(place: str, text: str) -> str:
        places.append(place)
        return text

    bare = rewritten(math, {"hyperlink": (2, text_alone)})
    # Where signs do, no formula is needed, which not every reader reads aloud.
    bare = _SIMPLE.sub(lambda found: found[1] + _SIGNS[found[2]], bare)
    alone = math.startswith("$") and len(places) == 1
    return f"\\hyperlink{{{places[0]}}}{{{bare}}}" if alone else bare


def _bare(text: str) -> str:
    """Return a number of an ``.aux`` file without its boxes and spaces."""
    text = text.replace(r"\nobreakspace", " ").replace(r"\mbox", "")
    return " ".join(re.sub(r"[{}]", "", text).split())


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN.items():
        while number >= value:
            text += letters
            number -= value
    return text
