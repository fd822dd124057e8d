"""NVIDIA's GPU of a machine, as its driver's library NVML tells it (NVML API Reference Guide)."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TARGETS = (("H100", "h100"), ("H200", "h200"), ("RTX 4090", "rtx-4090"), ("RTX 5090", "rtx-5090"))
_LEAST_DRIVER = 525
"""The first with CUDA 12.0 (CUDA Toolkit release notes, "CUDA Driver"), which compiled kernels need."""
_TEXT_BYTES = 96
"""At least what NVML asks for names and versions."""
_SENSOR_GPU = 0
_SLOWED = 0x08 | 0x20 | 0x40 | 0x80
"""Clocks' event reasons: slowed by hardware; too hot, by software or hardware; a supply that sags."""


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Nvml:
    """The library with its first GPU. OSError where there is none. What a GPU does not tell is None."""

    def __init__(self, path: str) -> None:
        self._library, self._gpu = ctypes.CDLL(path), c_void_p()
        if not self._done("nvmlInit_v2") or not self._done("nvmlDeviceGetHandleByIndex_v2", 0, byref(self._gpu)):
            raise OSError("NVML lists no GPU")

    def _done(self, function: str, *arguments: Any) -> bool:
        """Whether it succeeded. Old drivers lack functions."""
        call = getattr(self._library, function, None)
        return call is not None and call(*arguments) == 0

    def read(self, function: str, into: Any, *arguments: Any) -> Any:
        """A value of the GPU: `into` itself, filled."""
        return into if self._done(f"nvmlDeviceGet{function}", self._gpu, *arguments, byref(into)) else None

    def number(self, function: str, *arguments: Any) -> int | None:
        """An unsigned integer of the GPU."""
        found = self.read(function, c_uint(), *arguments)
        return None if found is None else int(found.value)

    def text(self, function: str, *of: Any) -> str:
        """A name or a version; "" where it is not told."""
        found = ctypes.create_string_buffer(_TEXT_BYTES)
        said = self._done(f"nvml{function}", *of, found, c_uint(_TEXT_BYTES))
        return found.value.decode(errors="replace") if said else ""

    def name(self) -> str:
        return self.text("DeviceGetName", self._gpu)


@dataclass(frozen=True)
class Gpu:
    """The first GPU that the driver lists.

    name          as NVIDIA calls it: `NVIDIA H100 80GB HBM3`
    capability    its compute capability: `9.0`
    driver        the driver's version: `580.65.06`
    memory_bytes  of its own; 0 where it shares the processor's"""

    name: str
    capability: str
    driver: str
    memory_bytes: int
    _nvml: _Nvml = field(repr=False, compare=False)

    @property
    def target(self) -> str | None:
        """The compiler's name for a machine with this GPU; None where there is none, or the driver is too old."""
        major = self.driver.partition(".")[0]
        if not major.isdecimal() or int(major) < _LEAST_DRIVER:
            return None
        return next((target for words, target in _TARGETS if words in self.name and "Laptop" not in self.name), None)

    @property
    def facts(self) -> dict[str, object]:
        """What the service is told, as plain JSON."""
        told = ("name", "capability", "driver", "memory_bytes")
        return {name: getattr(self, name) for name in told}

    def load_percent(self) -> float | None:
        """Of the last moment, the share in which a kernel ran."""
        found = self._nvml.read("UtilizationRates", _Utilization())
        return None if found is None else float(found.gpu)

    def temperature_c(self) -> float | None:
        """Of the chip."""
        found = self._nvml.number("Temperature", c_int(_SENSOR_GPU))
        return None if found is None else float(found)

    def watts(self) -> float | None:
        """Of the GPU with its memory."""
        found = self._nvml.number("PowerUsage")
        return None if found is None else found / 1000

    def throttled(self) -> bool | None:
        """Whether heat or its supply slows it now."""
        found = self._nvml.read("CurrentClocksThrottleReasons", c_ulonglong())
        return None if found is None else bool(found.value & _SLOWED)


def gpu_of(root: Path) -> Gpu | None:
    """The GPU of the machine whose files are below `root`: another's is not told by files."""
    return find_gpu() if root == Path("/") else None


def find_gpu() -> Gpu | None:
    """None where there is no driver, or it lists no GPU. The library stays open: sensors are read by it."""
    try:
        return _gpu_of(LIBRARY)
    except OSError:  # not kept: the driver may come later than the agent
        return None


@cache
def _gpu_of(library: str) -> Gpu:
    nvml = _Nvml(library)
    major, minor = c_int(), c_int()
    capability = nvml.read("CudaComputeCapability", minor, byref(major))
    memory = nvml.read("MemoryInfo", _Memory())
    return Gpu(
        name=nvml.name(),
        capability="" if capability is None else f"{major.value}.{minor.value}",
        driver=nvml.text("SystemGetDriverVersion"),
        memory_bytes=0 if memory is None else memory.total,
        _nvml=nvml,
    )
