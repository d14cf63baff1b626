"""Steps of a job by the numbers."""

from collections.abc import Sequence

from tsnrepro.testbeds.jobs.job import Step

COMMAND_S = 10.0
"""What a command may take that measures nothing."""


def numbered(name: str, host: str, commands: Sequence[list[str]]) -> list[Step]:
    """Return commands on a host as steps, counted from 1."""
    return [
        Step(f"{name}-{number}", host, tuple(argv), COMMAND_S)
        for number, argv in enumerate(commands, 1)
    ]


def nth(name: str, place: int) -> str:
    """Return a name at one of several places; the first, often the only one, needs no number."""
    return f"{name}{place}" if place else name
