"""Checks of every manuscript: typed numbers in the source, and the pages."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from page_layout import columns_of, floats_and_mentions, last_lines_alone, page_fill

from tsnrepro.config.papers import sources_of
from tsnrepro.papers.manuscript import (
    MEASURED_COMMANDS,
    PUBLISHED_COMMANDS,
    SUPPLEMENT,
    without_comments,
)
from tsnrepro.papers.pdf_text import numbered_items, pages
from tsnrepro.papers.texlua import TexLua

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 180
CONSTANTS_FILE = "constants.tex"

# By manuscript, the references of its last paper, by the end of the file.
_REFERENCES = {}
_ENDS = (".aux", ".bbl", f"{SUPPLEMENT}.aux")
# What follows the name of the paper in those of its jobs.
_PAPER_ALONE = ("",)
_JOBS = (*_PAPER_ALONE, SUPPLEMENT)
_NUMBERED = re.compile(r"\\newlabel\{(.*?)\}\{\{(.*?)\}\{\d+\}")
_CITED = re.compile(r"\\citation\{(.*?)\}")
_TO_REPEAT = re.compile(r"LaTeX Warning: .*(?:undefined|multiply)|widths have changed")

# No text: keys, file names, lengths, column counts.
_KEYED = "|".join(
    (*MEASURED_COMMANDS, *PUBLISHED_COMMANDS, "input", "label", "ref", "cite", "nocite")
)
_NO_TEXT = re.compile(
    r"\\ifval\{[^{}]*\}\{0\}|\\asserted\{[^{}]*\}"
    rf"|\\(?:{_KEYED}|(?:record)?verdict(?:word)?|measuredfigure|tablerows|bibliography)"
    r"(?:\[[^]]*\])?\{[^{}]*\}"
    r"|\\(?:valto|pubto)\{\d\}\{[^{}]*\}"
    r"|\\pubrange\{[^{}]*\}\{[^{}]*\}"
    r"|\\(?:pub)?cells(?:\[\w*\])?\{[^{}]*\{[^{}]*\}[^{}]*\}"
    r"|\\begin\{(?P<drawn>picture|tikzpicture)\}.*?\\end\{(?P=drawn)\}"
    r"|\\(?:cmidrule\([lr]+\)|multicolumn)\{[\d-]+\}"
    r"|\\fontsize\{[^{}]*\}\{[^{}]*\}|\\setlength\\\w+\{[^{}]*\}|p\{[\d.]+\\linewidth\}|\[\d+pt\]",
    re.DOTALL,
)
# Numbers in calculations: units, percent, means of three, and thresholds of sentences.
_ARITHMETIC = {"0", "1", "2", "3", "8", "50", "100", "1000", "1e6", "0.05", "0.9"}
_VALUE = re.compile(r"\\\w+(?:\{[^{}]*\})*|#\d")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e\d+)?")

# Phrases that an abstract does not contain: it prints the limits of undecided values.
_UNDECIDED = (
    *("cannot tell", "be told", "not told", "not tell", "told apart", "tell apart", "undecided"),
    *(
        "neither equivalence",
        "not show",
        "not settle",
        "드러나지",
        "판단할",
        "판정하지",
        "구별할",
        "가르지",
    ),
    *("말할 수 없", "알 수 없", "판단 불가"),
)

latex = [
    pytest.mark.latex,
    pytest.mark.skipif(
        not shutil.which("latexmk") and not os.environ.get("CI"),
        reason="latexmk is not installed",
    ),
]
texlua = pytest.mark.skipif(not shutil.which("texlua"), reason="texlua is not installed")
chktex = pytest.mark.skipif(not shutil.which("chktex"), reason="chktex is not installed")


def _printed(aux):
    """Return the numbers of all labels, and the works in the order in which they are cited."""
    return dict(_NUMBERED.findall(aux)), [*dict.fromkeys(_CITED.findall(aux))]


def _argument(text, start):
    """Return the end of the braced argument that starts at ``start``."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    raise AssertionError(f"an argument does not end: {text[start : start + 60]}")


def _calculations(text):
    """Return LaTeX source without its calculations, and these with their Lua type."""
    found = []
    while match := re.search(r"\\(?:calc\{\d\}|(?P<decides>ifcalc))\s*(?=\{)", text):
        end = _argument(text, match.end())
        found.append(("boolean" if match["decides"] else "number", text[match.end() : end]))
        text = text[: match.start()] + text[end:]
    return text, found


@dataclass(frozen=True)
class Manuscript:
    """A manuscript, with a pattern of the numbers in its text that no measurement changes."""

    name: str
    names: re.Pattern = field(repr=False)

    @property
    def folder(self):
        return REPOSITORY / "paper" / self.name

    @property
    def sources(self):
        return sorted(self.folder.rglob("*.tex"))

    @property
    def hand_written(self):
        """The files without typed numbers."""
        return [path for path in self.sources if path.name != CONSTANTS_FILE]

    def typed_numbers(self, source):
        """Return the typed numbers in LaTeX source that a measurement could change."""
        before, _, body = without_comments(source).partition(r"\begin{document}")
        text, expressions = _calculations(_NO_TEXT.sub(" ", body or before))
        in_text = _NUMBER.findall(self.names.sub(" ", text))
        in_calculations = _NUMBER.findall(" ".join(what for _, what in expressions))
        return in_text + [number for number in in_calculations if number not in _ARITHMETIC]

    @staticmethod
    def calculations(source):
        """Return the calculations in LaTeX source, with all values 1.5, and their Lua type."""
        _, found = _calculations(without_comments(source))
        return [(kind, _VALUE.sub("1.5", what[1:-1])) for kind, what in found]

    def constants(self):
        text = without_comments((self.folder / CONSTANTS_FILE).read_text(encoding="utf-8"))
        return dict(re.findall(r"\\newcommand\\(\w+)\{(.*)\}", text))

    def chktex(self):
        """Return the warnings of ChkTeX."""
        names = [str(path.relative_to(self.folder)) for path in self.sources]
        done = subprocess.run(
            ["chktex", "-q", "-I0", *names],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}failed"

    def cited_and_listed(self):
        """Return the keys of all citations and of all references."""
        text = "\n".join(path.read_text(encoding="utf-8") for path in self.sources)
        cited = {key for keys in re.findall(r"\\cite\{([^}]*)\}", text) for key in keys.split(",")}
        listed = (self.folder / "references.bib").read_text(encoding="utf-8")
        return cited, set(re.findall(r"^@\w+\{([^,]+),", listed, re.MULTILINE))

    # --- pages --------------------------------------------------------------------------------

    def latexmk(self, results, **environment):
        """Build the paper of some results; return the completed process."""
        kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        return subprocess.run(
            ["latexmk"],
            cwd=self.folder,
            env=kept | {"TSNREPRO_PAPER": str(results / "paper")} | environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_SECONDS,
            check=False,
        )

    def built(self, results, **environment):
        """Build the paper of some results without an error; return the results."""
        done = self.latexmk(results, **environment)
        assert done.returncode == 0, done.stdout[-3000:]
        self._remember(results)
        return results

    def typeset(self, results):
        """Typeset the paper of some results; return the results.

        One pass is enough from the references of the former paper, if its own have the same
        numbers and its long tables the same columns; else another pass, or it is built.
        """
        if not self._begin(results):
            return self.built(results)
        known = self._references(results)
        for _ in range(2):
            for job in _JOBS:
                self._pass(results, job)
            found = self._references(results)
            logs = "".join(self._file(results, f"{job}.log") for job in _JOBS)
            if found == known and not _TO_REPEAT.search(logs):
                self._remember(results)
                return results
            if found[1] != known[1]:
                break  # for another bibliography
            known = found
        return self.built(results)

    def typeset_once(self, results, jobs=_JOBS):
        """Typeset the paper of some results for its words; return the results.

        Its references and the places of its pages may be those of the former paper.
        """
        if not self._begin(results):
            return self.built(results)
        for job in jobs:
            self._pass(results, job)
        return results

    def _begin(self, results):
        """Begin with the references of the former paper; return whether there was one."""
        for end, text in _REFERENCES.get(self.name, {}).items():
            self._path(results, end).write_text(text, encoding="utf-8")
        return self.name in _REFERENCES

    def _references(self, results):
        return _printed("".join(self._file(results, f"{job}.aux") for job in _JOBS))

    def _pass(self, results, job):
        paper = results / "paper"
        done = subprocess.run(
            ["lualatex", "-halt-on-error", "-interaction=nonstopmode", f"-jobname={self.name}{job}",
             f"-output-directory={paper}", "main.tex"],
            cwd=self.folder,
            env=os.environ | {"TEXINPUTS": f".:..:{paper}:", "max_print_line": "10000"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_SECONDS,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:]

    def _remember(self, results):
        _REFERENCES[self.name] = {end: self._file(results, end) for end in _ENDS}

    def _path(self, results, end):
        return results / "paper" / f"{self.name}{end}"

    def _file(self, results, end):
        """Return what LaTeX wrote."""
        return self._path(results, end).read_text(encoding="utf-8", errors="replace")

    def pdf(self, results):
        return self._path(results, ".pdf")

    def text(self, results, jobs=_JOBS):
        """Return the text of the paper and its supplement."""
        found = [" ".join(pages(self._path(results, f"{job}.pdf"))) for job in jobs]
        return " ".join("\n".join(found).replace("-\n", "").split())

    def fonts(self, results):
        """Return the names of the fonts in the paper and its supplement, without subset tags."""
        found = set()
        for job in _JOBS:
            pdf = str(self._path(results, f"{job}.pdf"))
            done = subprocess.run(["pdffonts", pdf], capture_output=True, text=True, check=True)
            found |= {line.split()[0].split("+")[-1] for line in done.stdout.splitlines()[2:]}
        return found

    def abstracts(self, results):
        """Typeset the paper without its supplement; return its abstracts, without spaces."""
        text = self.squeezed(self.typeset_once(results, _PAPER_ALONE), _PAPER_ALONE)
        # The keywords follow the first, the first section the second.
        ends = r"주제어—|IndexTerms—|F?I\.(?:서론|Introduction)"
        return re.findall(rf"(?:초록|Abstract)—(.*?)(?:{ends})", text)

    def assert_abstracts_print_limits(self, results, expected):
        """Typeset the paper; check that each abstract has the limits of undecided values."""
        abstracts = self.abstracts(results)
        assert len(abstracts) == len(expected)
        for text, limits in zip(abstracts, expected, strict=True):
            assert not [words for words in _UNDECIDED if re.sub(r"\s", "", words) in text]
            for found in limits:
                assert found in text, (found, text)

    def squeezed(self, results, jobs=_JOBS):
        """Return the text without spaces, since Korean text may break within a word."""
        return re.sub(r"\s", "", self.text(results, jobs))

    def assert_nothing_is_missing_or_off_the_page(self, results, points):
        log = "".join(self._file(results, f"{job}.log") for job in _JOBS)
        assert not re.search(r"Missing character|has been referenced but does not exist", log)
        assert not re.search(r"LaTeX Warning: (?:Reference|Citation).*undefined", log)
        wide = [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
        assert max(wide, default=0) < points


class SourceChecks:
    """Checks of the source of every manuscript."""

    paper: Manuscript
    constants: dict[str, str]
    typed: list[str]
    """Texts with a typed result that has to be found."""

    def pytest_generate_tests(self, metafunc):
        if "path" in metafunc.fixturenames:
            paths = self.paper.hand_written
            metafunc.parametrize("path", paths, ids=[path.name for path in paths])
        if "text" in metafunc.fixturenames:
            metafunc.parametrize("text", self.typed)

    def test_no_result_is_typed(self, path):
        assert self.paper.typed_numbers(path.read_text(encoding="utf-8")) == []

    def test_a_typed_result_is_found(self, text):
        assert self.paper.typed_numbers(text) != []

    def test_constants_are_expected(self):
        assert self.paper.constants() == self.constants

    @texlua
    def test_every_calculation_is_valid(self, path):
        with TexLua() as lua:
            for kind, what in self.paper.calculations(path.read_text(encoding="utf-8")):
                assert lua.holds(f'type({what}) == "{kind}"'), what

    @chktex
    def test_chktex_has_no_warnings(self):
        assert self.paper.chktex() == ""

    def test_the_authors_are_those_of_all_manuscripts(self):
        text = (self.paper.folder / "main.tex").read_text(encoding="utf-8")
        assert r"\author{\paperauthors{}" in text
        assert r"pdfauthor={\paperauthors}" in text

    def test_no_case_of_an_abstract_is_undecided(self):
        source = (self.paper.folder / "sections/abstract.tex").read_text(encoding="utf-8")
        printed = " ".join(without_comments(source).replace("{cannot tell}", "").split())
        assert not [words for words in _UNDECIDED if words in printed]

    def test_every_reference_is_cited_and_every_citation_has_one(self):
        cited, listed = self.paper.cited_and_listed()
        assert cited == listed


class PageChecks:
    """Checks of the pages of every manuscript."""

    paper: Manuscript
    points = 3
    """Tolerance for overfull lines, in points."""
    environment: ClassVar[dict[str, str]] = {}

    @staticmethod
    def prepared(folder, **options):
        """Write results and the inputs of the manuscript, and return their folder."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def built(cls, tmp_path_factory):
        results = cls.prepared(tmp_path_factory.mktemp("built"))
        return cls.paper.built(results, **cls.environment)

    def test_nothing_is_missing_or_runs_off_the_page(self, built):
        self.paper.assert_nothing_is_missing_or_off_the_page(built, self.points)
        assert "??" not in self.paper.text(built)

    def test_the_text_is_set_in_times(self, built):
        fonts = self.paper.fonts(built)
        assert "TeXGyreTermes-Regular" in fonts
        assert not [name for name in fonts if re.match(r"CM[A-Z]|LM(?:Roman|Mono|Sans)", name)]

    def test_no_punctuation_is_doubled_after_a_conditional(self, built):
        # Two commas become a low quotation mark.
        assert not re.findall(r".{40}(?:„|,\s*,|;\s*;)", self.paper.text(built))

    def test_pages_are_full(self, built):
        *fills, _ = page_fill(self.paper.pdf(built))
        assert min(fills) > 2 / 3, fills

    def test_no_last_line_of_a_paragraph_stands_alone(self, built):
        for job in _JOBS:
            pdf = self.paper._path(built, f"{job}.pdf")
            assert not [line.text for line in last_lines_alone(columns_of(pdf))], pdf.name

    def test_floats_stand_near_their_mention(self, built):
        """Made-up numbers are wider than most, so a page more than of a record is allowed."""
        found = floats_and_mentions(self.paper.pdf(built))
        far = [one for one in found if one[3] is None or abs(one[2] - one[3]) > 2]
        assert not far, far

    def test_every_numbered_item_of_the_document_is_on_a_page(self, built):
        found = numbered_items(self.paper.pdf(built), sources_of(self.paper.name).document)
        missing = [item for item, page in found.items() if page is None]
        assert not missing, missing
