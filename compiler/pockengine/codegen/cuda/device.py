"""Prints the compute capability of NVIDIA's GPU that is here, the one the runtime takes: a script for `said_by`."""

from __future__ import annotations

import ctypes

_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and its MINOR."""


def capability() -> str:
    """`8.7`, say, of the first GPU; nothing where there is no driver or no GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    device, found = ctypes.c_int(), []
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return ""
    for what in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), what, device):
            return ""
        found.append(str(value.value))
    return ".".join(found)


if __name__ == "__main__":
    print(capability())
