"""Hosts reached over SSH: paramiko here, OpenSSH there.

The same class serves a host at a TCP address and a host in a network namespace of this machine:
for the latter the caller hands over a connected socket, behind which ``sshd -i`` waits.
"""

import shlex
import socket
import threading
import time
import weakref
from collections import deque
from pathlib import Path

import paramiko

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.host import ENDED_BY_KILL, Completed

CONNECT_SECONDS = 10
_KEEPALIVE_SECONDS = 5
KILL_AFTER_SECONDS = 2
# paramiko hands on an EOFError where the other end goes while it waits for an answer.
_GONE = (paramiko.SSHException, OSError, EOFError)
# What a broken connection is given beyond a command's own deadline before we stop waiting.
GRACE_SECONDS = 10
# So many closed channels stay known, since something may still come in for one just closed.
_LATE_CHANNELS = 256
# Standard output and error that a command may print, unless its caller knows that it prints more.
_LIMIT_BYTES = 16 << 20

# Prints its process number and becomes the command: the number is how a started command is
# ended early, because OpenSSH passes no signals on to a root session's commands.
_ANNOUNCE_PID = 'echo $$; exec "$@"'
# Nothing comes to its standard input. The host itself sees to that: an end of input sent from here
# may cross the close of a command that was quick, upon which sshd ends the whole connection.
_WITHOUT_INPUT = 'exec "$@" </dev/null'
# Reads so many bytes and no end of input, for the same reason. It says when it is ready, because
# what is sent to a command that has ended may cross its close as well.
_WRITE = '{ echo ready >&3; head -c "$1"; } 3>&1 >"$2" && chmod 755 "$2"'


def _bounded(argv: list[str], deadline_s: float) -> list[str]:
    """Return the command that ends another at its deadline; the option is busybox's as well."""
    return ["timeout", "-k", str(KILL_AFTER_SECONDS), f"{deadline_s:g}", *argv]


def _said(error: Exception) -> str:
    return str(error) or "the other end closed it"


class SshProcess:
    """A command started over SSH; see :class:`tsnrepro.testbeds.host.RemoteProcess`."""

    def __init__(
        self,
        host: "SshHost",
        argv: list[str],
        channel: paramiko.Channel,
        deadline_s: float,
        limit_bytes: int = _LIMIT_BYTES,
    ) -> None:
        self._host, self._argv, self._channel = host, tuple(argv), channel
        self._allowed_s, self._limit_bytes = deadline_s, limit_bytes
        self._deadline = time.monotonic() + deadline_s + KILL_AFTER_SECONDS + GRACE_SECONDS
        self._started_s, self._began = time.time(), time.monotonic()
        self._stderr = bytearray()
        self._channel.settimeout(deadline_s + KILL_AFTER_SECONDS + GRACE_SECONDS)
        self._stdout = channel.makefile("rb")
        # Standard error is read aside, or a talkative command would block on a full window.
        self._reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._reader.start()
        self._pid = 0
        self._stopped = self._ended = False

    def _read_stderr(self) -> None:
        try:
            while chunk := self._channel.recv_stderr(65536):
                # What is beyond the limit is read, or the command would block, and let go.
                self._stderr += chunk[: max(0, self._limit_bytes - len(self._stderr))]
        except (TimeoutError, OSError):
            return

    def answer_within(self, seconds: float) -> None:
        """Wait no longer than that for what the command prints."""
        self._channel.settimeout(seconds)

    def read_pid(self) -> None:
        """Read the process number that the command's wrapper prints first."""
        line = self.read_line()
        if not line.isdigit():
            self._reader.join(1)
            said = self._stderr.decode(errors="replace").strip()
            raise CommandError(f"command did not start: {line} {said}".strip(), self._place())
        self._pid = int(line)

    def _place(self) -> str:
        return f"{self._host.name}: {shlex.join(self._argv)}"

    def read_line(self) -> str:
        """Return the next line of standard output, without its end."""
        return self.read_whole_line().strip()

    def read_whole_line(self) -> str:
        """Return the next line of standard output as it is; nothing where its output ends."""
        try:
            line = self._stdout.readline()
        except TimeoutError as error:
            raise CommandError("no answer within the deadline", self._place()) from error
        self._ended = self._ended or not line
        return line.decode(errors="replace")

    def send(self, content: bytes) -> None:
        """Write to standard input.

        Raises
        ------
        CommandError
            The command has ended, or does not read within its deadline.
        """
        try:
            self._channel.sendall(content)
        except (TimeoutError, OSError) as error:
            self._ended = True
            raise CommandError(f"it takes no more input: {error}", self._place()) from error

    def send_line(self, line: str) -> str:
        """Write one line to standard input and return the next line of standard output.

        Raises
        ------
        CommandError
            The command has ended, or gives no answer within its deadline.
        """
        self.send(line.encode() + b"\n")
        return self.read_line()

    @property
    def running(self) -> bool:
        """Whether the command has not ended, as far as is known here."""
        # The end of its output may come before its exit status.
        return not (self._ended or self._channel.closed or self._channel.exit_status_ready())

    def stop(self) -> None:
        """End the command with TERM."""
        self._stopped = True
        self._host.run(["kill", "-TERM", str(self._pid)], deadline_s=5)

    def _status_without_one(self) -> int:
        if not (self._channel.eof_received and self._host.connected()):
            raise CommandError("the connection closed before it ended", self._place())
        if time.monotonic() - self._began < self._allowed_s:
            raise CommandError("a signal ended it", self._place())
        # What timeout(1) would report after KILL, had that not ended timeout(1) too.
        return ENDED_BY_KILL

    def wait(self) -> Completed:
        """Return the command with everything it printed.

        Raises
        ------
        CommandError
            The connection broke, a signal ended the command before its deadline, no exit status
            came within the deadline, or the command printed more than it may.
        """
        try:
            stdout = self._stdout.read(self._limit_bytes + 1)
        except (TimeoutError, OSError) as error:
            raise CommandError(f"lost while it ran: {error}", self._place()) from error
        if len(stdout) > self._limit_bytes:
            self._channel.close()
            raise CommandError(
                f"it printed more than {self._limit_bytes >> 20} MiB, beginning with "
                f"{stdout[:200].decode(errors='replace')!r}",
                self._place(),
            )
        self._reader.join(max(0.1, self._deadline - time.monotonic()))
        if not self._channel.status_event.wait(max(0.1, self._deadline - time.monotonic())):
            raise CommandError("no exit status within the deadline", self._place())
        status = self._channel.recv_exit_status()
        if status == -1 and not self._stopped:  # a signal leaves no exit status
            status = self._status_without_one()
        self._channel.close()
        return Completed(
            self._host.name,
            self._argv,
            status,
            stdout.decode(errors="replace"),
            self._stderr.decode(errors="replace"),
            self._started_s,
            time.monotonic() - self._began,
        )


class SshHost:
    """A host over SSH; see :class:`tsnrepro.testbeds.host.RemoteHost`.

    Parameters
    ----------
    name
        The host's name in the testbed and in every record.
    host_key
        The key that the server must show, or a file of known hosts that has it. No other key is
        accepted.
    user, key
        The login, by this private key or key file alone: no agent, no key of the user's home.
        Without a key the SSH agent is asked.
    sock
        A connected socket to the server, or ``None`` to connect to ``address``.
    address
        Host name or IP address and TCP port.

    Raises
    ------
    TestbedError
        The server cannot be reached, shows another host key or refuses the login.
    """

    def __init__(
        self,
        name: str,
        host_key: paramiko.PKey | Path,
        user: str,
        key: paramiko.PKey | Path | None,
        *,
        sock: socket.socket | paramiko.Channel | None = None,
        address: tuple[str, int] | None = None,
    ) -> None:
        self.name = name
        hostname, port = address or (name, 22)
        self._client = paramiko.SSHClient()
        self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
        try:
            if isinstance(host_key, Path):
                self._client.load_host_keys(str(host_key))
            else:
                entry = hostname if port == 22 else f"[{hostname}]:{port}"
                self._client.get_host_keys().add(entry, host_key.get_name(), host_key)
            self._client.connect(
                hostname,
                port,
                username=user,
                pkey=key if isinstance(key, paramiko.PKey) else None,
                key_filename=str(key) if isinstance(key, Path) else None,
                sock=sock,
                allow_agent=key is None,
                look_for_keys=False,
                timeout=CONNECT_SECONDS,
                banner_timeout=CONNECT_SECONDS,
                auth_timeout=CONNECT_SECONDS,
            )
        except (*_GONE, ValueError) as error:
            self._client.close()
            raise TestbedError(
                f"no SSH connection: {_said(error)}",
                f"{user}@{name}",
                "Check the address, the login and the host key in the testbed's configuration",
            ) from error
        transport = self._client.get_transport()
        if transport is None:
            raise TestbedError("the SSH connection closed at once", name)
        self._transport = transport
        self._closed: deque[int] = deque()
        self._transport.set_keepalive(_KEEPALIVE_SECONDS)

    def start(
        self, argv: list[str], *, deadline_s: float, answer_s: float | None = None
    ) -> SshProcess:
        """Start a command; the host ends it when ``deadline_s`` seconds have passed.

        What it prints is waited for as long, or for ``answer_s`` seconds.
        """
        bounded = _bounded(argv, deadline_s)
        remote = ["sh", "-c", _ANNOUNCE_PID, "sh", *bounded]
        process = SshProcess(self, argv, self._execute(remote, argv), deadline_s)
        if answer_s is not None:
            process.answer_within(answer_s)
        process.read_pid()
        return process

    def run(
        self, argv: list[str], *, deadline_s: float, limit_bytes: int = _LIMIT_BYTES
    ) -> Completed:
        """Run a command to its end; the host ends it when ``deadline_s`` seconds have passed.

        More than ``limit_bytes`` of standard output are an error; of standard error the rest is
        let go.
        """
        bounded = _bounded(argv, deadline_s)
        remote = ["sh", "-c", _WITHOUT_INPUT, "sh", *bounded]
        return SshProcess(self, argv, self._execute(remote, argv), deadline_s, limit_bytes).wait()

    def write(self, path: str, content: bytes, *, deadline_s: float) -> None:
        """Write an executable file in place of what is there; its folder has to exist.

        Raises
        ------
        CommandError
            The host cannot write it, or not within ``deadline_s`` seconds.
        """
        argv = ["sh", "-c", _WRITE, "sh", str(len(content)), path]
        process = self.start(argv, deadline_s=deadline_s)
        if process.read_line() == "ready":
            process.send(content)
        process.wait().check()

    def _execute(self, remote: list[str], argv: list[str]) -> paramiko.Channel:
        try:
            channel = self._open_channel()
            # paramiko waits for the server's answer without a limit, unless the channel closes.
            unanswered = threading.Timer(CONNECT_SECONDS, channel.close)
            unanswered.start()
            try:
                # SSH carries one string, which the login shell parses: quoted here, once.
                channel.exec_command(shlex.join(remote))
            finally:
                unanswered.cancel()
        except paramiko.ChannelException as error:
            raise TestbedError(
                f"the host lets no further session in: {_said(error)}",
                f"{self.name}: {shlex.join(argv)}",
                "A command that runs is a session: `MaxSessions 50` in the host's sshd_config",
            ) from error
        except _GONE as error:
            # Not a CommandError: no other command will get through, so there is nothing to retry.
            raise TestbedError(
                f"the SSH connection is gone: {_said(error)}",
                f"{self.name}: {shlex.join(argv)}",
                "Look whether the host and its sshd still run; what was measured is recorded",
            ) from error
        return channel

    def _open_channel(self) -> paramiko.Channel:
        """Open a channel, and let paramiko forget those long closed: it keeps every number."""
        channel = self._transport.open_session(timeout=CONNECT_SECONDS)
        weakref.finalize(channel, self._closed.append, channel.get_id())
        while len(self._closed) > _LATE_CHANNELS:
            self._transport.channels_seen.pop(self._closed.popleft(), None)
        return channel

    def open_tunnel(self, address: tuple[str, int]) -> paramiko.Channel:
        """Return a connection from this host on to a TCP port of another.

        Raises
        ------
        TestbedError
            The host cannot reach it, or does not let connections through.
        """
        try:
            return self._transport.open_channel(
                "direct-tcpip", address, ("127.0.0.1", 0), timeout=CONNECT_SECONDS
            )
        except _GONE as error:
            raise TestbedError(
                f"no way through to {address[0]}:{address[1]}: {_said(error)}",
                self.name,
                "Its sshd has to allow TCP forwarding",
            ) from error

    def connected(self) -> bool:
        """Tell whether the connection is still up."""
        return self._transport.is_active()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
