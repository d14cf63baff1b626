"""Configuration: the models of all YAML files, with the meaning, unit and default of every key.

Unknown keys are errors; an error names the file and the key. ``tsnrepro.config.campaigns`` is
separate: it imports the settings of all experiments, which import these models.
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
    BenchSettings,
    EmulatedSettings,
    FrerSettings,
    GuestSettings,
    ModelSettings,
    NicPairSettings,
    RackSettings,
    Range,
    TestbedSettings,
    Uncertain,
    load_testbed,
)

__all__ = [
    "BenchSettings",
    "ConfigModel",
    "Configuration",
    "EmulatedSettings",
    "FrerSettings",
    "GuestSettings",
    "ModelSettings",
    "NicPairSettings",
    "PositiveFloat",
    "PositiveInt",
    "RackSettings",
    "Range",
    "TestbedSettings",
    "UdpPayload",
    "Uncertain",
    "load",
    "load_testbed",
    "parse",
]
