"""Help with examples, and completion as a shell asks for it."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tsnrepro.cli import build_parser

COMMAND = Path(sys.executable).with_name("tsnrepro")


def commands():
    (found,) = [a.choices for a in build_parser()._actions if isinstance(a.choices, dict)]
    return found


def examples(name):
    return [
        line.strip()
        for line in (commands()[name].epilog or "").replace("\\\n", " ").splitlines()[1:]
    ]


@pytest.mark.parametrize("name", list(commands()))
def test_every_command_has_examples_that_it_reads(name):
    assert examples(name)
    for line in examples(name):
        text = line.partition("#")[0].strip().removeprefix("source <(").removesuffix(")")
        words = shlex.split(text)
        # An alias has the examples of its command.
        assert words[0] == "tsnrepro"
        assert commands()[words[1]].prog == commands()[name].prog
        build_parser().parse_args(words[1:])


def test_help_fits_a_terminal():
    for parser in [build_parser(), *commands().values()]:
        assert max(map(len, parser.format_help().splitlines())) <= 80


def test_help_leaves_out_what_only_rules_call():
    text = build_parser().format_help()
    # An alias stands in parentheses behind its command.
    hidden = {
        each for each in commands() if f"\n    {each}" not in text and f"({each})" not in text
    }
    only_rules = {"notebook", "measure-part", "analyse", "paper-inputs", "submission", "report"}
    assert hidden == only_rules


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("twin", "html"),
        ("words", "wordcount"),
        ("numbered", "check-numbering"),
        ("difference", "diff"),
    ],
)
def test_an_old_name_is_accepted_with_a_notice(old, new):
    done = subprocess.run([COMMAND, old, "--help"], capture_output=True, text=True, check=True)
    assert f"usage: tsnrepro {new} " in done.stdout
    assert done.stderr == f"tsnrepro: '{old}' is deprecated; use '{new}'\n"


def completed(line):
    """Return what bash would be offered at the end of a line, as argcomplete is asked by it."""
    environment = os.environ | {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "IFS": "\n",
        "_ARGCOMPLETE_IFS": "\n",
    }
    done = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=False)
    return {word.strip() for word in done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tsnrepro st", {"status", "study"}),
        ("tsnrepro status --testbed m", {"model"}),
        ("tsnrepro status --campaign do", {"documents"}),
        ("tsnrepro status --experiment lo", {"loss"}),
        ("tsnrepro study run thr", {"threshold", "threshold-coarse", "threshold-short"}),
        ("tsnrepro completion z", {"zsh"}),
    ],
)
def test_names_are_completed(line, offered):
    found = completed(line)
    assert found >= offered
    assert all(name.startswith(line.split()[-1]) for name in found)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_takes_what_completion_prints(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")
    printed = subprocess.run(
        [COMMAND, "completion", shell], capture_output=True, text=True, check=True
    )
    before = "autoload -U compinit && compinit -u; " if shell == "zsh" else ""
    after = "complete -p tsnrepro" if shell == "bash" else "print $_comps[tsnrepro]"
    done = subprocess.run(
        [shell, "-c", f"{before}{printed.stdout}\n{after}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "_python_argcomplete" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_at_the_tab_key(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")
    start = {
        "bash": "",
        "zsh": "autoload -U compinit && compinit -u; unsetopt zle_bracketed_paste\n",
    }
    plain = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}
    file = tmp_path / "completion"
    printed = subprocess.run([COMMAND, "completion", shell], capture_output=True, check=True)
    file.write_bytes(start[shell].encode() + printed.stdout)
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TERM": "dumb", "HOME": str(tmp_path)}
    session = pexpect.spawn(shell, plain[shell], env=environment, encoding="utf-8", timeout=60)
    try:
        session.sendline(f". {shlex.quote(str(file))}; echo it-is-$((40 + 2))")
        session.expect("it-is-42")
        session.send("tsnrepro status --experiment los\t")
        session.expect(r"--experiment loss\b")
    finally:
        session.close(force=True)


def test_a_reader_that_has_enough_is_no_error():
    command = f"{shlex.quote(str(COMMAND))} completion bash | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
