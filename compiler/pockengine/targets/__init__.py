"""Devices the compiler builds for: one TOML file each."""

from pockengine.targets.registry import Target, all, get, parse

__all__ = ["Target", "all", "get", "parse"]
