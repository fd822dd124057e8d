"""Tuning by the fleet: candidates of kernels are tried on idle devices, and what was best is kept for all later builds.

Open `duty` first, then `votes`. Nothing here knows what a kernel is: workloads have keys, candidates have numbers.
"""
