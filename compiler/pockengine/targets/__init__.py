"""Devices the compiler builds for: one TOML file each."""

from pockengine.targets.gpu import Gpu
from pockengine.targets.registry import (
    ALIGNMENT,
    HOST_MEMORY,
    USUAL_BACKEND,
    Memory,
    Target,
    all,
    generations,
    get,
    parse,
)

__all__ = ["ALIGNMENT", "HOST_MEMORY", "USUAL_BACKEND", "Gpu", "Memory", "Target", "all", "generations", "get", "parse"]
