"""Memory planning: lifetimes in, one arena with an offset for every buffer out, as data; and an independent checker."""

from pockengine.plan.check import PlanError, check
from pockengine.plan.planner import plan
from pockengine.plan.schedule import ALIGNMENT, Buffer, MemoryPlan, Schedule, Slot

__all__ = ["ALIGNMENT", "Buffer", "MemoryPlan", "PlanError", "Schedule", "Slot", "check", "plan"]
