"""Which GPU of NVIDIA's is here: the one that the runtime takes."""

from __future__ import annotations

import ctypes

_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and its MINOR."""


def capability_here() -> tuple[int, int] | None:
    """The compute capability of the first GPU; None where there is no driver or no GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, found = ctypes.c_int(), []
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    for what in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), what, device):
            return None
        found.append(value.value)
    return found[0], found[1]
