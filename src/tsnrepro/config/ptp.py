"""Settings of linuxptp, which keeps the clocks of somebody's hosts together."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import ConfigModel, DeviceName, PositiveInt, Seconds


class PtpSettings(ConfigModel):
    """How linuxptp keeps the hosts' clocks together while a trial is measured."""

    time_stamping: Literal["hardware", "software"] = "hardware"
    """By the cards, whose clocks phc2sys then joins to the systems', or by the kernel."""
    domain: Annotated[int, Field(ge=0, le=127)] = 0
    locked_within_s: Seconds = 60.0
    """How long the clocks are waited for."""
    most_uncertainty_ns: PositiveInt = 1000
    """Clocks agree as soon as what linuxptp says leaves no more doubt than this."""
    free_running: bool = False
    """Leave the clocks alone: something else keeps them, and ptp4l only watches."""


class PtpCards(ConfigModel):
    """The network cards that linuxptp of talker and listener speak over."""

    talker: DeviceName
    listener: DeviceName


class RackPtpSettings(PtpSettings):
    """How linuxptp keeps the clocks of a rack's talker and listener together."""

    cards: PtpCards
    """Joined by a cable of their own, or by switches that know PTP: on the measured network its
    frames would be replicated, queued and counted like others."""
