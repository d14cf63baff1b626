"""How programs of a trial run: the receiver's socket buffer and priority, and the processor.

Buffer and priority are options of a trial or else settings of the testbed.
"""

import os
from dataclasses import dataclass

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.topology import LISTENER, TALKER
from tsnrepro.config import RackSettings
from tsnrepro.config.registry import LOCAL_KINDS
from tsnrepro.native.programs import sockperf_wait
from tsnrepro.native.streams.command import Stamps
from tsnrepro.runner.load import HostOptions
from tsnrepro.testbeds.protocol import HostTestbed

# Any priority runs before all ordinary programs; a higher one would only rank real-time programs.
_REALTIME_PRIORITY = 1
_COMMAND_SECONDS = 20


@dataclass(frozen=True)
class ReceiverOptions:
    """The receive buffer in bytes on the scale of net.core.rmem_default, and the scheduling.

    A buffer of ``None`` is the kernel's default.
    """

    receive_buffer_bytes: int | None = None
    realtime: bool = False
    stamps: Stamps = "software"
    """What stamps arrivals of trials with synchronised clocks."""

    @property
    def priority(self) -> int | None:
        """The priority under SCHED_FIFO, if any."""
        return _REALTIME_PRIORITY if self.realtime else None

    @property
    def window_bytes(self) -> int | None:
        """The value of SO_RCVBUF for this buffer: the kernel allocates twice as much."""
        return self.receive_buffer_bytes // 2 if self.receive_buffer_bytes else None

    def scheduled(self, argv: list[str]) -> list[str]:
        """Return the command of a program that has no option for its priority."""
        return ["chrt", "--fifo", str(self.priority), *argv] if self.realtime else argv


def receiver_options(testbed: HostTestbed, options: HostOptions) -> ReceiverOptions:
    """Return the buffer, scheduling and stamps of a trial's listener."""
    settings = testbed.settings
    buffer, realtime = options.receive_buffer_bytes, options.realtime_listener
    return ReceiverOptions(
        settings.receive_buffer_bytes if buffer is None else buffer,
        settings.listener_sched_fifo if realtime is None else realtime,
        settings.rx_timestamping if isinstance(settings, RackSettings) else "software",
    )


def pinned_to_one_cpu(testbed: HostTestbed, argv: list[str]) -> list[str]:
    """Return the command of one of two programs that wait for each other in turn.

    Hosts of ``emulated`` and of a bench share this machine's processors. Where the scheduler
    chooses, the two run on one processor in some trials and on two in others, and waking an idle
    processor takes longer than the network: on a virtual machine with two, medians of trials were
    9 us or 24 to 34 us, whatever was measured. So there both run on one.
    """
    if testbed.kind not in LOCAL_KINDS:
        return argv
    # The first processor takes most interrupts.
    return ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), *argv]


def skipping_warmup(
    testbed: HostTestbed, client: list[str], resend_ms: int | None = None
) -> list[str]:
    """Return the command of a client of sockperf that begins its test without its wait of 2 s.

    With ``resend_ms`` it sends a request again that has no answer for so long, instead of waiting
    for the answer until the test ends.

    Only where the hosts are this machine's namespaces and run what was compiled on it. The record's
    command shows which.
    """
    if testbed.kind not in LOCAL_KINDS:
        return client
    resend = [f"RESEND_MS={resend_ms}"] if resend_ms else []
    return ["env", f"LD_PRELOAD={sockperf_wait()}", *resend, *client]


def check_window(testbed: HostTestbed, window_bytes: int) -> None:
    """Check that iperf3's ``-w`` is within the hosts' limits, which the kernel enforces silently.

    It sets the sending socket's buffer at the talker and the receiving one's at the listener.

    Raises TestbedError if a host's limit forbids it.
    """
    for host, limit in ((LISTENER, "net.core.rmem_max"), (TALKER, "net.core.wmem_max")):
        shown = testbed.hosts[host].run(["sysctl", "-n", limit], deadline_s=_COMMAND_SECONDS)
        most = int(shown.check().stdout)
        if window_bytes > most:
            raise TestbedError(
                f"iperf3 cannot have a socket buffer of {2 * window_bytes} bytes: {limit} is "
                f"{most}, and the kernel allocates twice that at most",
                host,
                f"`sysctl -w {limit}={window_bytes}` on the host itself (namespaces share its "
                "limit), a smaller receive_buffer_bytes, or `generator: talker`, whose listener "
                "is not bound by the limit",
            )
