"""The `pock` command. Knows how to talk to a person; every decision is made below it."""

from .app import main

__all__ = ["main"]
