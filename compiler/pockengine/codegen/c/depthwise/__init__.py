"""Convolutions with few channels a group, and their gradients in one pass."""
