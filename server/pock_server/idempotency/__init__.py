"""Requests that create work happen once, however often a client repeats them."""
