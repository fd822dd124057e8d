"""Frameworks that train the same step as we do, each in a process and an environment of its own."""
