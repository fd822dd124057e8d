"""Learning rates of a scheme, found by short trainings: for all that is trained, then for each group of it."""

from .finding import find_rates
from .groups import RateGroups
from .rates import Rates, RateTrial

__all__ = ["RateGroups", "RateTrial", "Rates", "find_rates"]
