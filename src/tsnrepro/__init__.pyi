from tsnrepro.explore.load import campaigns, compare, load, simulate
from tsnrepro.explore.overview import first_look, planned

__all__ = ["campaigns", "compare", "first_look", "load", "planned", "simulate"]
