"""Facts about the machines of a testbed, so that a record can be understood years later."""

import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tsnrepro.common.errors import CommandError
from tsnrepro.common.repository import commit
from tsnrepro.testbeds.host import RemoteHost

SECONDS = 20
_SYSCTLS = (
    *("net.core.rmem_default", "net.core.rmem_max", "net.core.wmem_default"),
    *("net.core.wmem_max", "net.ipv4.tcp_congestion_control", "net.ipv4.udp_mem"),
)
_PACKAGES = ("tsnrepro", "numpy", "pandas", "scipy", "statsmodels", "paramiko", "snakemake")


def controller() -> dict:
    """Return the facts of the machine that runs the campaign."""
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
    """Return a package's version: of what is loaded, which an upgrade meanwhile does not change.

    A look at the folders of ``sys.path`` would also be kept each time that one of them changes.
    """
    return version(package)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def tools(remote: RemoteHost) -> dict[str, str]:
    """Return the versions of the tools on a machine; a missing one leaves its message."""
    return {
        "iperf3": _said(remote, ["iperf3", "--version"]).splitlines()[0],
        "sockperf": _said(remote, ["sockperf", "--version"]),
        "mausezahn": _said(remote, ["mausezahn", "-V"]),
        "dumpcap": _said(remote, ["dumpcap", "--version"]),
        "ssh_server": _said(remote, ["/usr/sbin/sshd", "-V"]),
    }


def host(remote: RemoteHost, ports: list[str], installed: dict[str, str] | None = None) -> dict:
    """Return the facts of a host: kernel, tools, settings, and each port's offloads and queue.

    ``installed`` are the tools of its machine, where another host on it has told them. A command
    that a host lacks leaves its message in place of the fact.
    """
    return {
        "kernel": _said(remote, ["uname", "-a"]),
        **(tools(remote) if installed is None else installed),
        "sysctl": _said(remote, ["sysctl", "--ignore", *_SYSCTLS]).splitlines(),
        "queues": _said(remote, ["tc", "qdisc", "show"]).splitlines(),
        "offloads": {
            port: [
                line.strip()
                for line in _said(remote, ["ethtool", "-k", port]).splitlines()[1:]
                if "[fixed]" not in line
            ]
            for port in ports
        },
    }


def _said(remote: RemoteHost, argv: list[str]) -> str:
    try:
        done = remote.run(argv, deadline_s=SECONDS)
    except CommandError as error:
        return f"unknown: {error}"
    return done.stdout.strip() or done.stderr.strip() or "unknown: it printed nothing"
