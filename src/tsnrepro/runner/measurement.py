"""What measuring one trial gives."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Measurement:
    """Values for the record of one trial, the tools' output, and the commands that were run.

    ``earlier`` returns the documents of this run's trials that are recorded already, for what
    starts from another trial's result.
    """

    earlier: Callable[[], Iterable[dict[str, Any]]] = list
    values: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str | bytes] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self.values or self.outputs or self.commands)
