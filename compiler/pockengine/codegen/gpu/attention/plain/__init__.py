"""Attention without matrix units: eight threads for each row of a tile of scores."""

from .forward import Forward
from .gradients import KeyGradients, QueryGradient
from .tiles import LANES, Tiles

__all__ = ["LANES", "Forward", "KeyGradients", "QueryGradient", "Tiles"]
