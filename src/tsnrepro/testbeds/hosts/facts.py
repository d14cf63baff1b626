"""Facts about the machines of a testbed, recorded with its trials."""

import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import CommandError
from tsnrepro.common.repository import commit
from tsnrepro.testbeds.hosts.host import RemoteHost

SECONDS = 20
_SYSCTLS = (
    *("net.core.rmem_default", "net.core.rmem_max", "net.core.wmem_default"),
    *("net.core.wmem_max", "net.ipv4.tcp_congestion_control", "net.ipv4.udp_mem"),
)
_PACKAGES = ("tsnrepro", "numpy", "pandas", "scipy", "statsmodels", "paramiko", "snakemake")


def controller() -> dict:
    """Return the facts about the machine that runs the campaign."""
    return {
        "commit": commit(),
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in _PACKAGES},
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "processor": _processor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


@cache
def _version(package: str) -> str:
    """Return the version of a package as loaded, whatever is installed meanwhile.

    Looking it up again would also leave an entry in importlib's cache of folders each time that
    one of ``sys.path`` has changed.
    """
    return version(package)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def tools(remote: RemoteHost) -> dict[str, str]:
    """Return the versions of the tools on a host, or the error message of a missing one."""
    return {
        "iperf3": _output(remote, ["iperf3", "--version"]).splitlines()[0],
        "sockperf": _output(remote, ["sockperf", "--version"]),
        "mausezahn": _output(remote, ["mausezahn", "-V"]),
        "dumpcap": _output(remote, ["dumpcap", "--version"]),
        "ssh_server": _output(remote, ["/usr/sbin/sshd", "-V"]),
    }


def host(remote: RemoteHost, ports: list[str], installed: dict[str, str] | None = None) -> dict:
    """Return the facts about a host: kernel, tools, settings, and each port's offloads and queue.

    ``installed`` are the versions of its tools, if they are known from another host on the same
    machine. A fact whose command is missing is that command's error message.
    """
    return {
        "kernel": _output(remote, ["uname", "-a"]),
        **(tools(remote) if installed is None else installed),
        "sysctl": _output(remote, ["sysctl", "--ignore", *_SYSCTLS]).splitlines(),
        "queues": _output(remote, ["tc", "qdisc", "show"]).splitlines(),
        "offloads": {
            port: [
                line.strip()
                for line in _output(remote, ["ethtool", "-k", port]).splitlines()[1:]
                if "[fixed]" not in line
            ]
            for port in ports
        },
    }


def card(remote: RemoteHost, port: str) -> dict[str, str]:
    """Return the facts about a port's card: its driver, versions, speed and duplex."""
    wanted = ("driver", "version", "firmware-version")
    lines = [line.partition(": ") for line in _output(remote, ["ethtool", "-i", port]).splitlines()]
    folder = f"/sys/class/net/{port}"
    measured = {name: _output(remote, ["cat", f"{folder}/{name}"]) for name in ("speed", "duplex")}
    return {name: value for name, _, value in lines if name in wanted} | measured


def _output(remote: RemoteHost, argv: list[str]) -> str:
    try:
        completed = remote.run(argv, deadline_s=SECONDS)
    except CommandError as error:
        return f"unknown: {error}"
    return completed.stdout.strip() or completed.stderr.strip() or "unknown: it printed nothing"


def anonymous_host(remote: RemoteHost, ports: list[str], role: str) -> dict[str, Any]:
    """Return the facts about a shared host, without its name and its addresses."""
    found = host(remote, ports)
    node = remote.run(["uname", "-n"], deadline_s=SECONDS).check().stdout.strip()
    # Mausezahn prints the addresses of all devices along with its version.
    version = [n for n in found["mausezahn"].splitlines() if n.startswith("Mausezahn ")]
    return found | {
        "kernel": found["kernel"].replace(node, role),
        "mausezahn": "".join(version) or "unknown",
    }
