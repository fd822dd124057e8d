"""A compiled training step against the user's own framework: losses, gradients, and what becomes of each tensor."""

from __future__ import annotations

from .judge import Change, Verdict, compare_changes, compare_losses
from .report import Report
from .verification import Options, from_torch, verify, verify_file

__all__ = [
    "Change",
    "Options",
    "Report",
    "Verdict",
    "compare_changes",
    "compare_losses",
    "from_torch",
    "verify",
    "verify_file",
]
