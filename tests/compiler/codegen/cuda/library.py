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
from pockengine.plan.program import Call, Grid, Kernel, Lowered, Map, TensorMap
from pockengine.targets import Target
from tests.compiler.codegen.gpu.placed import GARBAGE, Placed
from tests.compiler.codegen.harness import Case, compare

BYTES = 16 << 20
_MOST_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
_MAP_BYTES = 128
"""Of a CUtensorMap."""
_LINES_OF_128 = (0, 3, 3, 0)
"""CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE."""


class Failed(Exception):
    """What the driver says."""


class Kernels:
    """The kernels of some calls, in the context that the process has on the first GPU, with a stream of their own."""

    def __init__(self, calls: Sequence[Call], target: Target) -> None:
        images, _ = images_of(kernels_of(calls), architecture_of(target), None, lambda *_: None)
        self._driver, self.stream, context = _driver(), ctypes.c_void_p(), ctypes.c_void_p()
        self.ask("cuInit", 0)
        self.ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.ask("cuCtxSetCurrent", context)
        self.ask("cuStreamCreate", ctypes.byref(self.stream), 1)
        self._functions = {symbol: self._loaded(symbol, image) for symbol, image in images.items()}
        for call in calls:
            self._give(call.kernel)

    def start(self, call: Call, places: Sequence[int]) -> None:
        """Queue a call, whose operands and workspace begin at these addresses of the GPU's memory."""
        assert isinstance(call.launch, Grid)
        addresses = [ctypes.c_uint64(place) for place in places]
        maps = [self._map(one, places) for one in call.kernel.maps]
        parameters = [ctypes.addressof(one) for one in addresses] + [place for _, place in maps]
        arguments = (ctypes.c_void_p * len(parameters))(*parameters)
        grid = (call.launch.blocks, 1, 1, call.launch.threads, 1, 1, call.kernel.shared)
        self.ask("cuLaunchKernel", self._functions[call.kernel.symbol], *grid, self.stream, arguments, None)

    def _map(self, map: Map, places: Sequence[int]) -> tuple[Any, int]:
        """The driver's form of a map, in memory that is kept as long as the first of what this returns, and where it
        begins: at a multiple of 64."""
        assert isinstance(map, TensorMap)
        memory = ctypes.create_string_buffer(_MAP_BYTES + 64)
        place, rank = -(-ctypes.addressof(memory) // 64) * 64, len(map.extents)
        wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        given = (wide(*map.extents), wide(*map.strides), narrow(*map.box), narrow(*[1] * rank))
        first, type = ctypes.c_uint64(places[map.operand] + map.offset), {1: 0, 2: 1}[map.itemsize]
        self.ask("cuTensorMapEncodeTiled", ctypes.c_void_p(place), type, rank, first, *given, *_LINES_OF_128)
        return memory, place

    def wait(self) -> None:
        """Until all that was queued is done."""
        self.ask("cuStreamSynchronize", self.stream)

    def ask(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver. Raises Failed."""
        if code := getattr(self._driver, name)(*arguments):
            raise Failed(f"{name} ended with {code}")

    def _loaded(self, symbol: str, image: bytes) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.ask("cuModuleLoadData", ctypes.byref(module), image)
        self.ask("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        return function

    def _give(self, kernel: Kernel) -> None:
        """Let a launch give a block the shared memory that the kernel takes."""
        if kernel.shared:
            self.ask("cuFuncSetAttribute", self._functions[kernel.symbol], _MOST_DYNAMIC_SHARED, kernel.shared)


class Gpu:
    """The first GPU, with the kernels of many cases in it."""

    def __init__(self, cases: Sequence[Case], target: Target, lowered: Sequence[Lowered] = ()) -> None:
        """`lowered`: the kernels of each case; default: those that the backend makes."""
        backend = backends.get("cuda")
        self.cases = list(cases)
        self.lowered = list(lowered) or [backend.lower(case.node, target, 1) for case in cases]
        self._kernels = Kernels([call for one in self.lowered for call in one.calls], target)
        self._memory, self._block = ctypes.c_uint64(), np.full(BYTES, GARBAGE, np.uint8)
        self._kernels.ask("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(BYTES))

    def check(self, index: int, rtol: float = 2e-5, atol: float = 2e-5) -> None:
        """Compare a case with the interpreter, also with every in-place pair that the backend allows."""
        for pair in (None, *self.lowered[index].inplace):
            compare(self.cases[index], self._run(index, pair), f"in place {pair}", rtol, atol)

    def _run(self, index: int, inplace: tuple[int, int] | None) -> list[Array]:
        lowered, size, kernels = self.lowered[index], ctypes.c_size_t(BYTES), self._kernels
        placed = Placed(self.cases[index], self._block, inplace, lowered.workspace_bytes)
        block = ctypes.c_void_p(self._block.ctypes.data)
        kernels.ask("cuMemcpyHtoDAsync_v2", self._memory, block, size, kernels.stream)
        for call in lowered.calls:
            places = [placed.places[value] for value in call.operands]
            places += [placed.scratch + at for at in call.workspace]
            kernels.start(call, [self._memory.value + place for place in places])
        kernels.ask("cuMemcpyDtoHAsync_v2", block, self._memory, size, kernels.stream)
        kernels.wait()
        return placed.results()


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
