from tsnrepro.explore.load import compare, load, simulate
from tsnrepro.explore.overview import first_look, planned

__all__ = ["compare", "first_look", "load", "planned", "simulate"]
