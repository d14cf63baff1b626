"""One host of namespaces with a real OpenSSH server, without the rest of a testbed."""

import paramiko
import pytest

from tsnrepro.config import EmulatedSettings
from tsnrepro.testbeds.emulated.namespace import NamespaceHost
from tsnrepro.testbeds.emulated.testbed import EmulatedTestbed


class OneHost:
    """The talker alone; it needs no lock, because it carries no traffic."""

    def __init__(self) -> None:
        self._testbed = EmulatedTestbed(EmulatedSettings())
        self._stack = self._testbed._stack
        self.key = paramiko.ECDSAKey.generate()
        self.space = NamespaceHost("talker")
        self._stack.callback(self.space.close)
        self._testbed._spaces["talker"] = self.space

    def connect(self):
        """Return a connection to a new server, as the testbed makes it."""
        (self.space.file("/run") / "tsnrepro").exists() and self._forget_keys()
        host = self._testbed._connect("talker", self.key)
        self._stack.callback(host.close)
        return host

    def _forget_keys(self) -> None:
        folder = self.space.file("/run/tsnrepro")
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def one_host():
    """Return a host that a test may break."""
    made = OneHost()
    yield made
    made.close()


@pytest.fixture(scope="module")
def host():
    """Return an SSH connection that the module's tests share."""
    made = OneHost()
    yield made.connect()
    made.close()
