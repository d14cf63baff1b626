"""What measuring one trial yields, and stall meters on the machines that take part in it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tsnrepro.common.errors import CommandError, TsnreproError
from tsnrepro.native import streams
from tsnrepro.native.streams.command import READY
from tsnrepro.native.streams.stalls import parse_stalls, stall_meter
from tsnrepro.testbeds.hosts.host import RemoteProcess
from tsnrepro.testbeds.protocol import HostTestbed, Testbed

# Longer than any trial; the meter is stopped at its end.
_DEADLINE_SECONDS = 24 * 3600


@dataclass
class Measurement:
    """Values for the record of one trial, the tools' output, and the commands that were run.

    ``earlier`` returns the documents of this run's trials that are recorded already, for trials
    that start from another's result.
    """

    earlier: Callable[[], Iterable[dict[str, Any]]] = list
    values: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str | bytes] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to record."""
        return not (self.values or self.outputs or self.commands)


@contextmanager
def stalls_metered(testbed: Testbed, measured: Measurement) -> Iterator[None]:
    """Meter stalls during the block, where the testbed has machines that can stall.

    ``measured`` gets the values ``stalls`` by machine, and the meter's report as an output, also
    where the block fails.

    Raises CommandError if a meter did not start, or ended before the block. Raises ToolError if a
    meter's report cannot be read.
    """
    program = str(streams.stallmeter()) if testbed.machines else ""
    hosts = testbed.hosts if isinstance(testbed, HostTestbed) else {}
    running: dict[str, RemoteProcess] = {}
    try:
        for name in testbed.machines:
            meter = hosts[name].start(stall_meter(program), deadline_s=_DEADLINE_SECONDS)
            running[name] = meter
            if (line := meter.read_line()) != READY:
                error_text = meter.wait().stderr.strip() or line
                raise CommandError(f"the stall meter is not ready: {error_text}", name)
        yield
    except BaseException:
        # The error of the block comes first; the stalls until then are recorded with it.
        with suppress(TsnreproError):
            _end_meters(running, measured)
        raise
    _end_meters(running, measured)


def _end_meters(running: Mapping[str, RemoteProcess], measured: Measurement) -> None:
    """End every meter and record its report; one that cannot be ended leaves no other running."""
    failures: list[TsnreproError] = []
    stopped: list[str] = []
    for name, meter in running.items():
        with _collecting(failures):
            meter.stop()
            stopped.append(name)
    # Meters that were not stopped would be waited for in vain.
    for name in stopped:
        with _collecting(failures):
            done = running[name].wait()
            measured.outputs[f"stalls-{name}.json"] = done.stdout
            measured.values.setdefault("stalls", {})[name] = parse_stalls(done.stdout).values()
    if failures:
        raise failures[0]


@contextmanager
def _collecting(failures: list[TsnreproError]) -> Iterator[None]:
    try:
        yield
    except TsnreproError as error:
        failures.append(error)
