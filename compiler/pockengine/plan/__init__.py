"""Memory planning: lifetimes in, one arena with an offset for every buffer out, as data; and an independent checker."""

from .check import PlanError, check
from .planner import plan
from .schedule import ALIGNMENT, Buffer, MemoryPlan, Schedule, Slot, aligned

__all__ = ["ALIGNMENT", "Buffer", "MemoryPlan", "PlanError", "Schedule", "Slot", "aligned", "check", "plan"]
