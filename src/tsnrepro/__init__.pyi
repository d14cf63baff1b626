from tsnrepro.at_a_glance import first_look, planned
from tsnrepro.explore import compare, load, simulate

__all__ = ["compare", "first_look", "load", "planned", "simulate"]
