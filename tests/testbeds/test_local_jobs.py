"""Jobs on this machine's own kernel: what they do, what they leave alone, how they end."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from waiting import soon

from tsnrepro.common.errors import CommandError, JobDeadlineError, TestbedError
from tsnrepro.native import streams
from tsnrepro.native.streams import command
from tsnrepro.native.streams.log import read_listener_log
from tsnrepro.results import testbed as facts_as_results
from tsnrepro.testbeds.emulated import local_jobs
from tsnrepro.testbeds.emulated.local_jobs import LocalJobs
from tsnrepro.testbeds.hosts.lease import TestbedLock
from tsnrepro.testbeds.jobs.job import Bridge, Job, Link, LinkEnd, Pause, Step, Stop
from tsnrepro.tools import qdisc

pytestmark = [pytest.mark.namespaces, pytest.mark.usefixtures("own_lock")]

TALKER = LinkEnd("talker", "eth0", ("10.0.0.1/24",))
LISTENER = LinkEnd("listener", "eth0", ("10.0.0.2/24",))
GONE_SECONDS = 5


@pytest.fixture
def own_lock(monkeypatch, tmp_path):
    """A lock of the test's own: these jobs measure nothing that a campaign could disturb."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def job(*steps, **changes) -> Job:
    return Job("test", **{"links": (Link(TALKER, LISTENER),), "steps": steps, **changes})


def run(*steps, **changes):
    with LocalJobs(purpose="the test suite") as jobs:
        return jobs.run(job(*steps, **changes))


def shell(name: str, text: str, **changes) -> Step:
    return Step(name, "talker", ("sh", "-c", text), 10, **changes)


def descendants(mark: str) -> list[str]:
    """Return the processes that carry a mark in their command line, this one apart."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue  # it ended while we looked
        if mark in line and int(folder.name) != os.getpid():
            found.append(line)
    return found


def spaces_of(mark: str) -> set[str]:
    """Return the network namespaces of the processes that carry a mark, this process's apart."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "cmdline").read_text(errors="replace"):
                found.add(os.readlink(folder / "ns" / "net"))
        except OSError:
            continue
    return found - {os.readlink("/proc/self/ns/net")}


def inhabited(spaces: set[str]) -> bool:
    """Tell whether any process lives in one of these network namespaces."""
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(link) in spaces:
                return True
        except OSError:
            continue
    return False


# --- what a job does ----------------------------------------------------------------------------


def test_a_stream_through_a_switch_comes_back_with_every_stamp():
    """Two hosts and a bridge between them; a line of 10 Mb/s holds a burst to its rate."""
    links = (Link(TALKER, LinkEnd("sw", "p0")), Link(LinkEnd("sw", "p1"), LISTENER))
    count, payload = 100, 1000
    listen = command.listener(
        str(streams.listener()),
        [5000],
        command.StopCondition(count=count),
        log="/tmp/arrivals",
        timestamps="software",
    )
    talk = command.talker(
        str(streams.talker()),
        "10.0.0.2",
        5000,
        command.Pacing(None),
        command.StopCondition(count=count),
        payload_bytes=payload,
    )
    wire = qdisc.tbf("p1", 10.0, burst_bytes=1600, limit_bytes=262144)
    result = run(
        Step("listen", "listener", tuple(listen), 20, background=True, files=("/tmp/arrivals",)),
        Pause(0.2),
        Step("talk", "talker", tuple(talk), 20),
        links=links,
        bridges=(Bridge("sw", ("p0", "p1")),),
        configure=(Step("wire", "sw", tuple(wire), 5),),
        programs=(str(streams.talker()), str(streams.listener())),
    ).check()
    log = read_listener_log(result.file("/tmp/arrivals"))
    assert sorted(log["sequence"]) == list(range(count))
    stamps = log["stamped_ns"].astype(np.int64)
    assert (stamps > 0).all()
    # Preamble, header, FCS and gap are 24 + 14, IPv4 and UDP 28 bytes (IEEE 802.3, RFC 791, 768).
    least_s = (count - 3) * (payload + 28 + 38) * 8 / 10e6
    assert np.ptp(stamps) / 1e9 >= 0.97 * least_s


def test_commands_end_as_they_would_over_ssh():
    odd = "a  b'c\"$HOME*"
    result = run(
        Step("unknown", "talker", ("no-such-program",), 5),
        Step("say", "talker", ("sh", "-c", 'echo "$1"; echo no >&2; exit 3', "sh", odd), 5),
        Step("late", "talker", ("sleep", "60"), 1),
        Step("server", "listener", ("sleep", "600"), 300, background=True),
        Step("own-end", "listener", ("sh", "-c", "sleep 1; exit 5"), 30, background=True),
        Pause(0.5),
        Stop("server"),
        shell("reach", "ping -c 1 -W 2 10.0.0.2"),
        shell("write", "cat /in/put >/tmp/out", files=("/tmp/out",)),
        shell("forget", "true", files=("/tmp/never",)),
        inputs={"/in/put": b"\x00\xff\n"},
    )
    statuses = {name: done.exit_status for name, done in result.steps.items()}
    assert statuses == {
        **{"unknown": 127, "say": 3, "late": 124, "server": 143, "own-end": 5},
        **{"reach": 0, "write": 0, "forget": 0},
    }
    assert (result.steps["say"].stdout, result.steps["say"].stderr) == (f"{odd}\n", "no\n")
    assert result.steps["late"].seconds == pytest.approx(1, abs=0.5)
    assert 0.5 <= result.steps["server"].seconds < 5
    assert result.files == {"/tmp/out": b"\x00\xff\n"}
    assert abs(result.steps["reach"].started_s - time.time()) < 60
    with pytest.raises(CommandError, match="127"):
        result.check()


def test_what_came_back_says_that_its_time_is_real():
    result = run(shell("kernel", "uname -r"))
    described = result.describe()
    assert result.kernel == result.steps["kernel"].stdout.strip() == os.uname().release
    assert (described["testbed"], described["acceleration"]) == ("emulated", "none")
    assert (described["virtual_time"], described["qemu"], described["note"]) == (False, None, "")
    assert 0 < result.ready_s < result.wall_s


def test_a_link_that_cannot_be_made_is_an_error_with_the_kernels_words():
    small = LinkEnd("listener", "eth0", mtu=20)
    with pytest.raises(TestbedError, match=r"could not set up the topology.*(?s:.*)mtu"):
        run(links=(Link(TALKER, small),))


# --- what it leaves alone -----------------------------------------------------------------------


def test_nothing_of_a_job_reaches_this_machine(tmp_path):
    mark = f"tsnrepro-{uuid.uuid4().hex}"
    places = [f"/{mark}", f"/etc/{mark}", f"/tmp/{mark}", f"/run/{mark}", f"/dev/shm/{mark}"]
    places += [f"{tmp_path}/{mark}", f"/var/tmp/{mark}"]
    links = os.listdir("/sys/class/net")
    handles = sorted(Path("/run/netns").glob("*"))
    # Its own temporary folder may be hidden from it: /tmp is not this machine's.
    writes = "; ".join(f"mkdir -p {Path(p).parent} && echo x >{p}" for p in places)
    result = run(
        shell("write", writes),
        shell("read", f"cat {' '.join(places)} /bin/{mark} /{mark}-folder/a"),
        shell("devices", f"mkdir /dev/{mark}"),
        shell("restart", "test ! -e /proc/sysrq-trigger || stat -c %t:%T /proc/sysrq-trigger"),
        shell("name", f"hostname {mark}"),
        inputs={f"/bin/{mark}": b"x\n", f"/{mark}-folder/a": b"x\n"},
    )
    assert result.steps["write"].check().stderr == ""
    assert result.steps["read"].check().stdout == "x\n" * (len(places) + 2)
    assert "Read-only" in result.steps["devices"].stderr
    harmless = "1:3" if os.path.exists("/proc/sysrq-trigger") else ""
    assert result.steps["restart"].check().stdout.strip() == harmless, "it is /dev/null"
    assert result.steps["name"].exit_status == 0
    for place in (*places, f"/bin/{mark}", f"/{mark}-folder", f"/dev/{mark}"):
        assert not os.path.lexists(place)
    assert os.listdir("/sys/class/net") == links
    assert sorted(Path("/run/netns").glob("*")) == handles
    assert os.uname().nodename != mark
    assert [path.name for path in tmp_path.iterdir()] == ["tsnrepro-emulated.lock"]


def test_a_program_that_lies_where_a_job_has_a_folder_of_its_own_is_there_all_the_same():
    folder = Path("/run") / f"tsnrepro-{uuid.uuid4().hex}"
    program = folder / "greet"
    folder.mkdir()
    try:
        program.write_text("#!/bin/sh\necho hello\n")
        program.chmod(0o755)
        result = run(Step("greet", "talker", (str(program),), 5), programs=(str(program),))
        assert run(Step("greet", "talker", (str(program),), 5)).steps["greet"].exit_status == 127
    finally:
        program.unlink()
        folder.rmdir()
    assert result.check().steps["greet"].stdout == "hello\n"


def test_mounts_with_odd_names_are_seen_and_cannot_be_written(tmp_path):
    """In a mount namespace of the test's own, with a file system on a folder with a space."""
    odd = Path("/mnt") / f"odd {uuid.uuid4().hex}"
    code = f"""
        import subprocess
        from tsnrepro.testbeds.emulated.local_jobs import LocalJobs
        from tsnrepro.testbeds.jobs.job import Job, Link, LinkEnd, Step
        place = {str(odd)!r}
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=True)
        subprocess.run(["mkdir", place], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
        open(place + "/file", "w").write("seen")
        look = Step("look", "a", ("cat", place + "/file"), 5)
        write = Step("write", "a", ("touch", place + "/new"), 5)
        links = (Link(LinkEnd("a", "eth0"), LinkEnd("b", "eth0")),)
        with LocalJobs() as jobs:
            done = jobs.run(Job("odd", links, (look, write))).steps
        print(done["look"].stdout, done["write"].stderr)
    """
    said = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert said.stdout.startswith("seen"), said.stderr
    assert "Read-only file system" in said.stdout
    assert not odd.exists()


# --- how it ends --------------------------------------------------------------------------------


def test_a_job_that_never_ends_is_ended_with_all_that_it_started():
    mark = f"3600.{uuid.uuid4().int % 10**9:09d}"
    leave = shell("leave", f"setsid sleep {mark} & sleep {mark}")
    began = time.monotonic()
    with pytest.raises(JobDeadlineError, match=r"did not end within 2 s.*job test"):
        run(leave, deadline_s=2)
    assert time.monotonic() - began < 6
    # At once, without waiting: it had ended when the error came.
    assert descendants(mark) == []


def test_what_a_job_left_running_ends_with_it():
    mark = f"3600.{uuid.uuid4().int % 10**9:09d}"
    result = run(shell("leave", f"setsid sleep {mark} >/dev/null 2>&1 &"))
    assert result.check().steps["leave"].exit_status == 0
    assert descendants(mark) == []


KILLED = """
    import sys
    from tsnrepro.testbeds.emulated.local_jobs import LocalJobs
    from tsnrepro.testbeds.jobs.job import Job, Link, LinkEnd, Step
    spin = Step("spin", "a", ("sh", "-c", f"setsid sleep {sys.argv[1]} & sleep {sys.argv[1]}"), 900)
    with LocalJobs() as jobs:
        link = Link(LinkEnd("a", "eth0"), LinkEnd("b", "eth0"))
        jobs.run(Job("killed", links=(link,), steps=(spin,)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_program_that_is_killed_leaves_nothing(tmp_path, number):
    mark = f"3600.{uuid.uuid4().int % 10**9:09d}"
    # A test suite that a script started in the background ignores the interrupt, and so would we.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program = subprocess.Popen(
        [sys.executable, "-c", heard + textwrap.dedent(KILLED), mark],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stderr=subprocess.DEVNULL,
    )
    try:
        assert soon(
            lambda: sum(f"sleep {mark}" == p.strip() for p in descendants(mark)) == 2, GONE_SECONDS
        )
        spaces = spaces_of(mark)
        assert len(spaces) == 1, "the host's"
    finally:
        program.send_signal(number)
        program.wait()
    assert soon(lambda: not descendants(mark), GONE_SECONDS)
    assert soon(lambda: not inhabited(spaces), GONE_SECONDS)
    assert [path.name for path in tmp_path.iterdir()] == ["tsnrepro-emulated.lock"]


def test_a_campaign_on_the_testbed_keeps_jobs_out():
    with (
        TestbedLock("emulated", "a campaign"),
        pytest.raises(TestbedError, match=r"in use by process \d+ \(a campaign\)"),
    ):
        run(shell("say", "echo"))


# --- what a machine lacks -----------------------------------------------------------------------


def test_a_kernel_without_the_queues_is_told_of_the_guest(monkeypatch):
    monkeypatch.setattr(local_jobs, "missing_qdiscs", lambda: ["taprio", "802.1Q"])
    with pytest.raises(TestbedError, match=r"lacks taprio \(.*--config testbed=guest"):
        LocalJobs(qdiscs=("taprio", "cbs")).__enter__()
    with LocalJobs(qdiscs=("cbs",)) as jobs:
        assert jobs.kind == "emulated"


def test_without_root_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TestbedError, match=r"^this machine lacks root \(run with sudo\)"):
        LocalJobs().__enter__()


def test_a_page_names_the_kernel_and_no_switches(monkeypatch):
    with LocalJobs() as jobs:
        facts = jobs.describe()
    monkeypatch.setattr(facts_as_results, "facts_of", lambda path: ("digest", facts))
    label = facts_as_results.label_of("run.json")
    assert label.startswith("emulated testbed")
    assert "eBPF" not in label
    assert "virtual" not in label
    described = facts_as_results._description(facts)
    assert described["kernel"] == os.uname().release
    assert "iproute2" in described["iproute2"]
