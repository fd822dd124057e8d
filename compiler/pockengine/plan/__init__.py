"""Memory planning: lifetimes in, one arena with an offset for every buffer out, as data; and an independent checker."""

from .check import PlanError, check
from .demand import ALIGNMENT, Buffer, Demand, MemoryPlan, Slot, aligned
from .planner import plan

__all__ = ["ALIGNMENT", "Buffer", "Demand", "MemoryPlan", "PlanError", "Slot", "aligned", "check", "plan"]
