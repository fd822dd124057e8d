"""Which parameters to train under a limit of memory and time: contributions, costs, and the search among schemes."""

from .space import SHARES, Choice, Space, Unit

__all__ = ["SHARES", "Choice", "Space", "Unit"]
