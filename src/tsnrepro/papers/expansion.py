r"""A manuscript as one LaTeX text with its values written in.

``\val{tcp.goodput.frer.mbps}`` becomes 937.8, a sentence that depends on a verdict becomes the case
that is printed, and input files are inserted. The pages are the same; the text is for latexdiff and
for programs other than LaTeX.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.assertions import one_line
from tsnrepro.papers.latex_source import (
    Macro,
    after_word,
    argument,
    arguments,
    definitions,
    escaped,
    groups,
    option,
    uncommented,
)
from tsnrepro.papers.texlua import TexLua

# Files that only set fields and define verdicts.
FIELDS = ("values.tex", "published.tex", "verdicts.tex")
# The macro that links a printed value to its entry in the appendix: \valuelink{key}{text}.
LINK = "valuelink"
_APPENDIX = "provenance.tex"
_STYLE, _AUTHORS = "tsnrepro.sty", "authors.tex"
_KOREAN = re.compile(r"\\usepackage\[korean\]\{tsnrepro\}")
_FIELD = re.compile(r"\\tsnset(?=\{)")
_NAMED = re.compile(r"\\@namedef\{(?:tsnrepro|tsn)@(\w+)@([^{}]*)\}")
_TRANSLATED = re.compile(r"\\tsn@translate(?=\{)")
_COMMAND = re.compile(r"\\([A-Za-z@]+)")
_UNKNOWN = "nil"
# The macros of the package that are text and are expanded; the others are layout and are kept.
_TEXT_MACROS = (
    *("ours", "testbedname", "rackswitches", "bothcolumns", "sidebyside", "units", "notprinted"),
    *("unitrange", "pvalue", "pubus", "pubrange", "wordval", "wordpub", "verdictword"),
    *("recordverdictword", "provenancetext", "availability"),
)
# By command, the field of a value and whether its unit follows.
_PRINTED = {
    **{name: ("print", False) for name in ("val", "pub")},
    **{name: (name, False) for name in ("lo", "hi", "bounds", "interval")},
    **{name: ("print", True) for name in ("unitval", "unitpub")},
    **{f"unit{name}": (name, True) for name in ("bounds", "interval")},
}
_RAW = {"rawval": "raw", "rawpub": "raw", "rawlo": "rawlo", "rawhi": "rawhi"}
_AUDIT = {
    **{name: name for name in ("verdict", "recordverdict", "verdictnumbers")},
    "auditcount": "count",
}
_MAX_DEPTH = 40
_LEADING_NEWLINE = re.compile(r"\A[ \t]*\n[ \t]*(?!\n)")
_TRAILING_NEWLINE = re.compile(r"(?<!\n)[ \t]*\n[ \t]*\Z")
_END_OF_LINE = re.compile(r"[ \t]*\n")


def plain(key: str, text: str) -> str:
    """Return a printed value as text."""
    del key
    return text


def linked(key: str, text: str) -> str:
    """Return a printed value as a link to its entry in the appendix."""
    return f"\\{LINK}{{{key}}}{{{text}}}"


def is_korean(main: str) -> bool:
    """Return whether a manuscript is in Korean, by its source."""
    return bool(_KOREAN.search(main))


def expand(
    files: Mapping[str, bytes],
    name: str,
    value: Callable[[str, str], str] = plain,
    missing: Callable[[str, str], str] | None = None,
) -> str:
    """Return a manuscript as one text with its values written in.

    ``files``: the files of its tarball, by path; ``value``: the function that formats a printed
    value, from its key and text. ``missing``: the function that replaces an unknown field, from key
    and field. By default an unknown field is an error, as it is for LaTeX. Raises PublishError if a
    file, a value or the case of a sentence is missing, or the text cannot be parsed.
    """
    with TexLua() as lua:
        return _Expansion(files, name, value, missing, lua).text()


def fields_of(files: Mapping[str, bytes]) -> dict[tuple[str, str], str]:
    """Return the fields of values and published cells as LaTeX source, by key and field."""
    found = {}
    for path in FIELDS[:2]:
        text = files.get(path, b"").decode("utf-8")
        for match in _FIELD.finditer(text):
            (key, field, source), _ = arguments(text, match.end(), 3)
            found[key, field] = source
    return found


class _Expansion:
    """The expansion of one manuscript."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        name: str,
        value: Callable[[str, str], str],
        missing: Callable[[str, str], str] | None,
        lua: TexLua,
    ) -> None:
        self._files, self._name = files, name
        self._value, self._missing, self._lua = value, missing, lua
        self._main = uncommented(self._read(f"{name}.tex"))
        self._korean = is_korean(self._main)
        style = uncommented(self._read(_STYLE))
        self._fields = fields_of(files)
        self._texts = self._texts_by_name(style)
        of_style, _ = definitions(style)
        self._macros: dict[str, Macro] = {
            name: of_style[name] for name in _TEXT_MACROS if name in of_style
        }
        self._macros |= definitions(self._read(_AUTHORS))[0]
        if "verdicts.tex" in files:
            found = definitions(uncommented(self._read("verdicts.tex")))[0]
            self._macros |= {name: macro for name, macro in found.items() if name not in _AUDIT}
        self._depth = 0
        self._commands = self._all_commands()

    def text(self) -> str:
        return self._expanded(self._without_definitions(self._main))

    # --- files ---------------------------------------------------------------------------------

    def _read(self, path: str) -> str:
        found = self._files.get(path)
        if found is None:
            raise PublishError(f"the manuscript has no file {path}", self._name)
        return found.decode("utf-8")

    def _texts_by_name(self, style: str) -> dict[tuple[str, str], str]:
        """Return translated words and verdicts, by kind and name."""
        found = {}
        if self._korean:
            for match in _TRANSLATED.finditer(style):
                (english, korean), _ = arguments(style, match.end(), 2)
                found["word", english] = korean
        texts = [style]
        if "verdicts.tex" in self._files:
            texts.append(self._read("verdicts.tex"))
        for text in texts:
            for match in _NAMED.finditer(text):
                found[match[1], match[2]], _ = argument(text, match.end())
        return found

    def _without_definitions(self, text: str) -> str:
        """Record the macros that a text defines, and return it without them."""
        found, rest = definitions(text)
        self._macros |= found
        return rest

    def _field(self, key: str, field: str) -> str:
        found = self._fields.get((key, field))
        if found is None:
            if self._missing is None:
                raise PublishError(f"there is no value '{key}', or it has no '{field}'", self._name)
            return self._missing(key, field)
        return found

    # --- text ----------------------------------------------------------------------------------

    def _expanded(self, text: str) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise PublishError("a recursive macro", text[:60])
        parts, position = [], 0
        for match in _COMMAND.finditer(text):
            if match.start() < position or escaped(text, match.start()):
                continue
            found = self._command(match[1], text, match.end())
            if found is not None:
                expansion, end = found
                parts += [text[position : match.start()], expansion]
                position = end if expansion.strip() else _after_empty(text, match.start(), end)
        self._depth -= 1
        return "".join(parts) + text[position:]

    def _command(self, name: str, text: str, start: int) -> tuple[str, int] | None:
        """Return the expansion of a command and the position after it; None where it is kept."""
        known = self._commands.get(name)
        if known is not None:
            count, function = known
            given, end = arguments(text, start, count)
            return function(*given), end
        if name in ("cells", "pubcells"):
            command, end = option(text, start)
            keys, end = argument(text, end)
            return self._cells(command or name.removesuffix("cells") or "val", keys), end
        if name == "measuredfigure":
            options, end = option(text, start)
            key, end = argument(text, end)
            return self._figure(f"[{options}]" if options else "", key), end
        macro = self._macros.get(name)
        if macro is None:
            return None
        given, end = arguments(text, start, macro.arguments)
        if not macro.arguments:
            end = after_word(text, start)
        return self._expanded(macro.filled(given)), end

    def _all_commands(self) -> dict[str, tuple[int, Callable[..., str]]]:
        """Return the number of arguments of each command, and the function that expands it."""
        printed = {name: (1, self._printing(*how)) for name, how in _PRINTED.items()}
        raw = {name: (1, self._reading(field)) for name, field in _RAW.items()}
        audit = {name: (1, self._judging(kind)) for name, kind in _AUDIT.items()}
        return {
            **printed,
            **raw,
            **audit,
            **dict.fromkeys(("valto", "pubto"), (2, self._aligned)),
            "publink": (2, lambda key, text: self._value(key, self._expanded(text))),
            "tsn@link": (2, lambda key, text: self._value(key, self._expanded(text))),
            "tsn@get": (2, self._field),
            "tsn@bilingual": (2, lambda *texts: self._expanded(texts[self._korean])),
            "tsn@word": (1, self._word),
            "calc": (2, self._calculated),
            "ifcalc": (3, self._decided),
            "ifval": (4, self._compared),
            "ifknown": (3, lambda key, *texts: self._chosen(self._known(key, "raw"), *texts)),
            "ifbounded": (3, self._bounded),
            "caseval": (2, self._case),
            "asserted": (2, self._asserted),
            "unlessmodel": (1, self._unless_model),
            "tablerows": (1, self._rows),
            "input": (1, self._included),
            "IfFileExists": (3, lambda path, *texts: self._chosen(path in self._files, *texts)),
        }

    def _printing(self, field: str, with_unit: bool) -> Callable[[str], str]:
        def expansion(key: str) -> str:
            text = self._field(key, field)
            unit = self._field(key, "unit") if with_unit else ""
            return self._value(key, f"{text}\\,{unit}" if unit else text)

        return lambda key: expansion(key.strip())

    def _reading(self, field: str) -> Callable[[str], str]:
        return lambda key: self._field(key.strip(), field)

    def _judging(self, kind: str) -> Callable[[str], str]:
        def expansion(claim: str) -> str:
            found = self._texts.get((kind, claim))
            if found is None:
                raise PublishError(f"the audit has no claim '{claim}'", self._name)
            return found

        return expansion

    def _aligned(self, wanted: str, key: str) -> str:
        pad = self._lua.padding(int(wanted), int(self._field(key, "decimals") or 0))
        return self._value(key, self._field(key, "print")) + pad

    def _word(self, text: str) -> str:
        word = self._expanded(text)
        return self._texts.get(("word", word), word)

    def _calculated(self, digits: str, expression: str) -> str:
        return self._lua.number(int(digits), self._expanded(expression))

    def _decided(self, comparison: str, *texts: str) -> str:
        return self._chosen(self._lua.holds(self._expanded(comparison)), *texts)

    def _compared(self, key: str, word: str, *texts: str) -> str:
        return self._chosen(self._field(key.strip(), "raw") == self._expanded(word), *texts)

    def _known(self, key: str, field: str) -> bool:
        return self._field(key.strip(), field) != _UNKNOWN

    def _bounded(self, key: str, *texts: str) -> str:
        both = self._known(key, "rawlo") and self._known(key, "rawhi")
        return self._chosen(both, *texts)

    def _chosen(self, first: bool, *texts: str) -> str:
        return self._expanded(_in_line(texts[0] if first else texts[1]))

    def _case(self, key: str, cases: str) -> str:
        word, pairs = self._field(key.strip(), "raw"), [*groups(cases)]
        for case, text in zip(pairs[::2], pairs[1::2], strict=True):
            if case == word:
                return self._expanded(_in_line(text))
        raise PublishError(f"no case for '{word}' of '{key.strip()}'", self._name)

    def _asserted(self, condition: str, sentence: str) -> str:
        key, text = f"asserted.{one_line(condition)}", self._expanded(sentence)
        if self._field(key, "raw") == "true":
            return text
        return f"\\sout{{{text}}} [{self._field(key, 'print')}]"

    def _unless_model(self, text: str) -> str:
        return self._chosen(self._field("testbed.kind", "raw") == "model", "", text)

    def _cells(self, command: str, keys: str) -> str:
        before, _, rest = keys.partition("{")
        words, _, after = rest.partition("}")
        cells = (f"\\{command}{{{before}{word}{after}}}" for word in words.split(","))
        return self._expanded(" & ".join(cells))

    def _figure(self, options: str, key: str) -> str:
        path = f"figures/{key}.pdf"
        if path in self._files:
            return self._value(key, f"\\includegraphics{options}{{{path}}}")
        return f"\\measuredfigure{options}{{{key}}}"

    def _rows(self, path: str) -> str:
        """Return the rows of a generated table; none of a table that only a revision has."""
        known = path in self._files or self._missing is None
        return self._included(path) if known else ""

    def _included(self, path: str) -> str:
        path = path.strip()
        path = path if PurePosixPath(path).suffix else f"{path}.tex"
        if path in FIELDS:
            return ""
        if path == _APPENDIX:
            return f"\\input{{{path}}}"
        text = self._without_definitions(uncommented(self._read(path)))
        return self._expanded(text).rstrip("\n")


def _in_line(text: str) -> str:
    """Return a text with a leading and a trailing newline as spaces, as TeX reads them.

    Next to another newline they would be an empty line, which ends a paragraph.
    """
    return _LEADING_NEWLINE.sub(" ", _TRAILING_NEWLINE.sub(" ", text))


def _after_empty(text: str, start: int, end: int) -> int:
    """Return the position after a command with an empty expansion, and after the line it fills."""
    alone = text[:start].rstrip(" \t").endswith("\n")
    rest = _END_OF_LINE.match(text, end)
    return rest.end() if alone and rest else end
