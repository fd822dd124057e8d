"""Attention on matrix units: each warp has rows of scores, and of results, in registers."""

from .forward import Forward
from .gradients import ROWS, Deltas, KeyGradients, QueryGradient
from .shapes import Shape, shapes

__all__ = ["ROWS", "Deltas", "Forward", "KeyGradients", "QueryGradient", "Shape", "shapes"]
