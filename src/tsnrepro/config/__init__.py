"""Configuration: what may be set, its unit and its default, in one place.

Every model refuses keys it does not know. Files are YAML; an error names the file and the key.
"""

from tsnrepro.config.base import (
    Configuration,
    PositiveFloat,
    PositiveInt,
    Strict,
    UdpPayload,
    load,
    parse,
)
from tsnrepro.config.campaigns import Campaign, Selection
from tsnrepro.config.testbeds import (
    Between,
    CardsSettings,
    EmulatedSettings,
    FrerSettings,
    GuestSettings,
    HardwareSettings,
    ModelSettings,
    TestbedSettings,
    Uncertain,
    load_testbed,
)

__all__ = [
    "Between",
    "Campaign",
    "CardsSettings",
    "Configuration",
    "EmulatedSettings",
    "FrerSettings",
    "GuestSettings",
    "HardwareSettings",
    "ModelSettings",
    "PositiveFloat",
    "PositiveInt",
    "Selection",
    "Strict",
    "TestbedSettings",
    "UdpPayload",
    "Uncertain",
    "load",
    "load_testbed",
    "parse",
]
