"""Devices the compiler builds for: one TOML file each."""

from pockengine.targets.registry import HOST_MEMORY, Memory, Target, all, get, parse

__all__ = ["HOST_MEMORY", "Memory", "Target", "all", "get", "parse"]
