"""Which parameters to train under a limit of memory and time: contributions, costs, and the search among schemes."""

from .costs import Cost, CostModel, Costs, ExactCosts
from .sampling import random_choices
from .space import SHARES, Choice, Importance, Space, Unit

__all__ = [
    "SHARES",
    "Choice",
    "Cost",
    "CostModel",
    "Costs",
    "ExactCosts",
    "Importance",
    "Space",
    "Unit",
    "random_choices",
]
