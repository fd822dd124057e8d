"""Selectors: which devices people mean."""
