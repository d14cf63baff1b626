"""Configuration: what may be set, its unit and its default, in one place.

Every model refuses keys it does not know. Files are YAML; an error names the file and the key.
``tsnrepro.config.campaigns`` imports the settings of all experiments, which import these models.
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
    "TestbedSettings",
    "UdpPayload",
    "Uncertain",
    "load",
    "load_testbed",
    "parse",
]
