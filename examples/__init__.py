"""Whole programs to begin with; tests/examples runs each."""
