"""Regressions: steps that became slower over time, found in the series of benchmarks."""
