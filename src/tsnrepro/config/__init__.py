"""Configuration: what may be set, its unit and its default, in one place.

Every model refuses keys it does not know. Files are YAML; an error names the file and the key.
"""

from tsnrepro.config.base import (
    ConfigModel,
    Configuration,
    PositiveFloat,
    PositiveInt,
    UdpPayload,
    load,
    parse,
)
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.testbeds import (
    CardsSettings,
    EmulatedSettings,
    FrerSettings,
    GuestSettings,
    HardwareSettings,
    ModelSettings,
    Range,
    TestbedSettings,
    Uncertain,
    load_testbed,
)

__all__ = [
    "Campaign",
    "CardsSettings",
    "ConfigModel",
    "Configuration",
    "EmulatedSettings",
    "FrerSettings",
    "GuestSettings",
    "HardwareSettings",
    "ModelSettings",
    "PositiveFloat",
    "PositiveInt",
    "Range",
    "Selection",
    "TestbedSettings",
    "UdpPayload",
    "Uncertain",
    "load",
    "load_testbed",
    "parse",
]
