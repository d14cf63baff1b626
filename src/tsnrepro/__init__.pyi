from tsnrepro.explore import compare, load, simulate

__all__ = ["compare", "load", "simulate"]
