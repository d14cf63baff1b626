"""What is said of a server that lets no more sessions in, as OpenSSH's does after its tenth."""

import socket
import threading

import paramiko
import pytest

from tsnrepro.common.errors import TestbedError
from tsnrepro.testbeds.hosts.ssh import SshHost

# What a server that refuses a channel may say (RFC 4254, section 5.1); OpenSSH says the second.
PROHIBITED = paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
CONNECT_FAILED = paramiko.OPEN_FAILED_CONNECT_FAILED


class FullServer(paramiko.ServerInterface):
    """A server that lets everybody log in, and nobody run a command."""

    def __init__(self, reason):
        self._reason = reason

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return self._reason


@pytest.fixture(params=[PROHIBITED, CONNECT_FAILED], ids=["prohibited", "connect failed"])
def host(request):
    here, there = socket.socketpair()
    key = paramiko.ECDSAKey.generate()
    transport = paramiko.Transport(there)
    transport.add_server_key(key)
    transport.start_server(event=threading.Event(), server=FullServer(request.param))
    known = paramiko.ECDSAKey(data=key.asbytes())
    connected = SshHost("talker", known, "root", paramiko.ECDSAKey.generate(), sock=here)
    yield connected
    connected.close()
    transport.close()


def test_a_refused_session_is_not_taken_for_a_lost_connection(host):
    with pytest.raises(TestbedError, match="MaxSessions reached") as refused:
        host.start(["true"], deadline_s=5)
    assert "talker: true" in str(refused.value)
    assert "MaxSessions" in refused.value.remedy
    assert host.connected()
