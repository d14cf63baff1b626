"""Settings of the experiment ``mausezahn``."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from tsnrepro.config.base import (
    ConfigModel,
    Configurations,
    OneOrMore,
    Percent,
    Repetitions,
    Seconds,
    WholeSeconds,
)
from tsnrepro.config.registry import EMULATED, HARDWARE, MODEL, Experiment


class MausezahnSettings(ConfigModel):
    """A generator that sleeps between frames; the documents used 10 s and killed it at 40 s."""

    configurations: Configurations = ["control", "frer"]
    repetitions: Repetitions
    frames_bytes: OneOrMore[Annotated[int, Field(ge=64, le=1518)]]
    loads_percent: OneOrMore[Percent]
    duration_s: WholeSeconds | Seconds
    deadline_s: WholeSeconds | Seconds
    """When a run that has not sent all its frames is ended; it is then a timeout."""
    ports: OneOrMore[Annotated[int, Field(ge=1, le=65_535)]] = [5001]
    """UDP ports, source and destination, which repetitions take in turn: nothing that is measured
    depends on them. One of the documents has 5001, another 5000."""

    @model_validator(mode="after")
    def _ends_after_sending(self) -> Self:
        if self.deadline_s < self.duration_s:
            raise ValueError(
                f"deadline_s of {self.deadline_s} is below duration_s of {self.duration_s}: "
                "every run would be a timeout"
            )
        return self


EXPERIMENT = Experiment(
    MausezahnSettings,
    title="What mausezahn reaches",
    kinds=(EMULATED, MODEL, HARDWARE),
    order=4,
    tables=("beside-published", "by-load"),
    figures={"achieved-against-target": "Packet rate that mausezahn achieved against its target"},
    keys=(
        "mausezahn.frame_*.{control,frer}.{achieved_pps,achieved_frame_mbps}",
        "mausezahn.frame_*.{control,frer}.efficiency_percent",
        "mausezahn.frame_*.{control,frer}.load_*.{achieved_pps,achieved_frame_mbps}",
        "mausezahn.frame_*.{control,frer}.load_*.efficiency_percent",
        "mausezahn.{duration_s,deadline_s}",
        "mausezahn.limited_by.{generator,network,nothing}.count",
        "mausezahn.{timed_out,trials}.count",
    ),
)
