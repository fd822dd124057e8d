"""Runs the kernels of many nodes on the OpenCL device that is here, through the runtime's own way of starting them."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pockengine.codegen.gpu.launches import kernels_of
from pockengine.codegen.native.toolchain import RUNTIME
from pockengine.codegen.opencl.backend import OpenCLBackend
from pockengine.codegen.opencl.build import device_runtime
from pockengine.codegen.opencl.text import launches_c
from pockengine.ir import Array
from pockengine.plan.program import Lowered
from pockengine.plan.space import BLOCKS, Space
from pockengine.targets import Target, get
from tests.compiler.codegen.gpu.placed import GARBAGE, Placed
from tests.compiler.codegen.harness import Case, compare
from tests.compiler.codegen.test_narrow import rounded

SPACES = len(BLOCKS)
NO_IMAGES = "CL_DEVICE_IMAGE_SUPPORT = 0x10FF"
"""What no device answers."""
ARENA_BYTES = 16 << 20


needs_device = pytest.mark.skipif(
    ctypes.util.find_library("OpenCL") is None,
    reason="there is no OpenCL here (Debian: apt-get install ocl-icd-libopencl1 pocl-opencl-icd)",
)


class Failed(Exception):
    """What the runtime says."""


class Device:
    """The kernels of many cases in one program; operands and workspace lie in the arena, with garbage around them."""

    def __init__(self, folder: Path, cases: Sequence[Case], target: Target, images: bool = True) -> None:
        """Kernels are those for `target`. With `images` the device must have them where kernels read some, without the
        runtime finds that it has none."""
        backend = OpenCLBackend()
        self.cases = list(cases)
        self.lowered: list[Lowered] = []
        for case in cases:
            assert backend.unsupported(case.node) is None, case.label
            self.lowered.append(backend.lower(case.node, target, 1))
        calls = [call for lowered in self.lowered for call in lowered.calls]
        self.numbers = {symbol: number for number, symbol in enumerate(kernels_of(calls))}
        sources = dict(device_runtime().sources)
        blocks = {call.kernel.symbol: [Space.ARENA] * len(call.kernel.maps) for call in calls}
        sources["kernels.c"] = launches_c(calls, sources["launch.h"], blocks)
        if not images:
            sources["opencl.h"] = sources["opencl.h"].replace("CL_DEVICE_IMAGE_SUPPORT = 0x1016", NO_IMAGES)
        elif any(blocks.values()):
            made = "code == CL_SUCCESS ? made : NULL"
            assert made in sources["device.c"]
            sources["device.c"] = sources["device.c"].replace(made, "code == CL_SUCCESS ? made : (abort(), NULL)")
        self._library = _compiled(folder, sources)
        self._blocks = [np.full(ARENA_BYTES if i == 0 else 4096, GARBAGE, np.uint8) for i in range(SPACES)]
        self._error = ctypes.create_string_buffer(4 + 640)
        name = ctypes.c_char_p(b"samples")
        spaces = (ctypes.c_void_p * SPACES)(*(block.ctypes.data for block in self._blocks))
        sizes = (ctypes.c_size_t * SPACES)(*(block.nbytes for block in self._blocks))
        self._device = ctypes.c_void_p()
        self._checked(
            self._library.pock_device_open(ctypes.byref(self._device), ctypes.byref(name), spaces, sizes, self._error)
        )

    def close(self) -> None:
        """Let the device go."""
        self._library.pock_device_close(self._device)

    def check(self, index: int, wanted: Case) -> None:
        """Compare a case with the interpreter's answer to `wanted`, also with every in-place pair that the backend
        allows."""
        for pair in (None, *self.lowered[index].inplace):
            compare(wanted, self.run(index, pair), f"in place {pair}")

    def run(self, index: int, inplace: tuple[int, int] | None = None) -> list[Array]:
        """The outputs of a case."""
        lowered, arena = self.lowered[index], self._blocks[0]
        placed = Placed(self.cases[index], arena, inplace, lowered.workspace_bytes)
        self._library.pock_device_begin(self._device, None, 0)
        for call in lowered.calls:
            arguments = [arena.ctypes.data + placed.places[value] for value in call.operands]
            arguments += [arena.ctypes.data + placed.scratch + at for at in call.workspace]
            function = getattr(self._library, call.kernel.symbol)
            function((ctypes.c_void_p * len(arguments))(*arguments), 0, 1)
        self._library.pock_device_start(self._device, None)
        self._checked(self._library.pock_device_end(self._device, self._error))
        return placed.results()

    def _checked(self, code: int) -> None:
        if code:
            raise Failed(self._error.raw[4:].split(b"\0")[0].decode())


def check_all(cases: Sequence[Case], folder: Path, target: Target | None = None) -> None:
    """Compare every case with the interpreter, in a process of its own; where the target multiplies in 16 bits, with
    operands that are rounded. Compiled programs are not kept: that would take as long as compiling them."""
    os.environ["POCK_KERNEL_CACHE"] = ""
    target = target or get("host")
    device = Device(folder, cases, target)
    for index, case in enumerate(cases):
        device.check(index, case if target.compute == "f32" else rounded(case, target))
    device.close()


def _compiled(folder: Path, sources: dict[str, str]) -> Any:
    """A loaded library of the runtime's part for devices, which exports all it has."""
    for name in ("error.c", "error.h", "files.c", "files.h", "pock.h", "device.h", "platform.h"):
        sources[name] = (RUNTIME / name).read_text()
    for name, text in sources.items():
        (folder / name).write_text(text)
    units = [str(folder / name) for name in sources if name.endswith(".c")]
    output = folder / "device.so"
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        f"{get('host').arch}-linux-gnu.2.17",
        "-std=gnu11",
        "-O1",
    ]
    warnings = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Wconversion", "-Wshadow", "-Werror"]
    done = subprocess.run(
        [*command, *warnings, "-shared", "-fPIC", "-o", str(output), *units, "-ldl"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(output))
