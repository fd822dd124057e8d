"""What a scheme costs on a target: peak memory and time of a training step, planned or estimated."""

from .cost import Cost, CostModel
from .estimator import Costs
from .exact import ExactCosts

__all__ = ["Cost", "CostModel", "Costs", "ExactCosts"]
