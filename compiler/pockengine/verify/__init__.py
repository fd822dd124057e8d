"""A compiled training step against the user's own framework: losses, gradients, and what becomes of each tensor."""

from __future__ import annotations

from .comparison import Options
from .files import verify_file
from .judge import Change, Verdict, compare_changes, compare_losses
from .report import Report
from .verification import from_jax, from_keras, from_torch, verify

__all__ = [
    "Change",
    "Options",
    "Report",
    "Verdict",
    "compare_changes",
    "compare_losses",
    "from_jax",
    "from_keras",
    "from_torch",
    "verify",
    "verify_file",
]
