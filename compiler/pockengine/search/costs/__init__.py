"""What a scheme costs on a target: peak memory and time of a training step, planned or estimated."""

from .cost import Cost, CostModel, Parts
from .estimator import Costs, learned
from .exact import ExactCosts

__all__ = ["Cost", "CostModel", "Costs", "ExactCosts", "Parts", "learned"]
