"""The OpenCL backend as the compiler sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ...plan.program import Call
from ...progress import Progress
from ...targets import HOST_MEMORY, Memory, Target
from ..backend import Built
from ..gpu.launches import launches_name, measured_blocks
from ..gpu.lowering import Lowering
from ..gpu.pace import USUAL
from ..model import Model
from ..native import toolchain
from ..native.host import is_host, said_by
from ..native.measure.accelerated import Accelerated
from ..native.measure.making import Making
from .build import build, device_runtime
from .text import launches_c


class OpenCLBackend(Lowering, Accelerated):
    """GPU-C kernels that the device compiles; see `codegen.backend.Backend`."""

    name = "opencl"
    formats = ("f32", "f16")
    usual = replace(USUAL, arch="opencl")

    def _seen(self, target: Target) -> Target:
        """See Lowering: also a GPU of NVIDIA's is one that compiles OpenCL C."""
        seen = super()._seen(target)
        assert seen.gpu is not None
        return replace(seen, gpu=replace(seen.gpu, arch=self.usual.arch)) if seen.gpu.has_matrix_units else seen

    def memory(self, target: Target) -> Memory:
        """The processor's own, which the GPUs of phones and boards share."""
        return target.memory(HOST_MEMORY)

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """The C library and the runtime."""
        toolchain.prepare(target, cache)

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """See build.py."""
        return build(model, target, cache, progress)

    def environment(self, target: Target) -> Mapping[str, str]:
        """The device and its driver, which compiles the kernels, where that is here."""
        return {"opencl": device_here() if is_host(target) else ""}

    def runs_here(self, target: Target) -> bool:
        """Whether the processor is this one, and there is a device."""
        return is_host(target) and bool(device_here())

    def making(self, target: Target, cache: Path | None) -> Making:
        """See Packs."""
        runtime = device_runtime()

        def sources(calls: Sequence[Call]) -> Mapping[str, str]:
            text = launches_c(calls, runtime.sources["launch.h"], measured_blocks(calls))
            return {launches_name(text): text}

        return Making(sources, runtime)


@cache
def device_here() -> str:
    """Name and driver version of the device; nothing where there is none."""
    return said_by(Path(__file__).with_name("device.py"))
