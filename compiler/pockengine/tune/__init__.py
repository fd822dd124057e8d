"""Tuning: the schedule space measured on this machine, and the store of what was learned."""

from .file import FileStore, read_entries, write_entries
from .store import Entry, LocalStore, Result, TuningStore
from .tuner import MEASURING, MODES, Tuned, Tuning, check_mode, tune
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
    "read_entries",
    "tune",
    "workloads_of",
    "write_entries",
]
