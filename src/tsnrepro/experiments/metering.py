"""A stall meter beside a trial, on every machine that takes part in it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tsnrepro.errors import CommandError
from tsnrepro.experiments.measurement import Measurement
from tsnrepro.streams import build
from tsnrepro.streams.command import READY
from tsnrepro.streams.stalls import parse_stalls, stall_meter
from tsnrepro.testbed.protocol import HostTestbed, Testbed

# Longer than any trial; the meter is stopped at its end.
_DEADLINE_SECONDS = 24 * 3600


@contextmanager
def stalls_metered(testbed: Testbed, measured: Measurement) -> Iterator[None]:
    """Meter stalls during the block, where the testbed has machines that can stall.

    ``measured`` gets the values ``stalls`` by machine, and the meter's report as an output.

    Raises
    ------
    CommandError
        A meter did not start, or ended before the block.
    ToolError
        A meter's report cannot be read.
    """
    program = str(build.programs().stallmeter) if testbed.machines else ""
    hosts = testbed.hosts if isinstance(testbed, HostTestbed) else {}
    running = {}
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
    finally:
        ended = {}
        for name, meter in running.items():
            meter.stop()
            ended[name] = meter.wait()
    for name, done in ended.items():
        measured.outputs[f"stalls-{name}.json"] = done.stdout
        measured.values.setdefault("stalls", {})[name] = parse_stalls(done.stdout).values()
