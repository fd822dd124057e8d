"""`pock search`: its options, and what becomes of them."""

from .command import search_command

__all__ = ["search_command"]
