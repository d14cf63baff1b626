"""Settings of linuxptp, which synchronises the clocks of hosts during a trial."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.config.base import ConfigModel, DeviceName, PositiveInt, Seconds, formerly


class PtpSettings(ConfigModel):
    """How linuxptp synchronises the hosts' clocks while a trial is measured."""

    time_stamping: Literal["hardware", "software"] = "hardware"
    """``time_stamping`` of ptp4l. With ``hardware``, phc2sys keeps the system clocks on those of
    the network cards."""
    domain: Annotated[int, Field(ge=0, le=127)] = 0
    """``domainNumber`` of ptp4l."""
    lock_timeout_s: Annotated[Seconds, formerly("locked_within_s")] = 60.0
    """Time to wait for the clocks to synchronise, in s, before the trial fails."""
    max_clock_error_ns: Annotated[PositiveInt, formerly("most_uncertainty_ns")] = 1000
    """Clocks count as synchronised once linuxptp bounds their difference to this, in ns."""
    free_running: bool = False
    """``free_running`` of ptp4l: something else steers the clocks, and ptp4l only measures them."""


class PtpInterfaces(ConfigModel):
    """The network interfaces over which linuxptp of talker and listener communicate."""

    talker: DeviceName
    """The talker's interface that runs PTP."""
    listener: DeviceName
    """The listener's interface that runs PTP."""


class RackPtpSettings(PtpSettings):
    """How linuxptp synchronises the clocks of a rack's talker and listener."""

    interfaces: Annotated[PtpInterfaces, formerly("cards")]
    """Interfaces joined by a cable of their own or by switches that support PTP. On the measured
    network PTP's frames would be replicated, queued and counted like others."""
