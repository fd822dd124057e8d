"""A compiled training step against the user's own framework."""

from __future__ import annotations

from .judge import Change, Verdict, compare_changes, compare_losses

__all__ = ["Change", "Verdict", "compare_changes", "compare_losses"]
