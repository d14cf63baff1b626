"""What the tools really print, from one short test of each on this machine's loopback."""

import os
import shutil
import socket
import subprocess
import time

import pytest

from tsnrepro.tools import iperf3, sockperf

ADDRESS = "127.0.0.1"
READY_SECONDS = 5


def needed(tool: str) -> None:
    """Skip a test whose tool is missing; fail it where everything is expected to be there."""
    if not shutil.which(tool):
        sentence = f"{tool} is not installed: run scripts/setup"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind((ADDRESS, 0))
        return tried.getsockname()[1]


def with_port(argv: list[str], option: str, port: int) -> list[str]:
    """Return the command with another port: the tools' own may be taken on this machine."""
    changed = list(argv)
    changed[changed.index(option) + 1] = str(port)
    return changed


def listens(protocol: str, port: int) -> bool:
    wanted = f"{port:04X}"
    for family in (protocol, f"{protocol}6"):
        with open(f"/proc/net/{family}") as table:
            if any(line.split()[1].endswith(f":{wanted}") for line in list(table)[1:]):
                return True
    return False


def run_against(server: list[str], client: list[str], protocol: str, port: int) -> str:
    """Return what the client prints while the server runs."""
    with subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as serving:
        try:
            end = time.monotonic() + READY_SECONDS
            while not listens(protocol, port):
                assert time.monotonic() < end, f"{server[0]} does not listen"
                time.sleep(0.02)
            return subprocess.run(client, capture_output=True, text=True, check=False).stdout
        finally:
            serving.terminate()


def iperf3_output(client: list[str]) -> str:
    needed("iperf3")
    port = free_port()
    server = with_port(iperf3.server(), "--port", port)
    return run_against(server, with_port(client, "--port", port), "tcp", port)


@pytest.fixture(scope="session")
def udp_output() -> str:
    return iperf3_output(iperf3.udp_client(ADDRESS, 500, 2, 1))


@pytest.fixture(scope="session")
def tcp_output() -> str:
    return iperf3_output(iperf3.tcp_client(ADDRESS, 1))


@pytest.fixture(scope="session")
def refused_output() -> str:
    needed("iperf3")
    client = with_port(iperf3.udp_client(ADDRESS, 500, 2, 1), "--port", free_port())
    return subprocess.run(client, capture_output=True, text=True, check=False).stdout


def ping_pong(folder, before: tuple[str, ...] = ()) -> tuple[str, bytes]:
    """Return what sockperf printed and the log that it wrote; ``before`` precedes its command."""
    needed("sockperf")
    port, log = free_port(), folder / "log.csv"
    server = with_port(sockperf.server(ADDRESS), "-p", port)
    client = with_port(sockperf.ping_pong(ADDRESS, 64, 1, str(log)), "-p", port)
    return run_against(server, [*before, *client], "udp", port), log.read_bytes()


@pytest.fixture(scope="session")
def run_ping_pong():
    return ping_pong


@pytest.fixture(scope="session")
def ping_pong_output(tmp_path_factory) -> tuple[str, bytes]:
    return ping_pong(tmp_path_factory.mktemp("sockperf"))
