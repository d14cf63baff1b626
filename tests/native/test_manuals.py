"""--help and manual pages: they name every option, and the examples work as they are printed."""

import json
import re
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tsnrepro.native.programs import SOURCES, program
from tsnrepro.testbeds.emulated.namespace import NamespaceHost

NAMESPACES = pytest.mark.namespaces
PROGRAMS = [
    *("talker", "listener", "stallmeter"),
    *(pytest.param(name, marks=NAMESPACES) for name in ("frerctl", "delayline", "bridge-replay")),
    pytest.param("tsn-bridge", marks=NAMESPACES),
]
SOURCE = {
    **dict.fromkeys(("talker", "listener", "stallmeter"), "streams/{}.c"),
    "frerctl": "frer/frerctl_options.c",
    "delayline": "frer/delayline.c",
    "bridge-replay": "bridge/replay.c",
    "tsn-bridge": "bridge/bridge.c",
}
PAGES = sorted((SOURCES / "man").iterdir())


def page(name: str) -> str:
    (path,) = (SOURCES / "man").glob(f"{name}.[18]")
    return path.read_text("utf-8")


def examples(name: str) -> list[str]:
    """Return the literal blocks of a page's examples, as typed."""
    text = page(name).split("\n.Sh EXAMPLES\n")[1].split("\n.Sh ")[0]
    blocks = re.findall(r"^\.Bd -literal.*\n([\s\S]*?)^\.Ed", text, re.MULTILINE)
    return [block.replace(r"\e", "\\") for block in blocks]


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_and_page_name_the_options_of_the_program(name):
    done = subprocess.run([program(name), "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    source = (SOURCES / SOURCE[name].format(name)).read_text("utf-8")
    tables = re.findall(r'^\t\[\w+\] = \{"([a-z-]+)",', source, re.MULTILINE)
    known = [*tables, "help", "version"]
    assert sorted(re.findall(r"^  --([a-z-]+)", done.stdout, re.MULTILINE)) == sorted(known)
    assert sorted(re.findall(r"^\.It Fl -([a-z-]+)", page(name), re.MULTILINE)) == sorted(known)
    assert "Example:" in done.stdout
    assert "Exit status:" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 90


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unknown_option_is_refused(name):
    done = subprocess.run([program(name), "--speed"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{name}: unknown option '--speed'; see {name} --help\n"


def test_the_bridges_page_has_every_setting():
    source = (SOURCES / "bridge" / "settings.c").read_text("utf-8")
    keys = re.findall(r'\{"([a-z_]+)", \d+, (?:\w+, )?read_\w+\}', source)
    settings = page("tsn-bridge").split("\n.Sh SETTINGS\n")[1].split("\n.Sh ")[0]
    assert len(keys) == 19
    assert sorted(re.findall(r"^\.It Cm (\w+)", settings, re.MULTILINE)) == sorted(keys)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_formatted_without_a_warning(path):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    argv = ["groff", "-mdoc", "-Tutf8", "-ww", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# The examples


def typed(script: str, path: Path, host: NamespaceHost | None = None) -> str:
    """Type a script at a shell that finds our programs; return what it printed."""
    search = f"PATH={path}:/usr/sbin:/usr/bin:/sbin:/bin"
    argv = ["env", "-C", str(path), search, "sh", "-euc", script]
    argv = host.enter(argv) if host else argv
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def two_hosts():
    """Make two hosts with ports eth1 and eth2, each connected to the other's of that name."""
    with ExitStack() as stack:
        hosts = [NamespaceHost(name) for name in ("one", "two")]
        for host in hosts:
            stack.callback(host.close)
        for port in ("eth1", "eth2"):
            ends = [[port, "netns", str(host.pid)] for host in hosts]
            add = ["ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1]]
            subprocess.run(add, check=True)
        yield hosts


@pytest.fixture
def folder(tmp_path):
    """Return a folder with links to our programs, to type commands in."""
    for name in ("frerctl", "tsn-bridge", "bridge-replay"):
        (tmp_path / name).symlink_to(program(name))
    return tmp_path


@NAMESPACES
def test_frerctls_example_replicates_and_eliminates(folder):
    set_up, exchange, break_link, remove = examples("frerctl")
    with two_hosts() as (one, two):
        typed(set_up, folder, one)
        typed(set_up.replace("192.0.2.1", "192.0.2.2"), folder, two)
        *ping, printed = typed(exchange, folder, one).splitlines()
        before = json.loads(printed)
        assert "100 received, 0% packet loss" in ping[-2]
        assert "duplicates" not in ping[-2]
        assert before["generator"]["numbered"] >= 100
        for port in ("eth1", "eth2"):
            assert before["ports"][port]["in"]["frames"] >= 100
            assert before["ports"][port]["out"]["frames"] >= 100
        assert 100 <= before["recovery"]["passed"] < 130
        assert 100 <= before["recovery"]["discarded"] < 130
        assert "100 received, 0% packet loss" in typed(break_link, folder, one)
        after = json.loads(typed("frerctl counters frer0p", folder, one))
        assert after["recovery"]["passed"] >= before["recovery"]["passed"] + 100
        assert after["recovery"]["discarded"] < before["recovery"]["discarded"] + 30
        for host in (one, two):
            typed(remove, folder, host)
            left = typed("tc qdisc show; ip -o link show", folder, host)
            assert not re.search("clsact|frer0|PROMISC", left)


@NAMESPACES
def test_the_bridges_example_runs(folder):
    (script,) = examples("tsn-bridge")
    with two_hosts() as (one, _):
        typed("ip link set eth1 up; ip link set eth2 up", folder, one)
        lines = typed(script, folder, one).splitlines()
    counters = [json.loads(line) for line in lines if line != "ready"]
    assert "ready" in lines
    assert [[port["port"] for port in each["ports"]] for each in counters] == [["eth1", "eth2"]] * 2


@NAMESPACES
def test_the_replays_example_runs(folder):
    (script,) = examples("bridge-replay")
    header, first, second = typed(script, folder).splitlines()
    assert header.endswith("start_ps,done_ps,outcome")
    assert first == "0,5,1480,0,0,119040000,sent"
    # Credit falls at 70 Mb/s over 1500 bytes with preamble and gap, and rises at 30 Mb/s.
    assert second == "1,5,1480,0,400000000,519040000,sent"
