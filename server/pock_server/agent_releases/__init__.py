"""Releases of the agent: what devices may replace themselves with, signed by root keys."""
