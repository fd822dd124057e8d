"""Tuning: the schedule space measured on this machine, and the store of what was learned."""

from .file import FileStore, read_entries, write_entries
from .store import Entry, LocalStore, Result, TuningStore
from .tuner import MEASURING, MODES, Tuned, Tuning, check_mode, is_this_machine, tune
from .workload import workloads_of

__all__ = [
    "MEASURING",
    "MODES",
    "Entry",
    "FileStore",
    "LocalStore",
    "Result",
    "Tuned",
    "Tuning",
    "TuningStore",
    "check_mode",
    "is_this_machine",
    "read_entries",
    "tune",
    "workloads_of",
    "write_entries",
]
