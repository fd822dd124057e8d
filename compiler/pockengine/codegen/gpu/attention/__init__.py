"""Attention and its gradient, whole."""
