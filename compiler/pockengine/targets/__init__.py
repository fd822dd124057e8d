"""Devices the compiler builds for: one TOML file each."""

from pockengine.targets.registry import ALIGNMENT, HOST_MEMORY, Memory, Target, all, get, parse

__all__ = ["ALIGNMENT", "HOST_MEMORY", "Memory", "Target", "all", "get", "parse"]
