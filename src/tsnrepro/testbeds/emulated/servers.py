"""OpenSSH servers of hosts made of namespaces: one for each connection, over a socket pair."""

import socket
import subprocess
from contextlib import ExitStack

import paramiko

from tsnrepro.testbeds.emulated.namespace import SSHD, NamespaceHost
from tsnrepro.testbeds.hosts.ssh import SshHost

# How long a server may take to end with its connection.
_END_SECONDS = 2

SSHD_FOLDER = "/run/tsnrepro"
# TMPDIR: a host's /run is removed with the host. SHLVL: bash reads ~/.bashrc in a first shell over
# SSH, which could print into a command's output.
_CONFIGURATION = f"""\
HostKey {SSHD_FOLDER}/host_key
AuthorizedKeysFile {SSHD_FOLDER}/authorized_keys
AllowUsers root
PermitRootLogin prohibit-password
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
AllowTcpForwarding no
X11Forwarding no
PrintMotd no
PidFile none
LogLevel ERROR
MaxSessions 50
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run SHLVL=1
"""


class SshServers:
    """Servers that end with a stack, after all connections that it closes."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._servers: list[subprocess.Popen] = []

    def connect(self, space: NamespaceHost, key: paramiko.PKey) -> SshHost:
        """Connect to an ``sshd -i`` in a host's namespaces; the caller closes the connection."""
        host_key, folder = paramiko.ECDSAKey.generate(), space.file(SSHD_FOLDER)
        folder.mkdir(mode=0o700)
        host_key.write_private_key_file(str(folder / "host_key"))
        login = f"{key.get_name()} {key.get_base64()}\n"
        (folder / "authorized_keys").write_text(login, encoding="ascii")
        (folder / "sshd_config").write_text(_CONFIGURATION, encoding="ascii")
        local, remote = socket.socketpair()
        with remote:
            server = subprocess.Popen(
                space.enter([SSHD, "-i", "-e", "-f", f"{SSHD_FOLDER}/sshd_config"]),
                stdin=remote.fileno(),
                stdout=remote.fileno(),
                stderr=subprocess.DEVNULL,
            )
        if not self._servers:
            # After all connections are closed, so that the servers end in parallel.
            self._stack.callback(self._end)
        self._servers.append(server)
        self._stack.callback(local.close)
        return SshHost(space.name, host_key, "root", key, sock=local)

    def _end(self) -> None:
        """Wait for the servers, whose connections are closed; kill those that are stopped."""
        for server in self._servers:
            try:
                server.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
