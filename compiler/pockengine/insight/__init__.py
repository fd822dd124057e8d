"""What a person wants to know of a build: why the plan is as it is, and where the time of a step goes."""

from .explain import explain
from .profile import Profile, ProfiledKernel, profile
from .trace import trace_events

__all__ = ["Profile", "ProfiledKernel", "explain", "profile", "trace_events"]
