"""Settings of sequential stopping: repetitions are added until a ratio is precise enough."""

from typing import Annotated, Self

from pydantic import model_validator

from tsnrepro.config.base import ConfigModel, Percent, Repetitions, formerly


class SequentialSettings(ConfigModel):
    """How often trials are repeated, and until when: the stopping rule is the ratio's precision."""

    repetitions: Repetitions | None = None
    """Repetitions that are measured in any case; by default the experiment's."""
    max_repetitions: Annotated[Repetitions | None, formerly("most_repetitions")] = None
    """Most repetitions, where one more is added as long as the ratio of FRER to control is less
    precise than ``ratio_precision_percent``. By default none is added."""
    ratio_precision_percent: Annotated[Percent | None, formerly("ratio_within_percent")] = None
    """Precision of the ratio at which to stop: half of the width of its 95 % interval, in percent
    of the interval's middle."""

    @model_validator(mode="after")
    def _need_each_other(self) -> Self:
        if (self.max_repetitions is None) != (self.ratio_precision_percent is None):
            raise ValueError("max_repetitions and ratio_precision_percent need each other")
        if self.repetitions is not None:
            self.check_repetitions(self.repetitions)
        return self

    def check_repetitions(self, repetitions: int) -> None:
        """Refuse a maximum below the repetitions that are measured in any case.

        Raises ValueError if ``max_repetitions`` is below ``repetitions``.
        """
        if self.max_repetitions is not None and self.max_repetitions < repetitions:
            raise ValueError(
                f"max_repetitions of {self.max_repetitions} is below repetitions of {repetitions}"
            )
