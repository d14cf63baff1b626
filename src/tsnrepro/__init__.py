"""Run time-sensitive networking experiments again and print their papers again.

To look into what was measured::

    import tsnrepro

    quick = tsnrepro.load("quick")
    quick.trials("loss").groupby("configuration")["loss_percent"].describe()
    quick.values.loc["tcp.goodput.frer.mbps"]
    tsnrepro.simulate(rate_mbps=[300, 600], configuration=["control", "frer"])
"""

from typing import Any

__all__ = ["compare", "load", "simulate"]


def __getattr__(name: str) -> Any:
    # Not imported with the package: every command would wait for pandas.
    if name in __all__:
        from tsnrepro import explore  # noqa: PLC0415

        return getattr(explore, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
