"""From contributions, costs and limits to a scheme: exact, evolutionary, and the front of all that is worth having."""

from .chosen import Chosen
from .evolution import Evolution, evolve
from .exact import solve
from .front import Point, front, preferred, unbeaten
from .limits import KEPT, Limits, Preference
from .problem import Gains, Problem, Solution, gain_of
from .schemes import Chooser
from .sparing import Planner, Plans, Spared

__all__ = [
    "KEPT",
    "Chooser",
    "Chosen",
    "Evolution",
    "Gains",
    "Limits",
    "Planner",
    "Plans",
    "Point",
    "Preference",
    "Problem",
    "Solution",
    "Spared",
    "evolve",
    "front",
    "gain_of",
    "preferred",
    "solve",
    "unbeaten",
]
