"""What pages take from the code: keys of the configuration, experiments, commands and figures."""

import argparse
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tsnrepro.cli import build_parser
from tsnrepro.cli.schemas import schema
from tsnrepro.common.repository import root
from tsnrepro.config.registry import as_table
from tsnrepro.papers.glossary import glossary

# --- keys of the configuration --------------------------------------------------------------------

# By the end of a key's name, the longest first: keys carry their units.
UNITS = {
    "_percent": "%",
    "_minutes": "min",
    "_bytes": "bytes",
    "_mbps": "Mb/s",
    "_pps": "packets/s",
    "_cycles": "cycles",
    "_ns": "ns",
    "_us": "µs",
    "_ms": "ms",
    "_m": "m",
    "_s": "s",
}


class Keys:
    """The keys of one kind of configuration file, as text of a page.

    Each table of keys is described once, under the first place where it may stand; other places
    link there.
    """

    def __init__(self, kind: str) -> None:
        self._kind, self._schema = kind, schema(kind)
        self._places: dict[str, str] = {}
        self._lines: list[str] = []

    def page(self) -> str:
        """Return the whole page but its title."""
        branches = self._schema.get("oneOf")
        if branches:
            for branch in branches:
                kind = self._definition(branch)["properties"]["kind"]["const"]
                self._section(branch, f"Kind `{kind}`", f"{self._kind}-{kind}")
        else:
            # Text before the first heading would come after the sections.
            self._lines += ["## Top level", ""]
            self._table(self._schema, self._kind)
        return "\n".join(self._lines)

    def _definition(self, node: dict[str, Any]) -> dict[str, Any]:
        return self._schema["$defs"][_name_of(node)]

    def _section(self, node: dict[str, Any], title: str, place: str) -> None:
        self._places[_name_of(node)] = place
        self._lines += ["", f"({_anchor(place)})=", f"## {title}", ""]
        self._table(self._definition(node), place)

    def _table(self, definition: dict[str, Any], place: str) -> None:
        self._lines += [definition.get("description", ""), ""]
        below = []
        for key, about in definition.get("properties", {}).items():
            full = f"{place}.{key}"
            new = [node for node in _references(about) if _name_of(node) not in self._places]
            for node in new:
                # Several tables may stand at one place: a key tells which.
                which = f" ({self._which(node)})" if len(new) > 1 else ""
                self._places[_name_of(node)] = full + which
                below.append((node, full + which))
            self._lines += [f"````{{confval}} {full}", f":type: {self._type(about, key)}"]
            if key in definition.get("required", []):
                self._lines.append(":default: none: it is required")
            elif "default" in about:
                self._lines.append(f":default: `{_as_yaml(about['default'])}`")
            self._lines += ["", about.get("description", ""), "", *self._links(about), "````", ""]
        for node, full in below:
            kind = full.partition(".")[0].removeprefix(self._kind).removeprefix("-")
            of_kind = f", kind `{kind}`" if kind else ""
            self._section(node, f"`{_without_file(full)}`{of_kind}", full)

    def _links(self, about: dict[str, Any]) -> list[str]:
        """Return a line that leads to the tables of keys which a key may have."""
        places = dict.fromkeys(self._places[_name_of(node)] for node in _references(about))
        named = [f"[`{_without_file(place)}`](#{_anchor(place)})" for place in places]
        return [f"Keys: {', '.join(named)}"] if named else []

    def _which(self, node: dict[str, Any]) -> str:
        """Return what tells a table from others at the same place: a constant, or its name."""
        keys = self._definition(node)["properties"].items()
        return next((about["const"] for _, about in keys if "const" in about), _name_of(node))

    def _type(self, about: dict[str, Any], key: str) -> str:
        unit = next((unit for end, unit in UNITS.items() if key.endswith(end)), "")
        return ", ".join(filter(None, (self._words(about), unit)))

    def _words(self, about: dict[str, Any]) -> str:
        """Return the type and its range in words."""
        match about:
            case {"$ref": _}:
                return "a table of keys"
            case {"anyOf": choices} | {"oneOf": choices}:
                return " or ".join(dict.fromkeys(map(self._words, choices)))
            case {"const": value}:
                words = f"`{value}`"
            case {"enum": values}:
                words = " or ".join(f"`{_as_yaml(value)}`" for value in values)
            case {"type": "array"}:
                items = self._words(about.get("items", {"type": "values"}))
                words = f"list of {items}".replace("of a table", "of tables")
            case {"type": "object", "additionalProperties": dict(values)}:
                words = f"names, each with {self._words(values)}"
            case {"type": "string", "pattern": pattern}:
                words = f"text matching `{pattern}`"
            case _:
                kind = about.get("type", "anything")
                words = _KINDS.get(kind, kind) + _range(about)
        return words


_KINDS = {"boolean": "`true` or `false`", "object": "names", "string": "text"}


def _name_of(node: dict[str, Any]) -> str:
    return node["$ref"].rsplit("/", 1)[1]


def _references(about: Any) -> list[dict[str, Any]]:
    """Return the references to tables of keys anywhere in a key's type."""
    if isinstance(about, list):
        return [found for item in about for found in _references(item)]
    if not isinstance(about, dict):
        return []
    if "$ref" in about:
        return [about]
    return [found for key, item in about.items() if key != "default" for found in _references(item)]


def _range(about: dict[str, Any]) -> str:
    low, high = about.get("minimum"), about.get("maximum")
    above, below = about.get("exclusiveMinimum"), about.get("exclusiveMaximum")
    lower = f"from {low:,}" if low is not None else f"above {above:,}" if above is not None else ""
    upper = f"to {high:,}" if high is not None else f"below {below:,}" if below is not None else ""
    return "".join(f" {word}" for word in (lower, upper) if word)


def _as_yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(map(_as_yaml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_as_yaml(item)}" for key, item in value.items()) + "}"
    return str(value) if re.match(r"[\w.-]", str(value)) else f'"{value}"'


def _without_file(place: str) -> str:
    return place.partition(".")[2] or place


def _anchor(place: str) -> str:
    return "key-" + re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")


class ConfigurationDirective(SphinxDirective):
    """Every key of a kind of configuration file: ``{configuration} campaign``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the keys, a section a table of keys."""
        return self.parse_text_to_nodes(Keys(self.arguments[0]).page(), allow_section_headings=True)


# --- experiments, commands, figures ---------------------------------------------------------------


class ExperimentsDirective(SphinxDirective):
    """The table of experiments, with the kinds of testbeds that can measure each."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        return self.parse_text_to_nodes(as_table())


class TermsDirective(SphinxDirective):
    """The terms of paper/glossary.yaml, in English and Korean."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [(term.english, term.korean, ", ".join(term.never)) for term in glossary()]
        table = [("English", "Korean", "not"), ("---",) * 3, *rows]
        return self.parse_text_to_nodes("\n".join(f"| {' | '.join(row)} |" for row in table))


class CommandsDirective(SphinxDirective):
    """What ``--help`` prints of every command."""

    def run(self) -> list[nodes.Node]:
        """Return a section a command."""
        lines = []
        for name, parser in commands(build_parser()):
            lines += [f"## {name}", "", "```text", parser.format_help().rstrip(), "```", ""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def commands(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.ArgumentParser]]:
    """Return a parser's commands and theirs by name, without those that its help leaves out."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.help == argparse.SUPPRESS:
                    continue
                below = action.choices[choice.dest]
                found += [(below.prog, below), *commands(below)]
    return found


NO_FIGURES = """\
Nothing was measured and analysed in this clone when these pages were built. Measure a campaign and
build them again:

```sh
snakemake --cores 4
scripts/docs
```
"""


class GalleryDirective(SphinxDirective):
    """The figures of what has been analysed in this clone, by experiment and testbed."""

    def run(self) -> list[nodes.Node]:
        """Return the figures with their captions, or what makes some."""
        from tsnrepro.config.registry import experiments  # noqa: PLC0415

        lines = []
        for name, experiment in experiments().items():
            found = sorted((root() / "results").glob(f"*/*/{name}/figures/*.png"))
            shown = [(path, experiment.caption(path.stem)) for path in found]
            if not any(caption for _, caption in shown):
                continue
            lines += [f"## {experiment.title}", ""]
            for path, caption in shown:
                if not caption:
                    continue
                testbed, campaign = path.parts[-5:-3]
                here = os.path.relpath(path, Path(self.env.doc2path(self.env.docname)).parent)
                lines += [
                    f"```{{figure}} {here}",
                    ":class: gallery",
                    f"{caption}. Testbed `{testbed}`, campaign `{campaign}`.",
                    "```",
                    "",
                ]
        text = "\n".join(lines) or NO_FIGURES
        return self.parse_text_to_nodes(text, allow_section_headings=True)


# --- the notebook's repository -------------------------------------------------------------------

NOT_COPIED = {".git", ".venv", ".snakemake", "results", "data/raw", "data/racks"}


def copy_repository(app: Sphinx) -> None:
    """Make the copy in which the notebook measures; the clone's own record stays as it is."""
    if app.builder.name == "linkcheck":
        return
    scratch = tempfile.TemporaryDirectory(prefix="tsnrepro-docs-")
    app.connect("build-finished", lambda *_: scratch.cleanup())
    copy = Path(scratch.name) / "tsnrepro"

    def not_copied(folder: str, names: list[str]) -> set[str]:
        here = Path(folder).relative_to(root())
        return {name for name in names if str(here / name) in NOT_COPIED}

    shutil.copytree(root(), copy, symlinks=True, ignore=not_copied)
    os.environ["TSNREPRO_DOCS_REPOSITORY"] = str(copy)
    os.environ["PYTHONPATH"] = str(copy / "src")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives and the copy."""
    app.add_directive("configuration", ConfigurationDirective)
    app.add_directive("experiments", ExperimentsDirective)
    app.add_directive("terms", TermsDirective)
    app.add_directive("commands", CommandsDirective)
    app.add_directive("gallery", GalleryDirective)
    app.connect("builder-inited", copy_repository)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
