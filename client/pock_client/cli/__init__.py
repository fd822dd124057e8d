"""The command `pock-client`, whose commands `pock` has as well. It talks to a person; the library does the work."""

from .app import all_commands, main

__all__ = ["all_commands", "main"]
