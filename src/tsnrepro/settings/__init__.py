"""Configuration: what may be set, its unit and its default, in one place.

Every model refuses keys it does not know. Files are YAML; an error names the file and the key.
"""

from tsnrepro.settings.campaigns import (
    Campaign,
    Configuration,
    LatencySettings,
    Selection,
    SweepPart,
    SweepSettings,
    TcpSettings,
    UdpPayload,
)
from tsnrepro.settings.strict import PositiveFloat, PositiveInt, Strict, load, parse
from tsnrepro.settings.testbeds import EmulatedSettings, FrerSettings

__all__ = [
    "Campaign",
    "Configuration",
    "EmulatedSettings",
    "FrerSettings",
    "LatencySettings",
    "PositiveFloat",
    "PositiveInt",
    "Selection",
    "Strict",
    "SweepPart",
    "SweepSettings",
    "TcpSettings",
    "UdpPayload",
    "load",
    "parse",
]
