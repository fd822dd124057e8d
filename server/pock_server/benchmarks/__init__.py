"""Benchmarks: a build measured on a device, with a verdict, compared with others, and watched over time."""
