"""The command `pock-client`, whose commands `pock` has as well. It talks to a person; the library does the work."""

from .app import commands, main

__all__ = ["commands", "main"]
