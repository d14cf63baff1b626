"""Run time-sensitive networking experiments again and print their papers again.

To look into what was measured::

    import tsnrepro

    tsnrepro.campaigns()
    quick = tsnrepro.load("quick")
    quick.trials("loss").groupby("configuration")["loss_percent"].describe()
    quick.values.loc["tcp.goodput.frer.mbps"]
    tsnrepro.simulate(rate_mbps=[300, 600], configuration=["control", "frer"])
"""

from importlib import import_module
from typing import Any

_OFFERED = {
    "campaigns": "tsnrepro.explore.load",
    "compare": "tsnrepro.explore.load",
    "first_look": "tsnrepro.explore.overview",
    "load": "tsnrepro.explore.load",
    "planned": "tsnrepro.explore.overview",
    "simulate": "tsnrepro.explore.load",
}


def __getattr__(name: str) -> Any:
    # By name, not by an import statement: what a rule depends on follows import statements, and
    # no measurement depends on what looks into it. Commands would also wait for pandas.
    if name in _OFFERED:
        return getattr(import_module(_OFFERED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_OFFERED])
