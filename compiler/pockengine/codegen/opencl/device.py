"""Prints which OpenCL device is here: the one that the runtime takes. A script for `said_by`."""

from __future__ import annotations

import ctypes

_LIBRARIES = ("libOpenCL.so.1", "libOpenCL.so")
_GPU, _ALL = 1 << 2, 0xFFFFFFFF
_NAME, _DRIVER = 0x102B, 0x102D
_MOST = 16


def device() -> str:
    """Name and driver version of the first GPU, or of the first device of any kind; nothing where there is none."""
    for library in _LIBRARIES:
        try:
            return _described(ctypes.CDLL(library))
        except OSError:
            continue
    return ""


def _described(opencl: ctypes.CDLL) -> str:
    platforms, count = (ctypes.c_void_p * _MOST)(), ctypes.c_uint(0)
    if opencl.clGetPlatformIDs(_MOST, platforms, ctypes.byref(count)):
        return ""
    for kind in (_GPU, _ALL):
        for platform in platforms[: min(count.value, _MOST)]:
            device, found = ctypes.c_void_p(), ctypes.c_uint(0)
            arguments = (ctypes.c_void_p(platform), ctypes.c_uint64(kind), 1, ctypes.byref(device))
            if not opencl.clGetDeviceIDs(*arguments, ctypes.byref(found)) and found.value:
                return f"{_text(opencl, device, _NAME)}, driver {_text(opencl, device, _DRIVER)}"
    return ""


def _text(opencl: ctypes.CDLL, device: ctypes.c_void_p, what: int) -> str:
    text = ctypes.create_string_buffer(256)
    opencl.clGetDeviceInfo(device, what, ctypes.c_size_t(len(text) - 1), text, None)
    return text.value.decode("utf-8", "replace")


if __name__ == "__main__":
    print(device())
