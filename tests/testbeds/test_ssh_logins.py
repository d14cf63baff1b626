"""Keys, known_hosts files and login shells of any kind, without a host."""

import shlex
import shutil
import socket
import subprocess
import threading

import paramiko
import pytest

from tsnrepro.common.errors import ConfigurationError, TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import RackSettings, load_testbed, parse
from tsnrepro.testbeds.hosts import remote
from tsnrepro.testbeds.hosts.remote import UnreachableError, connect
from tsnrepro.testbeds.hosts.ssh import SshHost, quoted_for_any_shell, read_known_hosts

KEY = paramiko.ECDSAKey.generate()
LINE = f"{KEY.get_name()} {KEY.get_base64()}"
RACK = load_testbed(root() / "config" / "testbeds" / "d10-example.yaml")


# --- known_hosts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("# a comment", None),
        (f"@cert-authority *.lab {LINE}", "line 2: certificate authorities are not supported"),
        ("talker ssh-ed25519", "line 2 is damaged"),
        ("talker ssh-ed25519 AAAA=B=C", "line 2 is damaged"),
        ("talker ecdsa-sha2-nistp256 AAAA", "line 2 is damaged"),
        ("talker ssh-unheard-of AAAA", "line 2 is damaged, or of an unknown type of key"),
        (f"@unknown talker {LINE}", "line 2 is damaged"),
        *(
            (f"{name} {LINE}", "line 2 is damaged")
            for name in ("|1|bad|hash", "|1|", "|1|AAAA|AAAA", "talker,|1|?|?")
        ),
    ],
)
def test_other_lines_of_known_hosts_leave_the_entries(tmp_path, line, problem):
    path = tmp_path / "known_hosts"
    path.write_text(f"first {LINE}\n{line}\nlast {LINE}\n\xff\n", encoding="latin-1")
    entries, problems = read_known_hosts(path)
    assert [entry.hostnames for entry in entries] == [["first"], ["last"]]
    assert [each.startswith(problem) for each in problems[:-1]] == ([True] if problem else [])


def test_a_revoked_key_is_no_known_one(tmp_path):
    path = tmp_path / "known_hosts"
    path.write_text(f"talker {LINE}\n@revoked * {LINE}\n")
    assert read_known_hosts(path) == ([], [])


# --- logins -----------------------------------------------------------------------------------


class Server(paramiko.ServerInterface):
    """Accepts no key, and offers some methods."""

    def __init__(self, methods):
        self._methods = methods

    def get_allowed_auths(self, username):
        return self._methods

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_FAILED


def login(key, methods="publickey,password"):
    """Return the error of a login at a server that refuses it."""
    near, far = socket.socketpair()
    transport = paramiko.Transport(far)
    transport.add_server_key(KEY)
    thread = threading.Thread(target=transport.start_server, kwargs={"server": Server(methods)})
    thread.start()
    with pytest.raises(TestbedError) as refused:
        SshHost("talker", KEY, "root", key, sock=near)
    thread.join()
    transport.close()
    return refused.value


def test_an_rsa_key_that_is_not_authorised_is_called_so(tmp_path):
    """Not an invalid key, as of the other types that a file might have."""
    path = tmp_path / "id_rsa"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(path))
    error = login(path)
    assert "not authorised for root" in str(error)
    assert "authorized_keys" in error.remedy
    assert "nvalid" not in str(error)


@pytest.mark.parametrize("methods", ["password", "keyboard-interactive"])
def test_a_host_that_takes_passwords_alone_is_called_so(tmp_path, capfd, methods):
    """Nobody is asked for one."""
    path = tmp_path / "id_ecdsa"
    KEY.write_private_key_file(str(path))
    assert f"the host accepts only: {methods}; keys are needed" in str(login(path, methods))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("passphrase", "says"), [("secret", "passphrase"), (None, "not a private")]
)
def test_a_key_file_that_cannot_be_used_is_named(tmp_path, passphrase, says):
    path = tmp_path / "key"
    if passphrase:
        KEY.write_private_key_file(str(path), password=passphrase)
    else:
        path.write_text(f"root:{says}\n")
    with pytest.raises(TestbedError, match=says) as refused:
        SshHost("talker", KEY, "root", path)
    assert refused.value.where == str(path)


def test_every_unreachable_host_is_told(tmp_path, monkeypatch):
    known = tmp_path / "known_hosts"
    known.touch()
    settings = RACK.model_copy(update={"known_hosts": str(known)})

    def refuse(role, *_, **__):
        raise TestbedError("no answer", f"root@{role}")

    monkeypatch.setattr(remote, "SshHost", refuse)
    with pytest.raises(UnreachableError, match=r"no answer.*root@sw1.*root@talker") as refused:
        connect(settings, ("talker", "sw1"), None)
    assert [*refused.value.problems] == ["talker", "sw1"]


@pytest.mark.parametrize(
    ("address", "accepted"),
    [
        *(
            (each, True)
            for each in ("::1", "fe80::1%eth0", "tsn_talker.lab", "_ssh.lab", "10.0.0.1")
        ),
        *((each, False) for each in ("", "-oProxy", "a b", "root@host", "fe80::1%", "x%eth0;ls")),
    ],
)
def test_addresses(address, accepted):
    values = RACK.model_dump(by_alias=True)
    values["hosts"]["talker"]["address"] = address
    if accepted:
        assert parse(RackSettings, values, "a.yaml").hosts.talker.address == address
    else:
        with pytest.raises(ConfigurationError, match=r"hosts\.talker\.address"):
            parse(RackSettings, values, "a.yaml")


# --- login shells -----------------------------------------------------------------------------


SHELLS = [
    pytest.param(name, marks=[] if shutil.which(name) else pytest.mark.skip(f"there is no {name}"))
    for name in ("sh", "bash", "tcsh", "fish")
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "word",
    ["a b", "a\nb\n", "!!", "end\\", "\\'", "", r"\n\041 \\", "'\n\"$HOME`id`", "%s %b\n", "µ\n!"],
)
def test_a_command_has_no_line_break_and_history_for_the_login_shell(shell, word):
    """Csh ends a quoted text at a line break, and replaces ``!`` within quotes."""
    line = quoted_for_any_shell(["printf", "%s|", word, "end"])
    assert "\n" not in line
    assert "!" not in line
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == f"{word}|end|"


def test_a_plain_command_stays_as_it_is():
    command = ["sh", "-c", 'exec "$@"', "sh", "uname"]
    assert quoted_for_any_shell(command) == shlex.join(command)
