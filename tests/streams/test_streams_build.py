"""Building talker, listener and stall meter: without a warning, once, whole, with a clear word."""

import os
import shutil
import subprocess
import sys

import pytest

from tsnrepro.errors import TestbedError
from tsnrepro.streams import build


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


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
@pytest.mark.parametrize("program", [build.TALKER, build.LISTENER, build.STALLMETER])
def test_it_compiles_without_a_warning(tmp_path, compiler, program):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    argv = build.compile_command(compiler, program, str(tmp_path / program))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_built_once(sources, monkeypatch):
    made = build.programs()
    assert {path.name for path in made.talker.parent.iterdir()} == {
        "talker",
        "listener",
        "stallmeter",
    }
    assert os.access(made.talker, os.X_OK)

    def refuse(*_, **__):
        raise AssertionError("built again")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert build.programs() == made


@pytest.mark.parametrize("name", ["talker.c", "listener.c", "stallmeter.c", "stream.h"])
def test_a_changed_source_is_another_build(sources, name):
    before = build.source_digest()
    path = sources / name
    path.write_text(path.read_text() + "\n")
    assert build.source_digest() != before


def test_a_source_that_does_not_compile_is_named(sources):
    path = sources / "listener.c"
    path.write_text(path.read_text().replace("print_report(ended_by", "print_nothing(ended_by"))
    with pytest.raises(TestbedError, match=r"clang failed:[\s\S]*print_nothing") as error:
        build.programs()
    assert "listener.c" in error.value.where


@pytest.mark.parametrize("at", [1, 2, 3])
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
            build.programs()
    made = build.programs()
    assert os.access(made.talker, os.X_OK)
    assert os.access(made.listener, os.X_OK)
    assert os.access(made.stallmeter, os.X_OK)


def test_a_missing_clang_is_said_with_what_to_do(sources, monkeypatch):
    monkeypatch.setenv("PATH", str(sources))
    with pytest.raises(TestbedError, match="clang is not installed") as error:
        build.programs()
    assert "scripts/setup" in error.value.remedy
