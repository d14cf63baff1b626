"""Building the C programs: without a warning, once a state of the sources, whole, a clear word."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.native.bridge import build as bridge
from tsnrepro.native.c_sources import source_digest
from tsnrepro.native.frer import build as dataplane
from tsnrepro.native.streams import build as streams


@dataclass(frozen=True)
class Build:
    """A folder of sources; ``steps`` are those of the compiler that are interrupted."""

    module: ModuleType
    programs: tuple[str, ...]
    others: tuple[str, ...]
    steps: int

    def make(self) -> list[Path]:
        """Build and return the programs."""
        if self.module is streams:
            return list(vars(streams.programs()).values())
        if self.module is bridge:
            bridge.tagger()
            return [bridge.replay(), bridge.bridge()]
        return [dataplane.frerctl(), dataplane.delayline()]


STREAMS = Build(streams, ("talker", "listener", "stallmeter"), (), 3)
DATAPLANE = Build(
    dataplane,
    ("frerctl", "delayline"),
    ("switch.bpf.o", "station.bpf.o", "listener.bpf.o", "drops.bpf.o"),
    6,
)
BRIDGE = Build(bridge, ("tsn-bridge", "bridge-replay"), ("tag.bpf.o",), 1)
# clang, libbpf's and DPDK's headers come with what namespaces need.
KINDS = [
    pytest.param(STREAMS, id="streams"),
    pytest.param(DATAPLANE, id="dataplane", marks=pytest.mark.namespaces),
    # The compiler takes longest for it, in the same way as for the others.
    pytest.param(BRIDGE, id="bridge", marks=(pytest.mark.namespaces, pytest.mark.long)),
]


def of_each(values):
    """Return parameters (build, one of its values)."""
    return [
        pytest.param(kind.values[0], value, id=f"{kind.id}-{value}", marks=kind.marks)
        for kind in KINDS
        for value in values(kind.values[0])
    ]


@pytest.fixture
def sources(build, tmp_path, monkeypatch):
    """Copy the sources to a folder where they may be changed, and build elsewhere."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for path in build.module.SOURCES.glob("*.[ch]"):
        shutil.copy(path, folder)
    monkeypatch.setattr(build.module, "SOURCES", folder)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    return folder


@pytest.mark.parametrize("build", KINDS)
def test_it_is_built_once(build, sources, monkeypatch):
    made = build.make()
    built = {path.name for path in made[0].parent.iterdir()}
    assert built == {*build.programs, *build.others}
    assert all(os.access(program, os.X_OK) for program in made)

    def refuse(*_, **__):
        raise AssertionError("built again")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert build.make() == made


CHANGED = {
    STREAMS: ["talker.c", "listener.c", "stallmeter.c", "stream.h"],
    DATAPLANE: ["frer.h", "frerctl.c", "switch.bpf.c", "stream.bpf.h"],
    BRIDGE: ["bridge.c", "scheduler.h"],
}


@pytest.mark.parametrize(("build", "name"), of_each(CHANGED.get))
def test_a_changed_source_is_another_build(build, sources, name):
    before = source_digest(sources)
    path = sources / name
    path.write_text(path.read_text() + "\n")
    assert source_digest(sources) != before


def test_a_renamed_source_is_another_build(tmp_path):
    (tmp_path / "stream.bpf.h").write_text("")
    before = source_digest(tmp_path)
    (tmp_path / "stream.bpf.h").rename(tmp_path / "flow.bpf.h")
    assert source_digest(tmp_path) != before


BROKEN = {
    STREAMS: [("listener.c", "print_report(ended_by", "print_nothing(ended_by", "print_nothing")],
    DATAPLANE: [("station.bpf.c", "return TC_ACT_UNSPEC;", "return TC_ACT_NONE;", "TC_ACT_NONE")],
    BRIDGE: [("scheduler.c", "release_line(port);", "release_word(port);", "release_word")],
}


@pytest.mark.parametrize(("build", "fault"), of_each(BROKEN.get))
def test_a_source_that_does_not_compile_is_named(build, sources, fault):
    name, whole, broken, said = fault
    path = sources / name
    good = path.read_text()
    path.write_text(good.replace(whole, broken))
    with pytest.raises(TestbedError, match=rf"clang failed:[\s\S]*{said}") as error:
        build.make()
    assert name in error.value.where
    path.write_text(good)
    assert all(program.exists() for program in build.make())


@pytest.mark.slow
@pytest.mark.parametrize(("build", "at"), of_each(lambda build: range(1, build.steps + 1)))
def test_an_interrupted_build_is_not_taken_for_a_whole_one(build, sources, monkeypatch, at):
    calls, really_run = [], subprocess.run

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == at:
            raise KeyboardInterrupt
        return really_run(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build.make()
    made = build.make()
    assert {path.name for path in made[0].parent.iterdir()} >= {*build.programs, *build.others}
    assert all(os.access(program, os.X_OK) for program in made)


@pytest.mark.parametrize("build", KINDS)
def test_a_missing_clang_is_said_with_what_to_do(build, sources, monkeypatch):
    monkeypatch.setenv("PATH", str(sources))
    with pytest.raises(TestbedError, match="clang is not installed") as error:
        build.make()
    assert "scripts/setup" in error.value.remedy


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
@pytest.mark.parametrize("program", STREAMS.programs)
def test_talker_and_listener_compile_without_a_warning(tmp_path, compiler, program):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    source = str(streams.SOURCES / f"{program}.c")
    check_quiet(
        [compiler, *streams.FLAGS, source, *streams.LIBRARIES, "-o", str(tmp_path / program)]
    )


@pytest.mark.namespaces
@pytest.mark.parametrize("sources", ["frerctl*.c", "delayline.c"])
def test_the_data_planes_programs_compile_without_a_warning(tmp_path, sources):
    command = ["clang", "-O2", "-Wall", "-Wextra", "-Werror", "-lbpf", "-o", str(tmp_path / "f")]
    check_quiet([*command, *map(str, dataplane.SOURCES.glob(sources))])


@pytest.mark.namespaces
def test_dpdk_that_is_not_there_is_said_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    with pytest.raises(TestbedError, match=r"DPDK is not found: .*libdpdk") as error:
        bridge.bridge()
    assert "scripts/setup" in error.value.remedy


def check_quiet(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
