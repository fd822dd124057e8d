"""Runs the kernels of many nodes on the GPU of NVIDIA's that is here, through its driver alone."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import architecture_of
from pockengine.codegen.cuda.build import images_of
from pockengine.codegen.gpu.launches import kernels_of
from pockengine.ir import Array
from pockengine.plan.program import Call, Grid, Kernel, Lowered
from pockengine.targets import Target
from tests.compiler.codegen.gpu.placed import GARBAGE, Placed
from tests.compiler.codegen.harness import Case, compare

BYTES = 16 << 20
_MOST_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""


class Failed(Exception):
    """What the driver says."""


class Gpu:
    """The first GPU, with the kernels of many cases in it."""

    def __init__(self, cases: Sequence[Case], target: Target, lowered: Sequence[Lowered] = ()) -> None:
        """`lowered`: the kernels of each case; default: those that the backend makes."""
        backend = backends.get("cuda")
        self.cases = list(cases)
        self.lowered = list(lowered) or [backend.lower(case.node, target, 1) for case in cases]
        calls = [call for one in self.lowered for call in one.calls]
        kernels = kernels_of(calls)
        images, _ = images_of(kernels, architecture_of(target), None, lambda *_: None)
        self._driver, self._stream, self._memory = _driver(), ctypes.c_void_p(), ctypes.c_uint64()
        self._block = np.full(BYTES, GARBAGE, np.uint8)
        context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self._call("cuStreamCreate", ctypes.byref(self._stream), 1)
        self._call("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(BYTES))
        self._functions = {symbol: self._loaded(symbol, image) for symbol, image in images.items()}
        for call in calls:
            self._give(call.kernel)

    def check(self, index: int, rtol: float = 2e-5, atol: float = 2e-5) -> None:
        """Compare a case with the interpreter, also with every in-place pair that the backend allows."""
        for pair in (None, *self.lowered[index].inplace):
            compare(self.cases[index], self._run(index, pair), f"in place {pair}", rtol, atol)

    def _run(self, index: int, inplace: tuple[int, int] | None) -> list[Array]:
        lowered, size = self.lowered[index], ctypes.c_size_t(BYTES)
        placed = Placed(self.cases[index], self._block, inplace, lowered.workspace_bytes)
        self._call("cuMemcpyHtoDAsync_v2", self._memory, ctypes.c_void_p(self._block.ctypes.data), size, self._stream)
        for call in lowered.calls:
            self._start(call, placed)
        self._call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(self._block.ctypes.data), self._memory, size, self._stream)
        self._call("cuStreamSynchronize", self._stream)
        return placed.results()

    def _start(self, call: Call, placed: Placed) -> None:
        assert isinstance(call.launch, Grid)
        places = [placed.places[value] for value in call.operands] + [placed.scratch] * call.workspace
        addresses = [ctypes.c_uint64(self._memory.value + place) for place in places]
        arguments = (ctypes.c_void_p * len(addresses))(*(ctypes.addressof(one) for one in addresses))
        grid = (call.launch.blocks, 1, 1, call.launch.threads, 1, 1, call.kernel.shared)
        self._call("cuLaunchKernel", self._functions[call.kernel.symbol], *grid, self._stream, arguments, None)

    def _loaded(self, symbol: str, image: bytes) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        return function

    def _give(self, kernel: Kernel) -> None:
        """Let a launch give a block the shared memory that the kernel takes."""
        if kernel.shared:
            self._call("cuFuncSetAttribute", self._functions[kernel.symbol], _MOST_DYNAMIC_SHARED, kernel.shared)

    def _call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._driver, name)(*arguments):
            raise Failed(f"{name} ended with {code}")


def check_all(cases: Sequence[Case], target: Target) -> int:
    """Compare every case that the backend lowers with the interpreter; how many these are."""
    backend = backends.get("cuda")
    able = [case for case in cases if backend.unsupported(case.node) is None]
    gpu = Gpu(able, target)
    for index in range(len(able)):
        gpu.check(index)
    return len(able)


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Failed(f"there is no CUDA driver here: {error}") from None
