"""Kernels for GPUs in one dialect, GPU-C: C and the few words of `source.py`, which each language defines."""
