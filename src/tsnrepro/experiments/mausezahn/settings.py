"""Settings of the experiment ``mausezahn``."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from tsnrepro.config.base import (
    CONFIGURATIONS,
    ConfigModel,
    Configurations,
    LinkRateMbps,
    OneOrMore,
    Percent,
    Repetitions,
    Seconds,
    WholeSeconds,
)
from tsnrepro.config.registry import BENCH, EMULATED, MODEL, RACK, Experiment


class MausezahnSettings(ConfigModel):
    """Loads by mausezahn, which sleeps between frames."""

    configurations: Configurations = list(CONFIGURATIONS)
    """Configurations to measure: ``control``, ``frer`` or both."""
    repetitions: Repetitions
    """Trials of each frame size, load and configuration."""
    frames_bytes: OneOrMore[Annotated[int, Field(ge=64, le=1518)]]
    """Frame sizes with FCS, in bytes."""
    loads_percent: OneOrMore[Percent]
    """Offered loads, in percent of line rate."""
    link_rate_mbps: LinkRateMbps | None = None
    """Wire rate of all links, in Mb/s; by default the testbed's. A rack cannot change its links."""
    duration_s: WholeSeconds | Seconds
    """Time that the frames should take at the offered load, in seconds; 10 in the documents."""
    deadline_s: WholeSeconds | Seconds
    """Time after which mausezahn is ended, in seconds; the trial is then a timeout. The documents
    have 40."""
    ports: OneOrMore[Annotated[int, Field(ge=1, le=65_535)]] = [5001]
    """UDP ports, source and destination, taken by repetitions in turn. No result depends on them;
    one of the documents has 5001, another 5000."""

    @model_validator(mode="after")
    def _ends_after_sending(self) -> Self:
        if self.deadline_s < self.duration_s:
            raise ValueError(
                f"deadline_s of {self.deadline_s} is below duration_s of {self.duration_s}: "
                "every trial would be a timeout"
            )
        return self


EXPERIMENT = Experiment(
    MausezahnSettings,
    title="What mausezahn reaches",
    kinds=(EMULATED, MODEL, RACK, BENCH),
    order=4,
    tables=("beside-published", "by-load"),
    figures={"achieved-against-target": "Packet rate that mausezahn achieved against its target"},
    keys=(
        "mausezahn.frame_*.{control,frer}.{achieved_pps,achieved_frame_mbps}",
        "mausezahn.frame_*.{control,frer}.efficiency_percent",
        "mausezahn.frame_*.{control,frer}.load_*.{achieved_pps,achieved_frame_mbps}",
        "mausezahn.frame_*.{control,frer}.load_*.efficiency_percent",
        "mausezahn.{duration_s,deadline_s,link_rate.mbps}",
        "mausezahn.limited_by.{generator,network,nothing}.count",
        "mausezahn.{timed_out,trials}.count",
    ),
)
