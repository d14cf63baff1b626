r"""A manuscript as one LaTeX text in which values stand as they are printed.

Where the sources say ``\val{tcp.goodput.frer.mbps}`` the frozen text says 937.8, of sentences that
follow verdicts it has the one that is printed, and parts that are read from other files stand where
they are read. It gives the same pages; a comparison sees numbers in it, and other programs than
LaTeX can read it.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from tsnrepro.common.errors import PublishError
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
from tsnrepro.papers.lua_calculations import Calculations

# What only sets fields and words, and the commands that bring it in.
FIELDS = ("values.tex", "published.tex", "verdicts.tex")
# A written value that leads to its entry in the appendix: \frozenvalue{key}{text}.
LINK = "frozenvalue"
_APPENDIX = "provenance.tex"
_STYLE, _AUTHORS = "tsnrepro.sty", "authors.tex"
_KOREAN = re.compile(r"\\usepackage\[korean\]\{tsnrepro\}")
_FIELD = re.compile(r"\\tsnset(?=\{)")
_NAMED = re.compile(r"\\@namedef\{(?:tsnrepro|tsn)@(\w+)@([^{}]*)\}")
_TRANSLATED = re.compile(r"\\tsn@translate(?=\{)")
_COMMAND = re.compile(r"\\([A-Za-z@]+)")
_UNKNOWN = "nil"
# Of the package's own macros, those that stand for words; the others are layout, and stay.
_WORDS = (
    *(
        "ours",
        "testbedname",
        "rackswitches",
        "bothcolumns",
        "sidebyside",
        "units",
        "notprinted",
        "unitrange",
        "pvalue",
        "pubus",
    ),
    *("pubrange", "wordval", "wordpub", "verdictword", "recordverdictword", "provenancetext"),
)
_SHOWN = {
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
_DEPTH = 40
_FIRST_END = re.compile(r"\A[ \t]*\n[ \t]*(?!\n)")
_LAST_END = re.compile(r"(?<!\n)[ \t]*\n[ \t]*\Z")
_END_OF_LINE = re.compile(r"[ \t]*\n")


def plain(key: str, text: str) -> str:
    """Return a printed value as it stands."""
    del key
    return text


def linked(key: str, text: str) -> str:
    """Return a printed value as a link to its entry of the appendix."""
    return f"\\{LINK}{{{key}}}{{{text}}}"


def is_korean(main: str) -> bool:
    """Tell whether a manuscript is a paper in Korean, by its source."""
    return bool(_KOREAN.search(main))


def frozen(
    files: Mapping[str, bytes],
    name: str,
    value: Callable[[str, str], str] = plain,
    missing: Callable[[str, str], str] | None = None,
) -> str:
    """Return a manuscript as one text with its values written in.

    Parameters
    ----------
    files
        Content by place, as the tarball of a submission holds them.
    name
        The manuscript's.
    value
        How a printed value is written, from its key and text.
    missing
        What stands for the field of a value that the files lack, from key and field.
        Without it such a key is an error, as it is in print.

    Raises
    ------
    PublishError
        A file, value or case of a sentence is missing, or the text cannot be read; it says where.
    """
    with Calculations() as calculations:
        return _Freezing(files, name, value, missing, calculations).text()


def fields_of(files: Mapping[str, bytes]) -> dict[tuple[str, str], str]:
    """Return the fields of values and published cells by key and name, as LaTeX source."""
    found = {}
    for place in FIELDS[:2]:
        text = files.get(place, b"").decode("utf-8")
        for match in _FIELD.finditer(text):
            (key, field, said), _ = arguments(text, match.end(), 3)
            found[key, field] = said
    return found


class _Freezing:
    """The state of writing one manuscript's values into its text."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        name: str,
        value: Callable[[str, str], str],
        missing: Callable[[str, str], str] | None,
        calculations: Calculations,
    ) -> None:
        self._files, self._name = files, name
        self._value, self._missing, self._calculations = value, missing, calculations
        self._main = uncommented(self._read(f"{name}.tex"))
        self._korean = is_korean(self._main)
        style = uncommented(self._read(_STYLE))
        self._fields = fields_of(files)
        self._named = self._named_words(style)
        of_style, _ = definitions(style)
        self._macros: dict[str, Macro] = {
            name: of_style[name] for name in _WORDS if name in of_style
        }
        self._macros |= definitions(self._read(_AUTHORS))[0]
        if "verdicts.tex" in files:
            found = definitions(uncommented(self._read("verdicts.tex")))[0]
            self._macros |= {name: macro for name, macro in found.items() if name not in _AUDIT}
        self._depth = 0
        self._commands = self._all_commands()

    def text(self) -> str:
        """Return the manuscript."""
        return self._expanded(self._defining(self._main))

    # --- what the files hold -------------------------------------------------------------------

    def _read(self, place: str) -> str:
        found = self._files.get(place)
        if found is None:
            raise PublishError(f"a manuscript without {place}", self._name)
        return found.decode("utf-8")

    def _named_words(self, style: str) -> dict[tuple[str, str], str]:
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
                said, _ = argument(text, match.end())
                found[match[1], match[2]] = said
        return found

    def _defining(self, text: str) -> str:
        """Take the macros that a text defines, and return it without them."""
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

    # --- the text ------------------------------------------------------------------------------

    def _expanded(self, text: str) -> str:
        self._depth += 1
        if self._depth > _DEPTH:
            raise PublishError("a macro that stands in its own meaning", text[:60])
        parts, place = [], 0
        for match in _COMMAND.finditer(text):
            if match.start() < place or escaped(text, match.start()):
                continue
            found = self._command(match[1], text, match.end())
            if found is not None:
                said, end = found
                parts += [text[place : match.start()], said]
                place = end if said.strip() else _after_nothing(text, match.start(), end)
        self._depth -= 1
        return "".join(parts) + text[place:]

    def _command(self, name: str, text: str, place: int) -> tuple[str, int] | None:
        """Return what a command is written as and the place after it; None where it stays."""
        known = self._commands.get(name)
        if known is not None:
            count, written = known
            given, end = arguments(text, place, count)
            return written(*given), end
        if name in ("cells", "pubcells"):
            said, place = option(text, place)
            keys, place = argument(text, place)
            return self._cells(said or name.removesuffix("cells") or "val", keys), place
        if name == "measuredfigure":
            said, place = option(text, place)
            key, place = argument(text, place)
            return self._figure(f"[{said}]" if said else "", key), place
        macro = self._macros.get(name)
        if macro is None:
            return None
        given, end = arguments(text, place, macro.arguments)
        if not macro.arguments:
            end = after_word(text, place)
        return self._expanded(macro.filled(given)), end

    def _all_commands(self) -> dict[str, tuple[int, Callable[..., str]]]:
        """Return by name how many arguments a command has, and what writes it."""
        shown = {name: (1, self._showing(*said)) for name, said in _SHOWN.items()}
        raw = {name: (1, self._reading(field)) for name, field in _RAW.items()}
        audit = {name: (1, self._judging(kind)) for name, kind in _AUDIT.items()}
        return {
            **shown,
            **raw,
            **audit,
            **dict.fromkeys(("valto", "pubto"), (2, self._aligned)),
            "publink": (2, lambda key, text: self._value(key, self._expanded(text))),
            "tsn@link": (2, lambda key, text: self._value(key, self._expanded(text))),
            "tsn@get": (2, self._field),
            "tsn@say": (2, lambda *texts: self._expanded(texts[self._korean])),
            "tsn@word": (1, self._word),
            "calc": (2, self._calculated),
            "ifcalc": (3, self._decided),
            "ifval": (4, self._compared),
            "ifknown": (3, lambda key, *texts: self._chosen(self._known(key, "raw"), *texts)),
            "ifbounded": (3, self._bounded),
            "caseval": (2, self._case),
            "unlessmodel": (1, self._unless_model),
            "tablerows": (1, self._rows),
            "input": (1, self._included),
            "IfFileExists": (3, lambda place, *texts: self._chosen(place in self._files, *texts)),
        }

    def _showing(self, field: str, with_unit: bool) -> Callable[[str], str]:
        def written(key: str) -> str:
            text = self._field(key, field)
            unit = self._field(key, "unit") if with_unit else ""
            return self._value(key, f"{text}\\,{unit}" if unit else text)

        return lambda key: written(key.strip())

    def _reading(self, field: str) -> Callable[[str], str]:
        return lambda key: self._field(key.strip(), field)

    def _judging(self, kind: str) -> Callable[[str], str]:
        def written(claim: str) -> str:
            found = self._named.get((kind, claim))
            if found is None:
                raise PublishError(f"the audit has no claim '{claim}'", self._name)
            return found

        return written

    def _aligned(self, wanted: str, key: str) -> str:
        pad = self._calculations.padding(int(wanted), int(self._field(key, "decimals") or 0))
        return self._value(key, self._field(key, "print")) + pad

    def _word(self, text: str) -> str:
        word = self._expanded(text)
        return self._named.get(("word", word), word)

    def _calculated(self, digits: str, expression: str) -> str:
        return self._calculations.number(int(digits), self._expanded(expression))

    def _decided(self, comparison: str, *texts: str) -> str:
        return self._chosen(self._calculations.holds(self._expanded(comparison)), *texts)

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
        word, said = self._field(key.strip(), "raw"), [*groups(cases)]
        for case, text in zip(said[::2], said[1::2], strict=True):
            if case == word:
                return self._expanded(_in_line(text))
        raise PublishError(f"no case for '{word}' of '{key.strip()}'", self._name)

    def _unless_model(self, text: str) -> str:
        return self._chosen(self._field("testbed.kind", "raw") == "model", "", text)

    def _cells(self, command: str, keys: str) -> str:
        before, _, rest = keys.partition("{")
        words, _, after = rest.partition("}")
        cells = (f"\\{command}{{{before}{word}{after}}}" for word in words.split(","))
        return self._expanded(" & ".join(cells))

    def _figure(self, options: str, key: str) -> str:
        place = f"figures/{key}.pdf"
        if place in self._files:
            return self._value(key, f"\\includegraphics{options}{{{place}}}")
        return f"\\measuredfigure{options}{{{key}}}"

    def _rows(self, place: str) -> str:
        """Return a generated table's rows; of a revision's, none where it is written no more."""
        known = place in self._files or self._missing is None
        return self._included(place) if known else ""

    def _included(self, place: str) -> str:
        place = place.strip()
        place = place if PurePosixPath(place).suffix else f"{place}.tex"
        if place in FIELDS:
            return ""
        if place == _APPENDIX:
            return f"\\input{{{place}}}"
        return self._expanded(self._defining(uncommented(self._read(place)))).rstrip("\n")


def _in_line(text: str) -> str:
    """Return a sentence's case with ends of lines at its ends as spaces, as TeX reads them.

    Beside another they would be an empty line, which ends a paragraph.
    """
    return _FIRST_END.sub(" ", _LAST_END.sub(" ", text))


def _after_nothing(text: str, start: int, end: int) -> int:
    """Return the place after a command that prints nothing; of its own line nothing is left."""
    alone = text[:start].rstrip(" \t").endswith("\n")
    rest = _END_OF_LINE.match(text, end)
    return rest.end() if alone and rest else end
