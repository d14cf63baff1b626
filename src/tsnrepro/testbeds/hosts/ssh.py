"""Hosts over SSH: paramiko on this machine, OpenSSH on the host.

The same class connects to a TCP address and to a network namespace of this machine: for the
latter the caller passes a connected socket, served by ``sshd -i``.
"""

import shlex
import socket
import threading
import time
import weakref
from collections import deque
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry

from tsnrepro.common.errors import CommandError, TestbedError
from tsnrepro.testbeds.hosts.host import ENDED_BY_KILL, Completed

CONNECT_SECONDS = 10
_KEEPALIVE_SECONDS = 5
KILL_AFTER_SECONDS = 2
# paramiko passes on an EOFError if the peer closes the connection while it waits for a reply.
_DISCONNECTED = (paramiko.SSHException, OSError, EOFError)
# How long to wait for a broken connection beyond a command's own deadline.
GRACE_SECONDS = 10
# Closed channels to remember, since messages for one just closed may still arrive.
_LATE_CHANNELS = 256
# Default limit of a command's standard output, and of its standard error.
_LIMIT_BYTES = 16 << 20

# Prints its process ID and becomes the command. The ID is needed to terminate it early, because
# OpenSSH forwards no signals to a root session's commands.
# In no language: the messages and decimal commas of others are not parsed.
_ANNOUNCE_PID = 'export LC_ALL=C; echo $$; exec "$@"'
# Standard input is empty, which the host itself ensures: an end of input sent from this side may
# cross the close of a quick command, upon which sshd closes the whole connection.
_WITHOUT_INPUT = 'export LC_ALL=C; exec "$@" </dev/null'
# Reads a number of bytes rather than to the end of input, for the same reason. It prints when it is
# ready, because input to a command that has ended may cross its close as well.
_WRITE = '{ echo ready >&3; head -c "$1"; } 3>&1 >"$2" && chmod 755 "$2"'


def _bounded(argv: list[str], deadline_s: float) -> list[str]:
    """Return a command with a deadline; busybox has the option too."""
    return ["timeout", "-k", str(KILL_AFTER_SECONDS), f"{deadline_s:g}", *argv]


def _error_text(error: Exception) -> str:
    return str(error) or "connection closed by peer"


def quoted_for_any_shell(remote: list[str]) -> str:
    """Return a command for the login shell, which may be csh or fish.

    Csh ends quotes at a line break; in fish's a backslash escapes another and a quote.
    """
    line = shlex.join(remote)
    if not any(text in line for text in ("\n", "!", r"\\", r"\'")):
        return line
    escaped = line.replace("\\", r"\0134").replace("\n", r"\n").replace("!", r"\0041")
    return shlex.join(["sh", "-c", 'eval "exec $(printf %b "$0")"', escaped])


def read_known_hosts(path: Path) -> tuple[list[HostKeyEntry], list[str]]:
    """Return the entries of a known_hosts file, and what is wrong with its other lines.

    Keys that a line revokes (``@revoked``) are left out.
    """
    entries, revoked, problems = [], set(), []
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        mark = words.pop(0) if words[0].startswith("@") else ""
        if mark == "@cert-authority":
            problems.append(f"line {number}: certificate authorities are not supported")
            continue
        try:
            entry = HostKeyEntry.from_line(" ".join(words), number)
            for name in entry.hostnames if entry else ():
                if name.startswith("|1|"):
                    # As a look-up does, which a damaged salt would end.
                    paramiko.HostKeys.hash_host("", name)
        except Exception:  # whatever paramiko's classes of keys raise
            entry = None
        if entry is None or mark not in ("", "@revoked"):
            problems.append(f"line {number} is damaged, or of an unknown type of key")
        elif mark:
            revoked.add(entry.key.get_base64())
        else:
            entries.append(entry)
    return [entry for entry in entries if entry.key.get_base64() not in revoked], problems


def _load_key(path: Path) -> paramiko.PKey:
    """Return a private key; TestbedError if it is encrypted, or not a private key."""
    try:
        return paramiko.PKey.from_path(path)
    except (TypeError, paramiko.PasswordRequiredException) as error:
        remedy = "Add it to the SSH agent and leave out `key_file`"
        raise TestbedError("the private key has a passphrase", str(path), remedy) from error
    except OSError as error:
        raise TestbedError(f"cannot be read: {error.strerror}", str(path)) from error
    except Exception as error:  # whatever paramiko's classes of keys raise
        remedy = "Set `key_file` to an OpenSSH private key"
        raise TestbedError("not a private key", str(path), remedy) from error


def _refusal(error: Exception, user: str) -> tuple[str, str]:
    """Return why there is no connection, and what to do."""
    authorise = f"Append the public key to ~/.ssh/authorized_keys of {user} on the host"
    if isinstance(error, paramiko.BadAuthenticationType):
        accepted = ", ".join(error.allowed_types)
        return f"the host accepts only: {accepted}; keys are needed", authorise
    if isinstance(error, paramiko.AuthenticationException):
        return f"{_error_text(error)} The key is not authorised for {user}", authorise
    if "No authentication methods" in str(error):
        return "the SSH agent has no key", "`ssh-add` a key, or set `key_file`"
    remedy = "Check the address, the login and the host key in the testbed's configuration"
    return _error_text(error), remedy


class SshProcess:
    """A command started over SSH; see :class:`tsnrepro.testbeds.hosts.host.RemoteProcess`."""

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
        # In a thread, or a command that fills the window of standard error would block.
        self._reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._reader.start()
        self._pid = 0
        self._stopped = self._ended = False

    def _read_stderr(self) -> None:
        try:
            while chunk := self._channel.recv_stderr(65536):
                # Read beyond the limit too, or the command would block, and discard it.
                self._stderr += chunk[: max(0, self._limit_bytes - len(self._stderr))]
        except (TimeoutError, OSError):
            return

    def set_read_timeout(self, seconds: float) -> None:
        """Limit the time to wait for the command's output."""
        self._channel.settimeout(seconds)

    def read_pid(self) -> None:
        """Read the process ID, which the command's wrapper prints first."""
        line = self.read_line()
        if not line.isdigit():
            self._reader.join(1)
            errors = self._stderr.decode(errors="replace").strip()
            raise CommandError(f"command did not start: {line} {errors}".strip(), self._place())
        self._pid = int(line)

    def _place(self) -> str:
        return f"{self._host.name}: {shlex.join(self._argv)}"

    def read_line(self) -> str:
        """Return the next line of standard output, stripped."""
        return self.read_whole_line().strip()

    def read_whole_line(self) -> str:
        """Return the next line of standard output as it is, empty at its end."""
        try:
            line = self._stdout.readline()
        except TimeoutError as error:
            raise CommandError("no output before the deadline", self._place()) from error
        self._ended = self._ended or not line
        return line.decode(errors="replace")

    def send(self, content: bytes) -> None:
        """Write to standard input.

        Raises CommandError if the command has ended, or does not read before its deadline.
        """
        try:
            self._channel.sendall(content)
        except (TimeoutError, OSError) as error:
            self._ended = True
            raise CommandError(f"stdin is closed: {error}", self._place()) from error

    def send_line(self, line: str) -> str:
        """Write one line to standard input and return the next line of standard output.

        Raises CommandError if the command has ended, or prints no line before its deadline.
        """
        self.send(line.encode() + b"\n")
        return self.read_line()

    @property
    def running(self) -> bool:
        """Whether the command is still running, as far as is known on this side."""
        # Its output may end before its exit status arrives.
        return not (self._ended or self._channel.closed or self._channel.exit_status_ready())

    def stop(self) -> None:
        """Terminate the command with TERM."""
        self._stopped = True
        self._host.run(["kill", "-TERM", str(self._pid)], deadline_s=5)

    def _status_after_signal(self) -> int:
        if not (self._channel.eof_received and self._host.connected()):
            raise CommandError("connection closed before the command ended", self._place())
        if time.monotonic() - self._began < self._allowed_s:
            raise CommandError("terminated by a signal", self._place())
        # As timeout(1) would report, had its own KILL not ended it with the command.
        return ENDED_BY_KILL

    def wait(self) -> Completed:
        """Wait for the command to end and return it with its output.

        Raises CommandError if the connection broke, a signal ended the command before its deadline,
        there was no exit status at the deadline, or the output exceeds its limit.
        """
        try:
            stdout = self._stdout.read(self._limit_bytes + 1)
        except (TimeoutError, OSError) as error:
            raise CommandError(f"connection lost while running: {error}", self._place()) from error
        if len(stdout) > self._limit_bytes:
            self._channel.close()
            raise CommandError(
                f"output exceeds {self._limit_bytes >> 20} MiB, beginning with "
                f"{stdout[:200].decode(errors='replace')!r}",
                self._place(),
            )
        self._reader.join(max(0.1, self._deadline - time.monotonic()))
        if not self._channel.status_event.wait(max(0.1, self._deadline - time.monotonic())):
            raise CommandError("no exit status before the deadline", self._place())
        status = self._channel.recv_exit_status()
        if status == -1 and not self._stopped:  # there is no exit status after a signal
            status = self._status_after_signal()
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
    """A host over SSH; see :class:`tsnrepro.testbeds.hosts.host.RemoteHost`.

    ``name``: name of the host in the testbed and in records. ``host_key``: the server's host key,
    or a known_hosts file that has it. No other key is accepted. ``user`` and ``key``: login by this
    private key or key file alone: no agent, no key of the user's home folder. Without a key the SSH
    agent is used. ``sock``: a connected socket to the server; ``None`` connects to ``address``.
    ``address``: host name or IP address, and TCP port. Raises TestbedError if the server cannot be
    reached, has another host key or refuses the login.
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
            known = self._client.get_host_keys()
            if isinstance(host_key, Path):
                for entry in read_known_hosts(host_key)[0]:
                    for host in entry.hostnames:
                        if entry.key.get_name() not in (known.lookup(host) or {}):
                            known.add(host, entry.key.get_name(), entry.key)
            else:
                host = hostname if port == 22 else f"[{hostname}]:{port}"
                known.add(host, host_key.get_name(), host_key)
            self._client.connect(
                hostname,
                port,
                username=user,
                # Loaded here: paramiko would try a file as each type of key, and name the last.
                pkey=_load_key(key) if isinstance(key, Path) else key,
                sock=sock,
                allow_agent=key is None,
                look_for_keys=False,
                timeout=CONNECT_SECONDS,
                banner_timeout=CONNECT_SECONDS,
                auth_timeout=CONNECT_SECONDS,
            )
        except (*_DISCONNECTED, ValueError) as error:
            self._client.close()
            what, remedy = _refusal(error, user)
            raise TestbedError(f"no SSH connection: {what}", f"{user}@{name}", remedy) from error
        transport = self._client.get_transport()
        if transport is None:
            raise TestbedError("SSH connection closed after the login", name)
        self._transport = transport
        self._closed: deque[int] = deque()
        self._transport.set_keepalive(_KEEPALIVE_SECONDS)

    def start(
        self, argv: list[str], *, deadline_s: float, read_timeout_s: float | None = None
    ) -> SshProcess:
        """Start a command; the host terminates it after ``deadline_s`` seconds.

        Reading its output times out as late, or after ``read_timeout_s`` seconds.
        """
        bounded = _bounded(argv, deadline_s)
        remote = ["sh", "-c", _ANNOUNCE_PID, "sh", *bounded]
        process = SshProcess(self, argv, self._execute(remote, argv), deadline_s)
        if read_timeout_s is not None:
            process.set_read_timeout(read_timeout_s)
        process.read_pid()
        return process

    def run(
        self, argv: list[str], *, deadline_s: float, limit_bytes: int = _LIMIT_BYTES
    ) -> Completed:
        """Run a command to its end; the host terminates it after ``deadline_s`` seconds.

        More than ``limit_bytes`` of standard output are an error; standard error is truncated.
        """
        bounded = _bounded(argv, deadline_s)
        remote = ["sh", "-c", _WITHOUT_INPUT, "sh", *bounded]
        return SshProcess(self, argv, self._execute(remote, argv), deadline_s, limit_bytes).wait()

    def write(self, path: str, content: bytes, *, deadline_s: float) -> None:
        """Create or replace an executable file in an existing folder.

        Raises CommandError if the host cannot write it within ``deadline_s`` seconds.
        """
        argv = ["sh", "-c", _WRITE, "sh", str(len(content)), path]
        process = self.start(argv, deadline_s=deadline_s)
        if process.read_line() == "ready":
            process.send(content)
        process.wait().check()

    def _execute(self, remote: list[str], argv: list[str]) -> paramiko.Channel:
        try:
            channel = self._open_channel()
            # paramiko waits for the server's reply for ever, unless the channel closes.
            timeout = threading.Timer(CONNECT_SECONDS, channel.close)
            timeout.start()
            try:
                # SSH sends one string, which the login shell parses.
                channel.exec_command(quoted_for_any_shell(remote))
            finally:
                timeout.cancel()
        except paramiko.ChannelException as error:
            raise TestbedError(
                f"MaxSessions reached: {_error_text(error)}",
                f"{self.name}: {shlex.join(argv)}",
                "Each running command is a session: set `MaxSessions 50` in the host's sshd_config",
            ) from error
        except _DISCONNECTED as error:
            # Not a CommandError: every other command would fail too, so a retry is useless.
            raise TestbedError(
                f"SSH connection lost: {_error_text(error)}",
                f"{self.name}: {shlex.join(argv)}",
                "Check that the host and its sshd are running; completed trials are recorded",
            ) from error
        return channel

    def _open_channel(self) -> paramiko.Channel:
        """Open a channel, and drop the numbers of closed ones, all of which paramiko keeps."""
        channel = self._transport.open_session(timeout=CONNECT_SECONDS)
        weakref.finalize(channel, self._closed.append, channel.get_id())
        while len(self._closed) > _LATE_CHANNELS:
            self._transport.channels_seen.pop(self._closed.popleft(), None)
        return channel

    def open_tunnel(self, address: tuple[str, int]) -> paramiko.Channel:
        """Return a connection through this host to a TCP port of another.

        Raises TestbedError if this host cannot reach it, or does not forward connections.
        """
        try:
            return self._transport.open_channel(
                "direct-tcpip", address, ("127.0.0.1", 0), timeout=CONNECT_SECONDS
            )
        except _DISCONNECTED as error:
            raise TestbedError(
                f"cannot forward to {address[0]}:{address[1]}: {_error_text(error)}",
                self.name,
                "Set `AllowTcpForwarding yes` in its sshd_config",
            ) from error

    def connected(self) -> bool:
        """Return whether the connection is up."""
        return self._transport.is_active()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
