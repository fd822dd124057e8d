"""Attention and its gradient, a block of scores at a time."""
