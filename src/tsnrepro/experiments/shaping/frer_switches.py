"""FRER around shaped ports: two switches of a job that number, copy and recover the stream.

The loads are no stream of theirs: they reach the second switch untagged and pass as best effort.
"""

from typing import Any

from tsnrepro.common.errors import ToolError
from tsnrepro.common.topology import HOST_PORT, SWITCHES
from tsnrepro.config.frer import RECOVERY_COUNTERS, FrerSettings
from tsnrepro.experiments.shaping.steps import COMMAND_S, numbered
from tsnrepro.experiments.shaping.topology import MEMBERS
from tsnrepro.native import frer
from tsnrepro.testbeds.jobs.job import JobResult, Step
from tsnrepro.tools import frerctl
from tsnrepro.tools.frerctl import StreamFilter, SwitchStream

# As the model's switches: the defaults.
_SETTINGS = FrerSettings()


def program() -> str:
    """Return the path of frerctl, built where it is missing."""
    return str(frer.frerctl())


def inputs() -> dict[str, bytes]:
    """Return what frerctl loads, at the path where it expects it."""
    loaded = frer.frerctl().with_name("switch.bpf.o")
    return {str(loaded): loaded.read_bytes()}


def set_up(stream_port: int) -> list[Step]:
    """Return the steps after which the datagrams to a port are numbered, copied and recovered."""
    stream = SwitchStream(StreamFilter("udp", stream_port))
    ports = ",".join((HOST_PORT, *MEMBERS))
    commands = [
        [program(), "switch", ports, *frerctl.frer_options(_SETTINGS)],
        frerctl.configure_streams(program(), HOST_PORT, _SETTINGS, [stream]),
    ]
    return [step for host in SWITCHES for step in numbered(f"frer-{host}", host, commands)]


def ask() -> list[Step]:
    """Return the steps that read the switches' counters."""
    argv = (program(), "counters", HOST_PORT)
    return [Step(f"frer-{host}", host, argv, COMMAND_S) for host in SWITCHES]


def counts_of(result: JobResult) -> dict[str, Any]:
    """Return how many datagrams were numbered, what came of the copies, and the recovery's count.

    ``unaccounted`` is how many copies came to the second switch that no counter accounts for.

    Raises ToolError if the counters are not frerctl's.
    """
    first, second = (_stream(result, host) for host in SWITCHES)
    try:
        copies = {
            name: {
                "sent": first["ports"][name]["out"].stream_frames,
                "received": second["ports"][name]["in"].stream_frames,
            }
            for name in MEMBERS
        }
        recovery = {name: second["recovery"][name] for name in RECOVERY_COUNTERS}
        numbered_frames = first["generator"]["numbered"]
        refused = second["tagless"].stream_frames
    except (KeyError, TypeError, AttributeError) as error:
        raise ToolError(f"frerctl counters lacks {error}", "FRER behind gates") from error
    ended = recovery["passed"] + recovery["discarded"] + recovery["rogue"] + refused
    return {
        "numbered": numbered_frames,
        "copies": copies,
        "recovery": recovery,
        "unaccounted": sum(copy["received"] for copy in copies.values()) - ended,
    }


def _stream(result: JobResult, host: str) -> dict[str, Any]:
    document = frerctl.parse_counters(result.steps[f"frer-{host}"].stdout)
    try:
        return document["streams"][0]
    except (KeyError, IndexError, TypeError) as error:
        raise ToolError("frerctl counters has no stream", host) from error
