"""Attention and its gradient in tiles."""
