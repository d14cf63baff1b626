"""A stall meter beside a trial, on every machine that takes part in it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from tsnrepro.common.errors import CommandError, TsnreproError
from tsnrepro.native.streams import build
from tsnrepro.native.streams.command import READY
from tsnrepro.native.streams.stalls import parse_stalls, stall_meter
from tsnrepro.runner.measurement import Measurement
from tsnrepro.testbeds.host import RemoteProcess
from tsnrepro.testbeds.protocol import HostTestbed, Testbed

# Longer than any trial; the meter is stopped at its end.
_DEADLINE_SECONDS = 24 * 3600


@contextmanager
def stalls_metered(testbed: Testbed, measured: Measurement) -> Iterator[None]:
    """Meter stalls during the block, where the testbed has machines that can stall.

    ``measured`` gets the values ``stalls`` by machine, and the meter's report as an output, also
    where the block fails.

    Raises
    ------
    CommandError
        A meter did not start, or ended before the block.
    ToolError
        A meter's report cannot be read.
    """
    program = str(build.programs().stallmeter) if testbed.machines else ""
    hosts = testbed.hosts if isinstance(testbed, HostTestbed) else {}
    running: dict[str, RemoteProcess] = {}
    try:
        for name in testbed.machines:
            meter = hosts[name].start(stall_meter(program), deadline_s=_DEADLINE_SECONDS)
            running[name] = meter
            if (line := meter.read_line()) != READY:
                said = meter.wait()
                raise CommandError(
                    f"the stall meter is not ready: {said.stderr.strip() or line}", name
                )
        yield
    except BaseException:
        # What went wrong in the block comes first; how steady its machines were is kept with it.
        with suppress(TsnreproError):
            _end(running, measured)
        raise
    _end(running, measured)


def _end(running: Mapping[str, RemoteProcess], measured: Measurement) -> None:
    """End every meter and keep its report; one that cannot be ended keeps no other running."""
    failures: list[TsnreproError] = []
    stopped: list[str] = []
    for name, meter in running.items():
        with _noted(failures):
            meter.stop()
            stopped.append(name)
    # The others run on, and would be waited for in vain.
    for name in stopped:
        with _noted(failures):
            done = running[name].wait()
            measured.outputs[f"stalls-{name}.json"] = done.stdout
            measured.values.setdefault("stalls", {})[name] = parse_stalls(done.stdout).values()
    if failures:
        raise failures[0]


@contextmanager
def _noted(failures: list[TsnreproError]) -> Iterator[None]:
    try:
        yield
    except TsnreproError as error:
        failures.append(error)
