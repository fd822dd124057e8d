"""Tuning: the schedule space measured on this machine, and the store of what was learned."""

from .store import Entry, LocalStore, Result, TuningStore
from .tuner import MODES, Tuned, Tuning, check_mode, is_this_machine, tune
from .workload import workloads_of

__all__ = [
    "MODES",
    "Entry",
    "LocalStore",
    "Result",
    "Tuned",
    "Tuning",
    "TuningStore",
    "check_mode",
    "is_this_machine",
    "tune",
    "workloads_of",
]
