"""Contractions: in tiles, on matrix units, or a thread for each result."""
