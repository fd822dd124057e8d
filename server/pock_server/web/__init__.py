"""Serves the built dashboard."""
