"""Attention on the matrix units of Hopper GPUs: warpgroups multiply what another one has copied."""

from .forward import Forward
from .gradients import KeyGradients, QueryGradient
from .shapes import GroupShape, shapes

__all__ = ["Forward", "GroupShape", "KeyGradients", "QueryGradient", "shapes"]
