"""Building the programs: without a warning, once per state of the sources, atomically."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.native import programs
from tsnrepro.native.programs import SOURCES, program, source_digest

# clang is there for the emulated testbed, with libbpf's and DPDK's headers.
NAMESPACES = pytest.mark.namespaces
STREAMS = ("talker", "listener", "stallmeter")
OBJECTS = ("switch.bpf.o", "station.bpf.o", "listener.bpf.o", "drops.bpf.o")
# The bridge takes the compiler longest, in the same way as the others.
BRIDGE = pytest.param("tsn-bridge", ("tag.bpf.o",), marks=(NAMESPACES, pytest.mark.long))
BUILT = [
    *(pytest.param(name, (), id=name) for name in (*STREAMS, "sockperf_wait.so")),
    pytest.param("frerctl", OBJECTS, marks=NAMESPACES),
    pytest.param("delayline", (), marks=NAMESPACES),
    pytest.param("bridge-replay", (), marks=NAMESPACES),
    pytest.param("tag.bpf.o", (), marks=NAMESPACES),
    BRIDGE,
]


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Copy the sources to a folder where they may be changed, and build elsewhere."""
    folder = tmp_path / "sources"
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__", "build"))
    monkeypatch.setattr(programs, "SOURCES", folder)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    source_digest.cache_clear()
    yield folder
    source_digest.cache_clear()


def digest_now(folder=""):
    """Return the digest that another process would find."""
    source_digest.cache_clear()
    return source_digest(folder)


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize(("name", "others"), BUILT)
def test_it_is_built_once(monkeypatch, name, others):
    made = program(name)
    assert {path.name for path in made.parent.iterdir()} == {name, *others}
    assert name.endswith(".o") or os.access(made, os.X_OK)

    def refuse(*_, **__):
        raise AssertionError("built again")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert program(name) == made


def test_every_name_is_built_by_the_makefile():
    targets = (SOURCES / "Makefile").read_text("utf-8")
    listed = targets.split("\nPROGRAMS = ")[1].splitlines()[0].split()
    assert {*listed, "sockperf_wait.so", "tag.bpf.o"} == {*programs.NAMES}


@pytest.mark.parametrize(
    "name", ["Makefile", "program.c", "streams/talker.c", "frer/frer.h", "bridge/scheduler.h"]
)
def test_a_changed_source_is_another_build(sources, name):
    before = digest_now()
    path = sources / name
    path.write_text(path.read_text() + "\n")
    assert digest_now() != before


def test_a_renamed_source_is_another_build(sources):
    before = digest_now("frer")
    (sources / "frer" / "stream.bpf.h").rename(sources / "frer" / "flow.bpf.h")
    assert digest_now("frer") != before


def test_a_folder_has_a_digest_of_its_own(sources):
    before = digest_now("frer")
    (sources / "bridge" / "bridge.c").write_text("")
    assert digest_now("frer") == before


@pytest.mark.parametrize(
    ("name", "path", "symbol", "broken"),
    [
        ("listener", "streams/listener.c", "print_report(ended_by", "print_nothing"),
        pytest.param(
            *("frerctl", "frer/station.bpf.c", "TC_ACT_UNSPEC", "TC_ACT_NONE"), marks=NAMESPACES
        ),
        pytest.param(
            *("bridge-replay", "bridge/scheduler.c", "release_line(port);", "release_word"),
            marks=NAMESPACES,
        ),
    ],
)
def test_a_source_that_does_not_compile_is_named(sources, name, path, symbol, broken):
    good = (sources / path).read_text()
    (sources / path).write_text(good.replace(symbol, symbol.replace(symbol.split("(")[0], broken)))
    with pytest.raises(TestbedError, match=rf"make failed:[\s\S]*{path}.*[\s\S]*{broken}"):
        program(name)
    (sources / path).write_text(good)
    assert program(name).exists()


def test_an_interrupted_build_is_not_taken_for_a_program(sources, tmp_path, monkeypatch):
    compiler = tmp_path / "bin" / "clang"
    compiler.parent.mkdir()
    partial = 'for word in "$@"; do case $last in -o) echo >"$word" ;; esac; last=$word; done'
    compiler.write_text(f"#!/bin/sh\n{partial}\nkill -KILL $PPID\n")
    compiler.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
        with pytest.raises(TestbedError, match="make failed"):
            program("stallmeter")
    made = program("stallmeter")
    assert made.stat().st_size > 1000


@pytest.mark.usefixtures("sources")
def test_several_processes_may_build_at_once():
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(program, ["stallmeter"] * 3))
    done = subprocess.run([made[0], "--version"], capture_output=True, check=False)
    assert done.returncode == 0
    assert [path.name for path in made[0].parent.iterdir()] == ["stallmeter"]


@pytest.mark.parametrize("tool", ["make", "clang"])
def test_a_missing_tool_is_named_with_the_remedy(sources, monkeypatch, tool):
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else found(name))
    with pytest.raises(TestbedError, match=f"{tool} is not installed") as error:
        program("talker")
    assert "scripts/setup" in error.value.remedy


@NAMESPACES
@pytest.mark.usefixtures("sources")
def test_missing_dpdk_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    with pytest.raises(TestbedError, match=r"make failed:[\s\S]*libdpdk") as error:
        program("tsn-bridge")
    assert "scripts/setup" in error.value.remedy


def make(*arguments: str) -> str:
    """Run make by hand in the folder of the sources; return what it printed."""
    argv = ["make", "-C", str(SOURCES), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("compiler", ["gcc"])
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(" ".join(STREAMS), id="streams"),
        pytest.param("frerctl delayline bridge-replay", id="others", marks=NAMESPACES),
    ],
)
def test_another_compiler_has_no_warning(tmp_path, compiler, names):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    make(f"CC={compiler}", f"BUILD={tmp_path}", f"PROGRAMS={names}")


@NAMESPACES
def test_installed_programs_run_and_are_removed_again(tmp_path):
    install = ["PROGRAMS=frerctl talker", f"BUILD={tmp_path}/build", f"PREFIX={tmp_path}/usr"]
    make("install", *install)
    version = (root() / "pyproject.toml").read_text("utf-8").split('\nversion = "')[1].split('"')[0]
    for name in ("frerctl", "talker"):
        argv = [tmp_path / "usr" / "bin" / name, "--version"]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert printed == f"{name} {version}\n"
    installed = {path.name for path in (tmp_path / "usr").rglob("*") if path.is_file()}
    assert installed == {"frerctl", "talker", *OBJECTS, "frerctl.8", "talker.1"}
    make("uninstall", *install)
    assert not [path for path in (tmp_path / "usr").rglob("*") if not path.is_dir()]
