"""Every program that the code and its tests start comes with scripts/debian-packages.txt.

Programs are found where they stand as the first word of a command in the syntax tree. A word counts
where a call says that it is a program, as ``subprocess.run([...])`` and ``shutil.which("...")`` do
or a table named PROGRAMS; and any first word of a list that is a program of this machine.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tracked_files import tracked

from tsnrepro.common.repository import root

SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WORD = re.compile(r"(?:/usr)?(?:/s?bin/)?[a-z][a-z0-9_.+-]*")
STARTERS = {"run", "Popen", "check_output", "check_call", "call"}
SEARCHERS = {"which", "find", "has"}
# First words of lists and lines that are not commands here, though a machine may have programs of
# these names: whoever starts one has to take it out.
NOT_COMMANDS = {
    "column",
    "file",
    "host",
    "look",
    "node",
    "stream",
    "strip",
    "time",
    "write",
}
# Ubuntu has the browser as a snap only, so the tests in it are skipped where there is none.
OPTIONAL = {"chromium", "chromium-browser"}
# What tests start or pack because it is not there, and the parts of the data plane.
NOT_PROGRAMS = OPTIONAL | {"no-such-tool", "/bin/tool", "drops", "listener", "station", "switch"}
SHELL_WORD = re.compile(r"(?:^|[;&|(]|\b(?:exec|then|do|else)\b)[ \t]*([a-z][\w.+-]*)", re.M)
BINARY = re.compile(r"^(?:/usr)?/s?bin/[\w.+-]+$", re.M)


def python_files() -> list[Path]:
    return tracked("src/**/*.py", "tests/**/*.py")


def literal(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def first_word(node: ast.AST) -> str | None:
    """Return the first word of a list, tuple or sum of them, if it stands there as text."""
    if isinstance(node, ast.Starred):
        return first_word(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return first_word(node.left)
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        return literal(node.elts[0]) or first_word(node.elts[0])
    return None


def called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def named_programs(tree: ast.AST) -> Iterator[str]:
    """Yield the words that stand where only a program can."""
    for node in ast.walk(tree):
        if (word := literal(node)) and BINARY.fullmatch(word):
            yield word
        elif isinstance(node, ast.Call) and node.args:
            word = None
            if called(node) in STARTERS and getattr(node.func, "value", None):
                word = first_word(node.args[0])
            elif called(node) in SEARCHERS and isinstance(node.func, ast.Name | ast.Attribute):
                base = getattr(node.func, "value", None)
                if base is None or getattr(base, "id", "") == "shutil":
                    word = literal(node.args[0])
            if word:
                yield word
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            names = {getattr(target, "id", "") for target in node.targets}
            if names & {"PROGRAMS", "FETCH_PROGRAMS", "DAEMONS"}:
                yield from filter(None, map(literal, node.value.elts))


def possible_programs(tree: ast.AST) -> Iterator[str]:
    """Yield the first words of lists, and of the commands in shell scripts."""
    prose = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if word := first_word(node):
            yield word
        text = literal(node)
        if text and ("\n" in text or "exec " in text) and node not in prose:
            yield from SHELL_WORD.findall(text)


def where(word: str) -> Path | None:
    found = shutil.which(word, path=SEARCH) if WORD.fullmatch(word) else None
    return Path(found) if found else None


@cache
def owners() -> dict[str, str]:
    """Return the package of every installed program, by its path without /usr before it."""
    found = {}
    for listing in Path("/var/lib/dpkg/info").glob("*.list"):
        for path in BINARY.findall(listing.read_text(encoding="utf-8")):
            found[path.removeprefix("/usr")] = listing.stem.split(":")[0]
    return found


def package_of(program: Path) -> str | None:
    """Return the installed package that a program belongs to; None for what no package brought."""
    # What update-alternatives or a package's own link leads to, and else the name itself.
    for path in (program.resolve(), program):
        if package := owners().get(str(path).removeprefix("/usr")):
            return package
    return None


@cache
def installed() -> dict[str, tuple[bool, list[list[str]]]]:
    """Return, by package, whether every Debian has it, and its dependencies with alternatives."""
    fields = "${Package}\t${Essential}\t${Priority}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    said = subprocess.run(
        ["dpkg-query", "--show", "--showformat", fields], capture_output=True, text=True, check=True
    )
    found = {}
    provided = {}
    for line in said.stdout.splitlines():
        name, essential, priority, depends, provides = line.split("\t")
        needs = [alternatives(part) for part in depends.split(",") if part.strip()]
        found[name] = (essential == "yes" or priority == "required", needs)
        for virtual in provides.split(","):
            provided.setdefault(bare(virtual), name)
    return {virtual: (False, [[name]]) for virtual, name in provided.items()} | found


def bare(name: str) -> str:
    return re.split(r"[\s:(\[]", name.strip())[0]


def alternatives(line: str) -> list[str]:
    return [bare(name) for name in line.split("|")]


@cache
def on_ubuntu() -> bool:
    return "ID=ubuntu" in Path("/etc/os-release").read_text(encoding="utf-8").splitlines()


def listed(text: str) -> list[list[str]]:
    lines = (
        line.split("#")[0].strip()
        for line in text.splitlines()
        if not (on_ubuntu() and line.endswith("# not on Ubuntu"))
    )
    return [alternatives(line) for line in lines if line]


def brought_by(packages: list[list[str]]) -> set[str]:
    """Return all packages that come with the given ones, of those that are installed."""
    every_debian = [[name] for name, (always, _) in installed().items() if always]
    every_debian.append(["apt"])  # set-up itself installs by it; some archives call it important
    found: set[str] = set()
    open_ = [*packages, *every_debian]
    while open_:
        for name in open_.pop():
            if name in installed() and name not in found:
                found.add(name)
                open_ += installed()[name][1]
    return found


@cache
def words_of(path: Path) -> tuple[set[str], set[str]]:
    """Return the words of a file that are programs, and those that may be."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {word for word in named_programs(tree) if WORD.fullmatch(word)} - NOT_PROGRAMS
    return named, set(possible_programs(tree)) - NOT_COMMANDS


def lacking(files: list[Path], packages: list[list[str]]) -> list[str]:
    """Return what the code starts and the packages do not bring, each as a sentence."""
    brought = brought_by(packages)
    lacks = set()
    for path in files:
        named, possible = words_of(path)
        for word in named | possible:
            if "/" not in word and (Path(sys.prefix) / "bin" / word).exists():
                continue  # it comes with the locked Python environment
            program = where(word)
            if program is None:
                if word in named:
                    lacks.add(f"{path.name} starts {word}, which no package of the list brings")
            elif (package := package_of(program)) and package not in brought:
                lacks.add(f"{path.name} starts {word} of the package {package}")
    return sorted(lacks)


pytestmark = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="not a Debian")
LIST = root() / "scripts" / "debian-packages.txt"


def test_every_program_comes_with_the_listed_packages():
    packages = listed(LIST.read_text(encoding="utf-8"))
    if not all(set(names) & set(installed()) for names in packages):
        pytest.skip("scripts/setup has not installed all packages here")
    assert not lacking(python_files(), packages)


@pytest.mark.parametrize(
    "package",
    [
        *("iperf3", "sockperf", "netsniff-ng", "tshark", "iproute2", "ethtool", "clang"),
        *("openssh-server", "kmod", "cpio", "qemu-system-x86", "munge", "slurmd", "poppler-utils"),
        *("latexmk", "chktex", "git", "linuxptp"),
    ],
)
def test_a_package_that_is_left_out_is_missed(package):
    packages = listed(LIST.read_text(encoding="utf-8"))
    assert [package] in packages
    if package not in installed():
        pytest.skip(f"{package} is not installed here")
    fewer = [names for names in packages if names != [package]]
    if package in brought_by(fewer):
        pytest.skip(f"another package brings {package}")
    assert lacking(python_files(), fewer)


def test_a_program_that_is_nowhere_is_missed(tmp_path):
    code = tmp_path / "starts.py"
    code.write_text("import subprocess\nsubprocess.run(['no-such-program', '-v'])\n")
    assert lacking([code], [["git"]]) == [
        "starts.py starts no-such-program, which no package of the list brings"
    ]


@pytest.mark.parametrize(
    ("line", "names"),
    [("git", ["git"]), ("a | b (>= 2)", ["a", "b"]), ("libc6:any  # why", ["libc6"])],
)
def test_how_a_line_of_the_list_is_read(line, names):
    assert listed(f"# a comment\n\n{line}\n") == [names]
