"""Building the data plane: once for each state of the sources, whole, and with a clear word."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bpf_objects import bpf_objects

from tsnrepro.dataplane import build
from tsnrepro.errors import TestbedError

pytestmark = [
    pytest.mark.namespaces,  # clang and libbpf's headers come with what namespaces need
]

BUILT = {"frerctl", "delayline", "switch.bpf.o", "station.bpf.o", "drops.bpf.o"}
# The kernel gives up at a million; how it counts differs by version, so there must be room.
MOST_VERIFIED_INSTRUCTIONS = 100_000


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Copy the sources to a folder where they may be changed, and build elsewhere."""
    folder = tmp_path / "sources"
    folder.mkdir()
    for path in build.SOURCES.glob("*.[ch]"):
        shutil.copy(path, folder)
    monkeypatch.setattr(build, "SOURCES", folder)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    return folder


def test_it_is_built_once(sources, monkeypatch):
    program = build.frerctl()
    assert {path.name for path in program.parent.iterdir()} == BUILT
    assert os.access(program, os.X_OK)

    def refuse(*_, **__):
        raise AssertionError("built again")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert build.frerctl() == program


@pytest.mark.parametrize("name", ["frer.h", "frerctl.c", "switch.bpf.c", "stream.bpf.h"])
def test_a_changed_source_is_another_build(sources, name):
    before = build.source_digest()
    path = sources / name
    path.write_text(path.read_text() + "\n")
    assert build.source_digest() != before


def test_a_renamed_source_is_another_build(sources):
    before = build.source_digest()
    (sources / "stream.bpf.h").rename(sources / "flow.bpf.h")
    assert build.source_digest() != before


def test_a_source_that_does_not_compile_is_named(sources):
    path = sources / "station.bpf.c"
    path.write_text(path.read_text().replace("return TC_ACT_UNSPEC;", "return TC_ACT_NONE;"))
    with pytest.raises(TestbedError, match=r"clang failed:[\s\S]*TC_ACT_NONE") as error:
        build.frerctl()
    assert "station.bpf" in error.value.where
    path.write_text((Path(build.__file__).parent / path.name).read_text())
    assert build.frerctl().exists()


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_an_interrupted_build_is_not_taken_for_a_whole_one(sources, monkeypatch, at):
    calls, really_run = [], subprocess.run

    def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == at:
            raise KeyboardInterrupt
        return really_run(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build.frerctl()
    program = build.frerctl()
    assert {path.name for path in program.parent.iterdir()} >= BUILT


def test_a_missing_clang_is_said_with_what_to_do(sources, monkeypatch):
    monkeypatch.setenv("PATH", str(sources))
    with pytest.raises(TestbedError, match="clang is not installed") as error:
        build.frerctl()
    assert "scripts/setup" in error.value.remedy


@pytest.mark.parametrize("sources", ["frerctl*.c", "delayline.c"])
def test_the_programs_compile_without_a_warning(tmp_path, sources):
    command = ["clang", "-O2", "-Wall", "-Wextra", "-Werror", "-lbpf", "-o", str(tmp_path / "f")]
    done = subprocess.run(
        [*command, *map(str, build.SOURCES.glob(sources))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_kernels_verifier_has_an_easy_time(testbed):
    """A program near the verifier's limit loads on one kernel and not on the next."""
    ours = {"host_ingress", "member_ingress", "stream_drop", "station_egress"}
    seen = set()
    for name, handle in bpf_objects("prog"):
        if name not in ours:
            continue
        lines = Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
        facts = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert int(facts["verified_insns"]) < MOST_VERIFIED_INSTRUCTIONS, name
        seen.add(name)
    assert seen == ours
