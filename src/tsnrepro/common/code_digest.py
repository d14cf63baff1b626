"""Digests of the code that a notebook or a command runs, by following its imports.

A workflow rule names its entry points, and depends on every file of the project that these import,
with the data files beside a module (templates, C sources). Imports are read from the source, also
those inside functions; modules that are imported by a computed name are not found, so a rule that
runs such a module names it as a further entry point.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tsnrepro.common.repository import root

PACKAGE = "tsnrepro"
# Files beside a module that are read at run time.
_DATA_FILES = ("*.yaml", "*.c", "*.h", "*.sh", "Makefile")
# A statement to its end, or to that of its parentheses.
_IMPORT = re.compile(
    rf"^[ \t]*((?:from|import)[ \t]+{PACKAGE}\b(?:[^\n(]*\([^)]*\)|[^\n]*))", re.MULTILINE
)
# Attributes of statements that contain others.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def code_of(*entries: str) -> list[str]:
    """Return the project files that entry points depend on, sorted, relative to the repository.

    ``entries``: notebooks (``notebooks/analyse/loss.ipynb``), modules
    (``tsnrepro.experiments.loss.measure``), or commands as ``module:function``, of which only the
    function's imports are followed.
    """
    reached: set[str] = set()
    for entry in entries:
        if entry.endswith(".ipynb"):
            reached.add(entry)
            names = _imports(ast.parse(_notebook_source(root() / entry)))
        elif ":" in entry:
            module, function = entry.split(":")
            names = _imports(_function(module, function))
        else:
            names = frozenset({entry})
        for name in names:
            reached |= _closure(name)
    return sorted(reached)


def code_digest(*entries: str, data: Iterable[str] = ()) -> str:
    """Return the SHA-256 (16 hex digits) of the files of :func:`code_of`, with their names.

    ``data`` are further files of the repository; missing ones are left out.
    """
    existing = [path for path in data if (root() / path).is_file()]
    return _digest([*code_of(*entries), *existing])


def _digest(paths: list[str]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.encode() + b"\0" + (root() / path).read_bytes())
    return digest.hexdigest()[:16]


def _notebook_source(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def _function(module: str, function: str) -> ast.AST:
    path = _file_of(module)
    assert path is not None, module
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return node
    raise LookupError(f"{module} has no function {function}")


@cache
def _file_of(module: str) -> Path | None:
    stem = root() / "src" / Path(*module.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


def _imports(tree: ast.AST) -> frozenset[str]:
    found = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if _is_ours(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            # A name may be a module below the one it is imported from.
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {node.module, *(name for name in below if _file_of(name))}
    return frozenset(found)


def _import_statements(source: str) -> ast.AST:
    """Return the statements of a module that import from the project.

    Every start of Snakemake reads those of all modules; parsing the rest of them would take most of
    its time.
    """
    try:
        return ast.parse("\n".join(found[1] for found in _IMPORT.finditer(source)))
    except SyntaxError:  # text of a docstring
        return ast.parse(source)


def _is_ours(module: str) -> bool:
    return module.split(".", 1)[0] == PACKAGE


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a piece of code, without expressions, which import nothing."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for blocks in _BLOCKS:
            waiting += getattr(node, blocks, ())


@cache
def _direct(module: str) -> frozenset[str]:
    path = _file_of(module)
    tree = _import_statements(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    # A package is imported before its modules.
    parents = {module.rpartition(".")[0]} - {"", PACKAGE}
    return _imports(tree) | parents


@cache
def _closure(module: str) -> frozenset[str]:
    """Return the files of a module and of all that it imports, with the data files beside them."""
    seen: set[str] = set()
    files: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if name in seen or path is None:
            continue
        seen.add(name)
        files |= {path.relative_to(root()).as_posix(), *_data_files(path.parent), *_templates(path)}
        waiting += _direct(name)
    return frozenset(files)


@cache
def _data_files(folder: Path) -> frozenset[str]:
    found = (path for pattern in _DATA_FILES for path in folder.glob(pattern))
    return frozenset(path.relative_to(root()).as_posix() for path in found if path.is_file())


@cache
def _templates(module: Path) -> frozenset[str]:
    """Return the templates beside a module that it names."""
    source = module.read_text(encoding="utf-8")
    found = (path for path in module.parent.glob("templates/*") if path.name in source)
    return frozenset(path.relative_to(root()).as_posix() for path in found)
