"""paramiko against a real OpenSSH server in a namespace: what arrives is what was asked for."""

import hashlib
import os
import socket
import subprocess
import threading
import time
from contextlib import suppress

import paramiko
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.emulated import servers
from tsnrepro.testbeds.emulated.namespace import SSHD
from tsnrepro.testbeds.emulated.servers import SSHD_FOLDER
from tsnrepro.testbeds.hosts import ssh
from tsnrepro.testbeds.hosts.ssh import KILL_AFTER_SECONDS, SshHost

pytestmark = pytest.mark.namespaces

PRINT_ARGUMENTS = ["sh", "-c", 'for word; do printf "%s\\0" "$word"; done', "sh"]
TEN_MEGABYTES = 10_000_000


def running(host, pattern: str) -> list[str]:
    """Return the processes on the host whose command line matches exactly."""
    return host.run(["pgrep", "-f", "-x", pattern], deadline_s=5).stdout.split()


def gone(host, pattern: str, within_s: float = 1.0) -> bool:
    end = time.monotonic() + within_s
    while running(host, pattern):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# --- who is let in, and who is believed --------------------------------------------------------


def test_a_host_with_another_key_is_refused(one_host, monkeypatch):
    other = paramiko.ECDSAKey.generate()

    def expecting_another_key(name, _host_key, user, key, sock):
        return SshHost(name, other, user, key, sock=sock)

    monkeypatch.setattr(servers, "SshHost", expecting_another_key)
    with pytest.raises(TestbedError, match="talker") as refused:
        one_host.connect()
    assert isinstance(refused.value.__cause__, paramiko.BadHostKeyException)


def test_a_host_whose_key_is_not_known_is_refused(one_host, monkeypatch):
    """No key on file for the name: nothing is believed, and nothing is added to the file."""
    monkeypatch.setattr(paramiko.HostKeys, "add", lambda *_: None)
    with pytest.raises(TestbedError, match="not found in known_hosts"):
        one_host.connect()


def test_a_login_with_another_key_is_refused(one_host, monkeypatch):
    other = paramiko.ECDSAKey.generate()

    def with_another_login(name, host_key, user, _key, sock):
        return SshHost(name, host_key, user, other, sock=sock)

    monkeypatch.setattr(servers, "SshHost", with_another_login)
    with pytest.raises(TestbedError, match="no SSH connection: Authentication failed"):
        one_host.connect()


def test_nobody_answers_at_the_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but it does not listen
        key = paramiko.ECDSAKey.generate()
        with pytest.raises(TestbedError, match=r"no SSH connection.*root@far") as refused:
            SshHost("far", key, "root", key, address=taken.getsockname())
    assert "configuration" in refused.value.remedy


def test_the_same_code_over_a_tcp_address(one_host):
    one_host.connect().run(["true"], deadline_s=5).check()  # the server's keys are in place
    folder = one_host.space.file(SSHD_FOLDER)
    host_key = paramiko.ECDSAKey.from_private_key_file(str(folder / "host_key"))
    command = one_host.space.enter([SSHD, "-i", "-e", "-f", f"{SSHD_FOLDER}/sshd_config"])
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted:
                subprocess.run(command, stdin=accepted, stdout=accepted, check=False)

        thread = threading.Thread(target=serve)
        thread.start()
        address = ("127.0.0.1", server.getsockname()[1])
        far = SshHost("far", host_key, "root", one_host.key, address=address)
        assert far.run(["hostname"], deadline_s=5).check().stdout == "talker\n"
        far.close()
        thread.join(5)
        assert not thread.is_alive()


# --- arguments --------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40),
        min_size=1,
        max_size=8,
    )
)
@example(["two words", "", "'", '"', "$HOME", "`id`", "$(id)", "a\nb", "\\", "*", "~", "-n"])
@example(["측정 結果 µs", "\t", "!!", "#", ";", "&", "|", ">", "{a,b}", "%s", "\r", "\x7f"])
def test_arguments_arrive_unchanged(host, words):
    done = host.run([*PRINT_ARGUMENTS, *words], deadline_s=10).check()
    assert done.stdout.split("\0")[:-1] == words
    assert done.stderr == ""


def test_a_started_commands_arguments_arrive_unchanged(host):
    words = ["two words", "", "$HOME", "'\"", "é"]
    done = host.start([*PRINT_ARGUMENTS, *words], deadline_s=10).wait().check()
    assert done.stdout.split("\0")[:-1] == words


def test_the_users_shell_set_up_stays_out(host):
    """~/.bashrc of this machine's user may print or change the path; a host has none of it."""
    environment = dict(
        line.split("=", 1)
        for line in host.run(["env"], deadline_s=5).check().stdout.splitlines()
        if "=" in line
    )
    assert environment["PATH"] == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert environment["TMPDIR"] == "/run"
    assert environment["LC_ALL"] == "C"
    started = host.start(["printenv", "LC_ALL"], deadline_s=5).wait().check()
    assert started.stdout == "C\n"


# --- output and exit status ----------------------------------------------------------------------


def test_output_and_error_come_apart(host):
    done = host.run(["sh", "-c", "echo out; echo err >&2; echo out2; exit 7"], deadline_s=5)
    assert (done.stdout, done.stderr, done.exit_status) == ("out\nout2\n", "err\n", 7)
    assert done.host == "talker"
    assert 0 < done.seconds < 5
    assert abs(done.started_s - time.time()) < 10


@pytest.mark.parametrize("status", [0, 1, 2, 126, 127, 255])
def test_exit_status(host, status):
    done = host.run(["sh", "-c", f"exit {status}"], deadline_s=5)
    assert done.exit_status == status
    if status == 0:
        assert done.check() is done
    else:
        with pytest.raises(CommandError, match=rf"exit status {status}: .*\(talker: sh -c"):
            done.check()


def test_a_program_that_is_not_there(host):
    done = host.run(["no-such-tool", "--flag"], deadline_s=5)
    assert done.exit_status == 127
    assert "no-such-tool" in done.stderr
    started = host.start(["no-such-tool"], deadline_s=5).wait()
    assert started.exit_status == 127
    assert "no-such-tool" in started.stderr


def test_large_output_on_both_streams(host):
    script = f"head -c {TEN_MEGABYTES} /dev/zero | tr '\\0' o; \
        head -c {TEN_MEGABYTES} /dev/zero | tr '\\0' e >&2"
    done = host.run(["sh", "-c", script], deadline_s=60).check()
    assert done.stdout == "o" * TEN_MEGABYTES
    assert done.stderr == "e" * TEN_MEGABYTES


def test_large_output_on_both_streams_at_once(host):
    one = f"head -c {TEN_MEGABYTES} /dev/zero | tr '\\0' "
    script = f"({one} e >&2) & {one} o; wait"
    done = host.run(["sh", "-c", script], deadline_s=60).check()
    assert (len(done.stdout), set(done.stdout)) == (TEN_MEGABYTES, {"o"})
    assert (len(done.stderr), set(done.stderr)) == (TEN_MEGABYTES, {"e"})


def test_output_that_is_no_text(host):
    done = host.run(["printf", r"\377\376ok"], deadline_s=5)
    assert done.stdout.endswith("ok")


def test_a_command_gets_no_input(host):
    """It ends at once rather than wait for the deadline."""
    assert host.run(["cat"], deadline_s=5).check().seconds < 3


def test_many_at_once(host):
    results: dict[int, str] = {}

    def ask(number: int) -> None:
        results[number] = host.run(["echo", str(number)], deadline_s=10).check().stdout.strip()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == {number: str(number) for number in range(16)}


def test_channels_long_closed_are_forgotten(host, monkeypatch):
    """Over days their numbers would fill the memory; those just closed may still be asked for."""
    monkeypatch.setattr(ssh, "_LATE_CHANNELS", 3)
    started = host.start(["cat"], deadline_s=20)
    for _ in range(20):
        host.run(["true"], deadline_s=5).check()
    known = host._transport.channels_seen
    assert len(known) <= 3 + 3
    assert started._channel.get_id() in known
    started.stop()
    host.run(["true"], deadline_s=5).check()


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_file_arrives_as_it_is_and_can_be_executed(host, size):
    path, content = "/run/a file's", (bytes(range(256)) * (size // 256 + 1))[:size]
    host.write(path, b"longer than what comes next", deadline_s=20)
    host.write(path, content, deadline_s=20)
    said = host.run(["sha256sum", "--binary", path], deadline_s=20).check().stdout
    assert hashlib.sha256(content).hexdigest() in said
    assert host.run(["stat", "-c", "%a", path], deadline_s=5).stdout == "755\n"
    host.run(["rm", path], deadline_s=5).check()


def test_a_file_that_cannot_be_written_says_why_and_breaks_nothing(host):
    for _ in range(5):
        with pytest.raises(CommandError, match=r"(?s)/no/folder/file.*talker: sh -c"):
            host.write("/no/folder/file", b"x" * 3_000_000, deadline_s=20)
    host.run(["true"], deadline_s=5).check()


# --- deadlines ------------------------------------------------------------------------------------


def test_a_deadline_ends_the_remote_process(host):
    done = host.run(["sleep", "1234.5"], deadline_s=0.3)
    assert done.exit_status == 124
    assert done.seconds < 3
    assert gone(host, "sleep 1234.5")
    with pytest.raises(CommandError, match="deadline"):
        done.check()


def test_a_deadline_ends_what_the_process_started(host):
    script = "sleep 1234.6 & sleep 1234.7 & wait"
    host.run(["sh", "-c", script], deadline_s=0.3)
    assert gone(host, r"sleep 1234\.[67]")


def test_a_deadline_ends_a_process_that_ignores_being_asked(host):
    done = host.run(["sh", "-c", 'trap "" TERM; sleep 1234.8; sleep 1234.8'], deadline_s=0.3)
    assert KILL_AFTER_SECONDS <= done.seconds < KILL_AFTER_SECONDS + 5
    assert done.exit_status == 137
    with pytest.raises(CommandError, match="deadline"):
        done.check()
    assert gone(host, r".*sleep 1234\.8.*")


def test_a_deadline_ends_a_started_process(host):
    process = host.start(["sleep", "1234.9"], deadline_s=0.3)
    assert process.wait().exit_status == 124
    assert gone(host, "sleep 1234.9")


def test_a_process_that_prints_for_ever_is_ended(host):
    """By its deadline, or by the limit of what is kept, whichever comes first."""
    with suppress(CommandError):  # it printed more than is kept
        assert host.run(["yes"], deadline_s=0.3).exit_status == 124
    assert gone(host, "yes")


def test_a_process_ended_by_a_signal_says_so(host):
    """A tool that crashes is not a connection that closed."""
    with pytest.raises(CommandError, match="signal"):
        host.run(["sh", "-c", "kill -SEGV $$"], deadline_s=5).check()
    host.run(["true"], deadline_s=5).check()


# --- commands that go on --------------------------------------------------------------------------


def test_start_goes_on_until_stop(host):
    process = host.start(["sh", "-c", "echo started; exec sleep 1235"], deadline_s=60)
    assert process.read_line() == "started"
    assert running(host, "sleep 1235")
    process.stop()
    done = process.wait()
    assert done.seconds < 10
    assert gone(host, "sleep 1235")


def test_output_before_stop_can_be_read(host):
    process = host.start(["sh", "-c", "echo said >&2; echo first; sleep 1236"], deadline_s=60)
    assert process.read_line() == "first"
    process.stop()
    assert process.wait().stderr.startswith("said\n")


def test_stopping_what_has_ended_does_no_harm(host):
    process = host.start(["true"], deadline_s=5)
    done = process.wait()
    process.stop()
    assert done.exit_status == 0


def test_lines_go_back_and_forth(host):
    process = host.start(["sh", "-c", "while read line; do echo got $line; done"], deadline_s=30)
    for word in ("one", "two words", "측정"):
        assert process.send_line(word) == f"got {word}"
    process.stop()
    process.wait()


def test_a_line_to_a_process_that_has_ended(host):
    process = host.start(["true"], deadline_s=5)
    process.wait()
    with pytest.raises(CommandError, match=r"talker: true"):
        process.send_line("hello")


def test_no_line_within_the_deadline(host, monkeypatch):
    monkeypatch.setattr("tsnrepro.testbeds.hosts.ssh.GRACE_SECONDS", -2.5)  # it is 10 s else
    process = host.start(["sleep", "1237"], deadline_s=1)
    with pytest.raises(CommandError, match=r"no output before the deadline \(talker: sleep 1237"):
        process.read_line()
    assert gone(host, "sleep 1237", within_s=5)


# --- connections that break -----------------------------------------------------------------------


def test_a_connection_that_breaks_is_an_error_and_no_result(one_host):
    host = one_host.connect()
    process = host.start(["sleep", "1238"], deadline_s=60)
    os.kill(one_host.space.pid, 9)
    began = time.monotonic()
    with pytest.raises(CommandError, match="connection"):
        process.wait()
    with pytest.raises(TestbedError, match="SSH connection lost"):
        host.run(["true"], deadline_s=5)
    with pytest.raises(CommandError, match="stdin is closed"):
        process.send_line("hello")
    assert time.monotonic() - began < 20


def test_a_server_that_is_stopped_ends_the_run_soon(one_host, monkeypatch):
    """Not after each trial's attempts, and taking the testbed down does not wait for it."""
    monkeypatch.setattr("tsnrepro.testbeds.hosts.ssh.CONNECT_SECONDS", 2)
    host = one_host.connect()
    host.start(["sh", "-c", "sleep 0.2; pkill -STOP sshd"], deadline_s=60)
    time.sleep(0.5)
    began = time.monotonic()
    with pytest.raises(TestbedError, match="SSH connection lost"):
        host.run(["true"], deadline_s=1)
    one_host.close()
    assert time.monotonic() - began < 10


# --- output without end ---------------------------------------------------------------------------


def test_more_output_than_allowed_is_an_error(host):
    with pytest.raises(CommandError, match=r"exceeds 1 MiB, beginning with 'y"):
        host.run(["yes"], deadline_s=20, limit_bytes=1 << 20)
    assert gone(host, "yes", within_s=25)
    assert len(host.run(["head", "-c", "1000", "/dev/zero"], deadline_s=5).stdout) == 1000


def test_a_flood_of_errors_is_cut(host):
    argv = ["sh", "-c", "head -c 3000000 /dev/zero >&2"]
    assert len(host.run(argv, deadline_s=20, limit_bytes=1 << 20).stderr) == 1 << 20


def test_a_server_that_goes_while_it_is_asked_is_said(host, monkeypatch):
    """paramiko then hands on an error without a word, which is none of its own either."""

    def gone_meanwhile(**_):
        raise EOFError

    monkeypatch.setattr(host._transport, "open_session", gone_meanwhile)
    with pytest.raises(TestbedError, match="SSH connection lost: connection closed by peer"):
        host.run(["true"], deadline_s=5)
