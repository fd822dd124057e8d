"""Memory planning: lifetimes in, one arena with an offset for every buffer out, as data; and an independent checker."""

from .demand import Buffer, Demand, MemoryPlan, Slot
from .offsets.check import PlanError, check
from .offsets.planner import plan
from .space import Space, aligned

__all__ = ["Buffer", "Demand", "MemoryPlan", "PlanError", "Slot", "Space", "aligned", "check", "plan"]
